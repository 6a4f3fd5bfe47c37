//! What can go wrong with datasets.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A result of this crate.
pub type Result<T, E = DatasetError> = std::result::Result<T, E>;

/// What failed, and what is still alive. Values of headers and credentials are in none of these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The system refused an operation.
    #[error("can't {action} {}: {source}; datasets that were cached before are unharmed", path.display())]
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
    #[error("no space left to write {}; datasets that were cached before are unharmed", path.display())]
    Full {
        /// What was being written.
        path: PathBuf,
    },
    /// A file isn't what was once written.
    #[error("{} is damaged: {reason}; other datasets aren't affected", path.display())]
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
    /// A name, an address or a hash makes no sense.
    #[error("{given:?} can't be {what}: {reason}; nothing was changed")]
    Invalid {
        /// What it should be.
        what: &'static str,
        /// As it was given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such dataset.
    #[error("there is no dataset {name:?}{}", of_version(version))]
    NotFound {
        /// Its name.
        name: String,
        /// Its version, if one was asked for.
        version: Option<String>,
    },
    /// There is another dataset of that name and version.
    #[error("dataset {name:?} has a version {version:?} already, which is something else; it wasn't touched")]
    Exists {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
    },
    /// A dataset isn't what was promised. Nothing of it was kept.
    #[error(
        "dataset {name:?} isn't what was promised: its {what} is {found}, and should be {promised}; nothing of it was kept"
    )]
    Broken {
        /// Its name.
        name: String,
        /// SHA-256, version or size.
        what: &'static str,
        /// As it was promised.
        promised: String,
        /// As it came.
        found: String,
    },
    /// A dataset has more bytes than it may have. Nothing of it was kept.
    #[error("dataset {name:?} has more than {most} bytes; nothing of it was kept")]
    TooLarge {
        /// Its name.
        name: String,
        /// The limit.
        most: u64,
    },
    /// A dataset couldn't be fetched, however often that was tried.
    #[error("can't fetch dataset {name:?}: {reason} ({attempts} attempts){}", kept_so_far(*kept))]
    Failed {
        /// Its name.
        name: String,
        /// What happened last.
        reason: String,
        /// How often it was tried.
        attempts: u32,
        /// Bytes that are kept for the next time.
        kept: u64,
    },
    /// A dataset can't be fetched, and trying again won't help.
    #[error("can't fetch dataset {name:?}: {reason}")]
    Refused {
        /// Its name.
        name: String,
        /// What is in the way.
        reason: String,
    },
    /// Its address is one of this host or of a private network, and such weren't allowed.
    #[error(
        "can't fetch dataset {name:?}: {host} is on a private network, and such addresses aren't allowed"
    )]
    Private {
        /// Its name.
        name: String,
        /// The host.
        host: String,
    },
    /// It took too long.
    #[error("dataset {name:?} wasn't there after {after:?}{}", kept_so_far(*kept))]
    TimedOut {
        /// Its name.
        name: String,
        /// How long it was allowed to take.
        after: Duration,
        /// Bytes that are kept for the next time.
        kept: u64,
    },
    /// Somebody else fetches it, and wasn't done in time.
    #[error("dataset {name:?} is being fetched by somebody else, who wasn't done after {after:?}")]
    Busy {
        /// Its name.
        name: String,
        /// How long this waited.
        after: Duration,
    },
    /// The caller wanted no more.
    #[error("stopped fetching dataset {name:?}; the next time goes on from there")]
    Stopped {
        /// Its name.
        name: String,
    },
    /// The host has no fetcher of that name.
    #[error("dataset {name:?} needs the fetcher {fetcher:?}, which this host doesn't have")]
    NoFetcher {
        /// The dataset.
        name: String,
        /// The fetcher.
        fetcher: String,
    },
    /// Its bytes were given once, and are gone.
    #[error("the bytes of dataset {name:?} were given by a caller once, and are no longer in the cache")]
    Gone {
        /// Its name.
        name: String,
    },
}

impl DatasetError {
    /// What to do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Full { .. } => "free some space, or collect what no dataset needs",
            Self::Damaged { .. } => "remove the dataset and add it again",
            Self::Future { .. } => "use the Belljar that wrote it, or a later one",
            Self::Invalid { .. } => return None,
            Self::NotFound { .. } => "list the datasets to see what there is",
            Self::Exists { .. } => "choose another version, or say that it is to be replaced",
            Self::Broken { .. } => "if the new contents are right, add them as another version",
            Self::TooLarge { .. } => "raise the limit",
            Self::Failed { .. } => "look at the address and the network, then fetch it again",
            Self::Private { .. } => "allow private addresses, if you trust whoever registered it",
            Self::Refused { .. } => "look at the address, the headers and the credentials",
            Self::TimedOut { .. } => "fetch it again, or allow more time",
            Self::Busy { .. } => "wait longer, or end the process that fetches it",
            Self::NoFetcher { .. } => "register the fetcher when the store is opened",
            Self::Gone { .. } => "give its bytes again",
            Self::Stopped { .. } => return None,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => "the directory must belong to you and be writable",
                io::ErrorKind::ReadOnlyFilesystem => "choose a directory that can be written to",
                _ => return None,
            },
        })
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
                    DatasetError::Full { path: path.to_owned() }
                }
                _ => DatasetError::Io { action, path: path.to_owned(), source },
            }
        })
    }
}

fn of_version(version: &Option<String>) -> String {
    version.as_ref().map_or_else(String::new, |version| format!(" of version {version:?}"))
}

fn kept_so_far(kept: u64) -> String {
    match kept {
        0 => String::new(),
        kept => format!("; the next time goes on after the {kept} bytes that are here"),
    }
}
