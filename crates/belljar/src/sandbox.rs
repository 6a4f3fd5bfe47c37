//! What sessions are made from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use belljar_engine::{Engine, GuestSpec, Mount, MountAccess};
use belljar_runtime::{Cache, Maker, Progress, Quiet, Runtime};
use belljar_wasm::{Tracking, WasmEngine};

use crate::tool::ToolTable;
use crate::{Error, Outcome, Policy, Request, Session, Tool, default_cache_dir};

/// Makes sessions. Made once and shared; cloning it is cheap.
#[derive(Clone)]
pub struct Sandbox {
    engine: Arc<dyn Engine>,
    wasm: WasmEngine,
    spec: Arc<GuestSpec>,
    tools: Arc<ToolTable>,
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

    /// A new session.
    pub async fn session(&self) -> Result<Session, Error> {
        let sandbox = self.clone();
        let booted = tokio::task::spawn_blocking(move || sandbox.session_blocking()).await;
        booted.unwrap_or(Err(Error::Abandoned))
    }

    /// A new session, made on this thread.
    pub fn session_blocking(&self) -> Result<Session, Error> {
        let guest = self.engine.boot(Arc::clone(&self.spec))?;
        Ok(Session::new(guest, Arc::clone(&self.tools)))
    }

    /// Whether the kernel finds the writes of a cell here. Elsewhere pages are compared, which costs each
    /// cell a little more.
    pub fn tracks_writes(&self) -> bool {
        self.wasm.tracks_writes()
    }
}

/// Sets up a [`Sandbox`].
#[derive(Default)]
pub struct SandboxBuilder {
    policy: Policy,
    tools: Vec<Tool>,
    runtimes: Runtimes,
    warm: usize,
    argv: Option<Vec<String>>,
    progress: Option<Arc<dyn Progress + Send + Sync>>,
    tracking: Tracking,
}

impl SandboxBuilder {
    /// What sessions may use, as a whole.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Wall time of a cell.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy.timeout = Some(timeout);
        self
    }

    /// Bytes of memory of an interpreter.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.policy.memory = bytes;
        self
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
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.policy.env.insert(name.into(), value.into());
        self
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

    /// Makes the sandbox. The first time on a machine this makes the interpreter, which takes about a
    /// minute; later it takes a few milliseconds.
    pub async fn build(self) -> Result<Sandbox, Error> {
        tokio::task::spawn_blocking(|| self.build_blocking()).await.unwrap_or(Err(Error::Abandoned))
    }

    /// Makes the sandbox on this thread.
    pub fn build_blocking(self) -> Result<Sandbox, Error> {
        let mut spec = self.policy.spec()?;
        let tools = ToolTable::new(self.tools)?;
        spec.tools = tools.specs();
        if let Some(argv) = self.argv {
            spec.argv = argv;
        }
        let progress: &dyn Progress = match &self.progress {
            Some(progress) => progress.as_ref(),
            None => &Quiet,
        };
        let (runtime, cache) = self.runtimes.ensure(progress)?;
        let engine = WasmEngine::builder(runtime, cache)
            .progress(progress)
            .tracking(self.tracking)
            .steps(spec.limits.steps.is_some())
            .load()?;
        let spec = Arc::new(spec);
        engine.warm(&spec, self.warm);
        Ok(Sandbox { engine: Arc::new(engine.clone()), wasm: engine, spec, tools: Arc::new(tools) })
    }

    fn add_mount(mut self, host: PathBuf, guest: String, access: MountAccess) -> Self {
        self.policy.mounts.push(Mount { host, guest, access });
        self
    }
}

/// Where the interpreter comes from and where it is kept.
#[derive(Clone, Debug, Default)]
pub struct Runtimes {
    /// The cache; by default the user's.
    pub cache_dir: Option<PathBuf>,
    /// A host Python to make the interpreter with; by default what is found on the path.
    pub python: Option<PathBuf>,
    /// Fetch nothing.
    pub offline: bool,
}

impl Runtimes {
    /// The cache.
    pub fn cache(&self) -> Result<Cache, Error> {
        let directory = self.cache_dir.clone().or_else(default_cache_dir).ok_or(Error::NoCacheDirectory)?;
        Ok(Cache::open(directory))
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

    fn maker(&self, cache: Cache) -> Maker {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Maker::new(cache)
            .python(self.python.clone())
            .search(std::env::split_paths(&path))
            .offline(self.offline)
    }
}
