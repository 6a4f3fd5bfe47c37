use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// What went wrong in the cache. Entries that were there before are still there and whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The cache's directory, or something below, may not be written.
    #[error("the cache can't be written: {path}")]
    NotWritable {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No space is left, or the quota is used up.
    #[error("the disk is full: {path}")]
    Full {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Any other failure of the file system.
    #[error("the cache's file system failed: {path}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A kind or a key that makes no safe file name.
    #[error("`{0}` can't name a cache entry")]
    Name(String),
    /// An entry isn't what its manifest says.
    #[error("the cache entry {entry} is damaged: {what}")]
    Damaged {
        /// The entry.
        entry: PathBuf,
        /// What differs.
        what: String,
    },
}

impl CacheError {
    /// Sorts a failure of the file system by what its user can do.
    pub fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::NotWritable { path, source },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full { path, source },
            _ => Self::Io { path, source },
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotWritable { .. } => {
                "choose another cache directory, or make this one writable for your user"
            }
            Self::Full { .. } => "free about 300 MB, or choose a cache directory on another disk",
            Self::Io { .. } => "look at the disk and its mount",
            Self::Name(_) => "use letters, digits, `-`, `_` and `.`",
            Self::Damaged { .. } => "clean the cache; the entry is made again when it is next needed",
        }
    }
}
