//! Stopping a running cell from outside, and waking the thread that listens to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use belljar_engine::{Interrupter, ToolFailure};
use rustix::event::{EventfdFlags, eventfd};
use serde_json::Value;

use crate::nameless::Nameless;

pub(crate) type CallResult = Result<Value, ToolFailure>;

/// Shared between a guest and whoever holds an interrupter or answers its calls.
pub(crate) struct Control {
    wake: OwnedFd,
    state: Mutex<State>,
    nameless: Option<Nameless>,
}

#[derive(Default)]
struct State {
    /// Counts cells, so that what is meant for one doesn't reach the next.
    cell: u64,
    running: bool,
    interrupted: bool,
    filled: bool,
    ended_calls: Vec<(u64, CallResult)>,
}

impl Control {
    pub(crate) fn new(nameless: Option<Nameless>) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { wake, state: Mutex::default(), nameless })
    }

    /// A cell begins; returns its number.
    pub(crate) fn begin(&self) -> u64 {
        let mut state = self.lock();
        let cell = state.cell + 1;
        *state = State { cell, running: true, ..State::default() };
        cell
    }

    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.running = false;
        state.cell += 1;
        state.ended_calls.clear();
    }

    /// Whether somebody asked the cell to stop.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.lock().interrupted
    }

    /// Whether the workspace holds more than it may.
    pub(crate) fn is_filled(&self) -> bool {
        self.lock().filled
    }

    pub(crate) fn end_call(&self, cell: u64, id: u64, result: CallResult) {
        let mut state = self.lock();
        if state.cell == cell {
            state.ended_calls.push((id, result));
            drop(state);
            self.wake();
        }
    }

    pub(crate) fn take_ended(&self) -> Vec<(u64, CallResult)> {
        // Read first: what comes later wakes again.
        let mut buffer = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut buffer);
        std::mem::take(&mut self.lock().ended_calls)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interrupter for Control {
    fn interrupt(&self) {
        let mut state = self.lock();
        if state.running {
            state.interrupted = true;
            drop(state);
            self.wake();
        }
    }

    fn fill(&self) {
        let mut state = self.lock();
        if state.running {
            state.filled = true;
            drop(state);
            self.wake();
        }
    }

    fn hidden_bytes(&self) -> u64 {
        self.nameless.as_ref().map_or(0, Nameless::bytes)
    }
}
