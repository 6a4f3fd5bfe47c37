//! Contents by their hash, once for everybody.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::draft::{make_directory, remove_file, sync_directory, write_file};
use crate::error::{At, DatasetError, Result};
use crate::layout::{Layout, PRIVATE, hexadecimal, with_ending};

/// Read at a time.
const PIECE: usize = 1 << 20;

/// A dataset whose contents are here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cached {
    /// Of the contents.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
    /// The version: as its source reported it, or as it is registered.
    pub version: String,
    /// Where the contents are. Nobody may write there.
    pub path: PathBuf,
    /// They were here before.
    pub was_cached: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    layout: Layout,
}

impl Blobs {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout }
    }

    /// How many bytes a blob has, if it is here and wasn't changed. That is seen by its length and its time; if those
    /// aren't as they were, by its hash. One that was changed is removed.
    pub(crate) fn find(&self, sha256: &str) -> Result<Option<u64>> {
        let path = self.layout.blob(sha256);
        let Some(found) = look(&path)? else { return Ok(None) };
        if fs::read(mark_of(&path)).is_ok_and(|mark| mark == mark_for(&found).as_bytes()) {
            return Ok(Some(found.len()));
        }
        let (hash, _) = hash_file(&path)?;
        if hash == sha256 {
            self.mark(&path)?;
            return Ok(Some(found.len()));
        }
        tracing::warn!(blob = %path.display(), "a cached dataset was changed, and is removed");
        // Somebody else may have put a right one in place meanwhile.
        if look(&path)?.is_some_and(|now| (now.ino(), now.len()) == (found.ino(), found.len())) {
            remove_file(&path)?;
            remove_file(&mark_of(&path))?;
        }
        Ok(None)
    }

    /// Reads all of a blob.
    pub(crate) fn verify(&self, sha256: &str) -> Result<u64> {
        let path = self.layout.blob(sha256);
        let (hash, size) = hash_file(&path)?;
        if hash != sha256 {
            return Err(DatasetError::damaged(&path, "its contents were changed"));
        }
        Ok(size)
    }

    /// Puts a file in place whose contents are durable and have this hash.
    pub(crate) fn place(&self, file: &Path, sha256: &str) -> Result<PathBuf> {
        let path = self.layout.blob(sha256);
        let directory = path.parent().unwrap_or(&path);
        make_directory(directory, PRIVATE)?;
        if self.find(sha256)?.is_some() {
            remove_file(file)?;
            return Ok(path);
        }
        fs::set_permissions(file, Permissions::from_mode(0o444)).at("protect", file)?;
        fs::rename(file, &path).at("write", &path)?;
        sync_directory(directory)?;
        self.mark(&path)?;
        Ok(path)
    }

    fn mark(&self, path: &Path) -> Result<()> {
        let Some(found) = look(path)? else { return Ok(()) };
        write_file(path.parent().unwrap_or(path), &mark_of(path), mark_for(&found).as_bytes(), 0o600)
    }
}

/// The hash of a file, and how many bytes that is of.
pub(crate) fn hash_file(path: &Path) -> Result<(String, u64)> {
    let mut file = File::open(path).at("open", path)?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; PIECE];
    let mut size = 0;
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok((hexadecimal(&hasher.finalize()), size)),
            Ok(count) => {
                hasher.update(&piece[..count]);
                size += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).at("read", path),
        }
    }
}

pub(crate) fn mark_of(blob: &Path) -> PathBuf {
    with_ending(blob, ".mark")
}

fn mark_for(found: &fs::Metadata) -> String {
    format!("{} {}.{:09}\n", found.len(), found.mtime(), found.mtime_nsec())
}

fn look(path: &Path) -> Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(found)),
        Ok(_) => Err(DatasetError::damaged(path, "it isn't a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).at("look at", path),
    }
}
