//! A cell from the caller's side.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_engine::{Event, Interrupter};
use tokio::sync::oneshot;

use crate::events::EventQueue;
use crate::{CommandOutcome, Error, Outcome};

/// Code to run. Strings and bytes turn into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The source.
    pub code: Vec<u8>,
    /// The file name that tracebacks show; `<cell N>` where there is none.
    pub file: Option<String>,
    /// What the agent's framework calls the tool call that this is; artifacts remember it.
    pub tool_call: Option<String>,
}

impl Request {
    /// Code that came from a file of this name.
    pub fn from_file(name: impl Into<String>, code: impl Into<Vec<u8>>) -> Self {
        Self { code: code.into(), file: Some(name.into()), tool_call: None }
    }

    /// Says which tool call of an agent's framework this is.
    pub fn tool_call(mut self, id: impl Into<String>) -> Self {
        self.tool_call = Some(id.into());
        self
    }
}

impl From<&str> for Request {
    fn from(code: &str) -> Self {
        code.as_bytes().to_vec().into()
    }
}

impl From<String> for Request {
    fn from(code: String) -> Self {
        code.into_bytes().into()
    }
}

impl From<&String> for Request {
    fn from(code: &String) -> Self {
        code.as_str().into()
    }
}

impl From<&[u8]> for Request {
    fn from(code: &[u8]) -> Self {
        code.to_vec().into()
    }
}

impl From<Vec<u8>> for Request {
    fn from(code: Vec<u8>) -> Self {
        Self { code, file: None, tool_call: None }
    }
}

/// A cell or a command that runs in the background. Dropping it interrupts it.
#[must_use = "dropping it interrupts what runs"]
pub struct Running<O> {
    pub(crate) events: Arc<EventQueue>,
    pub(crate) outcome: oneshot::Receiver<Result<O, Error>>,
    pub(crate) stop: InterruptOnDrop,
}

/// A cell that runs in the background.
pub type RunningCell = Running<Outcome>;
/// A shell command that runs in the background, and that somebody waits for.
pub type RunningCommand = Running<CommandOutcome>;

impl<O> Running<O> {
    /// The next event; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.next().await
    }

    /// Asks it to stop, even if it hasn't begun yet.
    pub fn interrupt(&self) {
        self.stop.cancel();
    }

    /// Waits for its end.
    pub async fn outcome(mut self) -> Result<O, Error> {
        let outcome = (&mut self.outcome).await.unwrap_or(Err(Error::Abandoned));
        self.stop.armed = false;
        outcome
    }
}

/// Interrupts a cell unless it has ended.
pub(crate) struct InterruptOnDrop {
    pub(crate) interrupter: Arc<dyn Interrupter>,
    pub(crate) life: Arc<CellLife>,
    pub(crate) armed: bool,
}

impl InterruptOnDrop {
    fn cancel(&self) {
        self.life.cancel(self.interrupter.as_ref());
    }
}

/// Where one cell is between its request and its end, so that an interrupt reaches it and no other.
#[derive(Debug, Default)]
pub(crate) struct CellLife {
    state: Mutex<LifeState>,
}

#[derive(Debug, Default)]
struct LifeState {
    cancelled: bool,
    ended: bool,
}

impl CellLife {
    /// Stops the cell if it runs; if it hasn't begun, it won't.
    fn cancel(&self, interrupter: &dyn Interrupter) {
        // Under the lock: until it is released the cell can't end and another begin.
        let mut state = self.lock();
        state.cancelled = true;
        if !state.ended {
            interrupter.interrupt();
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    pub(crate) fn end(&self) {
        self.lock().ended = true;
    }

    fn lock(&self) -> MutexGuard<'_, LifeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        if self.armed {
            self.cancel();
        }
    }
}
