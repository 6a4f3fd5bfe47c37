//! A tree copied as a whole, for a fork.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use super::entry::{Kind, Stamp};
use super::ground::{Ground, Look, look_at, names, open_file};
use super::is_ignored;
use crate::watch::{DEEPEST, LONGEST, join};

/// A file that changes while it is copied is tried again so often.
const TRIES: usize = 3;

/// What [`clone_tree`] copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cloned {
    /// Files, directories and links.
    pub files: u64,
    /// Bytes that were copied; not those that the file system shares.
    pub copied: u64,
    /// What isn't a file, a directory or a link, can't be read, or is too deep.
    pub left_out: u64,
}

/// Copies a tree into an empty directory, sharing blocks where the file system can. Modes and times stay. More than
/// `most_bytes` to copy is an error (`FileTooLarge`), and what was copied until then stays.
pub fn clone_tree(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    ignored: &[String],
    most_bytes: u64,
) -> io::Result<Cloned> {
    let ground = Ground::new(from.try_clone_to_owned()?)?;
    let target = Ground::new(to.try_clone_to_owned()?)?;
    let ignored: Vec<Vec<u8>> =
        ignored.iter().map(|path| path.trim_matches('/').as_bytes().to_vec()).collect();
    let mut cloned = Cloned::default();
    let mut directories = Vec::new();
    let mut waiting = vec![(Vec::new(), 0)];
    while let Some((path, depth)) = waiting.pop() {
        let Ok(directory) = ground.directory(&path) else {
            cloned.left_out += 1;
            continue;
        };
        for name in names(&directory)? {
            let inside = join(&path, name.to_bytes());
            if is_ignored(&ignored, &inside) {
                continue;
            }
            let name = OsStr::from_bytes(name.to_bytes());
            let Look::There(entry) = look_at(&directory, name) else { continue };
            match &entry.kind {
                Kind::Directory if depth < DEEPEST && inside.len() <= LONGEST => {
                    target.put(&inside, &entry)?;
                    directories.push((inside.clone(), entry.stamp.rights()));
                    waiting.push((inside, depth + 1));
                }
                Kind::Link(_) => target.put(&inside, &entry)?,
                Kind::File(_) if inside.len() <= LONGEST => {
                    if !clone_file(&directory, name, &target, &inside, most_bytes, &mut cloned)? {
                        cloned.left_out += 1;
                        continue;
                    }
                }
                _ => {
                    cloned.left_out += 1;
                    continue;
                }
            }
            cloned.files += 1;
        }
    }
    for (path, mode) in directories.into_iter().rev() {
        target.set_mode(&path, mode)?;
    }
    Ok(cloned)
}

/// Copies one file; not one that can't be read.
fn clone_file(
    directory: &OwnedFd,
    name: &OsStr,
    target: &Ground,
    path: &[u8],
    most: u64,
    cloned: &mut Cloned,
) -> io::Result<bool> {
    for _ in 0..TRIES {
        let Ok(file) = open_file(directory, name) else { return Ok(false) };
        let stamp = Stamp::of(&rustix::fs::fstat(file.as_fd())?);
        match target.put_copy(path, &stamp, &file, most.saturating_sub(cloned.copied)) {
            Ok(copied) => {
                cloned.copied += copied;
                return Ok(true);
            }
            // It became shorter meanwhile.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
