//! Things that take long to make, made once per machine.
//!
//! An entry is a directory `<kind>/<key>` that appears whole by a rename, and never changes afterwards. Who
//! makes one holds its lock, so that a second process waits and then finds it. A maker that is killed leaves
//! a `.<key>.<random>.tmp`, which the next one sweeps. The name is never used twice: what a killed maker
//! started may live on for a while, and still write there.

use std::{
    fs::{self, File, Permissions},
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use tempfile::TempDir;

pub use self::{error::CacheError, manifest::hash_tree};
use self::{lock::Lock, manifest::Manifest};
use crate::progress::Progress;

mod error;
mod lock;
mod manifest;

/// How exactly it is known when an entry was last used.
const TOUCH: Duration = Duration::from_secs(3600);

/// A cache directory.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    under: Option<PathBuf>,
    /// Removed with the last cache that is in it.
    _temporary: Option<Arc<TempDir>>,
}

/// One entry, as listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// What it is, for example `runtime`.
    pub kind: String,
    /// Which one.
    pub key: String,
    /// The size of its files.
    pub bytes: u64,
    /// When it was made or last [touched](Cache::touch), if the file system says so.
    pub used: Option<SystemTime>,
}

impl Cache {
    /// A cache in `root`. Touches nothing: the directory is made with the first entry.
    pub fn open(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), under: None, _temporary: None }
    }

    /// A cache in `root` over another in `under`, which may be read-only: entries are found in both, and made,
    /// listed and removed in `root` only.
    pub fn layered(root: impl Into<PathBuf>, under: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), under: Some(under.into()), _temporary: None }
    }

    /// A cache in a directory that is removed when nobody uses it any more, perhaps over another that is only read.
    pub fn temporary(directory: Arc<TempDir>, under: Option<PathBuf>) -> Self {
        Self { root: directory.path().to_owned(), under, _temporary: Some(directory) }
    }

    /// The cache's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The entry's directory, if it is there and its files have the right sizes.
    pub fn find(&self, kind: &str, key: &str) -> Option<PathBuf> {
        let (kind, key) = (checked(kind).ok()?, checked(key).ok()?);
        let roots = [Some(&self.root), self.under.as_ref()];
        let mut entries = roots.into_iter().flatten().map(|root| root.join(kind).join(key));
        entries.find(|entry| Manifest::is_complete(entry))
    }

    /// The entry's directory. If it isn't there, `build` fills the directory it is given.
    ///
    /// # Errors
    /// Those of `build`, and those of the file system. The entry is then not there.
    pub fn make<E: From<CacheError>>(
        &self,
        kind: &str,
        key: &str,
        progress: &dyn Progress,
        build: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        if let Some(entry) = self.find(kind, key) {
            return Ok(entry);
        }
        let directory = self.kind(kind)?;
        create(&directory)?;
        let _lock = Lock::take(&lock_path(&directory, checked(key)?), progress)?;
        if let Some(entry) = self.find(kind, key) {
            return Ok(entry);
        }
        sweep(&directory, key);
        let scratch = scratch(&directory, key)?;
        build(scratch.path())?;
        progress.begin("writing to the disk", Duration::from_secs(1));
        Manifest::seal(scratch.path())?;
        progress.end();
        let entry = directory.join(key);
        // Only a damaged entry can be in the way.
        retire(&directory, key)?;
        publish(scratch, &entry)?;
        Ok(entry)
    }

    /// Compares every byte of an entry with its manifest.
    ///
    /// # Errors
    /// [`CacheError::Damaged`] names the first difference.
    pub fn verify(&self, entry: &Path) -> Result<(), CacheError> {
        Manifest::verify(entry)
    }

    /// What [`hash_tree`] said of a directory in an entry, when that was made.
    pub fn tree_id(&self, entry: &Path, name: &str) -> Option<String> {
        Manifest::tree(entry, name)
    }

    /// All entries, sorted.
    ///
    /// # Errors
    /// If a directory of the cache can't be read.
    pub fn entries(&self) -> Result<Vec<Entry>, CacheError> {
        let mut entries = Vec::new();
        for (kind, directory) in children(&self.root)? {
            for (key, path) in children(&directory)? {
                let used = fs::metadata(&path).and_then(|found| found.modified()).ok();
                entries.push(Entry { kind: kind.clone(), key, bytes: size(&path)?, used });
            }
        }
        entries.sort();
        Ok(entries)
    }

    /// Removes all entries of a kind, but those that are being made, and returns how many bytes they had.
    /// Processes that have one open keep what they have open.
    ///
    /// # Errors
    /// If something can't be removed.
    pub fn clean(&self, kind: &str) -> Result<u64, CacheError> {
        let directory = self.kind(kind)?;
        let mut freed = 0;
        for (key, path) in children(&directory)? {
            // Somebody may have named a directory that isn't a cache: only what is surely ours goes.
            if !Manifest::is_in(&path) && path.extension().is_none_or(|extension| extension != "whl") {
                continue;
            }
            if let Some(_lock) = Lock::try_take(&lock_path(&directory, &key))? {
                freed += size(&path)?;
                retire(&directory, &key)?;
            }
        }
        sweep(&directory, "");
        Ok(freed)
    }

    /// Notes that an entry was used just now. Where that can't be noted nothing happens: it may only be removed
    /// sooner.
    pub fn touch(&self, kind: &str, key: &str) {
        let noted = self.kind(kind).and_then(|directory| {
            let entry = directory.join(checked(key)?);
            let touched = File::open(&entry).and_then(|entry| {
                let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
                if age < TOUCH { Ok(()) } else { entry.set_modified(SystemTime::now()) }
            });
            touched.map_err(|error| CacheError::io(&entry, error))
        });
        if let Err(error) = noted {
            tracing::debug!(%error, kind, key, "not touched");
        }
    }

    /// Removes one entry, whole or damaged, and returns how many bytes it had: none if it isn't there or is being
    /// made. Processes that have it open keep what they have open.
    ///
    /// # Errors
    /// If something can't be removed.
    pub fn remove(&self, kind: &str, key: &str) -> Result<u64, CacheError> {
        let directory = self.kind(kind)?;
        let entry = directory.join(checked(key)?);
        if !entry.exists() {
            return Ok(0);
        }
        let Some(_lock) = Lock::try_take(&lock_path(&directory, key))? else { return Ok(0) };
        let freed = size(&entry)?;
        retire(&directory, key)?;
        Ok(freed)
    }

    /// The directory of a kind; for what isn't kept as entries.
    pub(crate) fn kind(&self, kind: &str) -> Result<PathBuf, CacheError> {
        Ok(self.root.join(checked(kind)?))
    }
}

/// A directory that vanishes unless it is published.
fn scratch(directory: &Path, key: &str) -> Result<TempDir, CacheError> {
    let mut builder = tempfile::Builder::new();
    let prefix = format!(".{key}.");
    builder.prefix(&prefix).suffix(".tmp").permissions(Permissions::from_mode(0o755));
    builder.tempdir_in(directory).map_err(|error| CacheError::io(directory, error))
}

fn publish(scratch: TempDir, entry: &Path) -> Result<(), CacheError> {
    let failed = |error| CacheError::io(entry, error);
    fs::rename(scratch.path(), entry).map_err(failed)?;
    // Nothing is left there to remove.
    drop(scratch.keep());
    match entry.parent() {
        Some(parent) => File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed),
        None => Ok(()),
    }
}

/// Removes an entry; first out of sight, so that nobody opens half of it.
fn retire(directory: &Path, key: &str) -> Result<(), CacheError> {
    let entry = directory.join(key);
    let doomed = scratch(directory, key)?;
    match fs::rename(&entry, doomed.path().join(key)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(CacheError::io(&entry, error)),
        _ => doomed.close().map_err(|error| CacheError::io(&entry, error)),
    }
}

/// Removes what killed makers left: scratch directories whose lock is free, or is `mine`. Failing is no harm.
fn sweep(directory: &Path, mine: &str) {
    for found in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = found.file_name();
        let key =
            name.to_str().and_then(|name| name.strip_prefix('.')?.strip_suffix(".tmp")?.rsplit_once('.'));
        let Some((key, _)) = key else { continue };
        let _lock = match key == mine {
            true => None,
            false => match Lock::try_take(&lock_path(directory, key)) {
                Ok(Some(lock)) => Some(lock),
                _ => continue,
            },
        };
        tracing::debug!(path = %found.path().display(), "sweeping what a killed maker left");
        drop(fs::remove_dir_all(found.path()));
    }
}

fn lock_path(directory: &Path, key: &str) -> PathBuf {
    directory.join(format!(".{key}.lock"))
}

/// Kinds and keys are file names; a leading dot is for locks and scratch directories.
fn checked(name: &str) -> Result<&str, CacheError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match !name.is_empty() && !name.starts_with('.') && name.len() < 200 && name.bytes().all(allowed) {
        true => Ok(name),
        false => Err(CacheError::Name(name.to_owned())),
    }
}

fn create(directory: &Path) -> Result<(), CacheError> {
    fs::create_dir_all(directory).map_err(|error| CacheError::io(directory, error))
}

/// What is in a directory, without locks and scratch directories. Nothing if it doesn't exist.
fn children(directory: &Path) -> Result<Vec<(String, PathBuf)>, CacheError> {
    let failed = |error: io::Error| CacheError::io(directory, error);
    let listing = match fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        listing => listing.map_err(failed)?,
    };
    let mut children = Vec::new();
    for found in listing {
        let found = found.map_err(failed)?;
        if let Ok(name) = found.file_name().into_string()
            && checked(&name).is_ok()
        {
            children.push((name, found.path()));
        }
    }
    Ok(children)
}

fn size(path: &Path) -> Result<u64, CacheError> {
    let failed = |error| CacheError::io(path, error);
    let found = fs::symlink_metadata(path).map_err(failed)?;
    if !found.is_dir() {
        return Ok(found.len());
    }
    let mut bytes = 0;
    for child in fs::read_dir(path).map_err(failed)? {
        bytes += size(&child.map_err(failed)?.path())?;
    }
    Ok(bytes)
}
