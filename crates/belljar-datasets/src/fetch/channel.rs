//! From those who bring bytes to the one who writes them.

use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// Bytes that may be on their way.
const ROOM: usize = 8 << 20;

pub(super) enum Event {
    /// Bytes from this offset on will follow.
    Begin { offset: u64, total: Option<u64>, validator: Option<String> },
    /// Some of them.
    Bytes(Bytes),
    /// That was all.
    End { sha256: Option<String>, version: Option<String> },
    /// That wasn't all, but there won't be more.
    Failed(Failure),
}

/// Why there won't be more.
#[derive(Debug, Default)]
pub(super) struct Failure {
    pub(super) reason: String,
    /// Another attempt may help,
    pub(super) retry: bool,
    /// from the beginning,
    pub(super) restart: bool,
    /// not before.
    pub(super) after: Option<Duration>,
    /// The host, if it is on a private network.
    pub(super) private: Option<String>,
}

impl Failure {
    pub(super) fn again(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), retry: true, ..Self::default() }
    }

    pub(super) fn fatal(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..Self::default() }
    }
}

pub(super) enum Next {
    Event(Event),
    Nothing,
    Closed,
}

/// The end where events come out. Whoever sends them is ended when it is dropped.
pub(super) struct Incoming {
    receiver: Receiver<Event>,
    room: Option<Arc<Semaphore>>,
    /// It may take its time before there is a first byte: it has to get the bytes from elsewhere first.
    pub(super) may_ponder: bool,
    _sender: Box<dyn Any>,
}

impl Incoming {
    /// From a thread, which is over when `sender` is dropped.
    pub(super) fn from_thread(receiver: Receiver<Event>, sender: impl Any) -> Self {
        Self { receiver, room: None, may_ponder: true, _sender: Box::new(sender) }
    }

    pub(super) fn next(&mut self, patience: Duration) -> Next {
        match self.receiver.recv_timeout(patience) {
            Ok(event) => {
                if let (Event::Bytes(bytes), Some(room)) = (&event, &self.room) {
                    room.add_permits(permits(bytes) as usize);
                }
                Next::Event(event)
            }
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::Closed,
        }
    }
}

/// The end where a task puts events in.
pub(super) struct Outgoing {
    sender: Sender<Event>,
    room: Arc<Semaphore>,
}

/// Nobody wants more.
pub(super) struct Unwanted;

impl Outgoing {
    pub(super) fn send(&self, event: Event) -> Result<(), Unwanted> {
        self.sender.send(event).map_err(|_| Unwanted)
    }

    /// Waits until there is room.
    pub(super) async fn bytes(&self, bytes: Bytes) -> Result<(), Unwanted> {
        let permit = self.room.acquire_many(permits(&bytes)).await.map_err(|_| Unwanted)?;
        permit.forget();
        self.send(Event::Bytes(bytes))
    }
}

/// Runs a task that sends until it returns, fails, or nobody wants more.
pub(super) fn start<F>(runtime: &Runtime, task: impl FnOnce(Arc<Outgoing>) -> F) -> Incoming
where
    F: Future<Output = Result<Result<(), Unwanted>, Failure>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel();
    let room = Arc::new(Semaphore::new(ROOM));
    let outgoing = Arc::new(Outgoing { sender: sender.clone(), room: Arc::clone(&room) });
    let task = task(outgoing);
    let task = runtime.spawn(async move {
        if let Err(failure) = task.await {
            let _ = sender.send(Event::Failed(failure));
        }
    });
    Incoming {
        receiver,
        room: Some(room),
        may_ponder: false,
        _sender: Box::new(AbortOnDrop(task.abort_handle())),
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn permits(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.len().min(ROOM)).unwrap_or(u32::MAX)
}
