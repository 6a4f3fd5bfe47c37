//! Pid 1 of the inner namespaces: starts the interpreter that sessions are forked from, and their inits.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use belljar_jail::{GATE, GateRequest, JailReply, Launch, Step, wire};

use crate::init;
use crate::steps::{Context, carry_out};
use crate::sys::{self, During, Failure, Result};

/// The argument of the gate's second life.
pub(crate) const SECOND: &str = "gate";

/// Prepares the surroundings, then starts anew: memory belongs to the user namespace that its program was started in,
/// and whoever guards it must not need rights outside.
pub(crate) fn prepare(launch: &Launch, socket: &OwnedFd) -> i32 {
    let begun = || {
        sys::become_user(0).during(|| "becoming root of the inner namespace".to_owned())?;
        carry_out(&launch.gate, &Context::default())?;
        let nothing = File::open("/dev/null").during(|| "opening /dev/null".to_owned())?;
        let standard = nothing.as_fd();
        let descriptors = [standard, standard, standard, standard, socket.as_fd()];
        sys::arrange(&descriptors).during(|| "arranging descriptors".to_owned())?;
        let argv = ["/proc/self/exe".to_owned(), SECOND.to_owned()];
        sys::exec(&argv, &[]).during(|| "starting the gate".to_owned())
    };
    begun().map_or_else(|failure| refuse(socket, &failure), |()| 1)
}

fn refuse(socket: &OwnedFd, failure: &Failure) -> i32 {
    let reply = JailReply::Failed { reason: failure.to_string(), errno: failure.errno() };
    let _ = wire::send(socket, &reply, &[]);
    1
}

pub(crate) fn run() -> i32 {
    let socket = sys::inherited(GATE);
    serve(&socket).map_or_else(|failure| refuse(&socket, &failure), |()| 0)
}

fn serve(socket: &OwnedFd) -> Result<()> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as _).during(|| "binding to the warden".to_owned())?;
    carry_out(&[Step::Hide], &Context::default())?;
    let children = sys::child_signals().during(|| "watching children".to_owned())?;
    let answering = || "answering".to_owned();
    wire::send(socket, &JailReply::Open, &[]).during(answering)?;
    loop {
        let ready = sys::poll(&[socket.as_fd(), children.as_fd()]).during(|| "waiting".to_owned())?;
        if ready[1] {
            drain(&children);
            while let Ok(Some(_)) = sys::wait(-1, false) {}
        }
        if !ready[0] {
            continue;
        }
        let received = wire::receive::<GateRequest>(socket).during(|| "listening".to_owned())?;
        let Some((request, descriptors)) = received else { return Ok(()) };
        let sent = match start(request, descriptors) {
            Ok(pidfd) => wire::send(socket, &JailReply::Started, &[pidfd.as_fd()]),
            Err(failure) => {
                let reply = JailReply::Failed { reason: failure.to_string(), errno: failure.errno() };
                wire::send(socket, &reply, &[])
            }
        };
        if let Err(failure) = sent.during(answering) {
            let reply = JailReply::Failed { reason: failure.to_string(), errno: failure.errno() };
            wire::send(socket, &reply, &[]).during(answering)?;
        }
    }
}

/// Forgets which children have ended; whoever asks finds out.
pub(crate) fn drain(signals: &OwnedFd) {
    let mut buffer = [0; 128 * 8];
    // SAFETY: the buffer lives; the descriptor doesn't block.
    unsafe {
        use std::os::fd::AsRawFd;
        libc::read(signals.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len());
    }
}

fn start(request: GateRequest, descriptors: Vec<OwnedFd>) -> Result<OwnedFd> {
    let namespaces = match &request {
        GateRequest::Program { .. } => 0,
        GateRequest::Session(_) => {
            libc::CLONE_NEWPID
                | libc::CLONE_NEWNS
                | libc::CLONE_NEWIPC
                | libc::CLONE_NEWUTS
                | libc::CLONE_NEWNET
                | libc::CLONE_NEWCGROUP
        }
    };
    let pid = sys::clone(namespaces).during(|| "making a session's namespaces".to_owned())?;
    if pid == 0 {
        let code = match request {
            GateRequest::Program { argv, env } => program(&argv, &env, &descriptors),
            GateRequest::Session(plan) => init::run(plan, descriptors),
        };
        sys::exit(code);
    }
    sys::pidfd(pid).during(|| "watching what was started".to_owned())
}

fn program(argv: &[String], env: &[String], descriptors: &[OwnedFd]) -> i32 {
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    sys::reset_signals();
    sys::new_session();
    let _ = sys::arrange(&descriptors).and_then(|()| sys::exec(argv, env));
    127
}
