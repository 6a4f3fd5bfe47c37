//! Sets up a sandbox.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_engine::{Engine, GuestSpec, Mount, MountAccess};
use belljar_native::NativeEngine;
use belljar_packages::Spec;
use belljar_runtime::{Progress, Quiet};
use belljar_store::{Store, Tenant};
use belljar_wasm::{Tracking, WasmEngine};

use super::{Keeping, Origin, Sandbox, Shared, check_layers};
use crate::config::ArtifactSection;
use crate::environment::{Assembled, SessionInstaller};
use crate::keeper::{Keeper, Rules};
use crate::recipe::Recipe;
use crate::session::{KeptPlaces, shelves_of};
use crate::tool::ToolTable;
use crate::workspace::{DIRECTORIES, StorageKind, Workspaces};
use crate::{
    ArtifactHook, ArtifactSettings, Artifacts, Candidate, DatasetAccess, Datasets, EngineKind, Environment,
    Error, FetchOptions, Policy, Runtimes, Tool, default_state_dir,
};

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
    artifacts: Option<ArtifactSettings>,
    /// What a file says of them.
    artifact_config: Option<ArtifactSection>,
    datasets: Option<Datasets>,
    /// How those of the state directory are fetched, if a file says so.
    fetching: Option<FetchOptions>,
    hook: Option<ArtifactHook>,
    secrets: Vec<String>,
}

/// An engine, how its environment is put aside, and the packages exactly.
type Loaded = (Arc<dyn Engine>, Origin, Option<String>);

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

    /// Starts nothing where this [layer](crate::Layer) of the engine's isolation is missing.
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

    /// Keeps artifacts here, instead of in the state directory.
    pub fn artifacts(mut self, settings: ArtifactSettings) -> Self {
        (self.artifacts, self.artifact_config) = (Some(settings), None);
        self
    }

    /// Asks this before something is kept; it may say why not. It is called on the thread that ran the cell.
    pub fn artifact_hook(
        mut self,
        hook: impl Fn(&Candidate) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// A text that is never recorded with artifacts, wherever it stands in code. Values of environment variables aren't
    /// either.
    pub fn secret(mut self, text: impl Into<String>) -> Self {
        self.secrets.push(text.into());
        self
    }

    /// Has datasets from here, instead of from the state directory.
    pub fn datasets(mut self, datasets: Datasets) -> Self {
        self.datasets = Some(datasets);
        self
    }

    /// How datasets come to sessions; by default not at all.
    pub fn dataset_access(self, access: DatasetAccess) -> Self {
        self.change(move |policy| policy.datasets.access = access)
    }

    /// The directory of the host that sessions see at `/data`, where datasets are local.
    pub fn dataset_directory(self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        self.change(move |policy| policy.datasets.directory = Some(directory))
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
        let kept = self.kept_places(&tenant);
        if self.state_dir.is_some() || policy.workspace.root.is_some() || kept.artifacts.is_some() {
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
        let (engine, origin, lock) = self.load(environment, &spec)?;
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
            kept,
            lock,
            others: Mutex::default(),
            runtimes: self.runtimes,
            tracking: self.tracking,
        };
        Ok(Sandbox { shared: Arc::new(shared) })
    }

    /// Where artifacts and datasets are, as far as that is known.
    fn kept_places(&mut self, tenant: &Tenant) -> KeptPlaces {
        let state = self.state_dir.as_deref();
        let mut settings = self.artifacts.take().or_else(|| state.map(ArtifactSettings::of_state));
        if let Some(config) = self.artifact_config.take() {
            // Keys and what is under way have no place of their own in a file.
            let own = || default_state_dir().as_deref().map(ArtifactSettings::of_state);
            settings = settings.or_else(|| own().filter(|_| config.has_place()));
            settings.iter_mut().for_each(|settings| config.change_settings(settings));
        }
        let shelves = state
            .map(shelves_of)
            .or_else(|| settings.as_ref().map(|settings| settings.scratch.join("shelves")))
            .or_else(|| self.datasets.as_ref().map(|datasets| datasets.directory().join("shelves")));
        let fetching = self.fetching.take().unwrap_or_default();
        let own = || {
            let datasets = Datasets::of_tenant(Datasets::directory_of(state?), tenant.clone());
            Some(datasets.fetch_options(fetching))
        };
        KeptPlaces {
            datasets: self.datasets.take().map(|datasets| datasets.for_tenant(tenant)).or_else(own),
            artifacts: settings.map(|settings| Artifacts::of_tenant(settings, tenant.clone())),
            shelves: shelves.map(|shelves| shelves.join(tenant.as_str())),
            hook: self.hook.take(),
            secrets: std::mem::take(&mut self.secrets),
        }
    }

    /// The engine for an environment, how that is put aside, and its packages exactly.
    fn load(&self, mut environment: Environment, spec: &GuestSpec) -> Result<Loaded, Error> {
        let progress: &dyn Progress = match &self.progress {
            Some(progress) => progress.as_ref(),
            None => &Quiet,
        };
        match environment.engine {
            EngineKind::Wasm => {
                let Assembled { runtime, cache, layer, lock, .. } =
                    environment.assemble(&self.runtimes, progress)?;
                let engine = WasmEngine::builder(runtime, cache)
                    .layer(layer)
                    .progress(progress)
                    .tracking(self.tracking)
                    .steps(spec.limits.steps.is_some())
                    .load()?;
                let lock = lock.map(|lock| lock.text().to_owned());
                Ok((Arc::new(engine.clone()), Origin::Wasm(engine), lock))
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
                let lock = recipe.lock().map(str::to_owned);
                Ok((Arc::new(engine), Origin::Native(recipe), lock))
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

    /// Sets what a file says of artifacts and of how datasets are fetched.
    pub(crate) fn configure_kept(
        &mut self,
        artifacts: ArtifactSection,
        change: impl FnOnce(&mut FetchOptions),
    ) {
        self.artifact_config = Some(artifacts);
        let given = self.datasets.as_ref().map(|datasets| datasets.options().clone());
        let mut options = given.or_else(|| self.fetching.take()).unwrap_or_default();
        change(&mut options);
        self.datasets = self.datasets.take().map(|datasets| datasets.fetch_options(options.clone()));
        self.fetching = Some(options);
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
