//! What sessions are made from.

use std::path::PathBuf;

use thiserror::Error;

/// What sessions of the native engine are made from.
#[derive(Clone, Debug)]
pub struct NativeEnvironment {
    /// Names it by its content: interpreter, packages, preloads.
    pub id: String,
    /// The interpreter's prefix on the host: what has `bin/` and `lib/python3.x/`.
    pub prefix: PathBuf,
    /// The interpreter, as a path below the prefix, such as `bin/python3.11`.
    pub executable: PathBuf,
    /// Its packages, seen at `/data/site-packages`; they include cloudpickle.
    pub packages: Option<PathBuf>,
    /// Modules that are imported before sessions are forked.
    pub preload: Vec<String>,
    /// Code that is run after that.
    pub setup: String,
}

/// Why the engine can't be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NativeError {
    /// The kernel or the administrator refuses what the jail needs.
    #[error("the native engine cannot run here: {reason}")]
    Refused {
        /// What is refused.
        reason: String,
        /// How to allow it.
        hint: String,
    },
    /// The preloaded interpreter didn't start.
    #[error("the interpreter could not be started: {0}")]
    Zygote(String),
    /// Something else failed.
    #[error("{0}")]
    Io(String),
}
