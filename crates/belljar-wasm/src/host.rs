//! What the host keeps for one guest while it lives.

use std::sync::Arc;

use belljar_engine::{CellHost, Limits, MimeBundle, StreamCapture, ToolGate};
use belljar_files::{Errno, FileSystem};
use serde::{Deserialize, Serialize};
use wasmtime::{Global, Memory, ResourceLimiter, TypedFunc};

use crate::clock::ClockState;
use crate::control::Control;
use crate::entropy::EntropyState;
use crate::resources::Resources;
use crate::tools::StartedCalls;

/// The data of a guest's store.
pub(crate) struct HostState {
    pub(crate) exports: Option<Arc<Exports>>,
    /// Where in its memory the guest looks for what a stream failed with.
    pub(crate) error_word: u32,
    pub(crate) machine: Machine,
    pub(crate) control: Arc<Control>,
    pub(crate) memory_limit: MemoryLimit,
    pub(crate) cell: Option<RunningCell>,
}

/// The host's half of a guest's state. With the memory and the globals it is the whole guest: it is
/// cloned to take a cell back and serialised to keep a guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) files: FileSystem,
    pub(crate) resources: Resources,
    pub(crate) clock: ClockState,
    pub(crate) entropy: EntropyState,
}

impl Machine {
    /// For keeping: its clock stands still.
    pub(crate) fn stopped(&self) -> Self {
        Self { clock: self.clock.stopped(), ..self.clone() }
    }

    /// What was kept goes on.
    pub(crate) fn started(self) -> Self {
        Self { clock: self.clock.started(), ..self }
    }
}

/// What the host calls or reaches in the guest.
pub(crate) struct Exports {
    pub(crate) memory: Memory,
    pub(crate) handle: TypedFunc<(u32, u32), u32>,
    pub(crate) post_handle: Option<TypedFunc<u32, ()>>,
    pub(crate) realloc: TypedFunc<(u32, u32, u32, u32), u32>,
    pub(crate) wasi_realloc: TypedFunc<(u32, u32, u32, u32), u32>,
    pub(crate) malloc: TypedFunc<u32, u32>,
    pub(crate) free: TypedFunc<u32, ()>,
    pub(crate) set_interrupt: TypedFunc<i32, i32>,
    pub(crate) stack_pointer: Global,
    pub(crate) globals: Vec<Global>,
}

/// What belongs to the cell that runs.
pub(crate) struct RunningCell {
    pub(crate) number: u32,
    pub(crate) host: Arc<dyn CellHost>,
    pub(crate) stdout: OutputStream,
    pub(crate) stderr: OutputStream,
    pub(crate) displays: Vec<MimeBundle>,
    pub(crate) display_bytes_left: u64,
    pub(crate) gate: ToolGate,
    pub(crate) calls: StartedCalls,
    pub(crate) limits: Limits,
    /// Something was refused because the session's files are full.
    pub(crate) files_full: bool,
}

/// One of a cell's two output streams.
pub(crate) struct OutputStream {
    pub(crate) capture: StreamCapture,
    /// Guest path of the file that has the whole stream, once more was written than is kept.
    pub(crate) rest: Option<String>,
    /// The file is full; it isn't written to any more.
    pub(crate) rest_full: bool,
}

impl HostState {
    /// Notes what a file operation answered.
    pub(crate) fn note<T>(&mut self, outcome: &Result<T, Errno>) {
        if let (Err(Errno::NoSpace), Some(cell)) = (outcome, &mut self.cell) {
            cell.files_full = true;
        }
    }
}

impl OutputStream {
    pub(crate) fn new(limit: u64) -> Self {
        Self { capture: StreamCapture::new(limit), rest: None, rest_full: false }
    }
}

/// Refuses memory beyond the limit; the guest sees a failed allocation.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    pub(crate) bytes: usize,
    /// Growth was refused since this was last cleared.
    pub(crate) refused: bool,
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let allowed = desired <= self.bytes;
        self.refused |= !allowed;
        Ok(allowed)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(maximum.is_none_or(|maximum| desired <= maximum))
    }
}
