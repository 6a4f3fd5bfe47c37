//! What sessions are made from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use belljar_engine::{Engine, GuestSpec, Layer, Mount, MountAccess, Storage};
use belljar_native::NativeEngine;
use belljar_packages::Spec;
use belljar_runtime::{Cache, Maker, Progress, Quiet, Runtime};
use belljar_store::{Lease, NewSession, SessionId, Store, StoreError, Tenant};
use belljar_wasm::{Tracking, WasmEngine};
use tempfile::TempDir;

use crate::environment::{Assembled, SessionInstaller};
use crate::keeper::{Keeper, Rules};
use crate::recipe::Recipe;
use crate::session::{Disk, Live, Place, Slot, Verification, is_on_disk};
use crate::tool::ToolTable;
use crate::workspace::{DIRECTORIES, StorageKind, WorkspacePolicy, Workspaces};
use crate::{
    EngineKind, Environment, Error, Outcome, Policy, PolicyError, Registry, Request, Session, Tool,
    default_cache_dir,
};

/// Makes sessions. Made once and shared; cloning it is cheap.
#[derive(Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

/// What a sandbox and its sessions share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    origin: Origin,
    spec: Arc<GuestSpec>,
    policy: Policy,
    pub(crate) tools: Arc<ToolTable>,
    keeping: Option<Keeping>,
    /// Where files on disk are, if the policy doesn't say.
    workspaces: Option<Workspaces>,
    pub(crate) keeper: Keeper,
    /// Engines for sessions that were made in another environment.
    others: Mutex<BTreeMap<String, Arc<dyn Engine>>>,
    runtimes: Runtimes,
    tracking: Tracking,
}

/// How the engine's environment is put aside for sessions that are kept.
enum Origin {
    Wasm(WasmEngine),
    Native(Recipe),
}

impl Origin {
    fn kind(&self) -> EngineKind {
        match self {
            Self::Wasm(_) => EngineKind::Wasm,
            Self::Native(_) => EngineKind::Native,
        }
    }

    fn pin(&self, directory: &Path) -> std::io::Result<()> {
        match self {
            Self::Wasm(engine) => engine.pin(directory),
            Self::Native(recipe) => recipe.write(directory),
        }
    }
}

/// Where sessions are kept.
pub(crate) struct Keeping {
    pub(crate) store: Store,
    pub(crate) tenant: Tenant,
    wait: Duration,
    each_cell: bool,
}

impl Sandbox {
    /// Begins to set up a sandbox. Without any setting it is the default [`Policy`].
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder::default()
    }

    /// Runs code in a session of its own, which ends with it.
    pub async fn run(&self, request: impl Into<Request>) -> Result<Outcome, Error> {
        self.session().await?.run(request).await
    }

    /// Runs code in a session of its own, on this thread.
    pub fn run_blocking(&self, request: impl Into<Request>) -> Result<Outcome, Error> {
        self.session_blocking()?.run_blocking(request)
    }

    /// A new session that lives in memory and ends when it is dropped.
    pub async fn session(&self) -> Result<Session, Error> {
        self.in_background(Self::session_blocking).await
    }

    /// A new session, made on this thread.
    pub fn session_blocking(&self) -> Result<Session, Error> {
        let id = SessionId::generate();
        let place = self.shared.place(&id)?;
        let live = self.shared.boot(&id, &place)?;
        let shared = Arc::clone(&self.shared);
        Ok(Session::new(Slot::new(id, shared, place, Arc::default(), Some(live), false)))
    }

    /// A new session in the registry, with a name or a generated one; it can be opened again by any process.
    /// The sandbox needs a [state directory](SandboxBuilder::state_dir).
    pub async fn create(&self, name: Option<&str>) -> Result<Session, Error> {
        let name = name.map(str::to_owned);
        self.in_background(move |sandbox| sandbox.create_blocking(name.as_deref())).await
    }

    /// [`Sandbox::create`] without async.
    pub fn create_blocking(&self, name: Option<&str>) -> Result<Session, Error> {
        self.create_with_blocking(name, |_| ())
    }

    /// A new session in the registry with a policy of its own: `change` is given the sandbox's.
    pub fn create_with_blocking(
        &self,
        name: Option<&str>,
        change: impl FnOnce(&mut Policy),
    ) -> Result<Session, Error> {
        let mut policy = self.shared.policy.clone();
        change(&mut policy);
        let base = match policy == self.shared.policy {
            true => Arc::clone(&self.shared.spec),
            false => self.shared.spec_for(&policy, self.engine())?,
        };
        let id = name.map(SessionId::parse).transpose()?.unwrap_or_else(SessionId::generate);
        self.shared.check_free(&id)?;
        let place = self.shared.place_of(&id, base, policy.workspace.clone())?;
        // First the guest: what can't be booted isn't registered.
        let mut live = self.shared.boot(&id, &place)?;
        live.lease = Some(self.shared.register(id.clone(), policy)?);
        live.changed = true;
        let shared = Arc::clone(&self.shared);
        Ok(Session::new(Slot::new(id, shared, place, Arc::default(), Some(live), true)))
    }

    /// The session of this name in the registry, made if there is none; a directory of that name which is there
    /// already becomes its workspace as it is, if files are on disk. `change` is given the sandbox's policy or the one
    /// that the session was made with.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), belljar::Error> {
    /// # let sandbox = belljar::Sandbox::builder().state_dir("state").build_blocking()?;
    /// let thread = sandbox.thread_blocking("abc123", |policy| {
    ///     policy.workspace.storage = belljar::StorageKind::Disk;
    ///     policy.workspace.user = Some("ada".to_owned());
    /// })?;
    /// thread.run_blocking("open('notes.txt', 'w').write('kept')")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn thread_blocking(&self, name: &str, change: impl FnOnce(&mut Policy)) -> Result<Session, Error> {
        match self.registry()?.contains(name)? {
            true => self.open_with_blocking(name, change),
            false => self.create_with_blocking(Some(name), change),
        }
    }

    /// [`Sandbox::thread_blocking`] for async code.
    pub async fn thread(
        &self,
        name: &str,
        change: impl FnOnce(&mut Policy) + Send + 'static,
    ) -> Result<Session, Error> {
        let name = name.to_owned();
        self.in_background(move |sandbox| sandbox.thread_blocking(&name, change)).await
    }

    /// Where workspaces on disk and skills are, if a directory for them is known.
    pub fn workspaces(&self) -> Result<Workspaces, Error> {
        self.shared.workspaces(&self.shared.policy.workspace)
    }

    /// Opens a session of the registry; it wakes at its first use. It has the policy that it was made with.
    pub async fn open(&self, name: &str) -> Result<Session, Error> {
        let name = name.to_owned();
        self.in_background(move |sandbox| sandbox.open_blocking(&name)).await
    }

    /// [`Sandbox::open`] without async.
    pub fn open_blocking(&self, name: &str) -> Result<Session, Error> {
        self.open_with_blocking(name, |_| ())
    }

    /// Opens a session of the registry with other limits, as long as this one is used: `change` is given the
    /// policy that it was made with.
    pub fn open_with_blocking(&self, name: &str, change: impl FnOnce(&mut Policy)) -> Result<Session, Error> {
        let id = SessionId::parse(name)?;
        let keeping = self.shared.keeping()?;
        let record = keeping.store.record(&keeping.tenant, &id)?;
        let mut policy: Policy = serde_json::from_value(record.policy.clone())
            .map_err(|error| Error::RecordedPolicy { session: name.to_owned(), reason: error.to_string() })?;
        let made = policy.workspace.clone();
        change(&mut policy);
        // Its directory may have been moved.
        if policy.workspace != (WorkspacePolicy { root: policy.workspace.root.clone(), ..made.clone() }) {
            return Err(PolicyError::Kept(made.storage).into());
        }
        let base = self.shared.spec_for(&policy, self.shared.kind_of(&record.environment))?;
        let place = self.shared.place_of(&id, base, policy.workspace)?;
        let mut slot = Slot::new(id, Arc::clone(&self.shared), place, Arc::default(), None, true);
        slot.cells = record.cells;
        Ok(Session::new(slot))
    }

    /// The sessions in the sandbox's state directory.
    pub fn registry(&self) -> Result<Registry, Error> {
        let keeping = self.shared.keeping()?;
        Ok(Registry::new(keeping.store.clone(), keeping.tenant.clone(), keeping.wait))
    }

    /// Puts all sessions of the registry to sleep that this sandbox has awake, waiting for running cells.
    /// Returns how many. What can't be kept stays awake, and is reported.
    pub fn hibernate_all_blocking(&self) -> (usize, Vec<Error>) {
        let (mut slept, mut failed) = (0, Vec::new());
        for session in self.shared.keeper.sessions() {
            match session.blocking_lock().hibernate() {
                Ok(was_awake) => slept += usize::from(was_awake),
                Err(error) => failed.push(error),
            }
        }
        (slept, failed)
    }

    async fn in_background<T: Send + 'static>(
        &self,
        body: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let sandbox = self.clone();
        tokio::task::spawn_blocking(move || body(&sandbox)).await.unwrap_or(Err(Error::Abandoned))
    }

    /// Names the environment of new sessions by what is in it.
    pub fn environment(&self) -> &str {
        self.shared.engine.environment()
    }

    /// What runs new sessions.
    pub fn engine(&self) -> EngineKind {
        self.shared.origin.kind()
    }

    /// What stands between new sessions and the host, and what of it is missing here. The wasm engine has no such
    /// layers: its guests can't name anything of the host.
    pub fn layers(&self) -> Vec<Layer> {
        self.shared.engine.layers()
    }

    /// Whether the kernel finds the writes of a cell here. Elsewhere pages are compared, which costs each
    /// cell of the wasm engine a little more.
    pub fn tracks_writes(&self) -> bool {
        matches!(&self.shared.origin, Origin::Wasm(engine) if engine.tracks_writes())
    }
}

/// What stands between sessions of the native engine and the host on this machine. Nothing is started.
pub fn native_layers() -> Vec<Layer> {
    belljar_native::layers()
}

/// Refuses an engine that lacks a layer which the policy requires.
pub(crate) fn check_layers(engine: &dyn Engine, spec: &GuestSpec) -> Result<(), Error> {
    if spec.require.is_empty() {
        return Ok(());
    }
    let layers = engine.layers();
    for name in &spec.require {
        let found = layers.iter().find(|layer| layer.name == *name);
        if found.is_some_and(Layer::is_active) {
            continue;
        }
        return Err(Error::MissingLayer {
            layer: name.clone(),
            engine: engine.name(),
            reason: found.and_then(|layer| layer.missing.clone()),
            advice: found.and_then(|layer| layer.hint.clone()),
        });
    }
    Ok(())
}

impl Shared {
    pub(crate) fn keeping(&self) -> Result<&Keeping, Error> {
        self.keeping.as_ref().ok_or(Error::NotRegistered)
    }

    pub(crate) fn commits_each_cell(&self) -> bool {
        self.keeping.as_ref().is_some_and(|keeping| keeping.each_cell)
    }

    /// The right to use a session of the registry.
    pub(crate) fn acquire(&self, id: &SessionId) -> Result<Lease, Error> {
        let keeping = self.keeping()?;
        Ok(keeping.store.acquire(&keeping.tenant, id, keeping.wait, &|| false)?)
    }

    /// Adds a session to the registry.
    fn register(&self, id: SessionId, mut policy: Policy) -> Result<Lease, Error> {
        // It will be read in other directories.
        if is_on_disk(&policy.workspace) {
            policy.workspace.root = Some(self.workspaces(&policy.workspace)?.root().to_owned());
        }
        for mount in &mut policy.mounts {
            mount.host = std::path::absolute(&mount.host).unwrap_or_else(|_| mount.host.clone());
        }
        let policy = serde_json::to_value(&policy).unwrap_or_default();
        let keeping = self.keeping()?;
        let environment = self.engine.environment().to_owned();
        // So that a later version of Belljar still has it.
        let pinned = keeping.store.pin_environment(&environment, |directory| self.origin.pin(directory))?;
        if WasmEngine::is_foreign(&pinned) {
            // Somebody imported a session in it first; of what they sent only a part is known to be the same.
            keeping.store.replace_environment(&environment, |directory| self.origin.pin(directory))?;
        }
        let labels = engine_label(self.origin.kind());
        let new = NewSession { id: Some(id), environment, policy, parent: None, labels };
        Ok(keeping.store.create(&keeping.tenant, new)?)
    }

    /// The engine for sessions that were made in this environment.
    pub(crate) fn engine_for(&self, environment: &str) -> Result<Arc<dyn Engine>, Error> {
        if environment == self.engine.environment() {
            return Ok(Arc::clone(&self.engine));
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = others.get(environment) {
            return Ok(Arc::clone(engine));
        }
        let missing = || Error::NoEnvironment { environment: environment.to_owned() };
        let pinned = self.keeping()?.store.environment(environment).ok_or_else(missing)?;
        let engine: Arc<dyn Engine> = if Recipe::is_in(&pinned) {
            Arc::new(Recipe::read(&pinned)?.load(&self.runtimes, &Quiet)?)
        } else {
            Arc::new(WasmEngine::pinned(&pinned, self.runtimes.cache()?)?.tracking(self.tracking).load()?)
        };
        if engine.environment() != environment {
            return Err(missing());
        }
        others.insert(environment.to_owned(), Arc::clone(&engine));
        Ok(engine)
    }

    /// What runs sessions that were made in this environment.
    fn kind_of(&self, environment: &str) -> EngineKind {
        if environment == self.engine.environment() {
            return self.origin.kind();
        }
        let pinned = self.keeping.as_ref().and_then(|keeping| keeping.store.environment(environment));
        if pinned.is_some_and(|pinned| Recipe::is_in(&pinned)) {
            EngineKind::Native
        } else {
            EngineKind::Wasm
        }
    }

    /// Refuses a name that is taken, before anything is made for it.
    pub(crate) fn check_free(&self, id: &SessionId) -> Result<(), Error> {
        let keeping = self.keeping()?;
        match keeping.store.record(&keeping.tenant, id) {
            Ok(_) => {
                let path = keeping.store.root().to_owned();
                Err(StoreError::Exists { session: id.clone(), path }.into())
            }
            Err(_) => Ok(()),
        }
    }

    /// Where workspaces are that this policy speaks of.
    pub(crate) fn workspaces(&self, policy: &WorkspacePolicy) -> Result<Workspaces, Error> {
        match &policy.root {
            Some(root) => Ok(Workspaces::open(root)),
            None => self.workspaces.clone().ok_or(Error::NoWorkspaces),
        }
    }

    /// What a new session of this name is made from.
    fn place(&self, id: &SessionId) -> Result<Place, Error> {
        self.place_of(id, Arc::clone(&self.spec), self.policy.workspace.clone())
    }

    /// What a session of this name is made from.
    pub(crate) fn place_of(
        &self,
        id: &SessionId,
        base: Arc<GuestSpec>,
        workspace: WorkspacePolicy,
    ) -> Result<Place, Error> {
        let workspaces = match self.workspaces(&workspace) {
            Err(_) if workspace.is_same_for_all() => {
                return Ok(Place { spec: Arc::clone(&base), base, workspace });
            }
            workspaces => workspaces?,
        };
        let path = workspace.path_of(id.as_str());
        let mounts = workspaces.mounts(id, &workspace, &path)?;
        if workspace.is_same_for_all() && mounts.is_empty() {
            return Ok(Place { spec: Arc::clone(&base), base, workspace });
        }
        let mut spec = GuestSpec::clone(&base);
        spec.workspace = path;
        spec.mounts.extend(mounts);
        if is_on_disk(&workspace) {
            spec.storage = Storage::Disk(workspaces.thread(id));
        }
        Ok(Place { spec: Arc::new(spec), base, workspace })
    }

    /// A new session's guest, with its directory if it has one.
    fn boot(&self, id: &SessionId, place: &Place) -> Result<Live, Error> {
        let made = match is_on_disk(&place.workspace) {
            true => {
                Some((self.workspaces(&place.workspace)?, self.workspaces(&place.workspace)?.create(id)?))
            }
            false => None,
        };
        let booted = self.engine.boot(Arc::clone(&place.spec)).map_err(Error::from);
        let live = booted.and_then(|guest| {
            let disk = self.disk(id, place, self.engine.name())?;
            Ok(Live { guest, disk, lease: None, verification: Verification::default(), changed: false })
        });
        if let (Err(_), Some((workspaces, true))) = (&live, made) {
            let _ = workspaces.remove(id);
        }
        live
    }

    /// The directory of a session, if it has one.
    pub(crate) fn disk(&self, id: &SessionId, place: &Place, engine: &str) -> Result<Option<Disk>, Error> {
        if !is_on_disk(&place.workspace) {
            return Ok(None);
        }
        let workspaces = self.workspaces(&place.workspace)?;
        Disk::open(&workspaces, id, place, engine == "native").map(Some)
    }

    /// What guests with this policy are made from.
    fn spec_for(&self, policy: &Policy, engine: EngineKind) -> Result<Arc<GuestSpec>, Error> {
        let spec = policy.spec(engine)?;
        let GuestSpec { tools, argv, directories, .. } = GuestSpec::clone(&self.spec);
        Ok(Arc::new(GuestSpec { tools, argv, directories, ..spec }))
    }
}

/// Something that was said of a policy.
type Change = Box<dyn FnOnce(&mut Policy) + Send + Sync>;

/// Sets up a [`Sandbox`].
#[derive(Default)]
pub struct SandboxBuilder {
    /// A policy as a whole; by default the engine's, which may be chosen later.
    policy: Option<Policy>,
    /// What was said of the policy since, in that order.
    changes: Vec<Change>,
    environment: Environment,
    /// If it was said apart from the environment.
    engine: Option<EngineKind>,
    tools: Vec<Tool>,
    runtimes: Runtimes,
    warm: usize,
    argv: Option<Vec<String>>,
    progress: Option<Arc<dyn Progress + Send + Sync>>,
    tracking: Tracking,
    state_dir: Option<PathBuf>,
    tenant: Option<Tenant>,
    wait: Option<Duration>,
    idle_hibernate: Option<Duration>,
    live_memory: Option<u64>,
    durable_cells: bool,
}

/// How long a session may be idle before it is put to sleep.
const IDLE_HIBERNATE: Duration = Duration::from_secs(15 * 60);
/// How long to wait for a session that another process uses.
const WAIT: Duration = Duration::from_secs(30);

impl SandboxBuilder {
    /// What runs sessions: by default CPython on WebAssembly, in this process. [`EngineKind::Native`] is the machine's
    /// own CPython in a jail of the kernel's, with threads, processes and native packages.
    pub fn engine(mut self, engine: EngineKind) -> Self {
        self.engine = Some(engine);
        self
    }

    /// What sessions may use, as a whole; by default [`Policy::for_engine`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self.changes.clear();
        self
    }

    /// Wall time of a cell.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change(move |policy| policy.timeout = Some(timeout))
    }

    /// Bytes of memory of an interpreter.
    pub fn memory(self, bytes: u64) -> Self {
        self.change(move |policy| policy.memory = bytes)
    }

    /// Shows a host directory to sessions, for reading.
    pub fn mount(self, host: impl Into<PathBuf>, guest: impl Into<String>) -> Self {
        self.add_mount(host.into(), guest.into(), MountAccess::ReadOnly)
    }

    /// Shows a host directory to sessions, for reading and writing. What is written there is outside
    /// rollback.
    pub fn mount_writable(self, host: impl Into<PathBuf>, guest: impl Into<String>) -> Self {
        self.add_mount(host.into(), guest.into(), MountAccess::ReadWrite)
    }

    /// Sets an environment variable.
    pub fn env(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.change(move |policy| drop(policy.env.insert(name, value)))
    }

    /// Where the files of sessions are: in memory, or in a directory of the host for each.
    pub fn storage(self, storage: StorageKind) -> Self {
        self.change(move |policy| policy.workspace.storage = storage)
    }

    /// Bytes of files that a session may have.
    pub fn quota(self, bytes: u64) -> Self {
        self.change(move |policy| policy.file_bytes = bytes)
    }

    /// The directory with `threads/` and `skills/`; by default one in the state directory.
    pub fn workspace_root(self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        self.change(move |policy| policy.workspace.root = Some(directory))
    }

    /// Where sessions see their workspace, instead of `/workspace`; `{id}` is the session's name.
    pub fn workspace_path(self, guest: impl Into<String>) -> Self {
        let guest = guest.into();
        self.change(move |policy| policy.workspace.path = guest)
    }

    /// Where sessions see skills in their workspace, instead of `.skills`.
    pub fn skills(self, relative: impl Into<String>) -> Self {
        let relative = relative.into();
        self.change(move |policy| policy.workspace.skills = Some(relative))
    }

    /// Whose skills sessions see.
    pub fn user(self, user: impl Into<String>) -> Self {
        let user = user.into();
        self.change(move |policy| policy.workspace.user = Some(user))
    }

    /// Another thread on disk, which sessions see read-only at `.ticket`.
    pub fn ticket(self, thread: impl Into<String>) -> Self {
        let thread = thread.into();
        self.change(move |policy| policy.workspace.ticket = Some(thread))
    }

    /// Starts nothing where this [layer](Layer) of the engine's isolation is missing.
    pub fn require(self, layer: impl Into<String>) -> Self {
        let layer = layer.into();
        self.change(move |policy| policy.require.extend([layer]))
    }

    /// Gives sessions a package, with what it depends on: a requirement such as `jinja2>=3`, or the path of a
    /// wheel, an archive, a directory, a requirements file or a `pyproject.toml`. It is fetched once per machine,
    /// and no session has a copy of its own.
    pub fn package(mut self, spec: &str) -> Result<Self, Error> {
        self.environment.add(spec)?;
        Ok(self)
    }

    /// Gives sessions the package in a wheel.
    pub fn wheel(mut self, path: impl Into<PathBuf>) -> Self {
        self.environment.packages.push(Spec::Wheel(path.into()));
        self
    }

    /// Gives sessions all that is in a directory, as it is: a `site-packages` of your own.
    pub fn site_packages(mut self, directory: impl Into<PathBuf>) -> Self {
        self.environment.packages.push(Spec::SitePackages(directory.into()));
        self
    }

    /// Gives sessions a native module that was built for WASI. The name is its path in `site-packages`, such as
    /// `fast/sum.cpython-314-wasm32-wasi.so`, or the module's, such as `fast.sum`.
    pub fn native_extension(mut self, name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Self {
        self.environment.packages.push(Spec::Extension { name: name.into(), bytes: bytes.into() });
        self
    }

    /// Imports a module once, when the environment is made: every session starts with it in memory.
    pub fn preload(mut self, module: impl Into<String>) -> Self {
        self.environment.preload.push(module.into());
        self
    }

    /// Runs code once, when the environment is made: every session starts with its variables and files.
    pub fn setup(mut self, code: impl Into<String>) -> Self {
        self.environment.setup = code.into();
        self
    }

    /// Uses a standard library instead of the interpreter's own.
    pub fn stdlib(mut self, directory: impl Into<PathBuf>) -> Self {
        self.environment.stdlib = Some(directory.into());
        self
    }

    /// The environment as a whole.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Whether the packages are on `sys.path` from the start, as they are by default.
    pub fn inject_setup(self, inject: bool) -> Self {
        self.change(move |policy| policy.inject_setup = inject)
    }

    /// Sets `sys.argv`.
    pub fn argv(mut self, argv: Vec<String>) -> Self {
        self.argv = Some(argv);
        self
    }

    /// Lets guest code call a host function.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Keeps so many sessions ready, made in the background; a session is then there in a tenth of the time.
    pub fn warm(mut self, count: usize) -> Self {
        self.warm = count;
        self
    }

    /// Where the interpreter is made and kept; by default the user's cache directory.
    pub fn cache_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.runtimes.cache_dir = Some(directory.into());
        self
    }

    /// Writes nothing to the cache: what isn't there is made in memory, for this process only.
    pub fn in_memory_cache(mut self) -> Self {
        self.runtimes.in_memory = true;
        self
    }

    /// Shows the progress of the first start, which takes about a minute.
    pub fn progress(mut self, progress: Arc<dyn Progress + Send + Sync>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Where the interpreter comes from.
    pub fn runtimes(mut self, runtimes: Runtimes) -> Self {
        self.runtimes = runtimes;
        self
    }

    /// How writes of a cell are found, so that it can be taken back.
    pub fn tracking(mut self, tracking: Tracking) -> Self {
        self.tracking = tracking;
        self
    }

    /// Keeps sessions in this directory: those made by [`Sandbox::create`] survive the process.
    pub fn state_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(directory.into());
        self
    }

    /// Whose sessions these are; by default `local`. Tenants share nothing.
    pub fn tenant(mut self, tenant: Tenant) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// How long to wait for a session that another process uses; by default 30 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Puts sessions of the registry to sleep that have been idle for so long; by default 15 minutes, zero is
    /// never.
    pub fn idle_hibernate(mut self, idle: Duration) -> Self {
        self.idle_hibernate = Some(idle);
        self
    }

    /// Bytes that all sessions of the registry may have in memory; beyond it the least recently used are put to
    /// sleep. By default a quarter of the machine's memory.
    pub fn live_memory(mut self, bytes: u64) -> Self {
        self.live_memory = Some(bytes);
        self
    }

    /// Makes every cell of a session in the registry durable before its outcome is returned. By default
    /// checkpoints and hibernation are: what was run since is lost if the process is killed.
    pub fn durable_cells(mut self, durable: bool) -> Self {
        self.durable_cells = durable;
        self
    }

    /// Makes the sandbox. The first time on a machine this makes the interpreter, which takes about a
    /// minute; later it takes a few milliseconds.
    pub async fn build(self) -> Result<Sandbox, Error> {
        tokio::task::spawn_blocking(|| self.build_blocking()).await.unwrap_or(Err(Error::Abandoned))
    }

    /// Makes the sandbox on this thread.
    pub fn build_blocking(mut self) -> Result<Sandbox, Error> {
        let kind = *self.engine.get_or_insert(self.environment.engine);
        let mut policy = self.take_policy(kind);
        let tenant = self.tenant.clone().unwrap_or_else(Tenant::local);
        if let Some(root) = policy.workspace.root.take() {
            // Tenants share nothing.
            let root =
                if tenant == Tenant::local() { root } else { root.join("tenants").join(tenant.as_str()) };
            policy.workspace.root = Some(std::path::absolute(&root).unwrap_or(root));
        }
        let mut spec = policy.spec(kind)?;
        if self.state_dir.is_some() || policy.workspace.root.is_some() {
            spec.directories = DIRECTORIES.map(str::to_owned).to_vec();
        }
        let tools = ToolTable::new(std::mem::take(&mut self.tools))?;
        spec.tools = tools.specs();
        if let Some(argv) = self.argv.take() {
            spec.argv = argv;
        }
        let mut environment = std::mem::take(&mut self.environment);
        environment.engine = kind;
        environment.setup_memory.get_or_insert(policy.memory);
        let (engine, origin) = self.load(environment, &spec)?;
        check_layers(engine.as_ref(), &spec)?;
        let spec = Arc::new(spec);
        engine.warm(&spec, self.warm);
        let workspaces = self.state_dir.as_deref().map(|state| Workspaces::of_state(state, &tenant));
        let keeping = self.state_dir.map(|directory| {
            Ok::<_, Error>(Keeping {
                store: Store::open(directory)?,
                tenant,
                wait: self.wait.unwrap_or(WAIT),
                each_cell: self.durable_cells,
            })
        });
        let rules = Rules {
            idle: Some(self.idle_hibernate.unwrap_or(IDLE_HIBERNATE)).filter(|idle| !idle.is_zero()),
            memory: self.live_memory,
        };
        let shared = Shared {
            engine,
            origin,
            spec,
            policy,
            tools: Arc::new(tools),
            keeping: keeping.transpose()?,
            workspaces,
            keeper: Keeper::new(rules),
            others: Mutex::default(),
            runtimes: self.runtimes,
            tracking: self.tracking,
        };
        Ok(Sandbox { shared: Arc::new(shared) })
    }

    /// The engine for an environment, and how that is put aside.
    fn load(
        &self,
        mut environment: Environment,
        spec: &GuestSpec,
    ) -> Result<(Arc<dyn Engine>, Origin), Error> {
        let progress: &dyn Progress = match &self.progress {
            Some(progress) => progress.as_ref(),
            None => &Quiet,
        };
        match environment.engine {
            EngineKind::Wasm => {
                let Assembled { runtime, cache, layer, .. } =
                    environment.assemble(&self.runtimes, progress)?;
                let engine = WasmEngine::builder(runtime, cache)
                    .layer(layer)
                    .progress(progress)
                    .tracking(self.tracking)
                    .steps(spec.limits.steps.is_some())
                    .load()?;
                Ok((Arc::new(engine.clone()), Origin::Wasm(engine)))
            }
            EngineKind::Native => {
                // A kept session is woken with the same packages, whatever the words mean by then.
                environment.lock = Some(environment.lock(&self.runtimes, progress)?);
                let made = environment.assemble_native(&self.runtimes, progress)?;
                let recipe = Recipe::new(&environment, &made);
                // Tenants share no memory, not even that of the interpreter that they are forked from.
                let tenant = self.tenant.clone().unwrap_or_else(Tenant::local);
                let installer = SessionInstaller::new(&self.runtimes, &made);
                let engine = NativeEngine::shared(made, &self.runtimes.cache()?, tenant.as_str())?;
                engine.set_installer(Arc::new(installer));
                Ok((Arc::new(engine), Origin::Native(recipe)))
            }
        }
    }

    /// Where the interpreter comes from, as far as that was said.
    pub(crate) fn runtimes_mut(&mut self) -> &mut Runtimes {
        &mut self.runtimes
    }

    /// The engine, if it was said apart from the environment.
    pub(crate) fn said_engine(&self) -> Option<EngineKind> {
        self.engine
    }

    /// Where sessions and named environments are kept, and whose they are.
    pub(crate) fn keeps(&self) -> (Option<PathBuf>, Option<Tenant>) {
        (self.state_dir.clone(), self.tenant.clone())
    }

    /// Changes the policy when it is known which one it is.
    pub(crate) fn change(mut self, change: impl FnOnce(&mut Policy) + Send + Sync + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    fn take_policy(&mut self, engine: EngineKind) -> Policy {
        let mut policy = self.policy.take().unwrap_or_else(|| Policy::for_engine(engine));
        for change in self.changes.drain(..) {
            change(&mut policy);
        }
        policy
    }

    fn add_mount(self, host: PathBuf, guest: String, access: MountAccess) -> Self {
        self.change(move |policy| policy.mounts.push(Mount { host, guest, access }))
    }
}

/// The label of a session that says what runs it, for those who list sessions: the environment counts.
pub(crate) fn engine_label(engine: EngineKind) -> BTreeMap<String, String> {
    [(ENGINE_LABEL.to_owned(), engine.to_string())].into()
}

pub(crate) const ENGINE_LABEL: &str = "engine";

/// Where the interpreter comes from and where it is kept.
#[derive(Clone, Debug, Default)]
pub struct Runtimes {
    /// The cache; by default the user's.
    pub cache_dir: Option<PathBuf>,
    /// A host Python to make the interpreter with, and the one that the native engine runs; by default what is found on
    /// the path.
    pub python: Option<PathBuf>,
    /// Fetch nothing.
    pub offline: bool,
    /// Look for newer packages, instead of using what was resolved before.
    pub upgrade: bool,
    /// Write nothing to the cache; what isn't there is made in memory, for this process only.
    pub in_memory: bool,
}

impl Runtimes {
    /// The cache.
    pub fn cache(&self) -> Result<Cache, Error> {
        let directory = self.cache_dir.clone().or_else(default_cache_dir).ok_or(Error::NoCacheDirectory);
        if self.in_memory {
            return memory_cache(directory.ok());
        }
        Ok(Cache::open(directory?))
    }

    /// The interpreter if it has been made.
    pub fn find(&self) -> Result<Option<Runtime>, Error> {
        Ok(self.maker(self.cache()?).find())
    }

    /// The interpreter, made if it hasn't been.
    pub fn ensure(&self, progress: &dyn Progress) -> Result<(Runtime, Cache), Error> {
        let cache = self.cache()?;
        let runtime = self.maker(cache.clone()).ensure(progress)?;
        Ok((runtime, cache))
    }

    /// Reads every byte that is cached of the interpreter, and returns the kinds of entries (`runtime`, `code`,
    /// `image`) that aren't what they should be. At start only sizes are looked at.
    pub fn damaged(&self) -> Result<Vec<String>, Error> {
        let cache = self.cache()?;
        let ours = cache.entries()?.into_iter().filter(|entry| {
            ["runtime", "code", "image"].contains(&entry.kind.as_str()) && entry.key.starts_with(Maker::id())
        });
        let mut kinds: Vec<String> = ours
            .filter(|entry| cache.verify(&cache.root().join(&entry.kind).join(&entry.key)).is_err())
            .map(|entry| entry.kind)
            .collect();
        kinds.dedup();
        Ok(kinds)
    }
}

/// A cache in memory over one that is only read. All sandboxes of the process share it, and it goes with the last.
fn memory_cache(under: Option<PathBuf>) -> Result<Cache, Error> {
    static DIRECTORY: Mutex<Weak<TempDir>> = Mutex::new(Weak::new());
    let mut shared = DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = match shared.upgrade() {
        Some(directory) => directory,
        None => {
            let memory = Path::new("/dev/shm");
            let mut builder = tempfile::Builder::new();
            let prefix = format!("{IN_MEMORY}{}-", std::process::id());
            builder.prefix(&prefix);
            let made = match memory.is_dir() {
                true => {
                    sweep(memory);
                    builder.tempdir_in(memory)
                }
                false => builder.tempdir(),
            };
            let made = Arc::new(made.map_err(Error::Temporary)?);
            *shared = Arc::downgrade(&made);
            made
        }
    };
    Ok(Cache::temporary(directory, under))
}

/// How directories in memory are called, before the number of their process.
const IN_MEMORY: &str = "belljar-memory-";

/// Removes what processes left there that were killed.
fn sweep(memory: &Path) {
    for found in std::fs::read_dir(memory).into_iter().flatten().flatten() {
        let name = found.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(IN_MEMORY)?.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another user's can't be removed, and need not be.
            let _ = std::fs::remove_dir_all(found.path());
        }
    }
}
