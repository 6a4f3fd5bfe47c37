//! Where the interpreter comes from.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use belljar_runtime::{Cache, Maker, Progress, Runtime};
use tempfile::TempDir;

use crate::{Error, default_cache_dir};

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
