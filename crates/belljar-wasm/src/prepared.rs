//! The image that guests start from: the runtime's own, booted and warmed once.
//!
//! Booting opens the guest's root directory, changes to the workspace and runs each path of the kernel
//! once; doing it ahead of time saves every guest the work, and most of the page faults.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_engine::frame::{self, Done, DoneStatus, Reply};
use belljar_engine::{Cell, Clock, Entropy, GuestSpec};
use belljar_files::{Access, Dir, FileSystem, Quota};
use belljar_runtime::{Cache, Progress, Runtime};
use serde::{Deserialize, Serialize};

use crate::clock::ClockState;
use crate::code::code;
use crate::control::Control;
use crate::entropy::EntropyState;
use crate::error::LoadError;
use crate::ground::Ground;
use crate::host::{Machine, MemoryLimit};
use crate::instance::{Instance, Program};
use crate::layer::{Layer, Preload};
use crate::memory::Image;
use crate::pages::{PageSource, Span};
use crate::resources::Resources;
use crate::stack::on_large_stack;
use crate::watchdog::Watchdog;
use crate::workspace;

const KIND: &str = "image";
/// Raised when what is prepared changes.
const VERSION: u32 = 9;
/// Those that were put aside by earlier versions are still read from this one on.
const OLDEST: u32 = 8;
const MEMORY: &str = "memory.img";
const STATE: &str = "state.json";

/// Where the standard library is in the guest; the interpreter was built with this path.
const STDLIB: &str = "/python";
const ZONEINFO: &str = "/usr/share/zoneinfo";

/// What every guest starts from.
pub(crate) struct Prepared {
    /// Where it is.
    pub(crate) entry: PathBuf,
    pub(crate) ground: Arc<Ground>,
    /// Names the image and the program by what is in them.
    pub(crate) environment: Arc<str>,
    pub(crate) globals: Vec<i32>,
    pub(crate) machine: Machine,
}

#[derive(Serialize, Deserialize)]
struct State {
    version: u32,
    globals: Vec<i32>,
    machine: Machine,
    hot: Vec<Range<usize>>,
    environment: String,
}

/// What a prepared image is made from.
pub(crate) struct Making<'a> {
    pub(crate) program: &'a Program,
    pub(crate) runtime: &'a Runtime,
    pub(crate) layer: &'a Layer,
    pub(crate) watchdog: &'a Watchdog,
    pub(crate) progress: &'a dyn Progress,
}

/// Loads the prepared image from the cache, or prepares it.
pub(crate) fn load(making: &Making<'_>, cache: &Cache) -> Result<Prepared, LoadError> {
    let Making { runtime, layer, progress, .. } = making;
    let key = key(&runtime.id, layer);
    let entry = match (cache.find(KIND, &key), layer.preload.is_empty()) {
        (Some(entry), _) => entry,
        (None, true) => cache.make(KIND, &key, *progress, |directory| making.prepare(None, directory))?,
        (None, false) => {
            let plain = Layer { preload: Preload::default(), ..(*layer).clone() };
            let bare = load(&Making { layer: &plain, ..*making }, cache)?;
            cache.make(KIND, &key, *progress, |directory| making.prepare(Some(&bare), directory))?
        }
    };
    cache.touch(KIND, &key);
    open(&entry, runtime, layer)
}

/// What an image is called in the cache.
pub(crate) fn key(runtime: &str, layer: &Layer) -> String {
    match layer.image_key() {
        None => format!("{runtime}-{VERSION}"),
        Some(layer) => format!("{runtime}-{VERSION}-{layer}"),
    }
}

/// The files of a prepared image.
pub(crate) const PARTS: [&str; 2] = [MEMORY, STATE];

/// Opens the prepared image in a directory.
pub(crate) fn open(entry: &Path, runtime: &Runtime, layer: &Layer) -> Result<Prepared, LoadError> {
    let path = entry.join(STATE);
    let text = fs::read(&path).map_err(|source| LoadError::File { path: path.clone(), source })?;
    let damaged = |reason: String| LoadError::Damaged { path: path.clone(), reason };
    let mut state: State = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if !(OLDEST..=VERSION).contains(&state.version) {
        return Err(damaged(format!("it is of version {}", state.version)));
    }
    // One that was put aside may have come from another machine.
    if !state.machine.files.is_sound() {
        return Err(damaged("its files do not fit together".to_owned()));
    }
    attach_library(&mut state.machine.files, runtime, layer)?;
    state.machine.files.take_changes();
    let path = entry.join(MEMORY);
    let image = Image::open(&path, state.hot).map_err(|source| LoadError::File { path, source })?;
    let ground = Arc::new(Ground::bare(Arc::new(image)));
    let environment = layer.environment(&state.environment).into();
    Ok(Prepared {
        entry: entry.to_owned(),
        ground,
        environment,
        globals: state.globals,
        machine: state.machine,
    })
}

/// Gives the standard library, the time zones and the packages their directories, where they have none.
pub(crate) fn attach_library(
    files: &mut FileSystem,
    runtime: &Runtime,
    layer: &Layer,
) -> Result<(), LoadError> {
    let mounts = files.mounts();
    for (guest, directory) in [(STDLIB, layer.stdlib(runtime)), (ZONEINFO, runtime.zoneinfo())] {
        if mounts.iter().any(|mount| mount.guest_path == guest && mount.attached) {
            continue;
        }
        let opened = open_directory(&directory)?;
        let attached = files.attach(guest, opened, Access::ReadOnly);
        attached.map_err(|error| LoadError::Damaged { path: directory, reason: error.to_string() })?;
    }
    layer.attach(files)
}

impl Making<'_> {
    /// Prepares an image from the runtime's own, or from one that was prepared before.
    fn prepare(&self, bare: Option<&Prepared>, directory: &Path) -> Result<(), LoadError> {
        let Self { program, runtime, layer, progress, .. } = self;
        let preload = &layer.preload;
        let mut first = match bare {
            None => self.warm_up()?,
            Some(bare) => {
                let image = Arc::clone(&bare.ground.image);
                let mut first = instantiate(program, image, &bare.globals, bare.machine.clone())?;
                self.boot_and_run(&mut first, &[])?;
                first
            }
        };
        self.preload(&mut first)?;
        progress.begin("keeping its memory", Duration::from_millis(300));
        self.make_immortal(&mut first)?;
        self.guard(&mut first, |instance| {
            fill_holes(instance)?;
            blank_free_memory(instance)
        })?;
        let path = directory.join(MEMORY);
        fs::write(&path, first.memory()).map_err(|source| LoadError::File { path: path.clone(), source })?;
        let mut state = State {
            version: VERSION,
            globals: first.globals(),
            machine: first.store.data().machine.clone(),
            hot: Vec::new(),
            environment: environment(&[&runtime.core(), &path])?,
        };
        drop(first);

        // A second guest, from the image just made, shows which pages every first cell writes.
        let image = Image::open(&path, Vec::new()).map_err(|source| LoadError::File { path, source })?;
        let mut second = instantiate(program, Arc::new(image), &state.globals, state.machine.clone())?;
        match self.boot_and_run(&mut second, &["print(1 + 1)"]) {
            Err(_) if !preload.is_empty() => return Err(broken()),
            answered => answered?,
        }
        let memory = second.memory();
        let span = Span { base: memory.as_ptr() as usize, length: memory.len() };
        state.hot = PageSource::probe(PageSource::Scanned).private(span).unwrap_or_default();
        progress.end();

        let path = directory.join(STATE);
        let text = serde_json::to_vec(&state)
            .map_err(|error| LoadError::Damaged { path: path.clone(), reason: error.to_string() })?;
        fs::write(&path, text).map_err(|source| LoadError::File { path, source })
    }

    /// A guest that has run each kind of cell often.
    fn warm_up(&self) -> Result<Instance, LoadError> {
        let Self { program, runtime, layer, progress, .. } = self;
        progress.begin("booting the interpreter", Duration::from_millis(300));
        let base = Image::open(&runtime.image(), Vec::new())
            .map_err(|source| LoadError::File { path: runtime.image(), source })?;
        let mut first = instantiate(program, Arc::new(base), &[], files(runtime, layer)?)?;
        // The module's globals start as the runtime left them.
        for _ in 0..ROUNDS {
            self.boot_and_run(&mut first, WARM_UP)?;
        }
        progress.end();
        Ok(first)
    }

    /// Imports modules and runs the set-up code. All of it may be hostile.
    fn preload(&self, instance: &mut Instance) -> Result<(), LoadError> {
        let Preload { modules, setup, time, memory } = &self.layer.preload;
        let deadline = Instant::now() + *time;
        instance.store.data_mut().memory_limit.bytes = usize::try_from(*memory).unwrap_or(usize::MAX);
        for (module, code) in modules.iter().map(|module| (module, import(module))) {
            self.run_preload(instance, &format!("importing {module}"), &code, deadline)?;
        }
        if !setup.is_empty() {
            self.run_preload(instance, "running the set-up code", setup, deadline)?;
        }
        if !self.layer.preload.is_empty() {
            instance.store.data_mut().memory_limit.bytes = MEMORY_LIMIT;
            // What it wrote isn't any guest's change.
            instance.store.data_mut().machine.files.take_changes();
            self.boot_and_run(instance, SETTLE).map_err(|_| broken())?;
        }
        Ok(())
    }

    fn run_preload(
        &self,
        instance: &mut Instance,
        what: &str,
        code: &str,
        deadline: Instant,
    ) -> Result<(), LoadError> {
        self.progress.begin(what, Duration::from_secs(1));
        let failed = |reason: String| LoadError::Preload { what: what.to_owned(), reason };
        let frame = frame::run(&Cell { number: 0, file: Some("<set-up>".to_owned()), code: code.into() });
        let reply =
            self.watchdog.guard(instance, deadline, |instance| on_large_stack(|| instance.handle(&frame))?);
        self.progress.end();
        match reply {
            Ok(Reply::Done(Done { status: DoneStatus::Ok, .. })) => Ok(()),
            Ok(Reply::Done(Done { status: DoneStatus::Interrupted, .. })) => {
                Err(failed(format!("it took longer than {:?}", self.layer.preload.time)))
            }
            Ok(Reply::Done(Done { exception: Some(raised), .. })) => Err(failed(raised.traceback)),
            Ok(Reply::Done(_)) => Err(failed("it called sys.exit".to_owned())),
            Ok(Reply::Waiting { .. }) => {
                Err(failed("it awaits something, which set-up code cannot".to_owned()))
            }
            Ok(Reply::Ready) => Err(failed("the interpreter did not answer as it should".to_owned())),
            Err(_) if Instant::now() >= deadline => {
                Err(failed(format!("it took longer than {:?}", self.layer.preload.time)))
            }
            Err(error) => Err(failed(format!("the interpreter stopped: {error:#}"))),
        }
    }

    /// Lists objects in the guest and makes them immortal (`guest/belljar_guest/immortal.py` says why).
    fn make_immortal(&self, instance: &mut Instance) -> Result<(), LoadError> {
        let failed =
            |reason: String| LoadError::Code(format!("its objects could not be made immortal: {reason}"));
        let listed = self.run(instance, &cell(LIST_IMMORTALS))?;
        if let Reply::Done(Done { exception: Some(raised), .. }) = listed {
            return Err(failed(raised.traceback));
        }
        let files = &mut instance.store.data_mut().machine.files;
        let list = files.read_file(IMMORTALS).map_err(|errno| failed(errno.to_string()))?;
        let root = files.root().map_err(|errno| failed(errno.to_string()))?;
        let removed = files.unlink_at(root, IMMORTALS.trim_start_matches('/')).and(files.close(root));
        removed.map_err(|errno| failed(errno.to_string()))?;
        files.take_changes();

        let mut words = list.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let immortal = words.next().ok_or_else(|| failed("it listed nothing".to_owned()))?;
        let strict = self.layer.preload.is_empty();
        let memory = instance.memory_mut();
        for address in words {
            let address = address as usize;
            let count = memory
                .get_mut(address..address + 4)
                .ok_or_else(|| failed("an address is wrong".to_owned()))?;
            let references = u32::from_le_bytes([count[0], count[1], count[2], count[3]]);
            if (1..MOST_REFERENCES).contains(&references) {
                count.copy_from_slice(&immortal.to_le_bytes());
            } else if strict {
                return Err(failed(format!("an object has {references} references")));
            }
        }
        Ok(())
    }

    fn boot_and_run(&self, instance: &mut Instance, cells: &[&str]) -> Result<(), LoadError> {
        let spec = GuestSpec::default();
        self.run(instance, &frame::boot(&spec, &[0; 16], spec.limits.output))?;
        for code in cells {
            self.run(instance, &cell(code))?;
        }
        Ok(())
    }

    fn run(&self, instance: &mut Instance, frame: &[u8]) -> Result<Reply, LoadError> {
        match self.guard(instance, |instance| on_large_stack(|| instance.handle(frame))?)? {
            Reply::Waiting { .. } => {
                Err(LoadError::Code("the interpreter waits for something while it boots".to_owned()))
            }
            reply => Ok(reply),
        }
    }

    /// Nothing here takes a second, unless the machine is busy or what was preloaded broke the interpreter.
    fn guard<T>(
        &self,
        instance: &mut Instance,
        body: impl FnOnce(&mut Instance) -> wasmtime::Result<T>,
    ) -> Result<T, LoadError> {
        let (shortest, longest) = (Duration::from_secs(10), Duration::from_secs(60));
        let limit = match self.layer.preload.is_empty() {
            true => longest,
            false => self.layer.preload.time.clamp(shortest, longest),
        };
        self.watchdog.guard(instance, Instant::now() + limit, body).map_err(code)
    }
}

fn import(module: &str) -> String {
    format!("__import__('importlib').import_module({module:?})\nNone")
}

fn broken() -> LoadError {
    let reason = "the interpreter does not answer after it";
    LoadError::Preload { what: "preloading".to_owned(), reason: reason.to_owned() }
}

/// Each exercises a path that cells take; none leaves a name behind.
const WARM_UP: &[&str] = &["print(1 + 1)", "1 + 1", "x = 1\ndel x", "1 / 0", "import json\ndel json"];

/// Once more after set-up code, whose names stay.
const SETTLE: &[&str] = &["print(1 + 1)", "1 + 1"];

/// Enough for the interpreter to specialise the code that every cell runs; until then it counts in it.
const ROUNDS: usize = 60;

const IMMORTALS: &str = "/tmp/immortals";
/// Names nothing: what set-up code named is its own.
const LIST_IMMORTALS: &str = "__import__('belljar_guest.immortal').immortal.write('/tmp/immortals')";
/// No object is shared this often; a larger count isn't one.
const MOST_REFERENCES: u32 = 1 << 28;

/// Of guests that are only there to be made an image of.
const MEMORY_LIMIT: usize = 1 << 30;
/// Larger than any hole in the heap.
const BEYOND_HOLES: u32 = 4 << 20;

/// Takes all free memory that lies between objects, and never gives it back.
///
/// What a cell allocates would otherwise be scattered over the holes that start-up left, a page for
/// nearly every object. Now it lies side by side at the end of the heap.
fn fill_holes(instance: &mut Instance) -> wasmtime::Result<()> {
    let (allocate, free) = instance.allocator()?;
    let store = &mut instance.store;
    let end = allocate.call(&mut *store, BEYOND_HOLES)?;
    free.call(&mut *store, end)?;
    let large = (9..22).rev().map(|power| 1_u32 << power);
    let small = (1..64).rev().map(|step| step * 8);
    for size in large.chain(small) {
        loop {
            let pointer = allocate.call(&mut *store, size)?;
            if pointer == 0 || pointer >= end {
                free.call(&mut *store, pointer)?;
                break;
            }
        }
    }
    Ok(())
}

/// Writes zeros over memory that is free: what start-up left there is nobody's, but would have to be kept as what
/// a guest's pages held before it used them.
fn blank_free_memory(instance: &mut Instance) -> wasmtime::Result<()> {
    let (allocate, free) = instance.allocator()?;
    let length = instance.memory().len();
    // Nothing new: only what is there.
    let limit = std::mem::replace(&mut instance.store.data_mut().memory_limit.bytes, length);
    let mut taken = Vec::new();
    for size in (12..26).rev().map(|power| 1_u32 << power) {
        loop {
            let pointer = allocate.call(&mut instance.store, size)?;
            if pointer == 0 {
                break;
            }
            let end = (pointer as usize).saturating_add(size as usize).min(length);
            if let Some(block) = instance.memory_mut().get_mut(pointer as usize..end) {
                block.fill(0);
            }
            taken.push(pointer);
        }
    }
    for pointer in taken {
        free.call(&mut instance.store, pointer)?;
    }
    let state = instance.store.data_mut();
    state.memory_limit = MemoryLimit { bytes: limit, refused: false };
    Ok(())
}

fn cell(code: &str) -> Vec<u8> {
    frame::run(&Cell { number: 0, file: None, code: code.as_bytes().to_vec() })
}

fn instantiate(
    program: &Program,
    image: Arc<Image>,
    globals: &[i32],
    machine: Machine,
) -> Result<Instance, LoadError> {
    let ground = Arc::new(Ground::bare(image));
    Instance::new(program, &ground, globals, machine, Arc::new(Control::default()), MEMORY_LIMIT)
        .map_err(code)
}

fn files(runtime: &Runtime, layer: &Layer) -> Result<Machine, LoadError> {
    let mut files = FileSystem::new(Quota::default());
    for (guest, directory) in [(STDLIB, layer.stdlib(runtime)), (ZONEINFO, runtime.zoneinfo())] {
        files
            .mount_directory(guest, open_directory(&directory)?, Access::ReadOnly)
            .map_err(|error| LoadError::Code(error.to_string()))?;
    }
    for directory in ["/workspace", "/tmp", "/data"] {
        files
            .make_directories(directory)
            .map_err(|errno| LoadError::Code(format!("{directory}: {errno}")))?;
    }
    workspace::place(&mut files, &GuestSpec::default())
        .map_err(|error| LoadError::Code(error.to_string()))?;
    // Not the packages: environments with others start from this image, too.
    files.take_changes();
    Ok(Machine {
        files,
        resources: Resources::default(),
        clock: ClockState::new(Clock::Host),
        entropy: EntropyState::new(Entropy::Host),
    })
}

/// A hash over the contents of files.
pub(crate) fn environment(paths: &[&Path]) -> Result<String, LoadError> {
    let mut hasher = blake3::Hasher::new();
    for path in paths {
        let failed = |source| LoadError::File { path: path.to_path_buf(), source };
        let mut file = fs::File::open(path).map_err(failed)?;
        hasher.update(&file.metadata().map_err(failed)?.len().to_le_bytes());
        hasher.update_reader(&mut file).map_err(failed)?;
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}

pub(crate) fn open_directory(path: &Path) -> Result<Dir, LoadError> {
    Dir::open_ambient_dir(path, cap_std::ambient_authority())
        .map_err(|source| LoadError::File { path: path.to_owned(), source })
}
