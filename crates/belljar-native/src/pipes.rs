//! Standard output and error of a session.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, BorrowedFd};

use belljar_engine::{CapturedStream, CellHost, Event, StreamCapture};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::tree::Tree;

/// One of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    fn event(self, bytes: Vec<u8>) -> Event {
        match self {
            Self::Stdout => Event::Stdout(bytes),
            Self::Stderr => Event::Stderr(bytes),
        }
    }
}

/// The reading ends.
pub(crate) struct Pipes {
    pub(crate) stdout: PipeReader,
    pub(crate) stderr: PipeReader,
}

impl Pipes {
    /// Both ends of both.
    pub(crate) fn new() -> io::Result<(Self, PipeWriter, PipeWriter)> {
        let ((stdout, their_stdout), (stderr, their_stderr)) = (io::pipe()?, io::pipe()?);
        for reader in [stdout.as_fd(), stderr.as_fd()] {
            fcntl_setfl(reader, fcntl_getfl(reader)? | OFlags::NONBLOCK)?;
        }
        Ok((Self { stdout, stderr }, their_stdout, their_stderr))
    }

    pub(crate) fn descriptor(&self, stream: Stream) -> BorrowedFd<'_> {
        match stream {
            Stream::Stdout => self.stdout.as_fd(),
            Stream::Stderr => self.stderr.as_fd(),
        }
    }

    /// What is there now, at most a piece of it; empty if there is nothing.
    pub(crate) fn read<'b>(&mut self, stream: Stream, buffer: &'b mut [u8]) -> (&'b [u8], bool) {
        let reader = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        match reader.read(buffer) {
            Ok(0) => (&[], true),
            Ok(length) => (&buffer[..length], false),
            Err(_) => (&[], false),
        }
    }

    /// Forgets what was written between cells.
    pub(crate) fn discard(&mut self) {
        let mut buffer = [0; 4096];
        // Bounded: who writes without end is read when a cell runs.
        for stream in [Stream::Stdout, Stream::Stderr] {
            for _ in 0..64 {
                if self.read(stream, &mut buffer).0.is_empty() {
                    break;
                }
            }
        }
    }
}

/// The part of the file quota that one stream's overflow may fill.
const REST_SHARE: u64 = 4;

/// Collects one stream of a cell.
pub(crate) struct Collector {
    stream: Stream,
    capture: StreamCapture,
    /// Guest path of the file that has the whole stream, once more was written than is kept.
    rest: String,
    has_rest: bool,
    rest_full: bool,
    room: u64,
}

impl Collector {
    pub(crate) fn new(stream: Stream, name: &str, limit: u64, file_bytes: u64) -> Self {
        let rest = format!("/tmp/{name}.{}", stream.name());
        Self {
            stream,
            capture: StreamCapture::new(limit),
            rest,
            has_rest: false,
            rest_full: false,
            room: file_bytes / REST_SHARE,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], host: &dyn CellHost, tree: &Tree) {
        let fits = self.capture.push(bytes);
        if fits > 0 {
            host.event(self.stream.event(bytes[..fits].to_vec()));
        }
        if fits < bytes.len() && !self.rest_full {
            let written = match self.has_rest {
                false => tree.write_new(&self.rest, &[self.capture.head(), &bytes[fits..]].concat()),
                true if self.capture.total() > self.room => Err(io::ErrorKind::StorageFull.into()),
                true => tree.append(&self.rest, &bytes[fits..]),
            };
            self.rest_full = written.is_err();
            self.has_rest |= written.is_ok();
        }
    }

    pub(crate) fn finish(self, host: &dyn CellHost, tree: &Tree) -> CapturedStream {
        let end = self.capture.end();
        if !end.is_empty() {
            host.event(self.stream.event(end));
        }
        let cut = self.capture.is_cut();
        if !cut && self.has_rest {
            let _ = tree.remove(&self.rest);
        }
        self.capture.finish((cut && self.has_rest).then_some(self.rest))
    }
}
