//! The engine: one jail and one preloaded interpreter for all sessions of an environment.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use belljar_engine::frame::{self, Reply};
use belljar_engine::{
    Capabilities, Descent, Engine, EngineError, Guest, GuestSpec, Layer, SavedGuest, Snapshot, Storage,
};
use belljar_runtime::Cache;

use crate::cgroup::{Group, Hierarchy};
use crate::guest::NativeGuest;
use crate::init::Init;
use crate::install::{Installed, install};
use crate::installs::{Installer, Installs, Office};
use crate::jail::{Cabin, Jail};
use crate::kernel::Kernel;
use crate::layers::layers;
use crate::plan::{self, Furniture, Starter};
use crate::pool::Pool;
use crate::snapshot::NativeSnapshot;
use crate::sys::Owner;
use crate::tree::{Top, Tree};
use crate::zygote::Zygote;
use crate::{NativeEnvironment, NativeError, sys};

/// How long a kernel may take from its fork to its first word, and to boot.
pub(crate) const BOOTING: Duration = Duration::from_secs(30);

/// The native engine, for one environment. Cloning it is cheap; the jail ends with the last clone and the last session.
#[derive(Clone)]
pub struct NativeEngine {
    pub(crate) shared: Arc<Shared>,
}

/// What sessions share.
pub(crate) struct Shared {
    pub(crate) environment: NativeEnvironment,
    installed: Installed,
    pub(crate) starter: Starter,
    furniture: Furniture,
    /// Where large temporary files go.
    pub(crate) scratch: PathBuf,
    layers: Vec<Layer>,
    grounds: Mutex<Arc<Grounds>>,
    pub(crate) pool: Pool,
    /// Where sessions ask for packages.
    office: Arc<Office>,
}

/// What a session stands on. If it breaks, a new one is made for later sessions.
pub(crate) struct Grounds {
    zygote: Mutex<Arc<Zygote>>,
    pub(crate) jail: Jail,
    hierarchy: Hierarchy,
}

/// A session's namespaces and files, without an interpreter.
pub(crate) struct Room {
    pub(crate) init: Arc<Init>,
    pub(crate) tree: Tree,
    pub(crate) group: Arc<Group>,
    pub(crate) grounds: Arc<Grounds>,
    _installs: Option<Installs>,
}

impl NativeEngine {
    /// Starts the jail and preloads the interpreter.
    pub fn load(environment: NativeEnvironment, cache: &Cache) -> Result<Self, NativeError> {
        let installed = install(cache)?;
        let starter = Starter {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            ids: ids(),
        };
        let furniture = Furniture::of_host(installed.guest.clone(), &environment).with_node(cache.root());
        let grounds = Grounds::make(&environment, &installed, &furniture, starter)?;
        let shared = Shared {
            environment,
            installed,
            starter,
            furniture,
            scratch: cache.root().to_owned(),
            layers: layers(),
            grounds: Mutex::new(Arc::new(grounds)),
            pool: Pool::default(),
            office: Arc::new(Office::new(cache.root().to_owned())),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The engine of this environment that the process has already, or a new one. Those of one group share the memory
    /// of the preloaded interpreter; tenants should be groups of their own.
    pub fn shared(environment: NativeEnvironment, cache: &Cache, group: &str) -> Result<Self, NativeError> {
        type Known = (String, PathBuf, String, Weak<Shared>);
        static ENGINES: Mutex<Vec<Known>> = Mutex::new(Vec::new());
        let lock = || ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
        let root = cache.root().to_owned();
        let found = lock().iter().find_map(|(id, known_root, known_group, engine)| {
            let same = *id == environment.id && *known_root == root && known_group == group;
            if same { engine.upgrade() } else { None }
        });
        if let Some(shared) = found {
            return Ok(Self { shared });
        }
        let id = environment.id.clone();
        let made = Self::load(environment, cache)?;
        let mut engines = lock();
        engines.retain(|(.., engine)| engine.strong_count() > 0);
        engines.push((id, root, group.to_owned(), Arc::downgrade(&made.shared)));
        Ok(made)
    }

    /// Says who gets packages for sessions that may install some. Only the first one counts.
    pub fn set_installer(&self, installer: Arc<dyn Installer>) {
        let _ = self.shared.office.installer.set(installer);
    }

    /// Modules that were to be preloaded and could not be, and why.
    pub fn failed_preloads(&self) -> Vec<String> {
        let grounds = self.shared.grounds.lock().unwrap_or_else(PoisonError::into_inner);
        let zygote = grounds.zygote.lock().unwrap_or_else(PoisonError::into_inner);
        zygote.failed.clone()
    }
}

/// How many ids there are, from 0 on: fewer in containers.
fn ids() -> u32 {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let first = map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(0)), Some(Ok(_)), Some(Ok(count))) => Some(count),
            _ => None,
        }
    });
    first.unwrap_or(u32::MAX)
}

impl Grounds {
    fn make(
        environment: &NativeEnvironment,
        installed: &Installed,
        furniture: &Furniture,
        starter: Starter,
    ) -> Result<Self, NativeError> {
        let hierarchy = Hierarchy::make();
        let launch = plan::launch(environment, furniture, starter, hierarchy.directories());
        let jail = Jail::launch(&installed.binary, &launch)?;
        let zygote = Zygote::start(&jail, environment)?;
        Ok(Self { zygote: Mutex::new(Arc::new(zygote)), jail, hierarchy })
    }

    /// The preloaded interpreter, started again if it died.
    fn zygote(&self, environment: &NativeEnvironment) -> Result<Arc<Zygote>, NativeError> {
        let mut zygote = self.zygote.lock().unwrap_or_else(PoisonError::into_inner);
        if !zygote.is_alive() {
            tracing::warn!("the preloaded interpreter had ended, and is started again");
            *zygote = Arc::new(Zygote::start(&self.jail, environment)?);
        }
        Ok(Arc::clone(&zygote))
    }
}

impl Shared {
    fn grounds(&self) -> Arc<Grounds> {
        Arc::clone(&self.grounds.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a session's namespaces; once more on new grounds if the present ones are broken.
    pub(crate) fn room(&self, spec: &GuestSpec) -> Result<Room, EngineError> {
        let grounds = self.grounds();
        match self.room_on(&grounds, spec) {
            Err(RoomError::Io(error)) if is_over(&error) || !grounds.jail.is_alive() => {
                let mut current = self.grounds.lock().unwrap_or_else(PoisonError::into_inner);
                if Arc::ptr_eq(&current, &grounds) {
                    tracing::warn!("the jail had ended, and is built again");
                    let made =
                        Grounds::make(&self.environment, &self.installed, &self.furniture, self.starter);
                    *current = Arc::new(made.map_err(|error| EngineError::Boot(error.to_string()))?);
                }
                let grounds = Arc::clone(&current);
                drop(current);
                self.room_on(&grounds, spec).map_err(RoomError::into_engine)
            }
            made => made.map_err(RoomError::into_engine),
        }
    }

    fn room_on(&self, grounds: &Arc<Grounds>, spec: &GuestSpec) -> Result<Room, RoomError> {
        let with_python = !self.environment.prefix.starts_with("/usr");
        let mut mounts: Vec<OwnedFd> = Vec::new();
        for mount in &spec.mounts {
            let writable = mount.access == belljar_engine::MountAccess::ReadWrite;
            let refused = |reason: String| RoomError::Mount { guest: mount.guest.clone(), reason };
            if !plan::is_mount_point(&mount.guest) {
                return Err(refused("it is not a path that can be mounted on".to_owned()));
            }
            if spec.mounts.iter().filter(|other| other.guest == mount.guest).count() > 1 {
                return Err(refused("something else is mounted there".to_owned()));
            }
            if !mount.host.is_dir() {
                return Err(refused(format!("{} is not a directory", mount.host.display())));
            }
            let host = std::path::absolute(&mount.host).map_err(|error| refused(error.to_string()))?;
            let cloned = grounds.jail.mount(&host, writable, false);
            mounts.push(cloned.map_err(|error| match error.kind() {
                _ if is_over(&error) => RoomError::Io(error),
                _ => refused(error.to_string()),
            })?);
        }
        let disk = match &spec.storage {
            Storage::Memory => None,
            Storage::Disk(directory) => {
                let (mount, top) = self.disk(grounds, directory).map_err(|error| match is_over(&error) {
                    true => RoomError::Io(error),
                    false => RoomError::Mount { guest: spec.workspace.clone(), reason: error.to_string() },
                })?;
                mounts.push(mount);
                Some(top)
            }
        };
        let plan = plan::session(spec, &self.furniture, with_python);
        let Cabin { control, init, tree, landlock, listener } =
            grounds.jail.session(plan, &mounts).map_err(|error| {
                let attached = error.to_string().contains("\"attach");
                match spec.mounts.iter().max_by_key(|mount| mount.guest.len()) {
                    Some(mount) if attached => RoomError::Mount {
                        guest: mount.guest.clone(),
                        reason: "the directory isn't there in the mount around it".to_owned(),
                    },
                    _ => RoomError::Io(error),
                }
            })?;
        let group = Arc::new(grounds.hierarchy.session(spec)?);
        let init = Init::new(control, init, landlock, Arc::clone(&group));
        if let Some(pid) = init.host_pid() {
            group.add(pid)?;
        }
        let owner = self.starter.owner().map(|id| Owner { user: id, group: id });
        let own = Top::new(tree, owner);
        let tree = Tree::new(own, disk, &spec.workspace, plan::held(spec), spec.limits.file_bytes);
        let installs =
            listener.map(|listener| Installs::start(listener, tree.again(), Arc::clone(&self.office)));
        Ok(Room {
            init: Arc::new(init),
            tree,
            group,
            grounds: Arc::clone(grounds),
            _installs: installs.transpose()?,
        })
    }

    /// A directory of the host that is a workspace: a mount of it, and the way that the engine itself has to it.
    fn disk(&self, grounds: &Grounds, directory: &Path) -> io::Result<(OwnedFd, Top)> {
        let opened = File::open(directory)?;
        let metadata = opened.metadata()?;
        if !metadata.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let mount = grounds.jail.mount(&std::path::absolute(directory)?, true, true)?;
        // What it writes belongs to whom the directory belongs, as what sessions write there does.
        let owner = Owner { user: metadata.uid(), group: metadata.gid() };
        let owner = (self.starter.is_root() && owner != Owner { user: 0, group: 0 }).then_some(owner);
        Ok((mount, Top::new(opened.into(), owner)))
    }

    /// Refuses what can't be, and what the policy requires and this machine lacks.
    fn check(&self, spec: &GuestSpec) -> Result<(), EngineError> {
        if let Some(trouble) = plan::workspace_trouble(spec) {
            return Err(EngineError::Boot(trouble));
        }
        for wanted in &spec.require {
            let found = self.layers.iter().find(|layer| layer.name == *wanted);
            match found {
                Some(Layer { missing: None, .. }) => {}
                Some(Layer { missing: Some(reason), .. }) => {
                    return Err(EngineError::Boot(format!(
                        "the policy requires the layer `{wanted}`, which is missing: {reason}"
                    )));
                }
                None => {
                    let names: Vec<&str> = self.layers.iter().map(|layer| layer.name.as_str()).collect();
                    return Err(EngineError::Boot(format!(
                        "the policy requires the layer `{wanted}`, which doesn't exist; there are {}",
                        names.join(", ")
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Whether whoever was asked doesn't exist any more.
pub(crate) fn is_over(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

enum RoomError {
    Io(io::Error),
    Mount { guest: String, reason: String },
}

impl From<io::Error> for RoomError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl RoomError {
    fn into_engine(self) -> EngineError {
        match self {
            Self::Mount { guest, reason } => EngineError::Mount { guest, reason },
            Self::Io(error) => EngineError::Exhausted(error.to_string()),
        }
    }
}

impl Room {
    /// Whether its namespaces are still there.
    pub(crate) fn is_alive(&self) -> bool {
        !sys::has_ended(self.init.process.as_fd())
    }

    /// Forks an interpreter into it, locked down, not booted.
    pub(crate) fn kernel(
        &self,
        environment: &NativeEnvironment,
        spec: &GuestSpec,
        stdout: BorrowedFd<'_>,
        stderr: BorrowedFd<'_>,
    ) -> io::Result<Kernel> {
        let zygote = self.grounds.zygote(environment).map_err(io::Error::other)?;
        let (ours, theirs) = UnixStream::pair()?;
        let steps = plan::lockdown(spec, zygote.inherited, self.init.landlock.is_some());
        let mut descriptors = vec![theirs.as_fd(), stdout, stderr, self.init.process.as_fd()];
        descriptors.extend(self.init.landlock.as_ref().map(AsFd::as_fd));
        let process = match zygote.fork(&steps, &descriptors) {
            // It ended just now.
            Err(error) if is_over(&error) && self.grounds.jail.is_alive() => {
                let zygote = self.grounds.zygote(environment).map_err(io::Error::other)?;
                zygote.fork(&steps, &descriptors)?
            }
            forked => forked?,
        };
        drop(theirs);
        if let Some(pid) = sys::host_pid(process.as_fd()) {
            self.group.add(pid)?;
        }
        let mut kernel = Kernel::new(ours, Some(process), 0)?;
        let first = kernel.listen(BOOTING)?;
        match frame::decode_reply(&first) {
            Ok(Reply::Ready) => Ok(kernel),
            _ => Err(io::Error::other(format!(
                "the interpreter could not be locked down: {}",
                String::from_utf8_lossy(first.get(1..).unwrap_or_default())
            ))),
        }
    }
}

impl Engine for NativeEngine {
    fn name(&self) -> &'static str {
        "native"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { rollback: true, steps: false, processes: true }
    }

    fn boot(&self, spec: Arc<GuestSpec>) -> Result<Box<dyn Guest>, EngineError> {
        self.shared.check(&spec)?;
        if let Some(guest) = self.shared.pool.take(&spec) {
            return Ok(Box::new(guest));
        }
        Ok(Box::new(NativeGuest::boot(&self.shared, &spec)?))
    }

    fn environment(&self) -> &str {
        &self.shared.environment.id
    }

    fn restore(&self, saved: SavedGuest) -> Result<Arc<dyn Snapshot>, EngineError> {
        Ok(Arc::new(NativeSnapshot::restore(saved, self.environment())?))
    }

    fn resume(
        &self,
        snapshot: &dyn Snapshot,
        spec: Arc<GuestSpec>,
        descent: Descent,
    ) -> Result<Box<dyn Guest>, EngineError> {
        self.shared.check(&spec)?;
        let snapshot = snapshot
            .as_any()
            .downcast_ref::<NativeSnapshot>()
            .ok_or_else(|| EngineError::Restore("it is of another engine".to_owned()))?;
        Ok(Box::new(NativeGuest::resume(&self.shared, &spec, snapshot, descent)?))
    }

    fn warm(&self, spec: &Arc<GuestSpec>, count: usize) {
        self.shared.pool.keep(&self.shared, spec, count);
    }

    fn layers(&self) -> Vec<Layer> {
        self.shared.layers.clone()
    }
}
