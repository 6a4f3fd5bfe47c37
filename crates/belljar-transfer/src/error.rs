//! What can go wrong on the way.

use std::io;
use std::path::PathBuf;

use belljar_engine::FileError;

/// A result of this crate.
pub type Result<T, E = TransferError> = std::result::Result<T, E>;

/// What failed, and what is left of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The workspace, or a directory, refused an operation.
    #[error("{0}")]
    Files(#[from] FileError),
    /// The archive couldn't be read or written.
    #[error("can't {action} the archive: {source}")]
    Archive {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A path of the host can't be used.
    #[error("can't {action} {}: {source}", path.display())]
    Host {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The archive isn't one, is cut short, or was changed.
    #[error("the archive is damaged: {reason}; the {files} files before that were imported")]
    Damaged {
        /// What is wrong with it.
        reason: String,
        /// Files that are in place.
        files: u64,
    },
    /// There is more than was allowed.
    #[error("there are more than {most} {what} ({path} is where it was noticed)")]
    TooMuch {
        /// Bytes, or files.
        what: &'static str,
        /// The limit.
        most: u64,
        /// Where it was reached.
        path: String,
    },
    /// An address, a pattern or a name makes no sense.
    #[error("{given:?} isn't {what}: {reason}; nothing was changed")]
    Invalid {
        /// What it should be.
        what: &'static str,
        /// As it was given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The bucket couldn't be reached, or refused.
    #[error(
        "can't {action} {path} in the bucket: {reason}; what was copied before is whole, and the next run goes on from there"
    )]
    Bucket {
        /// What was tried.
        action: &'static str,
        /// The key.
        path: String,
        /// What it said.
        reason: String,
    },
    /// A key in the bucket can't be a path, so that nothing of the listing can be used.
    #[error("a key in the bucket can't be a path: {reason}; nothing was changed")]
    Key {
        /// Which one, and why.
        reason: String,
    },
    /// [`Progress::stop`](crate::Progress::stop) said so.
    #[error("stopped; what was moved before is whole, and a next run goes on from there")]
    Stopped,
}

impl TransferError {
    /// What to do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Damaged { .. } => "make the archive again, or fetch it again",
            Self::TooMuch { .. } => "raise the limit, or exclude what isn't needed",
            Self::Bucket { .. } => "look at the bucket's name, the endpoint, the region and the credentials",
            Self::Key { .. } => "remove that object, or use another prefix",
            Self::Archive { source, .. } | Self::Host { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
                io::ErrorKind::NotFound => "look at the path",
                _ => return None,
            },
            Self::Files(error) => match error.code {
                belljar_engine::FileErrorCode::DiskFull => "raise the quota, or remove files",
                _ => return None,
            },
            Self::Invalid { .. } | Self::Stopped => return None,
        })
    }
}
