//! What can go wrong in a store.

use std::io;
use std::path::{Path, PathBuf};

use crate::lease_file::Owner;
use crate::session_id::SessionId;

/// A result of this crate.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// What failed, in which file, and what is still alive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refused an operation.
    #[error("can't {action} {}: {source}; what was saved before is unharmed", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no room left.
    #[error("no space left to write {}; what was saved before is unharmed", path.display())]
    Full {
        /// What was being written.
        path: PathBuf,
    },
    /// A file isn't what was once written.
    #[error("{} is damaged: {reason}; other sessions aren't affected", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file was written by a later Belljar.
    #[error("{} has format version {version}, which this Belljar doesn't know; it was left alone", path.display())]
    Future {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A name that can't be one.
    #[error("{given:?} can't be the name of {what}: {reason}; nothing was changed")]
    InvalidName {
        /// Of what.
        what: &'static str,
        /// The name.
        given: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// There is no such session.
    #[error("there is no session {session} (looked for {}); nothing was changed", path.display())]
    NotFound {
        /// The name.
        session: SessionId,
        /// Where it would be.
        path: PathBuf,
    },
    /// The name of a new session is taken.
    #[error("a session {session} exists already in {}; it wasn't touched", path.display())]
    Exists {
        /// The name.
        session: SessionId,
        /// Where it is.
        path: PathBuf,
    },
    /// Somebody else has the session.
    #[error("session {session} is in use{}; it goes on there ({})", by(.owner), path.display())]
    Busy {
        /// The session.
        session: SessionId,
        /// The lease file.
        path: PathBuf,
        /// Who has it, as far as the lease tells.
        owner: Option<Owner>,
    },
    /// The caller gave up waiting for a session.
    #[error("stopped waiting for session {session}; it goes on where it is in use")]
    Cancelled {
        /// The session.
        session: SessionId,
    },
    /// The session belongs to somebody else by now: nothing more may be written to it from here.
    #[error("the lease of session {session} was lost ({}); what was saved before belongs to its new owner", path.display())]
    LeaseLost {
        /// The session.
        session: SessionId,
        /// The lease file.
        path: PathBuf,
    },
    /// There is no such checkpoint.
    #[error("session {session} has no checkpoint {number}; the session is unharmed")]
    NoCheckpoint {
        /// The session.
        session: SessionId,
        /// The number that was asked for.
        number: u32,
    },
    /// Two checkpoints of a session can't have one name.
    #[error("session {session} has a checkpoint {name:?} already; it wasn't touched")]
    NameTaken {
        /// The session.
        session: SessionId,
        /// The name.
        name: String,
    },
    /// Nothing was ever saved in this session.
    #[error("session {session} has no saved state; nothing was changed")]
    NoHead {
        /// The session.
        session: SessionId,
    },
    /// What should be saved breaks its own rules, or is larger than this format can hold.
    #[error("this state of session {session} can't be saved: {reason}; what was saved before is unharmed")]
    Unfit {
        /// The session.
        session: SessionId,
        /// Which rule.
        reason: String,
    },
}

impl StoreError {
    /// What to do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Full { .. } => "free some space, close sessions, or prune the state directory",
            Self::Damaged { .. } => "restore the file from a backup, or close the session that it belongs to",
            Self::Future { .. } => "use the Belljar that wrote it, or a later one",
            Self::InvalidName { .. } => "use letters, digits, '-', '_' and '.', at most 64 of them",
            Self::NotFound { .. } => "list the sessions to see what there is",
            Self::Exists { .. } => "choose another name, or close that session first",
            Self::Busy { .. } => "wait longer, or end the process that uses it",
            Self::LeaseLost { .. } => "open the session again; it goes on from its last saved state",
            Self::NoCheckpoint { .. } => "list the session's checkpoints to see what there is",
            Self::NameTaken { .. } => "choose another name, or delete that checkpoint first",
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => "the state directory must belong to you and be writable",
                io::ErrorKind::ReadOnlyFilesystem => "choose a state directory that can be written to",
                _ => return None,
            },
            Self::Cancelled { .. } | Self::NoHead { .. } | Self::Unfit { .. } => return None,
        })
    }

    /// Whether the file itself is at fault, rather than the moment: trying again won't help.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
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
                    StoreError::Full { path: path.to_owned() }
                }
                // The kind of a file is part of the layout: a directory where a file belongs is damage.
                io::ErrorKind::IsADirectory => StoreError::damaged(path, "it is a directory"),
                io::ErrorKind::UnexpectedEof => StoreError::damaged(path, "it is cut short"),
                io::ErrorKind::NotADirectory => {
                    StoreError::damaged(path, "a file stands where a directory belongs")
                }
                _ => StoreError::Io { action, path: path.to_owned(), source },
            }
        })
    }
}

fn by(owner: &Option<Owner>) -> String {
    owner.as_ref().map_or_else(String::new, |owner| format!(" by {owner}"))
}
