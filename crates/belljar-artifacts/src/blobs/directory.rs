//! Contents in a directory: `sha256/ab/cd…`, each file named by its hash and never changed.
//!
//! New contents are written to a directory of this process, `.new/<random>/`, and get their names as links to that:
//! whoever finds a name finds all of its bytes. That directory is locked for as long as its process lives, so that
//! what a dead one left is known for what it is.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, Mode};

use super::Found;
use crate::clock;
use crate::error::{ArtifactError, At, Result};
use crate::hash;

const CONTENTS: &str = "sha256";
const NEW: &str = ".new";
/// Names the database that the contents belong to.
const STORE: &str = ".store";
/// From so many files on, waiting once for all that the file system has is quicker than for each.
const MANY: usize = 8;

pub(crate) struct Directory {
    root: PathBuf,
    /// For waiting for all of it.
    handle: File,
    new: PathBuf,
    /// Locked.
    _new: File,
    next: AtomicU64,
}

/// A file that has no name of its own yet. It goes when this does.
pub(crate) struct Temporary {
    pub(crate) path: PathBuf,
    pub(crate) file: Option<File>,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Directory {
    pub(crate) fn open(root: &Path) -> Result<Self> {
        for directory in [root.join(CONTENTS), root.join(NEW)] {
            fs::create_dir_all(&directory).at("make", &directory)?;
        }
        let handle = File::open(root).at("open", root)?;
        rustix::fs::fsync(&handle).at("write", root)?;
        if let Some(parent) = root.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync(parent)?;
        }
        let (new, locked) = own_directory(&root.join(NEW))?;
        Ok(Self { root: root.to_owned(), handle, new, _new: locked, next: AtomicU64::new(0) })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Sees that the contents belong to a store, and says so for others.
    pub(crate) fn claim(&self, store: &str) -> Result<()> {
        let path = self.root.join(STORE);
        match fs::read_to_string(&path) {
            Ok(found) if found.trim() == store => return Ok(()),
            Ok(_) => return Err(ArtifactError::Foreign { place: self.root.display().to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).at("read", &path),
        }
        let mut temporary = self.temporary()?;
        temporary.write(format!("{store}\n").as_bytes())?;
        temporary.sync()?;
        match fs::hard_link(&temporary.path, &path) {
            // Somebody was quicker; who it was decides.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.claim(store),
            other => other.at("make", &path).and_then(|()| sync(&self.root)),
        }
    }

    /// What the database calls contents.
    pub(crate) fn place(sha256: &str) -> String {
        format!("{CONTENTS}/{}/{}", &sha256[..2], &sha256[2..])
    }

    pub(crate) fn path(&self, sha256: &str) -> PathBuf {
        self.root.join(Self::place(sha256))
    }

    /// Whether contents are there, of the right length.
    pub(crate) fn has(&self, sha256: &str, size: u64) -> Result<bool> {
        let path = self.path(sha256);
        match fs::symlink_metadata(&path) {
            Ok(metadata) => Ok(metadata.is_file() && metadata.len() == size),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).at("look at", &path),
        }
    }

    /// A new file.
    pub(crate) fn temporary(&self) -> Result<Temporary> {
        let path = self.new.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        let file =
            OpenOptions::new().write(true).create_new(true).mode(0o444).open(&path).at("make", &path)?;
        // Whatever the umask says: who may reach the directory may read what is in it, and nobody may write.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o444)).at("make", &path)?;
        Ok(Temporary { path, file: Some(file) })
    }

    /// Waits until files that were written are durable.
    pub(crate) fn sync_files(&self, files: &mut [&mut Temporary]) -> Result<()> {
        if files.len() < MANY {
            return files.iter_mut().try_for_each(|file| file.sync());
        }
        files.iter_mut().for_each(|file| file.file = None);
        self.sync_all()
    }

    /// Gives contents their name, unless they have it. Directories that have to be made durable are added.
    pub(crate) fn name(
        &self,
        temporary: &Path,
        sha256: &str,
        size: u64,
        changed: &mut BTreeSet<PathBuf>,
    ) -> Result<()> {
        let path = self.path(sha256);
        let above = path.parent().unwrap_or(&self.root).to_owned();
        changed.insert(above.clone());
        let mut is_made = false;
        loop {
            match fs::hard_link(temporary, &path) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if self.has(sha256, size)? {
                        return Ok(());
                    }
                    // Something else has the name: it is damaged, and goes in the same moment.
                    let second =
                        self.new.join(format!("{}-again", self.next.fetch_add(1, Ordering::Relaxed)));
                    fs::hard_link(temporary, &second).at("make", &second)?;
                    return fs::rename(&second, &path).at("replace", &path);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && !is_made => {
                    is_made = true;
                    fs::create_dir_all(&above).at("make", &above)?;
                    changed.insert(self.root.join(CONTENTS));
                }
                Err(error) => return Err(error).at("make", &path),
            }
        }
    }

    /// Waits until names are durable.
    pub(crate) fn sync_names(&self, changed: &BTreeSet<PathBuf>) -> Result<()> {
        if changed.len() < MANY { changed.iter().try_for_each(|path| sync(path)) } else { self.sync_all() }
    }

    fn sync_all(&self) -> Result<()> {
        rustix::fs::syncfs(self.handle.as_fd()).at("write", &self.root)
    }

    /// Only for whoever holds the database, and knows that nothing names them.
    pub(crate) fn remove(&self, sha256: &str) -> Result<()> {
        let path = self.path(sha256);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at("remove", &path),
            _ => Ok(()),
        }
    }

    /// Gives all contents that are there, some at a time.
    pub(crate) fn list(&self, mut some: impl FnMut(Vec<Found>) -> Result<()>) -> Result<()> {
        let contents = self.root.join(CONTENTS);
        for above in entries(&contents)? {
            let (Some(name), Ok(kind)) = (above.file_name().to_str().map(str::to_owned), above.file_type())
            else {
                continue;
            };
            if !kind.is_dir() {
                continue;
            }
            let mut found = Vec::new();
            for entry in entries(&above.path())? {
                let Some(sha256) = entry.file_name().to_str().map(|rest| format!("{name}{rest}")) else {
                    continue;
                };
                // It may be gone by now; and what has no such name is none of ours.
                let (true, Ok(metadata)) = (hash::is_one(&sha256), entry.metadata()) else { continue };
                let modified_ms = metadata.modified().map_or(0, clock::since_1970);
                found.push(Found { place: Self::place(&sha256), sha256, size: metadata.len(), modified_ms });
            }
            some(found)?;
        }
        Ok(())
    }

    /// Removes what processes left that are dead, and says how much that was.
    pub(crate) fn remove_left_behind(&self, dry_run: bool) -> Result<u64> {
        let mut count = 0;
        for entry in entries(&self.root.join(NEW))? {
            let path = entry.path();
            if path == self.new {
                continue;
            }
            let Ok(handle) = File::open(&path) else { continue };
            if rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            count += if is_directory { entries(&path)?.len() as u64 } else { 1 };
            if !dry_run {
                let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                match removed {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(error).at("remove", &path);
                    }
                    _ => {}
                }
            }
        }
        Ok(count)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // If something is left in it, then it is in use still, or will be collected.
        let _ = fs::remove_dir(&self.new);
    }
}

impl Temporary {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.file {
            Some(file) => io::Write::write_all(file, bytes).at("write", &self.path),
            None => Err(io::Error::other("it was closed")).at("write", &self.path),
        }
    }

    /// Waits until it is durable, and closes it.
    pub(crate) fn sync(&mut self) -> Result<()> {
        match self.file.take() {
            Some(file) => rustix::fs::fdatasync(&file).at("write", &self.path),
            None => Ok(()),
        }
    }
}

/// Makes a directory for this process alone, and locks it.
fn own_directory(above: &Path) -> Result<(PathBuf, File)> {
    loop {
        let path = above.join(clock::random_name());
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            other => other.at("make", &path)?,
        }
        // Until it is locked, somebody may take it for one that was left behind.
        let Ok(handle) = File::open(&path) else { continue };
        rustix::fs::flock(&handle, FlockOperation::LockExclusive).at("lock", &path)?;
        let same = |metadata: fs::Metadata| handle.metadata().is_ok_and(|own| own.ino() == metadata.ino());
        if fs::metadata(&path).is_ok_and(same) {
            return Ok((path, handle));
        }
    }
}

fn entries(path: &Path) -> Result<Vec<fs::DirEntry>> {
    match fs::read_dir(path) {
        Ok(entries) => entries.collect::<io::Result<_>>().at("list", path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).at("list", path),
    }
}

fn sync(path: &Path) -> Result<()> {
    File::open(path).and_then(|directory| Ok(rustix::fs::fsync(&directory)?)).at("write", path)
}
