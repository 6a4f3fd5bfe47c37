//! What Belljar itself can fail at.

use belljar_engine::EngineError;
use belljar_runtime::{CacheError, MakeError};
use belljar_wasm::LoadError;
use thiserror::Error;

use crate::PolicyError;

/// A failure of Belljar. Code that fails is an [`Outcome`](crate::Outcome), not this.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The interpreter couldn't be made; nothing was started.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// The engine couldn't be loaded; nothing was started.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The cache couldn't be used; nothing was started.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The policy can't be kept; nothing was started.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The engine failed. It says what is still alive.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No directory was given for the cache, and none can be found.
    #[error("there is no directory for the cache")]
    NoCacheDirectory,
    /// A tool's name is taken, or isn't a name.
    #[error("a tool cannot be called {name:?}: {reason}")]
    ToolName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The thread that ran the cell is gone. Other sessions live.
    #[error("the thread that ran the cell is gone; the session is closed")]
    Abandoned,
}

impl Error {
    /// Whether what was asked for can't be had: a policy that can't be kept, a mount that isn't there.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Policy(_) | Self::ToolName { .. } | Self::Engine(EngineError::Mount { .. }))
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Make(error) => Some(error.hint()),
            Self::Load(error) => error.hint(),
            Self::Cache(error) => Some(error.hint().to_owned()),
            Self::Policy(error) => error.hint(),
            Self::Engine(error) => engine_hint(error),
            Self::NoCacheDirectory => Some(
                "set HOME or XDG_CACHE_HOME, or name a directory with --cache-dir or BELLJAR_CACHE_DIR"
                    .to_owned(),
            ),
            Self::ToolName { .. } => Some("use a Python identifier that no other tool has".to_owned()),
            Self::Abandoned => None,
        }
    }
}

fn engine_hint(error: &EngineError) -> Option<String> {
    match error {
        EngineError::Mount { .. } => Some(
            "a mount is HOST:GUEST or HOST:GUEST:rw; HOST is a directory, GUEST an absolute path".to_owned(),
        ),
        EngineError::Boot(_) => {
            Some("`belljar doctor` looks whether what is cached of the interpreter is damaged".to_owned())
        }
        EngineError::Exhausted(_) => Some(
            "close sessions, or raise the limits on address space, memory maps and open files".to_owned(),
        ),
        _ => None,
    }
}
