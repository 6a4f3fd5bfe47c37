//! One interpreter with its variables and files.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use belljar_engine::{Cell, CellHost, Event, Guest, Interrupter, ToolCall, ToolReply};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, oneshot};

use crate::cell::{CellLife, InterruptOnDrop};
use crate::events::EventQueue;
use crate::tool::ToolTable;
use crate::{Error, Outcome, Request, RunningCell};

/// A session's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(String);

impl SessionId {
    /// A name that no other session of this machine has.
    pub(crate) fn generate() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("s-{now:x}-{:x}-{number:x}", std::process::id()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One interpreter with its variables and files. It runs one cell at a time; further ones wait their turn.
/// Dropping it ends it.
///
/// The functions with `_blocking` in their name must not be called from async code; the others need a
/// tokio runtime.
pub struct Session {
    id: SessionId,
    guest: Arc<Mutex<GuestSlot>>,
    interrupter: Arc<dyn Interrupter>,
    tools: Arc<ToolTable>,
}

struct GuestSlot {
    guest: Box<dyn Guest>,
    cells: u32,
}

impl Session {
    pub(crate) fn new(guest: Box<dyn Guest>, tools: Arc<ToolTable>) -> Self {
        let interrupter = guest.interrupter();
        let guest = Arc::new(Mutex::new(GuestSlot { guest, cells: 0 }));
        Self { id: SessionId::generate(), guest, interrupter, tools }
    }

    /// Its name.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Runs code to its end. Dropping the future interrupts the cell.
    pub async fn run(&self, request: impl Into<Request>) -> Result<Outcome, Error> {
        let (receiver, mut stop) = self.start_with(request.into(), None).await;
        let outcome = receiver.await.unwrap_or(Err(Error::Abandoned));
        stop.armed = false;
        outcome
    }

    /// Starts code and returns at once; its events can be heard while it runs.
    pub async fn start(&self, request: impl Into<Request>) -> RunningCell {
        let events = Arc::new(EventQueue::default());
        let (outcome, stop) = self.start_with(request.into(), Some(Arc::clone(&events))).await;
        RunningCell { events, outcome, stop }
    }

    /// Runs code to its end on this thread.
    pub fn run_blocking(&self, request: impl Into<Request>) -> Result<Outcome, Error> {
        self.run_observed_blocking(request, |_| ())
    }

    /// Runs code to its end on this thread and hears its events meanwhile.
    pub fn run_observed_blocking(
        &self,
        request: impl Into<Request>,
        observer: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Outcome, Error> {
        let life = Arc::default();
        let host = Host { tools: Arc::clone(&self.tools), runtime: None, life, observer };
        let mut slot = self.guest.blocking_lock();
        run_cell(&mut slot, &self.id, request.into(), Arc::new(host))
    }

    /// Asks the running cell to stop: by a `KeyboardInterrupt` first, hard if it doesn't give way. The
    /// variables stay. Does nothing between cells. Can be called from any thread.
    pub fn interrupt(&self) {
        self.interrupter.interrupt();
    }

    /// Something that interrupts this session's cells and can be kept elsewhere, e.g. by a signal handler.
    pub fn interrupter(&self) -> Arc<dyn Fn() + Send + Sync> {
        let interrupter = Arc::clone(&self.interrupter);
        Arc::new(move || interrupter.interrupt())
    }

    /// Makes the last cell's effects final now instead of before the next one. The async functions do so by
    /// themselves, after the outcome is there.
    pub fn settle_blocking(&self) {
        self.guest.blocking_lock().guest.settle();
    }

    /// Puts a file into the session, at an absolute guest path or one below the workspace.
    pub async fn write_file(&self, path: &str, contents: &[u8]) -> Result<(), Error> {
        self.guest.lock().await.guest.write_file(&guest_path(path), contents).map_err(Error::from)
    }

    /// Reads a file of the session.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.guest.lock().await.guest.read_file(&guest_path(path)).map_err(Error::from)
    }

    /// [`Session::write_file`] without async.
    pub fn write_file_blocking(&self, path: &str, contents: &[u8]) -> Result<(), Error> {
        self.guest.blocking_lock().guest.write_file(&guest_path(path), contents).map_err(Error::from)
    }

    /// [`Session::read_file`] without async.
    pub fn read_file_blocking(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.guest.blocking_lock().guest.read_file(&guest_path(path)).map_err(Error::from)
    }

    /// Bytes of memory that are this session's own. Waits for the running cell.
    pub fn private_memory_blocking(&self) -> u64 {
        self.guest.blocking_lock().guest.private_memory()
    }

    async fn start_with(
        &self,
        request: Request,
        events: Option<Arc<EventQueue>>,
    ) -> (oneshot::Receiver<Result<Outcome, Error>>, InterruptOnDrop) {
        let slot = Arc::clone(&self.guest).lock_owned().await;
        let (sender, receiver) = oneshot::channel();
        let life = Arc::new(CellLife::default());
        let heard = events.clone();
        let observer = move |event| {
            if let Some(events) = &heard {
                events.push(event);
            }
        };
        let host = Host {
            tools: Arc::clone(&self.tools),
            runtime: Handle::try_current().ok(),
            life: Arc::clone(&life),
            observer,
        };
        let stop = InterruptOnDrop {
            interrupter: Arc::clone(&self.interrupter),
            life: Arc::clone(&life),
            armed: true,
        };
        let id = self.id.clone();
        tokio::task::spawn_blocking(move || {
            let mut slot = slot;
            let outcome = run_cell(&mut slot, &id, request, Arc::new(host));
            life.end();
            if let Some(events) = events {
                events.close();
            }
            // The caller has its answer before the cell's effects are made final.
            let _ = sender.send(outcome);
            slot.guest.settle();
        });
        (receiver, stop)
    }
}

fn guest_path(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/workspace/{path}") }
}

fn run_cell(
    slot: &mut GuestSlot,
    id: &SessionId,
    request: Request,
    host: Arc<dyn CellHost>,
) -> Result<Outcome, Error> {
    slot.cells += 1;
    let cell = Cell { number: slot.cells, file: request.file, code: request.code };
    let report = slot.guest.run(cell, host)?;
    Ok(Outcome::new(report, id.to_string(), slot.cells))
}

/// The host's side of a cell.
struct Host<F> {
    tools: Arc<ToolTable>,
    runtime: Option<Handle>,
    life: Arc<CellLife>,
    observer: F,
}

impl<F: Fn(Event) + Send + Sync> CellHost for Host<F> {
    fn event(&self, event: Event) {
        (self.observer)(event);
    }

    fn call(&self, call: ToolCall, reply: ToolReply) {
        self.tools.call(call, reply, self.runtime.as_ref());
    }

    fn is_cancelled(&self) -> bool {
        self.life.is_cancelled()
    }
}
