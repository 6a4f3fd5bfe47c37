//! The two traits that an engine implements, and the two that it is given.

use std::any::Any;
use std::sync::Arc;

use crate::{
    Cell, CellReport, Command, CommandReport, EngineError, Event, FileDoor, FileError, FileErrorCode, FileOp,
    FileReply, GuestSpec, Layer, ProcessInfo, ProcessOutput, SavedGuest, Tag, ToolCall, ToolReply,
};

/// Runs guests.
pub trait Engine: Send + Sync {
    /// `wasm` or `native`.
    fn name(&self) -> &'static str;

    /// What it can do here.
    fn capabilities(&self) -> Capabilities;

    /// Boots a guest. Blocks.
    fn boot(&self, spec: Arc<GuestSpec>) -> Result<Box<dyn Guest>, EngineError>;

    /// Names what guests are booted from. A guest that was kept can be restored over the same one only.
    fn environment(&self) -> &str;

    /// Reads what was kept of a guest. Nothing of it is believed; what makes no sense is refused.
    fn restore(&self, saved: SavedGuest) -> Result<Arc<dyn Snapshot>, EngineError>;

    /// A guest that goes on where the snapshot was made. Blocks. A child's interpreter may be made later, when it
    /// is first used.
    fn resume(
        &self,
        snapshot: &dyn Snapshot,
        spec: Arc<GuestSpec>,
        descent: Descent,
    ) -> Result<Box<dyn Guest>, EngineError>;

    /// Keeps so many guests of this very spec ready from now on, made by a thread of the engine's own;
    /// none for another spec. Engines that can't do so ignore it.
    fn warm(&self, spec: &Arc<GuestSpec>, count: usize) {
        let _ = (spec, count);
    }

    /// What stands between its guests and the host, and what of it is missing here.
    fn layers(&self) -> Vec<Layer> {
        Vec::new()
    }
}

/// What a resumed guest is to the one that the snapshot was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// The same, which has slept: its randomness goes on where it was.
    Same,
    /// A child with this number among its siblings: its randomness is its own.
    Child(u64),
}

/// A guest at one moment, variables and files. Cheap to hold: what is the same as elsewhere is shared.
pub trait Snapshot: Any + Send + Sync {
    /// In a form that can be kept.
    fn save(&self) -> Result<SavedGuest, EngineError>;

    /// Says that a keeper has its memory now, under this name.
    fn set_stored(&self, tag: Tag);

    /// Bytes of memory that aren't the environment's.
    fn memory_bytes(&self) -> u64;

    /// Bytes of its files.
    fn file_bytes(&self) -> u64;

    /// For the engine, which knows what it is.
    fn as_any(&self) -> &dyn Any;
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

    /// Does something with the files of a workspace in memory, between cells. What the host wrote stays when the
    /// next cell is taken back.
    fn file(&mut self, operation: FileOp) -> Result<FileReply, FileError> {
        let _ = operation;
        Err(FileError::told(FileErrorCode::Failed, "", "this engine has no files in memory"))
    }

    /// A way to the files of a workspace in memory that is open while cells run, if the engine has one.
    fn door(&self) -> Option<Arc<dyn FileDoor>> {
        None
    }

    /// The guest as it is now, between cells.
    fn snapshot(&mut self) -> Result<Arc<dyn Snapshot>, EngineError>;

    /// Makes the guest what it was, by a snapshot of itself or of a relative.
    fn roll_back_to(&mut self, snapshot: &dyn Snapshot) -> Result<(), EngineError>;

    /// Numbers of the cells that can be taken back, the last one first.
    fn undoable(&mut self) -> Result<Vec<u32>, EngineError>;

    /// Takes back the last so many cells. If there aren't so many, nothing changes.
    fn undo(&mut self, cells: usize) -> Result<(), EngineError>;

    /// Something that stops a running cell.
    fn interrupter(&self) -> Arc<dyn Interrupter>;

    /// Bytes of memory that are this guest's own.
    fn private_memory(&self) -> u64;

    /// Runs a shell command beside the interpreter, to its end. Blocks.
    fn command(&mut self, command: Command, host: Arc<dyn CellHost>) -> Result<CommandReport, EngineError> {
        let _ = (command, host);
        Err(no_processes())
    }

    /// Starts a shell command in the background, and returns its number.
    fn start(&mut self, command: Command) -> Result<u32, EngineError> {
        let _ = command;
        Err(no_processes())
    }

    /// The background commands, also those that have ended.
    fn processes(&mut self) -> Result<Vec<ProcessInfo>, EngineError> {
        Ok(Vec::new())
    }

    /// What a background command wrote since this was last asked.
    fn process_output(&mut self, id: u32) -> Result<ProcessOutput, EngineError> {
        let _ = id;
        Err(no_processes())
    }

    /// Ends a background command, with all that it started.
    fn kill(&mut self, id: u32) -> Result<(), EngineError> {
        let _ = id;
        Err(no_processes())
    }

    /// Ends all that runs beside the interpreter.
    fn end_processes(&mut self) {}

    /// How it came to be and what it lacks, in words.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Time has passed: what is large and wasn't touched can go to disk.
    fn idle(&mut self) {}
}

fn no_processes() -> EngineError {
    EngineError::Unsupported { engine: "wasm", what: "run commands; the native engine can".to_owned() }
}

/// Stops a running cell from any thread.
pub trait Interrupter: Send + Sync {
    /// Asks the running cell to stop; if it doesn't give way, it is stopped hard. Does nothing
    /// between cells.
    fn interrupt(&self);

    /// The workspace holds more than it may: the running cell is stopped hard, and ends as
    /// [`Status::DiskFull`](crate::Status::DiskFull). Does nothing between cells.
    fn fill(&self) {
        self.interrupt();
    }

    /// Bytes of files on disk that have no name any more, and that the guest holds open.
    fn hidden_bytes(&self) -> u64 {
        0
    }
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
