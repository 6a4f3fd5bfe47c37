//! Reasons to leave the guest in the middle of its code.

use thiserror::Error;

/// Why guest code was left. The interpreter is broken afterwards: it is rolled back or thrown away.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Stop {
    /// It was asked to stop and did not give way.
    #[error("the cell was stopped")]
    Hard,
    /// It asked the operating system to end the process.
    #[error("the interpreter exited with status {0}")]
    Exit(i32),
    /// It used the host's functions in a way that no sound guest does.
    #[error("the guest broke its contract: {0}")]
    Violation(String),
}

impl Stop {
    pub(crate) fn violation(what: impl Into<String>) -> wasmtime::Error {
        Self::Violation(what.into()).into()
    }
}
