//! The engine itself.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use belljar_engine::{Capabilities, Engine, EngineError, Guest, GuestSpec, MountAccess};
use belljar_files::{Access, Dir, MountError, Quota};
use belljar_runtime::{Cache, Progress, Quiet, Runtime};

use crate::clock::ClockState;
use crate::config::{self, Metering};
use crate::control::Control;
use crate::entropy::EntropyState;
use crate::error::LoadError;
use crate::guest::WasmGuest;
use crate::host::Machine;
use crate::instance::{Instance, Program};
use crate::memory::WASM_PAGE;
use crate::pool::Pool;
use crate::prepared::{self, Prepared};
use crate::shadows::Shadows;
use crate::watchdog::Watchdog;
use crate::{code, shadow};

/// Memory that the interpreter needs before it has run anything.
const LEAST_MEMORY: u64 = 48 << 20;
/// All that 32 bits can address.
const MOST_MEMORY: u64 = 4 << 30;

/// Runs guests in this process.
#[derive(Clone)]
pub struct WasmEngine {
    shared: Arc<Shared>,
    pool: Arc<Mutex<Option<Pool>>>,
}

/// What all guests share.
pub(crate) struct Shared {
    program: Program,
    prepared: Prepared,
    /// Compiled with step counting, when somebody first asks for it.
    metered: OnceLock<Result<Program, String>>,
    runtime: Runtime,
    cache: Cache,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) shadows: Arc<Shadows>,
    pub(crate) track_writes: bool,
}

/// How writes of a cell are found, so that it can be taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracking {
    /// By the kernel where it can, else by comparing.
    #[default]
    Automatic,
    /// By comparing pages, which works everywhere.
    Compare,
}

/// Sets up a [`WasmEngine`].
pub struct WasmEngineBuilder<'a> {
    runtime: Runtime,
    cache: Cache,
    progress: &'a dyn Progress,
    tracking: Tracking,
    steps: bool,
}

impl<'a> WasmEngineBuilder<'a> {
    /// Shows the progress of long steps.
    pub fn progress(mut self, progress: &'a dyn Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Chooses how writes are found.
    pub fn tracking(mut self, tracking: Tracking) -> Self {
        self.tracking = tracking;
        self
    }

    /// Also loads the interpreter that counts steps, so that the first guest with such a limit needn't
    /// wait for it.
    pub fn steps(mut self, steps: bool) -> Self {
        self.steps = steps;
        self
    }

    /// Loads the engine: in a millisecond when everything is cached, else in the time it takes to
    /// compile the interpreter.
    pub fn load(self) -> Result<WasmEngine, LoadError> {
        let engine = config::engine(Metering::None).map_err(code::code)?;
        let program = code::load(&engine, &self.runtime, &self.cache, self.progress)?;
        let prepared = prepared::load(&program, &self.runtime, &self.cache, self.progress)?;
        let metered = OnceLock::new();
        if self.steps {
            let engine = config::engine(Metering::Steps).map_err(code::code)?;
            let program = code::load(&engine, &self.runtime, &self.cache, self.progress)?;
            metered.get_or_init(|| Ok(program));
        }
        let shadows = Arc::new(Shadows::default());
        let watchdog = Watchdog::start(Arc::clone(&shadows)).map_err(LoadError::Thread)?;
        let shared = Shared {
            program,
            prepared,
            metered,
            runtime: self.runtime,
            cache: self.cache,
            watchdog: Arc::new(watchdog),
            shadows,
            track_writes: self.tracking == Tracking::Automatic,
        };
        Ok(WasmEngine { shared: Arc::new(shared), pool: Arc::default() })
    }
}

impl WasmEngine {
    /// Begins to set up an engine for the given runtime.
    pub fn builder<'a>(runtime: Runtime, cache: Cache) -> WasmEngineBuilder<'a> {
        WasmEngineBuilder { runtime, cache, progress: &Quiet, tracking: Tracking::Automatic, steps: false }
    }

    /// Whether the kernel tracks writes here.
    pub fn tracks_writes(&self) -> bool {
        self.shared.track_writes && shadow::tracking_works()
    }
}

impl Engine for WasmEngine {
    fn name(&self) -> &'static str {
        "wasm"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { rollback: true, steps: true, processes: false }
    }

    fn boot(&self, spec: Arc<GuestSpec>) -> Result<Box<dyn Guest>, EngineError> {
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guest) = pool.as_ref().and_then(|pool| pool.take(&spec)) {
            return Ok(Box::new(guest));
        }
        drop(pool);
        Ok(Box::new(WasmGuest::boot(&self.shared, &spec)?))
    }

    fn warm(&self, spec: &Arc<GuestSpec>, count: usize) {
        let pool = (count > 0).then(|| Pool::start(&self.shared, spec, count)).flatten();
        *self.pool.lock().unwrap_or_else(PoisonError::into_inner) = pool;
    }
}

impl Shared {
    /// A new interpreter.
    pub(crate) fn instantiate(
        &self,
        machine: Machine,
        control: Arc<Control>,
        spec: &GuestSpec,
    ) -> wasmtime::Result<Instance> {
        let program = match spec.limits.steps {
            None => &self.program,
            Some(_) => self.metered()?,
        };
        let Prepared { image, globals, .. } = &self.prepared;
        let limit = usize::try_from(spec.limits.memory).unwrap_or(usize::MAX);
        let mut instance = Instance::new(program, image, globals, machine, control, limit)?;
        if spec.limits.steps.is_some() {
            instance.store.set_fuel(u64::MAX)?;
        }
        Ok(instance)
    }

    /// The host's half of a new guest.
    pub(crate) fn machine(&self, spec: &GuestSpec) -> Result<Machine, EngineError> {
        if !(LEAST_MEMORY..=MOST_MEMORY).contains(&spec.limits.memory) {
            return Err(EngineError::Boot(format!(
                "a guest may have between {} and {} MiB of memory",
                LEAST_MEMORY >> 20,
                MOST_MEMORY >> 20
            )));
        }
        let mut machine = self.prepared.machine.clone();
        machine.clock = ClockState::new(spec.clock);
        machine.entropy = EntropyState::new(spec.entropy);
        machine.files.set_quota(Quota {
            bytes: spec.limits.file_bytes,
            files: spec.limits.file_count,
            ..Quota::default()
        });
        for mount in &spec.mounts {
            let refused = |reason: String| EngineError::Mount { guest: mount.guest.clone(), reason };
            let directory = Dir::open_ambient_dir(&mount.host, cap_std::ambient_authority())
                .map_err(|error| refused(format!("{}: {error}", mount.host.display())))?;
            let access = match mount.access {
                MountAccess::ReadOnly => Access::ReadOnly,
                MountAccess::ReadWrite => Access::ReadWrite,
            };
            machine
                .files
                .mount_directory(&mount.guest, directory, access)
                .map_err(|error: MountError| refused(error.to_string()))?;
        }
        if spec.workspace != "/workspace" {
            machine
                .files
                .make_directories(&spec.workspace)
                .map_err(|errno| EngineError::Boot(format!("{}: {errno}", spec.workspace)))?;
        }
        machine.files.take_changes();
        Ok(machine)
    }

    /// What the directories that every guest starts with cost of the file quota.
    pub(crate) fn base_file_bytes(&self) -> u64 {
        self.prepared.machine.files.usage().bytes
    }

    /// How much address space a copy of a guest's memory needs.
    pub(crate) fn shadow_reservation(&self, spec: &GuestSpec) -> usize {
        let limit = usize::try_from(spec.limits.memory).unwrap_or(usize::MAX);
        limit.next_multiple_of(WASM_PAGE)
    }

    fn metered(&self) -> wasmtime::Result<&Program> {
        let load = || {
            let engine = config::engine(Metering::Steps).map_err(code::code)?;
            code::load(&engine, &self.runtime, &self.cache, &Quiet)
        };
        self.metered
            .get_or_init(|| load().map_err(|error| error.to_string()))
            .as_ref()
            .map_err(|error| wasmtime::Error::msg(error.clone()))
    }
}

/// Held by threads that must not keep the engine alive.
pub(crate) type WeakShared = Weak<Shared>;
