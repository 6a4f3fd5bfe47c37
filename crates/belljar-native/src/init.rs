//! The engine's side of a session's init.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use belljar_jail::{InitReply, InitRequest, wire};
use rustix::event::{PollFd, PollFlags};

use crate::cgroup::Group;
use crate::kernel::wait;
use crate::sys;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A session's namespaces: they end when this is dropped.
pub(crate) struct Init {
    control: Mutex<Control>,
    pub(crate) process: OwnedFd,
    pub(crate) landlock: Option<OwnedFd>,
    group: Arc<Group>,
}

struct Control {
    socket: OwnedFd,
    /// Commands that have ended, and with what.
    ended: BTreeMap<i32, i32>,
}

impl Init {
    pub(crate) fn new(
        socket: OwnedFd,
        process: OwnedFd,
        landlock: Option<OwnedFd>,
        group: Arc<Group>,
    ) -> Self {
        Self { control: Mutex::new(Control { socket, ended: BTreeMap::new() }), process, landlock, group }
    }

    pub(crate) fn host_pid(&self) -> Option<i32> {
        sys::host_pid(self.process.as_fd())
    }

    fn ask(
        &self,
        request: &InitRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<(InitReply, Vec<OwnedFd>)> {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(&control.socket, request, descriptors)?;
        let until = Instant::now() + PATIENCE;
        loop {
            match control.hear(until)? {
                Some((InitReply::Failed { reason, errno }, _)) => {
                    return Err(io::Error::new(io::Error::from_raw_os_error(errno).kind(), reason));
                }
                Some(reply) => return Ok(reply),
                None => {}
            }
        }
    }

    /// Starts a command with these standard streams.
    pub(crate) fn command(
        &self,
        argv: Vec<String>,
        env: Vec<String>,
        directory: String,
        streams: &[BorrowedFd<'_>; 3],
    ) -> io::Result<(i32, OwnedFd)> {
        started(self.ask(&InitRequest::Command { argv, env, directory }, streams)?)
    }

    /// A descriptor of a process in the session.
    pub(crate) fn watch(&self, pid: i32) -> io::Result<OwnedFd> {
        started(self.ask(&InitRequest::Watch { pid }, &[])?).map(|(_, process)| process)
    }

    /// Ends what was started since, but for these.
    pub(crate) fn end(&self, since: u64, also: Vec<i32>, keep: Vec<i32>) -> io::Result<()> {
        self.ask(&InitRequest::End { since, also, keep }, &[]).map(drop)
    }

    /// Signals a command with all that is in its group.
    pub(crate) fn signal_group(&self, pid: i32, signal: i32) -> io::Result<()> {
        self.ask(&InitRequest::EndGroup { pid, signal }, &[]).map(drop)
    }

    /// The exit code of a command, once it has ended and waited-for at most so long.
    pub(crate) fn exit_code(&self, pid: i32, patience: Duration) -> io::Result<Option<i32>> {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + patience;
        loop {
            if let Some(code) = control.ended.get(&pid) {
                return Ok(Some(*code));
            }
            match control.hear(until) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
                heard => heard?,
            };
        }
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        let _ = sys::signal(self.process.as_fd(), libc::SIGKILL);
        // Its processes take some milliseconds to end, and their cgroup with them: nobody need wait for that.
        if let Ok(process) = self.process.try_clone() {
            bury(process, Arc::clone(&self.group));
        }
    }
}

/// Waits for sessions to end, one after the other, in a thread of its own.
fn bury(process: OwnedFd, group: Arc<Group>) {
    type Grave = (OwnedFd, Arc<Group>);
    static GRAVES: OnceLock<Option<Sender<Grave>>> = OnceLock::new();
    let graves = GRAVES.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Grave>();
        let dig = move || {
            for (process, group) in receiver {
                let mut polled = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
                let _ = wait(&mut polled, Some(Duration::from_secs(5)));
                drop(group);
            }
        };
        thread::Builder::new().name("belljar-ending".to_owned()).spawn(dig).ok().map(|_| sender)
    });
    if let Some(graves) = graves {
        let _ = graves.send((process, group));
    }
}

impl Control {
    /// The next reply; `None` for news that nobody asked for.
    fn hear(&mut self, until: Instant) -> io::Result<Option<(InitReply, Vec<OwnedFd>)>> {
        let left = until.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        wait(&mut polled, Some(left))?;
        if polled[0].revents().is_empty() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let heard = wire::receive(&self.socket)?;
        match heard
            .ok_or_else(|| io::Error::new(io::ErrorKind::BrokenPipe, "the session's init has ended"))?
        {
            (InitReply::Ended { pid, code }, _) => {
                self.ended.insert(pid, code);
                Ok(None)
            }
            reply => Ok(Some(reply)),
        }
    }
}

fn started(reply: (InitReply, Vec<OwnedFd>)) -> io::Result<(i32, OwnedFd)> {
    match reply {
        (InitReply::Started { pid }, mut gifts) => {
            let process = gifts.pop().ok_or_else(|| io::Error::other("no descriptor came"))?;
            Ok((pid, process))
        }
        _ => Err(io::Error::other("the session's init said what makes no sense")),
    }
}

/// Ends a process, and waits until it has.
pub(crate) fn end(process: BorrowedFd<'_>) {
    let _ = sys::signal(process, libc::SIGKILL);
    let mut polled = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
    let _ = wait(&mut polled, Some(Duration::from_secs(5)));
}
