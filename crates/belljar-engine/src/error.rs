//! What an engine can fail at.

use thiserror::Error;

/// A failure of the engine itself. A cell that fails is a [`CellReport`](crate::CellReport), not this.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The guest couldn't be booted; nothing of it is left.
    #[error("the guest could not be booted: {0}")]
    Boot(String),
    /// A mount was refused; nothing was booted.
    #[error("cannot mount {guest}: {reason}")]
    Mount {
        /// Where the guest would have seen it.
        guest: String,
        /// Why not.
        reason: String,
    },
    /// The host has no more memory, address space or descriptors for another guest. Other guests live.
    #[error("no room for another guest: {0}")]
    Exhausted(String),
    /// The engine can't do what was asked. Nothing changed.
    #[error("the {engine} engine cannot {what}")]
    Unsupported {
        /// Its name.
        engine: &'static str,
        /// What was asked.
        what: String,
    },
    /// What was kept of a guest can't be restored. Nothing else is harmed.
    #[error("what was kept of the guest cannot be restored: {0}")]
    Restore(String),
    /// So many cells can't be taken back. Nothing changed.
    #[error("{0}")]
    Undo(String),
    /// A file couldn't be read or written. The guest lives.
    #[error("{path}: {reason}")]
    File {
        /// Its path in the guest.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The guest can't be used any more. Other guests live.
    #[error("the guest is gone: {0}")]
    Gone(String),
}
