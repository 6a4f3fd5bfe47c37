//! Where things are in a store of datasets.
//!
//! ```text
//! .lock                                    shared by whoever puts a blob in place, held alone by whoever collects
//! registry/<tenant>/<name>/<version>.json  what is known of a dataset; for its owner's eyes
//! blobs/sha256/ab/<hash>                   contents, never changed
//! blobs/sha256/ab/<hash>.mark              how long the blob was and when it was written, to see a change soon
//! partial/<key>.part, .json, .lock         what is being fetched, how far that is durable, and by whom
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;
use sha2::{Digest, Sha256};

use crate::draft::{Lock, make_directory};
use crate::error::Result;

/// Only its owner has business here. What guests see is linked elsewhere.
pub(crate) const PRIVATE: u32 = 0o700;

#[derive(Clone, Debug)]
pub(crate) struct Layout {
    root: Arc<Path>,
}

impl Layout {
    pub(crate) fn new(root: PathBuf) -> Self {
        // Where there is no current directory, a relative path leads nowhere either way.
        let root = std::path::absolute(&root).unwrap_or(root);
        Self { root: root.into() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn registry(&self) -> PathBuf {
        self.root.join("registry")
    }

    pub(crate) fn tenant(&self, tenant: &str) -> PathBuf {
        self.registry().join(tenant)
    }

    pub(crate) fn versions(&self, tenant: &str, name: &str) -> PathBuf {
        self.tenant(tenant).join(name)
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.root.join("blobs/sha256")
    }

    pub(crate) fn blob(&self, sha256: &str) -> PathBuf {
        self.blobs().join(sha256.get(..2).unwrap_or("00")).join(sha256)
    }

    pub(crate) fn partials(&self) -> PathBuf {
        self.root.join("partial")
    }

    /// Where a dataset is while it is fetched, without an ending.
    pub(crate) fn partial(&self, tenant: &str, name: &str, version: &str) -> PathBuf {
        let key = Sha256::digest(format!("{tenant}/{name}/{version}"));
        self.partials().join(hexadecimal(&key[..16]))
    }

    /// While this is held, nothing is collected: a blob that is put in place can be named.
    pub(crate) fn hold_garbage(&self) -> Result<Lock> {
        make_directory(&self.root, PRIVATE)?;
        Lock::wait(&self.root.join(".lock"), FlockOperation::LockShared)
    }

    /// While this is held, nobody puts blobs in place: what nobody names is garbage.
    pub(crate) fn stop_placing(&self) -> Result<Lock> {
        make_directory(&self.root, PRIVATE)?;
        Lock::wait(&self.root.join(".lock"), FlockOperation::LockExclusive)
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `.part` and the like at the end of a path without one.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}
