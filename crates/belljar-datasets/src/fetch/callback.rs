//! Fetchers that the host brings along.

use std::io::{self, Write};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};

use bytes::Bytes;

use super::channel::{Event, Failure, Incoming};

/// Pieces that may be on their way.
const PIECES: usize = 16;

/// Brings the bytes of datasets, however the host gets at them.
///
/// It runs on a thread of its own. When it takes too long or nobody wants more, writing fails, and it should return;
/// should it never write again, the thread stays until it does return.
pub trait Fetcher: Send + Sync {
    /// Writes the bytes of a dataset, from [`FetchRequest::offset`] on.
    ///
    /// # Errors
    /// If there are none, for now or for good. What fails when writing can be passed on as it is.
    fn fetch(&self, request: &FetchRequest, to: &mut dyn Write) -> Result<Fetched, FetchFailure>;

    /// Whether it can begin in the middle. Otherwise [`FetchRequest::offset`] is always 0; so it is of the
    /// [latest](crate::LATEST) version, which may change, unless a hash was promised.
    fn resumes(&self) -> bool {
        false
    }
}

/// What is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchRequest {
    /// Whose dataset.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Bytes that are here already.
    pub offset: u64,
}

/// What a fetcher knows of what it wrote. It is held to that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Of all the bytes, in hexadecimal digits.
    pub sha256: Option<String>,
    /// Which version that was.
    pub version: Option<String>,
}

/// Why a fetcher wrote nothing, or not all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchFailure {
    /// In words.
    pub message: String,
    /// It may succeed the next time.
    pub retry: bool,
}

impl FetchFailure {
    /// It won't succeed the next time either.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: false }
    }

    /// It may succeed the next time.
    pub fn again(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: true }
    }
}

impl From<io::Error> for FetchFailure {
    fn from(error: io::Error) -> Self {
        Self::again(error.to_string())
    }
}

pub(super) fn start(fetcher: Arc<dyn Fetcher>, request: FetchRequest) -> Incoming {
    let (sender, receiver) = mpsc::sync_channel(PIECES);
    let run = move || {
        let begin = Event::Begin { offset: request.offset, total: None, validator: None };
        let mut writer = ChannelWriter { sender: sender.clone() };
        if sender.send(begin).is_err() {
            return;
        }
        // The host's code; its thread has nothing that could be left half done.
        let fetched = std::panic::catch_unwind(AssertUnwindSafe(|| fetcher.fetch(&request, &mut writer)));
        let _ = sender.send(match fetched {
            Ok(Ok(Fetched { sha256, version })) => Event::End { sha256, version },
            Ok(Err(FetchFailure { message, retry })) => {
                Event::Failed(Failure { retry, ..Failure::fatal(message) })
            }
            Err(_) => Event::Failed(Failure::fatal("the fetcher panicked")),
        });
    };
    // Without a thread nothing is sent, which is noticed.
    let _ = std::thread::Builder::new().name("belljar-fetcher".to_owned()).spawn(run);
    Incoming::from_thread(receiver, ())
}

struct ChannelWriter {
    sender: SyncSender<Event>,
}

impl Write for ChannelWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(1 << 20)];
        match self.sender.send(Event::Bytes(Bytes::copy_from_slice(piece))) {
            Ok(()) => Ok(piece.len()),
            Err(_) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "nobody wants more of it")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
