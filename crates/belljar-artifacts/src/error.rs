//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

/// Result of the store.
pub type Result<T, E = ArtifactError> = std::result::Result<T, E>;

/// What went wrong, and with what. Whatever was acknowledged before is unharmed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// There is no such artifact, or it is somebody else's.
    #[error("there is no artifact {id}")]
    NotFound {
        /// What was asked for.
        id: String,
    },
    /// Something that was given makes no sense.
    #[error("{given:?} can't be {what}: {reason}")]
    Invalid {
        /// What it should be.
        what: &'static str,
        /// What was given.
        given: String,
        /// Why it can't be.
        reason: String,
    },
    /// Somebody else writes to the database, and didn't stop.
    #[error("the database is in use by somebody else ({reason}); nothing was changed")]
    Busy {
        /// What the database said.
        reason: String,
    },
    /// The database can't be written to.
    #[error("the database can't be written to ({reason}); nothing was changed")]
    ReadOnly {
        /// What the database said.
        reason: String,
    },
    /// There is no room.
    #[error("no room is left in {place}; nothing was changed")]
    Full {
        /// Where.
        place: String,
    },
    /// The database isn't there, or doesn't answer.
    #[error("the database can't be reached: {reason}")]
    Unreachable {
        /// Why.
        reason: String,
    },
    /// The database was made by a later Belljar.
    #[error(
        "the database has version {version} of its tables, which this Belljar doesn't know; it wasn't touched"
    )]
    Newer {
        /// The version.
        version: i64,
    },
    /// The database said no, in a way that nobody expected.
    #[error("can't {action}: the database says: {reason}")]
    Database {
        /// What was tried.
        action: &'static str,
        /// What it said.
        reason: String,
    },
    /// The contents in this place are another store's.
    #[error("the contents in {place} belong to another database; they weren't touched")]
    Foreign {
        /// Where.
        place: String,
    },
    /// An artifact's contents aren't there.
    #[error("the contents {sha256} are gone from {place}")]
    Gone {
        /// Their hash.
        sha256: String,
        /// Where they should be.
        place: String,
    },
    /// Something isn't what was written.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// What.
        what: String,
        /// How that shows.
        reason: String,
    },
    /// A file of the host could not be used.
    #[error("can't {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bucket said no, or nothing.
    #[error("can't {action} {key} in the bucket: {reason}")]
    Bucket {
        /// What was tried.
        action: &'static str,
        /// With which object.
        key: String,
        /// What it said.
        reason: String,
    },
    /// It took so long that what was written may have been collected as garbage.
    #[error("the files weren't kept: writing them took {minutes} minutes")]
    TooSlow {
        /// How long.
        minutes: u64,
    },
}

impl ArtifactError {
    /// What to do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotFound { .. } => "list the artifacts to see what there is",
            Self::Busy { .. } => "try again, or end the process that holds the database",
            Self::ReadOnly { .. } => "choose a database that can be written to",
            Self::Full { .. } => "free some space, or collect garbage with a shorter age",
            Self::Unreachable { .. } => {
                "see that the database is where it was and that it runs, and open it again"
            }
            Self::Newer { .. } => "use the Belljar that made it, or a later one",
            Self::Foreign { .. } => "give the database that belongs to it, or another place for contents",
            Self::Gone { .. } => "restore it from a backup, or remove the artifact",
            Self::Damaged { .. } => "restore it from a backup",
            Self::Bucket { .. } => "see that the bucket exists, answers, and lets these credentials in",
            Self::TooSlow { .. } => "try again; keep fewer or smaller files at once",
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => "the directory must belong to you and be writable",
                io::ErrorKind::ReadOnlyFilesystem => "choose a directory that can be written to",
                io::ErrorKind::NotADirectory => "a file stands where a directory belongs",
                _ => return None,
            },
            Self::Invalid { .. } | Self::Database { .. } => return None,
        })
    }

    pub(crate) fn not_found(id: &str) -> Self {
        Self::NotFound { id: id.chars().take(80).collect() }
    }

    pub(crate) fn invalid(what: &'static str, given: &str, reason: impl Into<String>) -> Self {
        Self::Invalid { what, given: given.chars().take(80).collect(), reason: reason.into() }
    }

    pub(crate) fn bucket(action: &'static str, key: &str, error: &object_store::Error) -> Self {
        Self::Bucket { action, key: key.to_owned(), reason: reason(error) }
    }

    /// For those who read contents as bytes.
    pub(crate) fn into_io(self) -> io::Error {
        let kind = match &self {
            Self::NotFound { .. } | Self::Gone { .. } => io::ErrorKind::NotFound,
            Self::Damaged { .. } => io::ErrorKind::InvalidData,
            Self::Full { .. } => io::ErrorKind::StorageFull,
            Self::Io { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }
}

/// Says which file and what was tried when a system call fails.
pub(crate) trait At<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> At<T> for std::result::Result<T, E> {
    fn at(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|error| {
            let source: io::Error = error.into();
            match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    ArtifactError::Full { place: path.display().to_string() }
                }
                _ => ArtifactError::Io { action, path: path.to_owned(), source },
            }
        })
    }
}

/// What an error and those behind it say, without what each says again.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        next = error.source();
    }
    told
}
