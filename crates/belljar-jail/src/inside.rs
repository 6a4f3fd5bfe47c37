//! Directories below one that sessions write to. Whatever is in there may be hostile: nothing is followed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use crate::sys::{self, Found};

/// Names that are tried for what stands in the way.
const MOST_NAMES: usize = 100;

/// Makes a directory, and those above it. Where something else is, that stays.
pub(crate) fn make(base: &Path, path: &str) -> io::Result<()> {
    let mut directory = sys::open_base(base)?;
    for name in path.split('/') {
        match sys::make_directory(directory.as_fd(), name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        match sys::open_directory(directory.as_fd(), name) {
            Ok(inner) => directory = inner,
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Makes a directory, and mounts it on itself: who is in the same mount namespace can't move it any more.
pub(crate) fn hold(base: &Path, path: &str) -> io::Result<()> {
    let place = place(base, path, true)?;
    let itself = sys::clone_directory(place.as_fd())?;
    sys::attach_at(itself.as_fd(), place.as_fd())
}

/// Attaches a mount.
pub(crate) fn attach(mount: BorrowedFd<'_>, base: &Path, path: &str, make: bool) -> io::Result<()> {
    sys::attach_at(mount, place(base, path, make)?.as_fd())
}

/// A directory to mount on.
fn place(base: &Path, path: &str, make: bool) -> io::Result<OwnedFd> {
    let mut directory = sys::open_base(base)?;
    for name in path.split('/') {
        if make {
            clear(directory.as_fd(), name)?;
        }
        directory = sys::open_directory(directory.as_fd(), name)?;
    }
    Ok(directory)
}

/// Makes a directory, whatever is there. A file gets another name; what has no contents goes.
fn clear(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    match sys::look(parent, name)? {
        Found::Directory => return Ok(()),
        Found::Nothing => {}
        Found::File => {
            let free = (0..MOST_NAMES).find(|number| {
                let other =
                    format!("{name}.old{}", if *number == 0 { String::new() } else { number.to_string() });
                sys::rename_beside(parent, name, &other).is_ok()
            });
            free.ok_or(io::ErrorKind::AlreadyExists)?;
        }
        Found::Other => sys::unlink(parent, name)?,
    }
    match sys::make_directory(parent, name) {
        // Others may write there too.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
