//! Clones mounts of host directories for sessions.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use belljar_jail::{CloneMount, JailReply, Maps, wire};

use crate::steward::{map, pipe, wait_for};
use crate::sys::{self, During, Result};

/// Answers requests until there can't be any more, or until a process has ended.
pub(crate) fn serve(socket: &OwnedFd, owner: Option<u32>, until: Option<BorrowedFd<'_>>) {
    loop {
        let watched: Vec<BorrowedFd<'_>> = [socket.as_fd()].into_iter().chain(until).collect();
        match sys::poll(&watched).as_deref() {
            Ok([true, ..]) => {}
            _ => return,
        }
        let Ok(Some((request, _))) = wire::receive::<CloneMount>(socket) else { return };
        let sent = match clone(&request, owner) {
            Ok(mount) => wire::send(socket, &JailReply::Mount, &[mount.as_fd()]),
            Err(failure) => {
                let reply = JailReply::Failed { reason: failure.to_string(), errno: failure.errno() };
                wire::send(socket, &reply, &[])
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

fn clone(request: &CloneMount, owner: Option<u32>) -> Result<OwnedFd> {
    let what = || format!("mounting {}", request.source.display());
    let mount = sys::open_tree(&request.source, true).during(what)?;
    let mut attributes = sys::NO_SETUID | sys::NO_DEVICES;
    if !request.writable {
        attributes |= sys::READ_ONLY;
    }
    sys::set_attributes(Some(mount.as_fd()), Path::new(""), attributes, None).during(what)?;
    if let Some(owner) = owner {
        let metadata = fs::metadata(&request.source).during(what)?;
        let users = id_namespace(metadata.uid(), metadata.gid(), owner)?;
        let mapped =
            sys::set_attributes(Some(mount.as_fd()), Path::new(""), sys::ID_MAPPED, Some(users.as_fd()));
        // Some file systems can't; then the files are as readable as they are to strangers.
        if request.own {
            mapped.during(|| format!("mapping the owner of {}", request.source.display()))?;
        }
    }
    Ok(mount)
}

/// A user namespace in which files of one user are those of `owner`.
fn id_namespace(user: u32, group: u32, owner: u32) -> Result<OwnedFd> {
    let (go, wait) = pipe()?;
    let pid = sys::clone(libc::CLONE_NEWUSER).during(|| "making a user namespace".to_owned())?;
    if pid == 0 {
        drop(go);
        wait_for(wait);
        sys::exit(0);
    }
    drop(wait);
    let maps =
        Maps { users: format!("{user} {owner} 1"), groups: format!("{group} {owner} 1"), deny_groups: false };
    let opened = map(pid, &maps).and_then(|()| open(pid).during(|| "opening a user namespace".to_owned()));
    drop(go);
    let _ = sys::wait(pid, true);
    opened
}

fn open(pid: i32) -> io::Result<OwnedFd> {
    Ok(File::open(format!("/proc/{pid}/ns/user"))?.into())
}
