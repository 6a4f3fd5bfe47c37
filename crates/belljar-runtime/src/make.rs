//! Makes the runtime: fetches CPython for WebAssembly, loads the guest kernel into it, and flattens the
//! result.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

pub use self::{component::LinkedExtension, error::MakeError};
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
pub mod host;
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

/// How fast componentize-py links native modules.
const BYTES_PER_MILLISECOND: u64 = 1500;

/// Finds the runtime in a cache, and makes it where it is missing.
///
/// By default it may fetch wheels from the package index, and knows no directory to find Python in.
#[derive(Clone, Debug)]
pub struct Maker {
    cache: Cache,
    python: Option<PathBuf>,
    search: Vec<PathBuf>,
    offline: bool,
    extensions: Vec<LinkedExtension>,
    id: String,
}

impl Maker {
    /// A maker for `cache`.
    pub fn new(cache: Cache) -> Self {
        Self {
            cache,
            python: None,
            search: Vec::new(),
            offline: false,
            extensions: Vec::new(),
            id: kernel::ID.to_owned(),
        }
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

    /// Native modules to link into the runtime, which is another one for each set of them. Nothing is read
    /// before it is made: their hashes name it.
    #[must_use]
    pub fn extensions(mut self, mut extensions: Vec<LinkedExtension>) -> Self {
        extensions.sort();
        self.id = kernel::id_with(&extensions);
        self.extensions = extensions;
        self
    }

    /// Names the runtime that this program needs. Another version of Belljar may need another.
    pub fn id() -> &'static str {
        kernel::ID
    }

    /// Names the runtime that this maker makes: [`Maker::id`], if it is to link nothing.
    pub fn runtime_id(&self) -> &str {
        &self.id
    }

    /// The runtime, if it was made before. Takes well under a millisecond.
    pub fn find(&self) -> Option<Runtime> {
        Runtime::open(&self.id, &self.cache.find(KIND, &self.id)?)
    }

    /// The runtime, made if need be. That takes about half a minute, once per machine.
    ///
    /// # Errors
    /// See [`MakeError`]; each has a hint.
    pub fn ensure(&self, progress: &dyn Progress) -> Result<Runtime, MakeError> {
        if let Some(runtime) = self.find() {
            self.cache.touch(KIND, &self.id);
            return Ok(runtime);
        }
        let root = self.cache.make(KIND, &self.id, progress, |directory| self.fill(directory, progress))?;
        let unreadable = || CacheError::Damaged { entry: root.clone(), what: Runtime::FACTS.into() };
        Ok(Runtime::open(&self.id, &root).ok_or_else(unreadable)?)
    }

    fn fill(&self, directory: &Path, progress: &dyn Progress) -> Result<(), MakeError> {
        #[cfg(feature = "embed")]
        if self.extensions.is_empty() && embedded::is_there() {
            return step(progress, "unpacking the runtime", 500, |_| embedded::unpack(directory));
        }
        self.make(directory, progress)
    }

    fn make(&self, directory: &Path, progress: &dyn Progress) -> Result<(), MakeError> {
        let shelf = wheel::shelf(&self.cache)?;
        let scratch = directory.join("scratch");
        io(&scratch, fs::create_dir_all(&scratch))?;
        let (extensions, milliseconds) = self.lay_out_extensions(&scratch, progress)?;
        let python = step(progress, "looking for Python", 200, |_| {
            Python::find(self.python.as_deref(), &self.search, &scratch, progress)
        })?;
        let componentize = self.wheel(&shelf, &COMPONENTIZE, 8000, &python, &scratch, progress)?;
        let tzdata = match self.share_libraries(directory) {
            true => None,
            false => Some(self.wheel(&shelf, &TZDATA, 2000, &python, &scratch, progress)?),
        };
        let unpacked = scratch.join("componentize");
        step(progress, "unpacking", 1500, |_| {
            archive::unzip(&componentize, &unpacked)?;
            let Some(tzdata) = tzdata else { return Ok(()) };
            stdlib::extract(&unpacked, &directory.join(Runtime::STDLIB))?;
            unpack_zones(&tzdata, &scratch.join("tzdata"), &directory.join(Runtime::ZONEINFO))
        })?;
        let name = "starting Python once, to keep its memory";
        let component = step(progress, name, 20_000 + milliseconds, |expected| {
            component::make(&python, &unpacked, extensions.as_deref(), &scratch, progress, expected)
        })?;
        step(progress, "flattening", 1500, |_| write_flat(&component, directory))?;
        io(&scratch, fs::remove_dir_all(&scratch))
    }

    /// Links the files of the plain runtime, if that was made and is whole: they are the same.
    fn share_libraries(&self, directory: &Path) -> bool {
        let Some(plain) = self.cache.find(KIND, kernel::ID) else { return false };
        let libraries = [Runtime::STDLIB, Runtime::ZONEINFO];
        let linked = self.cache.verify(&plain).map_err(io::Error::other).and_then(|()| {
            libraries.iter().try_for_each(|name| link_tree(&plain.join(name), &directory.join(name)))
        });
        if let Err(error) = &linked {
            tracing::debug!(%error, "unpacking what can't be linked");
            libraries.iter().for_each(|name| drop(fs::remove_dir_all(directory.join(name))));
        }
        linked.is_ok()
    }

    /// Where the native modules are for componentize-py, if there are any, and how many milliseconds longer it
    /// will take for them.
    fn lay_out_extensions(
        &self,
        scratch: &Path,
        progress: &dyn Progress,
    ) -> Result<(Option<PathBuf>, u64), MakeError> {
        if self.extensions.is_empty() {
            return Ok((None, 0));
        }
        let directory = scratch.join("extensions");
        let name = format!("checking {} native modules", self.extensions.len());
        let size = step(progress, &name, 500, |_| component::lay_out(&self.extensions, &directory))?;
        Ok((Some(directory), size / BYTES_PER_MILLISECOND))
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

/// Makes `to` hold the same files as `from`. Files of the cache never change.
fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for found in fs::read_dir(from)? {
        let found = found?;
        let to = to.join(found.file_name());
        match found.file_type()?.is_dir() {
            true => link_tree(&found.path(), &to)?,
            false => fs::hard_link(found.path(), &to)?,
        }
    }
    Ok(())
}

/// Keeps the zones of the wheel and leaves its Python modules out.
fn unpack_zones(wheel: &Path, unpacked: &Path, directory: &Path) -> Result<(), MakeError> {
    archive::unzip(wheel, unpacked)?;
    io(directory, fs::rename(unpacked.join("tzdata/zoneinfo"), directory))?;
    remove_modules(directory).map_err(|error| CacheError::io(directory, error).into())
}

fn remove_modules(directory: &Path) -> io::Result<()> {
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

fn io<T>(path: &Path, result: io::Result<T>) -> Result<T, MakeError> {
    result.map_err(|error| CacheError::io(path, error).into())
}
