//! The directory itself: looked at and changed through its handle only.
//!
//! Whoever worked in it is hostile. The kernel resolves each path below the root and follows no link; a file is never
//! written through a name that is there (it may be one of several), but made anew and moved into place.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, chmod, fchmod, fchown, mkdirat,
    openat, openat2, readlinkat, renameat, renameat_with, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use super::blocks;
use super::contents::Contents;
use super::entry::{Entry, Kind, Stamp};
use crate::watch::below;

/// Rounds in which a directory must become empty.
const MOST_ROUNDS: usize = 100_000;

/// A directory, and all below it.
#[derive(Debug)]
pub(super) struct Ground {
    root: OwnedFd,
    /// Whose the files are, if this process is root and they are somebody else's.
    owner: Option<(Uid, Gid)>,
}

/// Something that is there.
pub(super) enum Look {
    There(Entry),
    Nothing,
    /// It isn't for this process to see.
    Closed,
}

impl Ground {
    pub(super) fn new(root: OwnedFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(&root)?;
        let owner = (rustix::process::geteuid().is_root() && stat.st_uid != 0)
            .then(|| (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)));
        Ok(Self { root, owner })
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.root)
    }

    /// Opens a directory to look into it.
    pub(super) fn directory(&self, path: &[u8]) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat2(&self.root, at(path), flags, Mode::empty(), below())
    }

    /// The directory that a path is in, and its name there.
    pub(super) fn parent<'p>(&self, path: &'p [u8]) -> rustix::io::Result<(OwnedFd, &'p OsStr)> {
        let (parent, name) = split(path);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok((openat2(&self.root, at(parent), flags, Mode::empty(), below())?, OsStr::from_bytes(name)))
    }

    /// What is at a path.
    pub(super) fn look(&self, path: &[u8]) -> Look {
        match self.parent(path) {
            Ok((parent, name)) => look_at(&parent, name),
            Err(Errno::ACCESS) => Look::Closed,
            Err(_) => Look::Nothing,
        }
    }

    /// Opens a regular file to read it.
    pub(super) fn file(&self, path: &[u8]) -> io::Result<File> {
        let (parent, name) = self.parent(path)?;
        open_file(&parent, name)
    }

    /// Opens up the directories above a path that are closed to their owner.
    pub(super) fn open_up_above(&self, path: &[u8]) {
        for (end, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let _ = self.open_up(&path[..end]);
        }
    }

    /// Opens up a directory. Links are not followed to it.
    pub(super) fn open_up(&self, path: &[u8]) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let there = openat2(&self.root, at(path), flags, Mode::empty(), below())?;
        let mode = rustix::fs::fstat(&there)?.st_mode;
        if mode & 0o700 != 0o700 {
            chmod(
                format!("/proc/self/fd/{}", there.as_raw_fd()),
                Mode::from_raw_mode(mode & 0o3777 | 0o700),
            )?;
        }
        Ok(())
    }

    /// Sets the mode of a directory.
    pub(super) fn set_mode(&self, path: &[u8], mode: u32) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let there = openat2(&self.root, at(path), flags, Mode::empty(), below())?;
        let is = rustix::fs::fstat(&there)?.st_mode;
        if is & 0o3777 != mode {
            chmod(format!("/proc/self/fd/{}", there.as_raw_fd()), Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }

    /// Removes what is at a path, with everything in it.
    pub(super) fn remove(&self, path: &[u8]) -> io::Result<()> {
        self.with_rights(path, || self.try_to_remove(path))
    }

    fn try_to_remove(&self, path: &[u8]) -> io::Result<()> {
        let (parent, name) = match self.parent(path) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            found => found?,
        };
        match unlinkat(&parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR) => {}
            Err(error) => {
                let directory = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
                if !directory {
                    return Err(error.into());
                }
            }
        }
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            removed => return Ok(removed?),
        }
        self.open_up(path)?;
        empty(&openat(&parent, name, readable(), Mode::empty())?)?;
        Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
    }

    /// Moves something to where it was. What is there now takes its place.
    pub(super) fn move_back(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let act = || {
            let ((from, name), (to, new_name)) = (self.parent(from)?, self.parent(to)?);
            match renameat_with(&from, name, &to, new_name, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => Ok(renameat_with(&from, name, &to, new_name, RenameFlags::EXCHANGE)?),
                moved => Ok(moved?),
            }
        };
        self.with_rights(from, || self.with_rights(to, act))
    }

    /// Makes what was at a path, as it was, in place of any file that is there.
    pub(super) fn put(&self, path: &[u8], entry: &Entry) -> io::Result<()> {
        self.with_rights(path, || {
            let (parent, name) = self.parent(path)?;
            match &entry.kind {
                Kind::Directory => self.put_directory(&parent, name, entry),
                Kind::File(Some(contents)) => self.put_file(&parent, name, &entry.stamp, contents),
                Kind::File(None) => Err(io::Error::other("its contents weren't kept")),
                Kind::Link(target) => {
                    match unlinkat(&parent, name, AtFlags::empty()) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(error) => return Err(error.into()),
                    }
                    symlinkat(OsStr::from_bytes(target), &parent, name)?;
                    if let Some((user, group)) = self.owner {
                        let flags = AtFlags::SYMLINK_NOFOLLOW;
                        rustix::fs::chownat(&parent, name, Some(user), Some(group), flags)?;
                    }
                    Ok(utimensat(&parent, name, &times(&entry.stamp), AtFlags::SYMLINK_NOFOLLOW)?)
                }
                Kind::Other => Err(io::Error::other("it is neither a file nor a directory")),
            }
        })
    }

    fn put_directory(&self, parent: &OwnedFd, name: &OsStr, entry: &Entry) -> io::Result<()> {
        match mkdirat(parent, name, Mode::from_raw_mode(0o700)) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
                return match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => Ok(()),
                    _ => Err(io::ErrorKind::NotADirectory.into()),
                };
            }
            Err(error) => return Err(error.into()),
        }
        let made = openat(parent, name, readable(), Mode::empty())?;
        if let Some((user, group)) = self.owner {
            fchown(&made, Some(user), Some(group))?;
        }
        // It is closed again when all is in it.
        Ok(fchmod(&made, Mode::from_raw_mode(entry.stamp.rights() | 0o700))?)
    }

    fn put_file(&self, parent: &OwnedFd, name: &OsStr, stamp: &Stamp, contents: &Contents) -> io::Result<()> {
        self.put_written(parent, name, stamp, |file| contents.write(file))
    }

    /// Makes a file with the contents of another, and returns how many bytes had to be copied for it.
    pub(super) fn put_copy(&self, path: &[u8], stamp: &Stamp, from: &File, most: u64) -> io::Result<u64> {
        let (parent, name) = self.parent(path)?;
        self.put_written(&parent, name, stamp, |file| blocks::copy(from, file, stamp.size, most))
    }

    fn put_written<T>(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        stamp: &Stamp,
        write: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        let (temporary, file) = create(parent)?;
        let made = (|| {
            let written = write(&file)?;
            if let Some((user, group)) = self.owner {
                fchown(&file, Some(user), Some(group))?;
            }
            fchmod(&file, Mode::from_raw_mode(stamp.rights()))?;
            rustix::fs::futimens(&file, &times(stamp))?;
            // In place of another file, some file systems would write the new one to the disk first, which takes long.
            match unlinkat(parent, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            renameat(parent, &temporary, parent, name)?;
            Ok(written)
        })();
        if made.is_err() {
            let _ = unlinkat(parent, &temporary, AtFlags::empty());
        }
        made
    }

    /// Makes the directories above a path that are missing.
    pub(super) fn make_above(&self, path: &[u8]) -> io::Result<()> {
        for (end, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let (parent, name) = self.parent(&path[..end])?;
            match mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
                Ok(()) => {
                    if let Some((user, group)) = self.owner {
                        rustix::fs::chownat(
                            &parent,
                            name,
                            Some(user),
                            Some(group),
                            AtFlags::SYMLINK_NOFOLLOW,
                        )?;
                    }
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Gives a file that has the right contents the right attributes.
    pub(super) fn put_attributes(&self, path: &[u8], stamp: &Stamp) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        let there = openat(&parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&there)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is not a file any more"));
        }
        let through = format!("/proc/self/fd/{}", there.as_raw_fd());
        chmod(&through, Mode::from_raw_mode(stamp.rights()))?;
        Ok(utimensat(rustix::fs::CWD, through, &times(stamp), AtFlags::empty())?)
    }

    /// Tries again with the directories above open, if it failed for want of rights.
    fn with_rights(&self, path: &[u8], mut act: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.open_up_above(path);
                act()
            }
            done => done,
        }
    }
}

/// What has a name in a directory.
pub(super) fn look_at(parent: &OwnedFd, name: &OsStr) -> Look {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            let stamp = Stamp::of(&stat);
            let link = (stamp.file_type() == FileType::Symlink)
                .then(|| readlinkat(parent, name, Vec::new()).ok().map(CString::into_bytes))
                .flatten();
            Look::There(Entry::seen(stamp, link))
        }
        Err(Errno::ACCESS) => Look::Closed,
        Err(_) => Look::Nothing,
    }
}

/// Opens a regular file, and nothing else, to read it.
pub(super) fn open_file(parent: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // A pipe or a device would feel it if it were opened.
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = File::from(openat(parent, name, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

pub(super) fn names(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for found in Dir::read_from(directory)? {
        let found = found?;
        if ![c".", c".."].contains(&found.file_name()) {
            names.push(found.file_name().to_owned());
        }
    }
    Ok(names)
}

/// A path's directory and name.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(place) => (&path[..place], &path[place + 1..]),
        None => (b"", path),
    }
}

/// A new file that nobody knows yet.
fn create(parent: &OwnedFd) -> io::Result<(String, File)> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!(".belljar-{}-{number}", std::process::id());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(parent, &name, flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => return Ok((name, file.into())),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes all that is in a directory, however deep it is: what is further down comes up first.
pub(super) fn empty(top: &OwnedFd) -> io::Result<()> {
    let mut moved = 0_u64;
    for _ in 0..MOST_ROUNDS {
        let mut found_any = false;
        for name in names(top)? {
            found_any = true;
            let gone = |directory: &OwnedFd, name: &CString| {
                unlinkat(directory, name, AtFlags::empty()).is_ok()
                    || unlinkat(directory, name, AtFlags::REMOVEDIR).is_ok()
            };
            if gone(top, &name) {
                continue;
            }
            let inner = open_wide(top, &name)?;
            for below in names(&inner)? {
                if !gone(&inner, &below) {
                    // What is to be moved must let its own `..` be changed.
                    let _ = open_wide(&inner, &below);
                    moved += 1;
                    renameat(&inner, &below, top, format!(".belljar-{}-{moved}", std::process::id()))?;
                }
            }
            unlinkat(top, &name, AtFlags::REMOVEDIR)?;
        }
        if !found_any {
            return Ok(());
        }
    }
    Err(io::Error::other("it does not become empty"))
}

/// Opens a directory, also one that is closed to its owner.
fn open_wide(parent: &OwnedFd, name: &CString) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let there = openat2(parent, name, flags, Mode::empty(), below())?;
    chmod(format!("/proc/self/fd/{}", there.as_raw_fd()), Mode::from_raw_mode(0o700))?;
    Ok(openat2(parent, name, readable(), Mode::empty(), below())?)
}

fn times(stamp: &Stamp) -> Timestamps {
    let time = Timespec { tv_sec: stamp.modified.0, tv_nsec: stamp.modified.1.min(999_999_999).into() };
    Timestamps { last_access: time, last_modification: time }
}

fn readable() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn at(path: &[u8]) -> &OsStr {
    OsStr::from_bytes(if path.is_empty() { b"." } else { path })
}
