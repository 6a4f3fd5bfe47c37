//! Outside the jail: makes its namespaces, and takes away what the kernel doesn't.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use belljar_jail::{GATE, JailReply, LAUNCH, Launch, MOUNTS, Maps, wire};

use crate::sys::{self, During, Failure, Result};
use crate::{mounts, warden};

/// How long cgroups may take to become empty.
const EMPTYING: Duration = Duration::from_secs(5);

pub(crate) fn run() -> i32 {
    sys::raise_descriptor_limit();
    let (mounts, gate) = (sys::inherited(MOUNTS), sys::inherited(GATE));
    let launch = match read(sys::inherited(LAUNCH)) {
        Ok(launch) => launch,
        Err(failure) => return refuse(&gate, &failure),
    };
    let code = match jail(&launch, mounts, &gate) {
        Ok(code) => code,
        Err(failure) => refuse(&gate, &failure),
    };
    for cgroup in &launch.cgroups {
        remove(cgroup);
    }
    code
}

fn read(descriptor: OwnedFd) -> Result<Launch> {
    let mut text = String::new();
    let read = File::from(descriptor).read_to_string(&mut text).map(drop);
    read.and_then(|()| Ok(serde_json::from_str(&text)?)).during(|| "reading what to do".to_owned())
}

fn refuse(gate: &OwnedFd, failure: &Failure) -> i32 {
    let reply = JailReply::Failed { reason: failure.to_string(), errno: failure.errno() };
    // Nobody may be listening any more.
    let _ = wire::send(gate, &reply, &[]);
    1
}

/// Starts the warden and waits until it has ended.
fn jail(launch: &Launch, mounts: OwnedFd, gate: &OwnedFd) -> Result<i32> {
    let (go, wait) = pipe()?;
    let namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    let pid = sys::clone(namespaces).during(|| "making a user namespace".to_owned())?;
    if pid == 0 {
        drop(go);
        // The mounts of root are cloned out here, where root is root.
        let mounts = launch.owner.is_none().then_some(mounts);
        let code = warden::run(launch, wait, mounts, gate);
        sys::exit(code);
    }
    drop(wait);
    let mapped = map(pid, &launch.outer);
    if let Err(failure) = mapped {
        let _ = sys::kill(pid, libc::SIGKILL);
        return Err(failure);
    }
    let warden = sys::pidfd(pid).during(|| "watching the warden".to_owned())?;
    drop(go);
    match launch.owner {
        Some(owner) => {
            mounts::serve(&mounts, Some(owner), Some(warden.as_fd()));
            // Nobody asks any more: whatever is left in there ends now.
            let _ = sys::kill(pid, libc::SIGKILL);
        }
        None => drop(mounts),
    }
    let ended = sys::wait(pid, true).during(|| "waiting for the warden".to_owned())?;
    Ok(ended.map_or(1, |(_, code)| code))
}

/// Writes the id maps of a child, which waits for that.
pub(crate) fn map(pid: i32, maps: &Maps) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = format!("/proc/{pid}/{name}");
        fs::write(&path, text).during(|| format!("writing {path}"))
    };
    if maps.deny_groups {
        write("setgroups", "deny")?;
    }
    write("uid_map", &maps.users)?;
    write("gid_map", &maps.groups)
}

/// One end tells the other to go on, by closing.
pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let (read, write) = std::io::pipe().during(|| "making a pipe".to_owned())?;
    Ok((write.into(), read.into()))
}

/// Waits until the other end of the pipe is closed.
pub(crate) fn wait_for(pipe: OwnedFd) {
    let mut byte = [0];
    let _ = File::from(pipe).read(&mut byte);
}

/// Removes a cgroup with all below it, once its processes have ended.
fn remove(cgroup: &Path) {
    let until = Instant::now() + EMPTYING;
    while !remove_now(cgroup) && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
}

fn remove_now(cgroup: &Path) -> bool {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_now(&entry.path());
        }
    }
    match fs::remove_dir(cgroup) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
