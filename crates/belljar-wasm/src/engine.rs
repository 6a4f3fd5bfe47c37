//! The engine itself.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use belljar_engine::{
    Capabilities, Descent, Engine, EngineError, Guest, GuestSpec, Mount, MountAccess, SavedGuest, Snapshot,
};
use belljar_files::{Access, Dir, FileSystem, MountError};
use belljar_runtime::{Cache, Progress, Quiet, Runtime};

use crate::child::Child;
use crate::clock::ClockState;
use crate::code;
use crate::config::{self, Metering};
use crate::control::Control;
use crate::entropy::EntropyState;
use crate::error::LoadError;
use crate::ground::Ground;
use crate::guest::{Resumption, WasmGuest};
use crate::host::Machine;
use crate::instance::{Instance, Program};
use crate::layer::Layer;
use crate::memory::WASM_PAGE;
use crate::pages::PageSource;
use crate::pin::{self, Pinned};
use crate::pool::Pool;
use crate::prepared::{self, Making, Prepared};
use crate::shadows::Shadows;
use crate::snapshot::WasmSnapshot;
use crate::watchdog::Watchdog;
use crate::workspace;

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
    layer: Layer,
    runtime: Runtime,
    cache: Cache,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) shadows: Arc<Shadows>,
    pub(crate) page_source: PageSource,
}

/// How writes of a cell are found, so that it can be taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracking {
    /// By the kernel where it can, else by comparing.
    #[default]
    Automatic,
    /// By comparing the pages that are a guest's own; the kernel lists those.
    Compare,
    /// The same, but they are listed by reading the page table, as before Linux 6.7.
    PageTable,
    /// By comparing all pages, where the kernel tells nothing.
    All,
}

impl Tracking {
    fn source(self) -> PageSource {
        PageSource::probe(match self {
            Self::Automatic => PageSource::Tracked,
            Self::Compare => PageSource::Scanned,
            Self::PageTable => PageSource::PageTable,
            Self::All => PageSource::All,
        })
    }
}

/// Sets up a [`WasmEngine`].
pub struct WasmEngineBuilder<'a> {
    runtime: Runtime,
    cache: Cache,
    progress: &'a dyn Progress,
    tracking: Tracking,
    steps: bool,
    layer: Layer,
    /// Where the image is, if not in the cache.
    image: Option<PathBuf>,
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

    /// What the environment adds to the interpreter.
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layer = layer;
        self
    }

    /// Loads the engine: in a millisecond when everything is cached, else in the time it takes to
    /// compile the interpreter.
    pub fn load(self) -> Result<WasmEngine, LoadError> {
        let engine = config::engine(Metering::None).map_err(code::code)?;
        let program = code::load(&engine, &self.runtime, &self.cache, self.progress)?;
        let shadows = Arc::new(Shadows::default());
        let watchdog = Watchdog::start(Arc::clone(&shadows)).map_err(LoadError::Thread)?;
        let prepared = match &self.image {
            None => {
                let (program, watchdog) = (&program, &watchdog);
                let (runtime, layer, progress) = (&self.runtime, &self.layer, self.progress);
                prepared::load(&Making { program, runtime, layer, watchdog, progress }, &self.cache)?
            }
            Some(image) => prepared::open(image, &self.runtime, &self.layer)?,
        };
        let metered = OnceLock::new();
        if self.steps {
            let engine = config::engine(Metering::Steps).map_err(code::code)?;
            let program = code::load(&engine, &self.runtime, &self.cache, self.progress)?;
            metered.get_or_init(|| Ok(program));
        }
        let shared = Shared {
            program,
            prepared,
            metered,
            layer: self.layer,
            runtime: self.runtime,
            cache: self.cache,
            watchdog: Arc::new(watchdog),
            shadows,
            page_source: self.tracking.source(),
        };
        Ok(WasmEngine { shared: Arc::new(shared), pool: Arc::default() })
    }
}

impl WasmEngine {
    /// Begins to set up an engine for the given runtime.
    pub fn builder<'a>(runtime: Runtime, cache: Cache) -> WasmEngineBuilder<'a> {
        let tracking = Tracking::Automatic;
        let layer = Layer::default();
        WasmEngineBuilder { runtime, cache, progress: &Quiet, tracking, steps: false, layer, image: None }
    }

    /// Begins to set up an engine from what [`WasmEngine::pin`] put aside.
    pub fn pinned<'a>(directory: &Path, cache: Cache) -> Result<WasmEngineBuilder<'a>, LoadError> {
        let Pinned { runtime, image, layer } = pin::find(directory)?;
        Ok(WasmEngineBuilder { image: Some(image), layer, ..Self::builder(runtime, cache) })
    }

    /// Puts all that guests of this engine need into an empty directory, so that they can be woken there
    /// whatever becomes of the cache.
    pub fn pin(&self, directory: &Path) -> io::Result<()> {
        let Shared { runtime, layer, prepared, .. } = &*self.shared;
        pin::put_aside(runtime, &prepared.entry, layer, directory)
    }

    /// Writes what another machine needs of an environment that [`WasmEngine::pin`] put aside.
    pub fn pack_pinned(directory: &Path, output: impl io::Write) -> io::Result<()> {
        pin::pack(directory, output)
    }

    /// Puts aside what [`WasmEngine::pack_pinned`] wrote, for an environment of this name. `runtime` finds the
    /// runtime that it was made with, by its name.
    pub fn unpack_pinned(
        input: impl io::Read,
        runtime: impl FnOnce(&str) -> Option<Runtime>,
        environment: &str,
        directory: &Path,
    ) -> io::Result<()> {
        pin::unpack(input, runtime, directory)?;
        match pin::name(directory).map_err(io::Error::other)? == environment {
            true => Ok(()),
            false => Err(io::Error::other("it is not the environment that it says it is")),
        }
    }

    /// What the image of an environment is called in the cache.
    pub fn image_key(runtime: &str, layer: &Layer) -> String {
        prepared::key(runtime, layer)
    }

    /// Whether an environment that was put aside came from another machine, by [`WasmEngine::unpack_pinned`].
    pub fn is_foreign(directory: &Path) -> bool {
        pin::is_foreign(directory)
    }

    /// Whether the kernel tracks writes here.
    pub fn tracks_writes(&self) -> bool {
        self.shared.page_source == PageSource::Tracked
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

    fn environment(&self) -> &str {
        self.shared.environment()
    }

    fn restore(&self, saved: SavedGuest) -> Result<Arc<dyn Snapshot>, EngineError> {
        let image = &self.shared.bare_ground().image;
        Ok(Arc::new(WasmSnapshot::restore(saved, self.shared.environment(), image)?))
    }

    fn resume(
        &self,
        snapshot: &dyn Snapshot,
        spec: Arc<GuestSpec>,
        descent: Descent,
    ) -> Result<Box<dyn Guest>, EngineError> {
        let snapshot = WasmSnapshot::of(snapshot, self.shared.environment())?;
        let from = Resumption::new(&self.shared, &spec, snapshot, descent)?;
        Ok(match descent {
            Descent::Same => Box::new(WasmGuest::resume(&self.shared, &spec, &Arc::default(), from)?),
            // Of many children some may never be used.
            Descent::Child(_) => Box::new(Child::new(&self.shared, &spec, from)),
        })
    }

    fn warm(&self, spec: &Arc<GuestSpec>, count: usize) {
        let pool = (count > 0).then(|| Pool::start(&self.shared, spec, count)).flatten();
        *self.pool.lock().unwrap_or_else(PoisonError::into_inner) = pool;
    }
}

impl Shared {
    /// Names what guests are made from.
    pub(crate) fn environment(&self) -> &Arc<str> {
        &self.prepared.environment
    }

    /// What the memory of a new guest starts from.
    pub(crate) fn bare_ground(&self) -> &Arc<Ground> {
        &self.prepared.ground
    }

    /// Globals of a new guest.
    pub(crate) fn globals(&self) -> &[i32] {
        &self.prepared.globals
    }

    /// An interpreter that stands on a ground.
    pub(crate) fn instantiate(
        &self,
        ground: &Arc<Ground>,
        globals: &[i32],
        machine: Machine,
        control: Arc<Control>,
        spec: &GuestSpec,
    ) -> wasmtime::Result<Instance> {
        let program = match spec.limits.steps {
            None => &self.program,
            Some(_) => self.metered()?,
        };
        let limit = usize::try_from(spec.limits.memory).unwrap_or(usize::MAX);
        let mut instance = Instance::new(program, ground, globals, machine, control, limit)?;
        if spec.limits.steps.is_some() {
            instance.store.set_fuel(u64::MAX)?;
        }
        Ok(instance)
    }

    /// The host's half of a new guest.
    pub(crate) fn machine(&self, spec: &GuestSpec) -> Result<Machine, EngineError> {
        let mut machine = self.prepared.machine.clone();
        machine.clock = ClockState::new(spec.clock);
        machine.entropy = EntropyState::new(spec.entropy);
        workspace::place(&mut machine.files, spec)?;
        machine = self.surround(machine, spec)?;
        workspace::furnish(&mut machine.files, spec)?;
        machine.files.take_changes();
        Ok(machine)
    }

    /// Gives the host's half of a guest what the spec says that it sees and may use, whatever it had before.
    pub(crate) fn surround(&self, mut machine: Machine, spec: &GuestSpec) -> Result<Machine, EngineError> {
        if !(LEAST_MEMORY..=MOST_MEMORY).contains(&spec.limits.memory) {
            return Err(EngineError::Boot(format!(
                "a guest may have between {} and {} MiB of memory",
                LEAST_MEMORY >> 20,
                MOST_MEMORY >> 20
            )));
        }
        machine.files.set_quota(workspace::memory_quota(spec));
        let image = self.prepared.ground.length() as u64;
        if spec.limits.memory < image {
            let (has, may) = (image.div_ceil(1 << 20), spec.limits.memory >> 20);
            return Err(EngineError::Boot(format!(
                "what the environment imports ahead of time takes {has} MiB of memory, and a guest may have {may}"
            )));
        }
        prepared::attach_library(&mut machine.files, &self.runtime, &self.layer)
            .map_err(|error| EngineError::Boot(error.to_string()))?;
        workspace::attach(&mut machine.files, spec)?;
        for mount in &spec.mounts {
            if self.layer.covers(&mount.guest) {
                let reason = "the packages are at /data/site-packages".to_owned();
                return Err(EngineError::Mount { guest: mount.guest.clone(), reason });
            }
            attach_mount(&mut machine.files, mount)
                .map_err(|reason| EngineError::Mount { guest: mount.guest.clone(), reason })?;
        }
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

/// Mounts a directory of the host, or gives the mount that is there its directory.
fn attach_mount(files: &mut FileSystem, mount: &Mount) -> Result<(), String> {
    let access = match mount.access {
        MountAccess::ReadOnly => Access::ReadOnly,
        MountAccess::ReadWrite => Access::ReadWrite,
    };
    let known =
        files.mounts().into_iter().find(|known| known.guest_path == mount.guest.trim_end_matches('/'));
    if known.as_ref().is_some_and(|known| known.attached && known.access == access) {
        return Ok(());
    }
    let directory = Dir::open_ambient_dir(&mount.host, cap_std::ambient_authority())
        .map_err(|error| format!("{}: {error}", mount.host.display()))?;
    let mounted = match known {
        Some(_) => files.attach(&mount.guest, directory, access),
        None => files.mount_directory(&mount.guest, directory, access),
    };
    mounted.map_err(|error: MountError| error.to_string())
}

/// Held by threads that must not keep the engine alive.
pub(crate) type WeakShared = Weak<Shared>;
