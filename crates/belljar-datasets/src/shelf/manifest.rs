//! What was staged.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{DatasetError, Result};
use crate::layout::with_ending;
use crate::names::{check, check_file, check_hash};
use crate::sealed;

/// What a note that isn't finished ends with.
pub(super) const NEW: &str = ".new";

/// A dataset on a shelf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Its version: as its source reported it, or as it is registered.
    pub version: String,
    /// The version as it is registered.
    pub registered: String,
    /// Of its contents.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
    /// What its file is called, in `data/`.
    pub file_name: String,
    /// When it was put there, in milliseconds since 1970.
    pub staged_ms: u64,
    /// It is a copy, because it couldn't be linked: the shelf is on another file system than the cache.
    #[serde(default)]
    pub copied: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) staged: Vec<Staged>,
}

impl Manifest {
    pub(super) fn read(path: &Path) -> Result<Self> {
        // So it may be found after the machine lost power before it was settled.
        if std::fs::metadata(path).is_ok_and(|found| found.len() == 0) {
            return Ok(Self::default());
        }
        let manifest: Self = sealed::read(path)?.unwrap_or_default();
        for staged in &manifest.staged {
            // What is in it becomes paths.
            check("a dataset's name", &staged.name)
                .and_then(|()| check_file(&staged.file_name))
                .and_then(|()| check_hash(&staged.sha256))
                .map_err(|_| DatasetError::damaged(path, "what it says makes no sense"))?;
        }
        Ok(manifest)
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        sealed::write_soon(&with_ending(path, NEW), path, self)
    }
}
