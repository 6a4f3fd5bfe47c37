//! What sessions are made from.

mod builder;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_engine::{Engine, GuestSpec, Layer, Storage};
use belljar_runtime::Quiet;
use belljar_store::{Lease, NewSession, SessionId, Store, StoreError, Tenant};
use belljar_wasm::{Tracking, WasmEngine};

pub use self::builder::SandboxBuilder;
use crate::keeper::Keeper;
use crate::recipe::Recipe;
use crate::session::{Disk, Live, Place, Slot, Verification, is_on_disk};
use crate::tool::ToolTable;
use crate::workspace::{WorkspacePolicy, Workspaces};
use crate::{EngineKind, Error, Outcome, Policy, PolicyError, Registry, Request, Runtimes, Session};

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

/// The label of a session that says what runs it, for those who list sessions: the environment counts.
pub(crate) fn engine_label(engine: EngineKind) -> BTreeMap<String, String> {
    [(ENGINE_LABEL.to_owned(), engine.to_string())].into()
}

pub(crate) const ENGINE_LABEL: &str = "engine";
