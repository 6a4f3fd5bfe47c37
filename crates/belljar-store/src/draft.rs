//! Files that appear whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;
use crate::error::{At, Result};

/// How the names of everything unfinished begin. Nothing else in a store begins with a dot.
pub(crate) const UNFINISHED: &str = ".tmp-";

/// A file under a name that nobody looks for, until it is placed. It goes away if it never is.
pub(crate) struct Draft {
    file: File,
    path: PathBuf,
    unfinished: bool,
}

impl Draft {
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        let path = unfinished_name(directory);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        Ok(Self { file: file.at("create", &path)?, path, unfinished: true })
    }

    /// A draft of these bytes, not yet durable.
    pub(crate) fn of(directory: &Path, bytes: &[u8]) -> Result<Self> {
        let draft = Self::create(directory)?;
        (&draft.file).write_all(bytes).at("write", &draft.path)?;
        Ok(draft)
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the contents durable. The name is another matter: see [`sync_directory`].
    pub(crate) fn sync(&self) -> Result<()> {
        rustix::fs::fdatasync(&self.file).at("write", &self.path)
    }

    /// Gives the file its name, in place of what had it before.
    pub(crate) fn place(mut self, target: &Path) -> Result<Placed> {
        fs::rename(&self.path, target).at("write", target)?;
        self.unfinished = false;
        Ok(Placed { path: target.to_owned(), kept: false })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.unfinished {
            // Collecting garbage finds what stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A file that has its name, and loses it again unless it is kept: whatever should name it failed.
pub(crate) struct Placed {
    path: PathBuf,
    kept: bool,
}

impl Placed {
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> Result<()> {
    let handle = File::open(directory).at("open", directory)?;
    rustix::fs::fsync(handle).at("write", directory)
}

/// Makes a directory for its owner only, durably; it is fine if it exists.
pub(crate) fn make_directory(directory: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => directory.parent().map_or(Ok(()), sync_directory),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(crate::StoreError::damaged(directory, "a file stands where a directory belongs"))
        }
        Err(error) => Err(error).at("create", directory),
    }
}

/// A name in this directory that nobody else uses.
pub(crate) fn unfinished_name(directory: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let random = u32::from_le_bytes(clock::random());
    directory.join(format!("{UNFINISHED}{}-{count}-{random:08x}", std::process::id()))
}

pub(crate) fn is_unfinished(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
}
