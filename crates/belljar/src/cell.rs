//! A cell from the caller's side.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use belljar_engine::{Event, Interrupter};
use tokio::sync::{mpsc, oneshot};

use crate::{Error, Outcome};

/// Code to run. Strings and bytes turn into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The source.
    pub code: Vec<u8>,
    /// The file name that tracebacks show; `<cell N>` where there is none.
    pub file: Option<String>,
}

impl Request {
    /// Code that came from a file of this name.
    pub fn from_file(name: impl Into<String>, code: impl Into<Vec<u8>>) -> Self {
        Self { code: code.into(), file: Some(name.into()) }
    }
}

impl From<&str> for Request {
    fn from(code: &str) -> Self {
        Self { code: code.as_bytes().to_vec(), file: None }
    }
}

impl From<String> for Request {
    fn from(code: String) -> Self {
        Self { code: code.into_bytes(), file: None }
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
        Self { code, file: None }
    }
}

/// A cell that runs in the background. Dropping it interrupts the cell.
#[must_use = "dropping it interrupts the cell"]
pub struct RunningCell {
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
    pub(crate) outcome: oneshot::Receiver<Result<Outcome, Error>>,
    pub(crate) stop: InterruptOnDrop,
}

impl RunningCell {
    /// The next event; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Asks the cell to stop, even if it hasn't begun yet.
    pub fn interrupt(&self) {
        self.stop.cancel();
    }

    /// Waits for the cell to end.
    pub async fn outcome(mut self) -> Result<Outcome, Error> {
        let outcome = (&mut self.outcome).await.unwrap_or(Err(Error::Abandoned));
        self.stop.armed = false;
        outcome
    }
}

/// Interrupts a cell unless it has ended.
pub(crate) struct InterruptOnDrop {
    pub(crate) interrupter: Arc<dyn Interrupter>,
    /// Seen by the cell when it begins.
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) armed: bool,
}

impl InterruptOnDrop {
    fn cancel(&self) {
        // First the flag: a cell that begins in between sees it, one that runs already is interrupted.
        self.cancelled.store(true, Ordering::SeqCst);
        self.interrupter.interrupt();
    }
}

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        if self.armed {
            self.cancel();
        }
    }
}
