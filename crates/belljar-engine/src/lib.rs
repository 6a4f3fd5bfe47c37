//! The contract between sessions and engines.
//!
//! A session knows no wasm and no namespaces; an engine knows no sessions. Between them pass plain
//! values only: a [`GuestSpec`] to boot from, a [`Cell`] to run, [`Event`]s while it runs, a
//! [`CellReport`] at its end, a [`SavedGuest`] to keep. There are no pointers in them, and no descriptors but
//! those of files that never change (which a socket can carry), so an engine can run in the caller's process
//! or behind a socket in a worker of its own.
//!
//! ```text
//! Engine::boot(GuestSpec) ─▶ Guest
//! Guest::run(Cell, &CellHost) ─▶ CellReport      CellHost hears events and answers tool calls
//! Guest::interrupter() ─▶ Interrupter            stops a running cell from any thread
//! Guest::snapshot() ─▶ Snapshot ─▶ Engine::resume, Guest::roll_back_to, or SavedGuest and Engine::restore
//! ```
//!
//! The wire between an engine and the guest kernel is in [`frame`]; both engines speak it.
#![forbid(unsafe_code)]

mod cell;
mod engine;
mod error;
mod files;
pub mod frame;
mod layer;
mod limits;
mod mime;
mod process;
mod saved;
mod spec;
mod stream;
mod tool;

pub use cell::{Cell, CellReport, Changes, Event, ExceptionReport, State, Status, TraceFrame, Usage};
pub use engine::{Capabilities, CellHost, Descent, Engine, Guest, Interrupter, Snapshot};
pub use error::EngineError;
pub use files::{
    FileDoor, FileEntry, FileError, FileErrorCode, FileKind, FileOp, FileReply, FileStat, MOST_IN_ONE,
    MOST_LISTED, WriteHow,
};
pub use layer::Layer;
pub use limits::Limits;
pub use mime::MimeBundle;
pub use process::{Command, CommandReport, ProcessInfo, ProcessOutput};
pub use saved::{BLOCK, EXTENT, Known, PageRun, SavedChunk, SavedGuest, SavedMemory, Tag};
pub use spec::{ALIASES, Clock, Entropy, GuestSpec, Mount, MountAccess, Rollback, Spill, Storage};
pub use stream::{CapturedStream, StreamCapture};
pub use tool::{ToolCall, ToolFailure, ToolGate, ToolReply, ToolSpec};
