//! Makes the runtime: fetches CPython for WebAssembly, loads the guest kernel into it, and flattens the
//! result.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

pub use self::error::MakeError;
use self::{
    pins::{COMPONENTIZE, PYTHON, Pin, TZDATA},
    python::Python,
};
use crate::{
    cache::{Cache, CacheError},
    flatten::{self, flatten},
    progress::Progress,
    runtime::Runtime,
};

mod archive;
mod component;
#[cfg(feature = "embed")]
mod embedded;
mod error;
mod kernel;
mod pins;
mod process;
mod python;
mod stdlib;
mod wheel;

/// The runtimes' place in the cache.
const KIND: &str = "runtime";

/// Compression of the component. It is only read by tests, so speed counts more.
const COMPRESSION: i32 = 3;

/// Finds the runtime in a cache, and makes it where it is missing.
///
/// By default it may fetch wheels from the package index, and knows no directory to find Python in.
#[derive(Clone, Debug)]
pub struct Maker {
    cache: Cache,
    python: Option<PathBuf>,
    search: Vec<PathBuf>,
    offline: bool,
}

impl Maker {
    /// A maker for `cache`.
    pub fn new(cache: Cache) -> Self {
        Self { cache, python: None, search: Vec::new(), offline: false }
    }

    /// The Python to run componentize-py with. Any from 3.10 on will do; nothing is installed into it.
    #[must_use]
    pub fn python(mut self, python: Option<PathBuf>) -> Self {
        self.python = python;
        self
    }

    /// Where to look for a Python if none is named: usually the directories of `PATH`.
    #[must_use]
    pub fn search(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.search = directories.into_iter().collect();
        self
    }

    /// Whether to do without the network.
    #[must_use]
    pub fn offline(mut self, offline: bool) -> Self {
        self.offline = offline;
        self
    }

    /// Names the runtime that this program needs. Another version of Belljar may need another.
    pub fn id() -> &'static str {
        kernel::ID
    }

    /// The runtime, if it was made before. Takes well under a millisecond.
    pub fn find(&self) -> Option<Runtime> {
        Runtime::open(kernel::ID, &self.cache.find(KIND, kernel::ID)?)
    }

    /// The runtime, made if need be. That takes about half a minute, once per machine.
    ///
    /// # Errors
    /// See [`MakeError`]; each has a hint.
    pub fn ensure(&self, progress: &dyn Progress) -> Result<Runtime, MakeError> {
        if let Some(runtime) = self.find() {
            return Ok(runtime);
        }
        let root = self.cache.make(KIND, kernel::ID, progress, |directory| self.fill(directory, progress))?;
        let unreadable = || CacheError::Damaged { entry: root.clone(), what: Runtime::FACTS.into() };
        Ok(Runtime::open(kernel::ID, &root).ok_or_else(unreadable)?)
    }

    fn fill(&self, directory: &Path, progress: &dyn Progress) -> Result<(), MakeError> {
        #[cfg(feature = "embed")]
        if embedded::is_there() {
            return step(progress, "unpacking the runtime", 500, |_| embedded::unpack(directory));
        }
        self.make(directory, progress)
    }

    fn make(&self, directory: &Path, progress: &dyn Progress) -> Result<(), MakeError> {
        let shelf = wheel::shelf(&self.cache)?;
        let scratch = directory.join("scratch");
        io(&scratch, fs::create_dir_all(&scratch))?;
        let python = step(progress, "looking for Python", 200, |_| {
            Python::find(self.python.as_deref(), &self.search, &scratch, progress)
        })?;
        let componentize = self.wheel(&shelf, &COMPONENTIZE, 8000, &python, &scratch, progress)?;
        let tzdata = self.wheel(&shelf, &TZDATA, 2000, &python, &scratch, progress)?;
        let unpacked = scratch.join("componentize");
        step(progress, "unpacking", 1500, |_| {
            archive::unzip(&componentize, &unpacked)?;
            stdlib::extract(&unpacked, &directory.join(Runtime::STDLIB))?;
            unpack_zones(&tzdata, &scratch.join("tzdata"), &directory.join(Runtime::ZONEINFO))
        })?;
        let component = step(progress, "starting Python once, to keep its memory", 20_000, |expected| {
            component::make(&python, &unpacked, &scratch, progress, expected)
        })?;
        step(progress, "flattening", 1500, |_| write_flat(&component, directory))?;
        io(&scratch, fs::remove_dir_all(&scratch))
    }

    fn wheel(
        &self,
        shelf: &Path,
        pin: &Pin,
        milliseconds: u64,
        python: &Python,
        scratch: &Path,
        progress: &dyn Progress,
    ) -> Result<PathBuf, MakeError> {
        if let Some(wheel) = wheel::find(shelf, pin)? {
            return Ok(wheel);
        }
        let file = format!("the wheel of {} {}", pin.project, pin.version);
        if self.offline {
            return Err(MakeError::Offline { file, place: shelf.to_owned() });
        }
        step(progress, &format!("fetching {file}"), milliseconds, |expected| {
            wheel::fetch(shelf, pin, python, scratch, progress, expected)
        })
    }
}

fn step<T>(
    progress: &dyn Progress,
    name: &str,
    milliseconds: u64,
    work: impl FnOnce(Duration) -> Result<T, MakeError>,
) -> Result<T, MakeError> {
    let expected = Duration::from_millis(milliseconds);
    progress.begin(name, expected);
    let done = work(expected)?;
    progress.end();
    Ok(done)
}

/// Keeps the zones of the wheel and leaves its Python modules out.
fn unpack_zones(wheel: &Path, unpacked: &Path, directory: &Path) -> Result<(), MakeError> {
    archive::unzip(wheel, unpacked)?;
    io(directory, fs::rename(unpacked.join("tzdata/zoneinfo"), directory))?;
    remove_modules(directory).map_err(|error| CacheError::io(directory, error).into())
}

fn remove_modules(directory: &Path) -> std::io::Result<()> {
    for found in fs::read_dir(directory)? {
        let path = found?.path();
        if path.is_dir() {
            remove_modules(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "py") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn write_flat(component: &Path, directory: &Path) -> Result<(), MakeError> {
    let bytes = io(component, fs::read(component))?;
    let flat = flatten(&bytes, &flatten::Options { python: PYTHON, ..Default::default() })?;
    let write = |name: &str, content: &[u8]| {
        let path = directory.join(name);
        io(&path, fs::write(&path, content))
    };
    write(Runtime::CORE, &flat.core)?;
    write(Runtime::IMAGE, &flat.image)?;
    write(Runtime::FACTS, &io(directory, serde_json::to_vec_pretty(&flat.facts).map_err(Into::into))?)?;
    write(Runtime::COMPONENT, &io(component, zstd::encode_all(&bytes[..], COMPRESSION))?)
}

fn io<T>(path: &Path, result: std::io::Result<T>) -> Result<T, MakeError> {
    result.map_err(|error| CacheError::io(path, error).into())
}
