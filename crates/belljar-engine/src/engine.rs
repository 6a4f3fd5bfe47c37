//! The two traits that an engine implements, and the two that it is given.

use std::sync::Arc;

use crate::{Cell, CellReport, EngineError, Event, GuestSpec, ToolCall, ToolReply};

/// Runs guests.
pub trait Engine: Send + Sync {
    /// `wasm` or `native`.
    fn name(&self) -> &'static str;

    /// What it can do here.
    fn capabilities(&self) -> Capabilities;

    /// Boots a guest. Blocks.
    fn boot(&self, spec: Arc<GuestSpec>) -> Result<Box<dyn Guest>, EngineError>;

    /// Keeps so many guests of this very spec ready from now on, made by a thread of the engine's own;
    /// none for another spec. Engines that can't do so ignore it.
    fn warm(&self, spec: &Arc<GuestSpec>, count: usize) {
        let _ = (spec, count);
    }
}

/// What an engine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Take a cell back that was stopped hard.
    pub rollback: bool,
    /// Count steps.
    pub steps: bool,
    /// Threads and processes inside the guest.
    pub processes: bool,
}

/// An interpreter behind the glass. Dropping it ends it.
pub trait Guest: Send {
    /// Runs one cell to its end. Blocks.
    ///
    /// Whatever the cell does, the guest answers the next one. An error means that the guest is gone.
    fn run(&mut self, cell: Cell, host: Arc<dyn CellHost>) -> Result<CellReport, EngineError>;

    /// Does what was put off until after the report, such as making the cell's effects final.
    /// The next `run` does it where this wasn't called.
    fn settle(&mut self) {}

    /// Reads a file of the guest between cells.
    fn read_file(&mut self, path: &str) -> Result<Vec<u8>, EngineError>;

    /// Writes a file of the guest between cells. It stays when the next cell is taken back.
    fn write_file(&mut self, path: &str, contents: &[u8]) -> Result<(), EngineError>;

    /// Something that stops a running cell.
    fn interrupter(&self) -> Arc<dyn Interrupter>;

    /// Bytes of memory that are this guest's own.
    fn private_memory(&self) -> u64;
}

/// Stops a running cell from any thread.
pub trait Interrupter: Send + Sync {
    /// Asks the running cell to stop; if it doesn't give way, it is stopped hard. Does nothing
    /// between cells.
    fn interrupt(&self);
}

/// The host's side of a running cell.
pub trait CellHost: Send + Sync {
    /// Hears what the cell tells. Must not block for long: the cell waits.
    fn event(&self, event: Event);

    /// Starts a tool call and returns at once; `reply` may be called from any thread, also after
    /// the cell ended.
    fn call(&self, call: ToolCall, reply: ToolReply);

    /// Whether the caller has given the cell up already. Looked at once, when interrupts begin to reach
    /// the cell, so that one sent earlier isn't lost.
    fn is_cancelled(&self) -> bool {
        false
    }
}
