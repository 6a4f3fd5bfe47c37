//! The jail's processes, as the engine talks to them.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use belljar_jail::{CloneMount, GateRequest, InitReply, JailReply, Launch, SessionPlan, wire};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::NativeError;

/// The steward, warden and gate of one environment. Dropping it ends all that is below.
pub(crate) struct Jail {
    mounts: Mutex<OwnedFd>,
    gate: Mutex<OwnedFd>,
    steward: Mutex<Child>,
}

/// A session's namespaces, with nothing in them but its init.
pub(crate) struct Cabin {
    /// Ends it.
    pub(crate) control: OwnedFd,
    pub(crate) init: OwnedFd,
    /// The session's own files.
    pub(crate) tree: OwnedFd,
    pub(crate) landlock: Option<OwnedFd>,
    /// Where the session asks for packages.
    pub(crate) listener: Option<OwnedFd>,
}

/// A pair of sockets for messages.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

impl Jail {
    pub(crate) fn launch(binary: &Path, launch: &Launch) -> Result<Self, NativeError> {
        let io = |error: io::Error| NativeError::Io(format!("the jail cannot be started: {error}"));
        let (mounts, their_mounts) = pair().map_err(io)?;
        let (gate, their_gate) = pair().map_err(io)?;
        let launch = config(launch).map_err(io)?;
        let mut command = Command::new(binary);
        command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Signals of the terminal are for the program at it.
        command.process_group(0);
        crate::sys::inherit(&mut command, &[their_mounts.as_fd(), their_gate.as_fd(), launch.as_fd()], 3);
        let steward = command.spawn().map_err(io)?;
        drop((their_mounts, their_gate));
        let jail = Self { mounts: mounts.into(), gate: gate.into(), steward: steward.into() };
        match jail.hear_gate() {
            Ok((JailReply::Open, _)) => Ok(jail),
            Ok((JailReply::Failed { reason, errno }, _)) => Err(crate::layers::explain(&reason, errno)),
            Ok(_) => Err(NativeError::Io("the jail said what makes no sense".to_owned())),
            Err(error) => Err(io(error)),
        }
    }

    fn hear_gate(&self) -> io::Result<(JailReply, Vec<OwnedFd>)> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        wire::receive(&*gate)?.ok_or_else(gone)
    }

    fn ask_gate(&self, request: &GateRequest, descriptors: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(&*gate, request, descriptors)?;
        started(wire::receive(&*gate)?)
    }

    /// Starts a program beside the sessions; its descriptors are these.
    pub(crate) fn program(
        &self,
        argv: Vec<String>,
        env: Vec<String>,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<OwnedFd> {
        self.ask_gate(&GateRequest::Program { argv, env }, descriptors)
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        let mut steward = self.steward.lock().unwrap_or_else(PoisonError::into_inner);
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(steward.try_wait(), Ok(None)) && !crate::sys::has_ended(gate.as_fd())
    }

    /// A mount of a host directory, which nobody sees yet.
    pub(crate) fn mount(&self, source: &Path, writable: bool, own: bool) -> io::Result<OwnedFd> {
        let mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(&*mounts, &CloneMount { source: source.to_owned(), writable, own }, &[])?;
        started(wire::receive(&*mounts)?)
    }

    /// The namespaces of a session.
    pub(crate) fn session(&self, plan: SessionPlan, mounts: &[OwnedFd]) -> io::Result<Cabin> {
        let (control, theirs) = pair()?;
        let descriptors: Vec<BorrowedFd<'_>> =
            [theirs.as_fd()].into_iter().chain(mounts.iter().map(AsFd::as_fd)).collect();
        let init = self.ask_gate(&GateRequest::Session(plan), &descriptors)?;
        drop(theirs);
        match wire::receive(&control)?.ok_or_else(gone)? {
            (InitReply::Ready { landlock, listener }, mut gifts)
                if gifts.len() == 1 + usize::from(landlock) + usize::from(listener) =>
            {
                let listener = if listener { gifts.pop() } else { None };
                let ruleset = if landlock { gifts.pop() } else { None };
                let tree = gifts.pop().ok_or_else(gone)?;
                Ok(Cabin { control, init, tree, landlock: ruleset, listener })
            }
            (InitReply::Failed { reason, errno }, _) => Err(failure(reason, errno)),
            _ => Err(io::Error::other("the session's init said what makes no sense")),
        }
    }
}

impl Drop for Jail {
    fn drop(&mut self) {
        // The sockets are closed after this, which ends everything; the steward is waited for elsewhere.
        let (mounts, gate) = match (pair(), pair()) {
            (Ok((mounts, _)), Ok((gate, _))) => (mounts, gate),
            _ => return,
        };
        *self.mounts.lock().unwrap_or_else(PoisonError::into_inner) = mounts;
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = gate;
        let _ = self.steward.lock().unwrap_or_else(PoisonError::into_inner).wait();
    }
}

fn started(reply: Option<(JailReply, Vec<OwnedFd>)>) -> io::Result<OwnedFd> {
    match reply.ok_or_else(gone)? {
        (JailReply::Started | JailReply::Mount, mut gifts) => gifts.pop().ok_or_else(gone),
        (JailReply::Failed { reason, errno }, _) => Err(failure(reason, errno)),
        _ => Err(io::Error::other("the jail said what makes no sense")),
    }
}

fn failure(reason: String, errno: i32) -> io::Error {
    let kind = io::Error::from_raw_os_error(errno).kind();
    io::Error::new(kind, reason)
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the jail has ended")
}

/// The launch as a file that can be inherited.
fn config(launch: &Launch) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(&serde_json::to_vec(launch)?)?;
    io::Seek::rewind(&mut file)?;
    Ok(file)
}
