//! A child that nobody has used yet: it has no interpreter, and takes next to no memory and time.

use std::sync::Arc;

use belljar_engine::{
    Cell, CellHost, CellReport, EngineError, FileError, FileErrorCode, FileOp, FileReply, Guest, GuestSpec,
    Interrupter, Snapshot,
};

use crate::control::Control;
use crate::engine::Shared;
use crate::guest::{Resumption, WasmGuest};
use crate::watchdog::GuestInterrupter;

/// A guest whose interpreter is made when it is first needed.
pub(crate) struct Child {
    shared: Arc<Shared>,
    spec: Arc<GuestSpec>,
    control: Arc<Control>,
    state: State,
}

enum State {
    Unused(Box<Resumption>),
    Used(Box<WasmGuest>),
}

impl Child {
    pub(crate) fn new(shared: &Arc<Shared>, spec: &Arc<GuestSpec>, from: Resumption) -> Self {
        let state = State::Unused(Box::new(from));
        Self { shared: Arc::clone(shared), spec: Arc::clone(spec), control: Arc::default(), state }
    }

    fn guest(&mut self) -> Result<&mut WasmGuest, EngineError> {
        if let State::Unused(from) = &self.state {
            // It stays unused if there is no room at the moment.
            let guest = WasmGuest::resume(&self.shared, &self.spec, &self.control, Resumption::clone(from))?;
            self.state = State::Used(Box::new(guest));
        }
        match &mut self.state {
            State::Used(guest) => Ok(guest),
            State::Unused(_) => Err(EngineError::Gone("it was never made".to_owned())),
        }
    }
}

impl Guest for Child {
    fn run(&mut self, cell: Cell, host: Arc<dyn CellHost>) -> Result<CellReport, EngineError> {
        self.guest()?.run(cell, host)
    }

    fn settle(&mut self) {
        if let State::Used(guest) = &mut self.state {
            guest.settle();
        }
    }

    fn read_file(&mut self, path: &str) -> Result<Vec<u8>, EngineError> {
        self.guest()?.read_file(path)
    }

    fn write_file(&mut self, path: &str, contents: &[u8]) -> Result<(), EngineError> {
        self.guest()?.write_file(path, contents)
    }

    fn file(&mut self, operation: FileOp) -> Result<FileReply, FileError> {
        let guest =
            self.guest().map_err(|error| FileError::told(FileErrorCode::Failed, "", error.to_string()))?;
        guest.file(operation)
    }

    fn snapshot(&mut self) -> Result<Arc<dyn Snapshot>, EngineError> {
        match &mut self.state {
            State::Unused(from) => Ok(Arc::new(from.snapshot(&self.shared, &self.spec))),
            State::Used(guest) => guest.snapshot(),
        }
    }

    fn roll_back_to(&mut self, snapshot: &dyn Snapshot) -> Result<(), EngineError> {
        self.guest()?.roll_back_to(snapshot)
    }

    fn undoable(&mut self) -> Result<Vec<u32>, EngineError> {
        self.guest()?.undoable()
    }

    fn undo(&mut self, cells: usize) -> Result<(), EngineError> {
        self.guest()?.undo(cells)
    }

    fn interrupter(&self) -> Arc<dyn Interrupter> {
        Arc::new(GuestInterrupter {
            control: Arc::clone(&self.control),
            watchdog: Arc::clone(&self.shared.watchdog),
        })
    }

    fn private_memory(&self) -> u64 {
        match &self.state {
            State::Unused(_) => 0,
            State::Used(guest) => guest.private_memory(),
        }
    }
}
