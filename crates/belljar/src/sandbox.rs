//! What sessions are made from.

mod builder;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_engine::{Engine, Entropy, GuestSpec, Layer, Storage};
use belljar_runtime::Quiet;
use belljar_store::{Lease, NewSession, SessionId, SessionRecord, Store, StoreError, Tenant};
use belljar_wasm::{Tracking, WasmEngine};

pub use self::builder::SandboxBuilder;
use crate::keeper::{Keeper, Rules};
use crate::recipe::Recipe;
use crate::session::{Disk, KeptPlaces, Lineage, Live, Place, Slot, Verification, is_on_disk, now_ms};
use crate::tool::ToolTable;
use crate::workspace::{WorkspacePolicy, Workspaces};
use crate::{
    Artifacts, Datasets, EngineKind, Error, History, Outcome, Policy, PolicyError, Registry, Request,
    Runtimes, Session,
};

/// Makes sessions. Made once and shared; cloning it is cheap.
#[derive(Clone)]
pub struct Sandbox {
    pub(crate) shared: Arc<Shared>,
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
    /// Where artifacts and datasets are.
    pub(crate) kept: KeptPlaces,
    /// The packages of the environment, exactly.
    lock: Option<String>,
    /// Engines for sessions that were made in another environment.
    others: Mutex<BTreeMap<String, Arc<dyn Engine>>>,
    runtimes: Runtimes,
    tracking: Tracking,
}

/// How the engine's environment is put aside for sessions that are kept.
#[derive(Clone)]
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
#[derive(Clone)]
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
        self.session_with_blocking(|_| ())
    }

    /// A new session with a policy of its own: `change` is given the sandbox's.
    pub fn session_with_blocking(&self, change: impl FnOnce(&mut Policy)) -> Result<Session, Error> {
        let id = SessionId::generate();
        let (base, policy) = self.shared.own(change, self.engine())?;
        let place = self.shared.place_of(&id, base, Arc::new(policy), now_ms(), Vec::new())?;
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
        let (base, policy) = self.shared.own(change, self.engine())?;
        let id = name.map(SessionId::parse).transpose()?.unwrap_or_else(SessionId::generate);
        self.shared.check_free(&id)?;
        let place = self.shared.place_of(&id, base, Arc::new(policy.clone()), now_ms(), Vec::new())?;
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
        let ancestors = keeping.ancestors(&record);
        let place = self.shared.place_of(&id, base, Arc::new(policy), record.created, ancestors)?;
        let mut slot = Slot::new(id, Arc::clone(&self.shared), place, Arc::default(), None, true);
        slot.cells = record.cells;
        Ok(Session::new(slot))
    }

    /// What came out of its sessions.
    pub fn artifacts(&self) -> Result<Artifacts, Error> {
        self.shared.kept.artifacts.clone().ok_or(Error::NoArtifacts)
    }

    /// What can go into its sessions.
    pub fn datasets(&self) -> Result<Datasets, Error> {
        self.shared.kept.datasets.clone().ok_or(Error::NoDatasets)
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

    /// What new sessions may use.
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
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
    /// The same with another environment, which was put aside.
    pub(crate) fn with_engine(&self, environment: &str) -> Result<Self, Error> {
        Ok(Self {
            engine: self.engine_for(environment)?,
            origin: self.origin.clone(),
            spec: Arc::clone(&self.spec),
            policy: self.policy.clone(),
            tools: Arc::clone(&self.tools),
            keeping: self.keeping.clone(),
            workspaces: self.workspaces.clone(),
            keeper: Keeper::new(Rules::default()),
            kept: self.kept.clone(),
            lock: self.lock_of(environment),
            others: Mutex::default(),
            runtimes: self.runtimes.clone(),
            tracking: self.tracking,
        })
    }

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
            Some(root) => Ok(Workspaces::open(root).flat(policy.flat)),
            None => self.workspaces.clone().ok_or(Error::NoWorkspaces),
        }
    }

    /// What a new session may use, and what its guests are made from.
    fn own(
        &self,
        change: impl FnOnce(&mut Policy),
        engine: EngineKind,
    ) -> Result<(Arc<GuestSpec>, Policy), Error> {
        let mut policy = self.policy.clone();
        change(&mut policy);
        let keeps = self.kept.artifacts.is_some() && policy.artifacts.keep;
        let is_drawn = keeps && policy.artifacts.seeded && policy.entropy == Entropy::Host;
        let is_same = policy == self.policy;
        if is_drawn {
            policy.entropy = Entropy::Seeded(random_number()?);
        }
        let base = match (is_same, is_drawn) {
            (true, false) => Arc::clone(&self.spec),
            (true, true) => Arc::new(GuestSpec { entropy: policy.entropy, ..GuestSpec::clone(&self.spec) }),
            (false, _) => self.spec_for(&policy, engine)?,
        };
        Ok((base, policy))
    }

    /// The packages of an environment, exactly, as far as that is known.
    pub(crate) fn lock_of(&self, environment: &str) -> Option<String> {
        if environment == self.engine.environment() {
            return self.lock.clone();
        }
        let pinned = self.keeping.as_ref()?.store.environment(environment)?;
        let recipe = Recipe::is_in(&pinned).then(|| Recipe::read(&pinned).ok()).flatten()?;
        recipe.lock().map(str::to_owned)
    }

    /// What a session of this name is made from.
    pub(crate) fn place_of(
        &self,
        id: &SessionId,
        base: Arc<GuestSpec>,
        granted: Arc<Policy>,
        since_ms: u64,
        ancestors: Vec<String>,
    ) -> Result<Place, Error> {
        let workspace = granted.workspace.clone();
        let kept = self.kept.of(&granted, id, since_ms, ancestors)?;
        let path = workspace.path_of(id.as_str());
        let (mounts, thread) = match self.workspaces(&workspace) {
            Err(_) if workspace.is_same_for_all() => (Vec::new(), None),
            workspaces => {
                let workspaces = workspaces?;
                (workspaces.mounts(id, &workspace, &path)?, Some(workspaces.thread(id)))
            }
        };
        let spec = match &kept {
            None if workspace.is_same_for_all() && mounts.is_empty() => Arc::clone(&base),
            _ => {
                let mut spec = GuestSpec::clone(&base);
                spec.workspace = path;
                spec.mounts.extend(mounts);
                if let (true, Some(thread)) = (is_on_disk(&workspace), thread) {
                    spec.storage = Storage::Disk(thread);
                }
                if let Some(kept) = &kept {
                    kept.show(&mut spec);
                }
                Arc::new(spec)
            }
        };
        Ok(Place { spec, base, workspace, granted, kept })
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
        if live.is_err() && place.kept.is_some() {
            self.kept.clear(id);
        }
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

impl Keeping {
    /// The sessions that one was forked from, the nearest last, as far as they are known.
    fn ancestors(&self, record: &SessionRecord) -> Vec<String> {
        let (mut ancestors, mut next) = (Vec::new(), record.parent.clone());
        while let Some(parent) = next {
            if ancestors.len() == MOST_ANCESTORS {
                break;
            }
            next = self.store.record(&self.tenant, &parent.session).ok().and_then(|record| record.parent);
            ancestors.push(parent.session.to_string());
        }
        ancestors.reverse();
        ancestors
    }

    /// What the state of a session comes from, which has had so many cells.
    pub(crate) fn lineage(&self, id: &SessionId, cells: u32, depth: usize) -> Lineage {
        let parent = self.store.record(&self.tenant, id).ok().and_then(|record| record.parent);
        let before = match &parent {
            None => Lineage::default(),
            Some(parent) if depth == MOST_ANCESTORS => Lineage::unknown(parent.cell),
            Some(parent) => match self.store.record(&self.tenant, &parent.session) {
                Ok(_) => {
                    let mut before = self.lineage(&parent.session, u32::MAX, depth + 1);
                    before.roll_back(parent.cell);
                    before
                }
                Err(_) => Lineage::unknown(parent.cell),
            },
        };
        match self.store.history(&self.tenant, id) {
            Ok(history) => before.read(id.as_str(), &History::new(history, cells).entries),
            Err(_) => Lineage::unknown(cells),
        }
    }
}

/// Forks of forks that are followed.
const MOST_ANCESTORS: usize = 64;

/// A number that nobody can guess.
fn random_number() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Error::Temporary(error.into()))?;
    Ok(u64::from_le_bytes(bytes))
}

/// The label of a session that says what runs it, for those who list sessions: the environment counts.
pub(crate) fn engine_label(engine: EngineKind) -> BTreeMap<String, String> {
    [(ENGINE_LABEL.to_owned(), engine.to_string())].into()
}

pub(crate) const ENGINE_LABEL: &str = "engine";
