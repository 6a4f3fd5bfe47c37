//! What loading the engine can fail at.

use std::io;
use std::path::PathBuf;

use belljar_runtime::CacheError;
use thiserror::Error;

/// Why the engine couldn't be loaded. Nothing was started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The interpreter couldn't be compiled or instantiated.
    #[error("the interpreter could not be loaded: {0}")]
    Code(String),
    /// A file of the runtime couldn't be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A cached file isn't what it should be.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// In what way.
        reason: String,
    },
    /// What was to be imported ahead of time can't be.
    #[error("{what} failed: {reason}")]
    Preload {
        /// The step.
        what: String,
        /// The traceback, or what happened.
        reason: String,
    },
    /// The packages can't be shown to guests.
    #[error("cannot mount the packages: {0}")]
    Mount(String),
    /// The cache couldn't be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The watchdog thread couldn't be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl LoadError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::File { .. } | Self::Damaged { .. } | Self::Code(_) => Some(
                "`belljar runtime clean` removes the cached runtime; it is made anew when it is next needed"
                    .to_owned(),
            ),
            Self::Cache(error) => Some(error.hint().to_owned()),
            Self::Preload { .. } => Some(
                "try it first in a session: `belljar run --package … -c 'import …'`; --memory raises what it may use"
                    .to_owned(),
            ),
            Self::Mount(_) => Some("mount nothing else at /data/site-packages or below".to_owned()),
            Self::Thread(_) => None,
        }
    }
}
