//! Stopping a running cell from outside, and waking one that waits.
//!
//! Compiled guest code looks at one word of its memory at each loop header and calls the host's
//! `poll` when it isn't zero. A stop is therefore: note the request here, set the word. Code that
//! waits in the host sleeps on the condition variable beside it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use belljar_engine::ToolFailure;
use serde_json::Value;

/// How a tool call ended.
pub(crate) type CallResult = Result<Value, ToolFailure>;

/// Why a cell is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its time is over.
    Deadline,
    /// Somebody asked for it.
    Interrupt,
}

/// How a cell is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// By an exception that the interpreter raises.
    Soft,
    /// At once.
    Hard,
}

/// Shared between a guest, the watchdog and whoever holds an interrupter.
#[derive(Debug, Default)]
pub(crate) struct Control {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Counts cells, so that what is meant for one doesn't reach the next.
    cell: u64,
    word: Option<PollWord>,
    request: Option<Request>,
    /// The soft request has been handed to the interpreter.
    delivered: bool,
    cause: Option<Cause>,
    ended_calls: Vec<(u64, CallResult)>,
}

/// The polled word of a memory that is alive while a cell runs.
#[derive(Clone, Copy, Debug)]
struct PollWord(NonNull<AtomicU32>);

// SAFETY: it points to an atomic, and is used only under the lock between `begin` and `end`.
unsafe impl Send for PollWord {}

impl PollWord {
    fn set(self, value: u32) {
        // SAFETY: the memory lives from `begin` to `end`, and the word is in use only between them.
        unsafe { self.0.as_ref() }.store(value, Ordering::SeqCst);
    }
}

impl Control {
    /// A cell begins.
    ///
    /// # Safety
    /// `word` must point to an aligned word that is only accessed atomically or by guest code, and that
    /// stays valid until [`Control::end`].
    pub(crate) unsafe fn begin(&self, word: NonNull<AtomicU32>) -> u64 {
        let mut state = self.lock();
        state.cell += 1;
        state.word = Some(PollWord(word));
        state.request = None;
        state.delivered = false;
        state.cause = None;
        state.ended_calls.clear();
        PollWord(word).set(0);
        state.cell
    }

    /// The cell ended. Returns why it was asked to stop, if it was.
    pub(crate) fn end(&self) -> Option<Cause> {
        let mut state = self.lock();
        state.cell += 1;
        if let Some(word) = state.word.take() {
            word.set(0);
        }
        state.request = None;
        state.cause.take()
    }

    /// The number of the running cell, if one runs.
    pub(crate) fn running(&self) -> Option<u64> {
        let state = self.lock();
        state.word.is_some().then_some(state.cell)
    }

    /// Asks the cell to stop. Returns false if it ended meanwhile.
    pub(crate) fn stop(&self, cell: u64, request: Request, cause: Cause) -> bool {
        let mut state = self.lock();
        let (true, Some(word)) = (state.cell == cell, state.word) else { return false };
        if request == Request::Hard || state.request.is_none() {
            state.request = Some(request);
            state.cause.get_or_insert(cause);
            word.set(1);
        }
        drop(state);
        self.wake.notify_all();
        true
    }

    /// What the guest is to do now. A soft request is handed out once.
    pub(crate) fn take_request(&self) -> Option<Request> {
        let mut state = self.lock();
        match state.request {
            Some(Request::Soft) if !state.delivered => {
                state.delivered = true;
                if let Some(word) = state.word {
                    word.set(0);
                }
                Some(Request::Soft)
            }
            Some(Request::Soft) | None => {
                // Nothing new: guest code itself wrote to the word.
                if let Some(word) = state.word {
                    word.set(0);
                }
                None
            }
            Some(Request::Hard) => Some(Request::Hard),
        }
    }

    /// A tool call of the given cell ended.
    pub(crate) fn end_call(&self, cell: u64, id: u64, result: CallResult) {
        let mut state = self.lock();
        if state.cell == cell {
            state.ended_calls.push((id, result));
            drop(state);
            self.wake.notify_all();
        }
    }

    /// Sleeps until the deadline or a stop request.
    pub(crate) fn sleep(&self, deadline: Instant) {
        self.wait_for(Some(deadline), |_| None::<()>);
    }

    /// Waits until some tool calls have ended, but not beyond the deadline or a stop request.
    pub(crate) fn take_ended(&self, deadline: Option<Instant>) -> Vec<(u64, CallResult)> {
        self.wait_for(deadline, |ended| (!ended.is_empty()).then(|| std::mem::take(ended)))
            .unwrap_or_default()
    }

    /// Waits until one tool call has ended, but not beyond the deadline or a stop request.
    pub(crate) fn take_ended_call(&self, id: u64, deadline: Instant) -> Option<CallResult> {
        self.wait_for(Some(deadline), |ended| {
            let position = ended.iter().position(|(ended_id, _)| *ended_id == id)?;
            Some(ended.swap_remove(position).1)
        })
    }

    fn wait_for<T>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut Vec<(u64, CallResult)>) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&mut state.ended_calls) {
                return Some(found);
            }
            let stopped = match state.request {
                Some(Request::Hard) => true,
                Some(Request::Soft) => !state.delivered,
                None => false,
            };
            if stopped {
                return None;
            }
            state = match deadline {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.checked_duration_since(Instant::now())?;
                    self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
