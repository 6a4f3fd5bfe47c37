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
/// Answers that wait to be read, beyond the last one.
const MOST_UNREAD: usize = 1 << 20;

/// One kernel.
pub(crate) struct Kernel {
    socket: UnixStream,
    incoming: Vec<u8>,
    /// Bytes of `incoming` that were taken already.
    taken: usize,
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
        refuse_descriptors(&socket);
        Ok(Self { socket, incoming: Vec::new(), taken: 0, outgoing: Vec::new(), process, pid })
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
        if self.outgoing.len() > MOST_UNREAD {
            return Err(io::Error::other("it doesn't read its answers"));
        }
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
            let missing = self.next_length().map_or(0, |next| next.saturating_sub(self.rest().len()));
            let wanted = missing.clamp(PIECE, 4 << 20);
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

    /// What was read and not taken.
    fn rest(&self) -> &[u8] {
        &self.incoming[self.taken..]
    }

    /// The length of the next message with its own length before it, if that is known.
    fn next_length(&self) -> Option<usize> {
        self.rest().first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize + 4)
    }

    /// Whether a whole message waits to be taken.
    pub(crate) fn has_frame(&self) -> bool {
        self.next_length().is_some_and(|length| self.rest().len() >= length)
    }

    /// Whether it said something that nobody asked for.
    pub(crate) fn has_spoken(&mut self) -> bool {
        !self.rest().is_empty() || !matches!(self.hear(), Ok(Heard::Silence)) || !self.rest().is_empty()
    }

    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(length) = self.next_length() else { return Ok(None) };
        if length > MOST {
            return Err(io::Error::other("it sent a message that is too long"));
        }
        if self.rest().len() < length {
            return Ok(None);
        }
        let frame = self.rest()[4..length].to_vec();
        self.taken += length;
        if self.taken >= PIECE || self.taken == self.incoming.len() {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
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

/// Nobody may send descriptors this way: some take long to close. Older kernels can't promise it.
fn refuse_descriptors(socket: &UnixStream) {
    const SO_PASSRIGHTS: libc::c_int = 83;
    let no: libc::c_int = 0;
    // SAFETY: the option takes a number, which lives.
    unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(socket),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const no).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
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
