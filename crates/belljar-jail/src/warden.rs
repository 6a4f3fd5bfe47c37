//! Pid 1 of the outer namespaces: it sees the host's files, and runs nothing but the gate.

use std::os::fd::{AsFd, OwnedFd};

use belljar_jail::{JailReply, Launch, Step, wire};

use crate::steps::{Context, carry_out};
use crate::steward::{map, pipe, wait_for};
use crate::sys::{self, During, Failure, Result};
use crate::{gate, mounts};

pub(crate) fn run(launch: &Launch, mapped: OwnedFd, mounts: Option<OwnedFd>, socket: &OwnedFd) -> i32 {
    match watch(launch, mapped, mounts, socket) {
        Ok(code) => code,
        Err(failure) => {
            report(socket, &failure);
            1
        }
    }
}

fn report(socket: &OwnedFd, failure: &Failure) {
    let reply = JailReply::Failed { reason: failure.to_string(), errno: failure.errno() };
    let _ = wire::send(socket, &reply, &[]);
}

fn watch(launch: &Launch, mapped: OwnedFd, mounts: Option<OwnedFd>, socket: &OwnedFd) -> Result<i32> {
    wait_for(mapped);
    sys::become_user(0).during(|| "becoming root of the outer namespace".to_owned())?;
    // After the credentials, which take it back.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as _).during(|| "binding to the steward".to_owned())?;
    carry_out(&[Step::Hide, Step::Private], &Context::default())?;
    let builder = sys::clone(libc::CLONE_NEWNS).during(|| "making a mount namespace".to_owned())?;
    if builder == 0 {
        drop(mounts);
        let code = build(launch, socket);
        sys::exit(code);
    }
    let builder_ended = sys::pidfd(builder).during(|| "watching the gate".to_owned())?;
    if let Some(mounts) = mounts {
        mounts::serve(&mounts, None, Some(builder_ended.as_fd()));
        return Ok(0);
    }
    // What is left without a parent comes here.
    while let Ok(Some((pid, code))) = sys::wait(-1, true) {
        if pid == builder {
            return Ok(code);
        }
    }
    Ok(0)
}

/// Builds the root that all below see, and starts the gate in it.
fn build(launch: &Launch, socket: &OwnedFd) -> i32 {
    let built = carry_out(&launch.root, &Context::default()).and_then(|()| start(launch, socket));
    match built {
        Ok(code) => code,
        Err(failure) => {
            report(socket, &failure);
            1
        }
    }
}

fn start(launch: &Launch, socket: &OwnedFd) -> Result<i32> {
    let (go, wait) = pipe()?;
    // Else the child's files in `/proc` would be nobody's, and its ids couldn't be mapped.
    sys::prctl(libc::PR_SET_DUMPABLE, 1).during(|| "showing itself".to_owned())?;
    // Whoever is in there can't undo what was mounted out here.
    let namespaces = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID;
    let pid = sys::clone(namespaces).during(|| "making the inner user namespace".to_owned())?;
    if pid == 0 {
        drop(go);
        wait_for(wait);
        let code = gate::prepare(launch, socket);
        sys::exit(code);
    }
    drop(wait);
    map(pid, &launch.inner)?;
    drop(go);
    let ended = sys::wait(pid, true).during(|| "waiting for the gate".to_owned())?;
    Ok(ended.map_or(1, |(_, code)| code))
}
