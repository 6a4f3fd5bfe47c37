//! The socket of one kernel, live or a shadow. Everything that comes from it is untrusted.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use belljar_jail::wire;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The longest message that is read.
const MOST: usize = 64 << 20;
/// How much is read at once.
const PIECE: usize = 64 << 10;

/// One kernel.
pub(crate) struct Kernel {
    socket: UnixStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Its process. Of a shadow only the number is known.
    pub(crate) process: Option<OwnedFd>,
    /// In the session's eyes.
    pub(crate) pid: i32,
}

/// What came from a kernel.
pub(crate) enum Heard {
    Frame(Vec<u8>),
    /// Nothing yet.
    Silence,
    /// It has ended.
    End,
}

impl Kernel {
    pub(crate) fn new(socket: UnixStream, process: Option<OwnedFd>, pid: i32) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, incoming: Vec::new(), outgoing: Vec::new(), process, pid })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether something waits to be sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends a message, as much of it as the socket takes now.
    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.outgoing.extend((message.len() as u32).to_le_bytes());
        self.outgoing.extend(message);
        self.flush()
    }

    /// Sends a message with descriptors. Nothing else may be waiting to be sent.
    pub(crate) fn send_with(&mut self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut whole = (message.len() as u32).to_le_bytes().to_vec();
        whole.extend(message);
        let sent = wire::send_bytes(&self.socket, &whole, descriptors)?;
        self.outgoing.extend(&whole[sent..]);
        self.flush()
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.socket.write(&self.outgoing) {
                Ok(sent) => drop(self.outgoing.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next message, if it is there.
    pub(crate) fn hear(&mut self) -> io::Result<Heard> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Heard::Frame(frame));
            }
            let length = self.incoming.len();
            let wanted = self.wanted().clamp(PIECE, 4 << 20);
            self.incoming.resize(length + wanted, 0);
            let read = self.socket.read(&mut self.incoming[length..]);
            self.incoming.truncate(length + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(Heard::End),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Heard::Silence),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Heard::End),
                Err(error) => return Err(error),
            }
        }
    }

    /// Bytes that the message under way lacks.
    fn wanted(&self) -> usize {
        match self.incoming.first_chunk::<4>() {
            Some(length) => (u32::from_le_bytes(*length) as usize + 4).saturating_sub(self.incoming.len()),
            None => 0,
        }
    }

    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(length) = self.incoming.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MOST {
            return Err(io::Error::other("it sent a message that is too long"));
        }
        if self.incoming.len() < 4 + length {
            return Ok(None);
        }
        let frame = self.incoming[4..4 + length].to_vec();
        self.incoming.drain(..4 + length);
        Ok(Some(frame))
    }

    /// Sends a message outside any cell, and waits for the reply.
    pub(crate) fn ask(
        &mut self,
        message: &[u8],
        descriptors: &[BorrowedFd<'_>],
        patience: Duration,
    ) -> io::Result<Vec<u8>> {
        if descriptors.is_empty() {
            self.send(message)?;
        } else {
            self.send_with(message, descriptors)?;
        }
        self.listen(patience)
    }

    /// Waits for a message outside any cell.
    pub(crate) fn listen(&mut self, patience: Duration) -> io::Result<Vec<u8>> {
        let until = Instant::now() + patience;
        loop {
            self.flush()?;
            match self.hear()? {
                Heard::Frame(frame) => return Ok(frame),
                Heard::End => return Err(io::ErrorKind::UnexpectedEof.into()),
                Heard::Silence => {}
            }
            let left = until.checked_duration_since(Instant::now());
            let left = left.ok_or(io::ErrorKind::TimedOut)?;
            let wanted = if self.is_sending() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            wait(&mut [PollFd::from_borrowed_fd(self.socket.as_fd(), wanted)], Some(left))?;
        }
    }
}

/// `poll`, with a time.
pub(crate) fn wait(descriptors: &mut [PollFd<'_>], time: Option<Duration>) -> io::Result<()> {
    let time = time.map(|time| Timespec {
        tv_sec: time.as_secs().min(1 << 40) as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    });
    match poll(descriptors, time.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
