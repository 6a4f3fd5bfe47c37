//! What a session can read.

mod link;
mod manifest;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::blobs::Cached;
use crate::clock::now_ms;
use crate::dataset::Dataset;
use crate::draft::{self, Lock, make_directory, remove_file};
use crate::error::{At, DatasetError, Result};
use crate::layout::{PRIVATE, with_ending};
use crate::names::{check, check_file, tame};
use crate::options::FetchOptions;
use crate::progress::{Progress, Quiet};
use crate::store::DatasetStore;
use link::link;
use manifest::Manifest;
pub use manifest::Staged;

/// Guests aren't their owner.
const OPEN: u32 = 0o755;
const DATA: &str = "data";
const ARTIFACTS: &str = "artifacts";

/// A session's directory of datasets and artifacts, which its guest sees read-only, as it is at any moment.
///
/// What is in it are hard links, so however many shelves have something, it is there once. What was staged is noted
/// beside the directory, where the guest doesn't see it. That note outlives this process at once, and a loss of power
/// from [`Shelf::settle`] on.
#[derive(Clone, Debug)]
pub struct Shelf {
    directory: PathBuf,
}

/// A dataset that couldn't be brought back.
#[derive(Debug)]
pub struct Problem {
    /// Its name.
    pub name: String,
    /// What is in the way.
    pub error: DatasetError,
}

impl Shelf {
    /// The shelf in a directory, which is made if it isn't there.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        // Without a `/` at the end, so that something can be beside it.
        let directory: PathBuf = directory.into().components().collect();
        let directory = std::path::absolute(&directory).at("find", &directory)?;
        if directory.file_name().is_none() {
            return Err(crate::names::invalid("a shelf", &directory.display().to_string(), "it has no name"));
        }
        directory.parent().map_or(Ok(()), |parent| make_directory(parent, PRIVATE))?;
        let shelf = Self { directory };
        for directory in [shelf.directory.clone(), shelf.data(), shelf.directory.join(ARTIFACTS)] {
            make_open(&directory)?;
        }
        Ok(shelf)
    }

    /// The directory to mount.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Puts a dataset on it, in place of another version. The same again is fine, and changes nothing.
    ///
    /// # Errors
    /// If its contents were collected meanwhile, or another dataset has that file name.
    pub fn stage(&self, cached: &Cached, dataset: &Dataset) -> Result<Staged> {
        check("a dataset's name", &dataset.name)?;
        check_file(&dataset.file_name)?;
        let _lock = self.lock()?;
        let mut manifest = Manifest::read(&self.beside(".json"))?;
        let known = manifest.staged.iter().position(|staged| staged.name == dataset.name);
        if let Some(other) = manifest
            .staged
            .iter()
            .find(|staged| staged.name != dataset.name && staged.file_name == dataset.file_name)
        {
            let reason = format!("{} is the file of dataset {:?} already", other.file_name, other.name);
            return Err(DatasetError::Refused { name: dataset.name.clone(), reason });
        }
        let mut staged = Staged {
            tenant: dataset.tenant.clone(),
            name: dataset.name.clone(),
            version: cached.version.clone(),
            registered: dataset.version.clone(),
            sha256: cached.sha256.clone(),
            size: cached.size,
            file_name: dataset.file_name.clone(),
            staged_ms: now_ms(),
            copied: false,
        };
        let target = self.data().join(&staged.file_name);
        if let Some(known) = known.map(|at| &manifest.staged[at]) {
            let same = Staged { staged_ms: known.staged_ms, copied: known.copied, ..staged.clone() };
            if same == *known && is_in_place(known, &target, &cached.path) {
                return Ok(same);
            }
        }
        staged.copied = link(&cached.path, &target)?;
        let gone = match known {
            Some(at) => Some(std::mem::replace(&mut manifest.staged[at], staged.clone())),
            None => {
                manifest.staged.push(staged.clone());
                None
            }
        };
        manifest.write(&self.beside(".json"))?;
        if let Some(gone) = gone.filter(|gone| gone.file_name != staged.file_name) {
            remove_file(&self.data().join(gone.file_name))?;
        }
        Ok(staged)
    }

    /// Waits until what was staged so far is noted for good. Whoever is killed loses none of it either way; this is
    /// for when the machine itself loses power.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn settle(&self) -> Result<()> {
        let path = self.beside(".json");
        match File::open(&path) {
            Ok(file) => rustix::fs::fsync(file).at("write", &path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).at("open", &path),
        }
        draft::sync_directory(self.directory.parent().unwrap_or(&self.directory))
    }

    /// What is on it, in the order in which it was put there.
    ///
    /// # Errors
    /// If what was noted can't be read.
    pub fn staged(&self) -> Result<Vec<Staged>> {
        Ok(Manifest::read(&self.beside(".json"))?.staged)
    }

    /// Brings back what should be on it and isn't, from the cache, or from where it comes from.
    ///
    /// # Errors
    /// If what was noted can't be read.
    pub fn sync(&self, store: &DatasetStore) -> Result<Vec<Problem>> {
        self.sync_with(store, &FetchOptions::default(), &Quiet)
    }

    /// The same, with options for what has to be fetched.
    ///
    /// # Errors
    /// As there.
    pub fn sync_with(
        &self,
        store: &DatasetStore,
        options: &FetchOptions,
        progress: &dyn Progress,
    ) -> Result<Vec<Problem>> {
        let mut problems = Vec::new();
        for staged in self.staged()? {
            let target = self.data().join(&staged.file_name);
            if is_in_place(&staged, &target, &store.layout().blob(&staged.sha256)) {
                continue;
            }
            if let Err(error) = self.bring_back(&staged, &target, store, options, progress) {
                problems.push(Problem { name: staged.name, error });
            }
        }
        Ok(problems)
    }

    /// Takes a dataset off. Returns whether it was there.
    ///
    /// # Errors
    /// If that can't be noted.
    pub fn unstage(&self, name: &str) -> Result<bool> {
        let _lock = self.lock()?;
        let mut manifest = Manifest::read(&self.beside(".json"))?;
        let Some(at) = manifest.staged.iter().position(|staged| staged.name == name) else {
            return Ok(false);
        };
        let staged = manifest.staged.remove(at);
        manifest.write(&self.beside(".json"))?;
        remove_file(&self.data().join(staged.file_name))?;
        Ok(true)
    }

    /// Puts the contents of an artifact on it. Returns where they are, relative to the shelf. The name may be
    /// anything; what is left of it is safe.
    ///
    /// # Errors
    /// If the artifact's id can't be one, or its contents can't be had.
    pub fn lay(&self, artifact_id: &str, file_name: &str, blob: &Path) -> Result<String> {
        check("an artifact's id", artifact_id)?;
        let file_name = tame(file_name);
        let directory = self.directory.join(ARTIFACTS).join(artifact_id);
        make_open(&directory)?;
        let found = fs::symlink_metadata(blob).at("look at", blob)?;
        if !found.is_file() {
            return Err(DatasetError::damaged(blob, "it isn't a file"));
        }
        if found.mode() & 0o444 != 0o444 {
            // A link has the permissions of what it is a link of, and guests aren't its owner.
            let mode = found.mode() & 0o777 | 0o444;
            fs::set_permissions(blob, Permissions::from_mode(mode)).at("open up", blob)?;
        }
        let _lock = self.lock()?;
        link(blob, &directory.join(&file_name))?;
        Ok(format!("{ARTIFACTS}/{artifact_id}/{file_name}"))
    }

    /// Makes another shelf with the same on it, for a fork.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn copy_to(&self, other: impl Into<PathBuf>) -> Result<Self> {
        let other = Self::open(other)?;
        if other.directory == self.directory {
            return Ok(other);
        }
        let _lock = self.lock()?;
        let mut manifest = Manifest::read(&self.beside(".json"))?;
        {
            let _lock = other.lock()?;
            for staged in &mut manifest.staged {
                // What isn't there now is brought back by the next sync.
                let from = self.data().join(&staged.file_name);
                if from.exists() {
                    staged.copied |= link(&from, &other.data().join(&staged.file_name))?;
                }
            }
            manifest.write(&other.beside(".json"))?;
        }
        for artifact in draft::entries(&self.directory.join(ARTIFACTS))? {
            let name = artifact.file_name();
            for file in draft::entries(&artifact.path())? {
                if let (Some(id), Some(file_name)) = (name.to_str(), file.file_name().to_str())
                    && !draft::is_unfinished(&file.file_name())
                {
                    other.lay(id, file_name, &file.path())?;
                }
            }
        }
        Ok(other)
    }

    /// Removes it, and all that is on it. The contents stay where they are.
    ///
    /// # Errors
    /// If it can't be removed.
    pub fn remove(self) -> Result<()> {
        {
            let _lock = self.lock()?;
            match fs::remove_dir_all(&self.directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).at("remove", &self.directory);
                }
                _ => {}
            }
            for path in [self.beside(".json"), with_ending(&self.beside(".json"), manifest::NEW)] {
                remove_file(&path)?;
            }
        }
        remove_file(&self.beside(".lock")).map(|_| ())
    }

    fn bring_back(
        &self,
        staged: &Staged,
        target: &Path,
        store: &DatasetStore,
        options: &FetchOptions,
        progress: &dyn Progress,
    ) -> Result<()> {
        let dataset = Dataset {
            tenant: staged.tenant.clone(),
            name: staged.name.clone(),
            version: staged.registered.clone(),
            reported_version: None,
            source: crate::Source::Bytes,
            file_name: staged.file_name.clone(),
            sha256: None,
            size: None,
            description: None,
            added_ms: 0,
            fetched_ms: None,
        };
        let blobs = store.blobs();
        let path = store.layout().blob(&staged.sha256);
        let mut cached = Cached {
            sha256: staged.sha256.clone(),
            size: staged.size,
            version: staged.version.clone(),
            path,
            was_cached: true,
        };
        if blobs.find(&staged.sha256)?.is_none() {
            if is_file_of(target, staged.size) {
                // The shelf has what the cache has no more.
                return Ok(());
            }
            let found =
                store.fetch(&staged.tenant, &staged.name, Some(&staged.registered), options, progress)?;
            if found.sha256 != staged.sha256 {
                return Err(DatasetError::Broken {
                    name: staged.name.clone(),
                    what: "SHA-256",
                    promised: staged.sha256.clone(),
                    found: found.sha256,
                });
            }
            cached.path = found.path;
        }
        self.stage(&cached, &dataset).map(|_| ())
    }

    fn data(&self) -> PathBuf {
        self.directory.join(DATA)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        with_ending(&self.directory, ending)
    }

    /// Beside the directory: what the guest sees it could lock as well.
    fn lock(&self) -> Result<Lock> {
        Lock::wait(&self.beside(".lock"), FlockOperation::LockExclusive)
    }
}

/// Makes a directory that guests can read. It is made again if it gets lost, so it needn't be durable.
fn make_open(directory: &Path) -> Result<()> {
    match fs::create_dir(directory) {
        Ok(()) => fs::set_permissions(directory, Permissions::from_mode(OPEN)).at("open up", directory),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        Err(error) => Err(error).at("create", directory),
    }
}

/// Whether a dataset's file is the one in the cache, or a copy of it.
fn is_in_place(staged: &Staged, target: &Path, blob: &Path) -> bool {
    if staged.copied {
        return is_file_of(target, staged.size);
    }
    match (fs::symlink_metadata(target), fs::symlink_metadata(blob)) {
        (Ok(target), Ok(blob)) => {
            target.len() == staged.size && (target.dev(), target.ino()) == (blob.dev(), blob.ino())
        }
        _ => false,
    }
}

fn is_file_of(path: &Path, size: u64) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == size)
}
