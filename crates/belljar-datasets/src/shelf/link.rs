//! One file under two names.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::draft::remove_file;
use crate::error::{At, DatasetError, Result};

/// One that isn't finished. Whoever is killed then leaves it to the next.
const DRAFT: &str = ".belljar-new";

/// Gives a file another name, in place of what has that name. Nobody else does so in that directory meanwhile: the
/// shelf is locked. Returns whether it had to be copied, because it is on
/// another file system, or has as many names as one may have.
pub(super) fn link(from: &Path, to: &Path) -> Result<bool> {
    let source = fs::symlink_metadata(from).at("look at", from)?;
    if !source.is_file() {
        return Err(DatasetError::damaged(from, "it isn't a file"));
    }
    if fs::symlink_metadata(to).is_ok_and(|there| (there.dev(), there.ino()) == (source.dev(), source.ino()))
    {
        return Ok(false);
    }
    let draft = to.with_file_name(DRAFT);
    remove_file(&draft)?;
    let copied = match fs::hard_link(from, &draft) {
        Ok(()) => Ok(false),
        Err(error) if is_of_kind(&error) => copy(from, &draft).map(|()| true),
        Err(error) => Err(error),
    };
    copied
        .and_then(|copied| fs::rename(&draft, to).map(|()| copied))
        .inspect_err(|_| {
            let _ = fs::remove_file(&draft);
        })
        .at("link", to)
}

/// Whether it is linking that doesn't work, rather than the file.
fn is_of_kind(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let kinds = [Errno::XDEV, Errno::MLINK, Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS];
    error.raw_os_error().is_some_and(|code| kinds.iter().any(|kind| kind.raw_os_error() == code))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    if rustix::fs::ioctl_ficlone(&copy, &source).is_err() {
        io::copy(&mut source, &mut copy)?;
    }
    rustix::fs::fdatasync(&copy)?;
    copy.set_permissions(Permissions::from_mode(0o444))
}
