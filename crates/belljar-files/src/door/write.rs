//! Writing files.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use belljar_engine::{FileErrorCode, WriteHow};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fchmod, fchown, fstat, fsync, ftruncate, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use super::look::expect_file;
use super::place::Last;
use super::{DirDoor, Failure};
use crate::operations::temporary_name;

/// How new files are made, less what the process masks.
const NEW: Mode = Mode::from_raw_mode(0o666);

impl DirDoor {
    pub(super) fn write(&self, path: &str, contents: &[u8], how: WriteHow) -> Result<(), Failure> {
        let last = if how == WriteHow::Create { Last::Named } else { Last::Followed };
        self.at_own_place(path, last, |place| {
            if place.is_empty() || self.is_above_mount(place) {
                return Err(FileErrorCode::IsDirectory.into());
            }
            let (parent, name) = self.parent_made(place)?;
            let old = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(old) => Some(old),
                Err(Errno::NOENT) => None,
                Err(errno) => return Err(errno.into()),
            };
            match (how, &old) {
                (WriteHow::Create, Some(_)) => Err(FileErrorCode::AlreadyExists.into()),
                (WriteHow::Create, None) => self.create(&parent, name, contents),
                (WriteHow::Replace, _) => self.replace(&parent, name, old.as_ref(), contents),
                (WriteHow::Append, None) => {
                    self.create(&parent, name, contents).map_err(|failure| match failure {
                        // It was made meanwhile: have another look.
                        Failure::Rule(FileErrorCode::AlreadyExists, None) => Errno::LOOP.into(),
                        failure => failure,
                    })
                }
                (WriteHow::Append, Some(old)) => {
                    expect_file(old)?;
                    self.append(place, contents)
                }
            }
        })
    }

    fn create(&self, parent: &OwnedFd, name: &[u8], contents: &[u8]) -> Result<(), Failure> {
        self.ask(contents.len() as u64, 1)?;
        let file = create_new(parent, name)?;
        write_all(&file, contents).inspect_err(|_| {
            let _ = unlinkat(parent, name, AtFlags::empty());
        })
    }

    /// Writes beside the file, and gives it the name at the end. A link was followed before.
    fn replace(
        &self,
        parent: &OwnedFd,
        name: &[u8],
        old: Option<&Stat>,
        contents: &[u8],
    ) -> Result<(), Failure> {
        if let Some(old) = old {
            expect_file(old)?;
        }
        let length = contents.len() as u64;
        match old {
            Some(old) => self.ask(length.saturating_sub(freed(old)), 0)?,
            None => self.ask(length, 1)?,
        }
        let temporary = temporary_name();
        let file = create_new(parent, temporary.as_bytes())?;
        let written = || -> Result<(), Failure> {
            if let Some(old) = old {
                keep_owner(file.as_fd(), old)?;
                fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o777))?;
            }
            write_all(&file, contents)?;
            // Where there was something, a crash must leave that or this; where there was nothing, it may again.
            if old.is_some() {
                fsync(&file)?;
            }
            Ok(renameat(parent, temporary.as_str(), parent, name)?)
        };
        written().inspect_err(|_| {
            let _ = unlinkat(parent, temporary.as_str(), AtFlags::empty());
        })
    }

    fn append(&self, place: &[u8], contents: &[u8]) -> Result<(), Failure> {
        let (file, before) = self.file(place, OFlags::WRONLY | OFlags::APPEND)?;
        self.ask(contents.len() as u64, 0)?;
        write_all(&file, contents).inspect_err(|_| {
            // Takes back what there was room for, unless others have written too.
            let most = before.st_size as u64 + contents.len() as u64;
            if fstat(&file).is_ok_and(|now| now.st_size > before.st_size && (now.st_size as u64) < most) {
                let _ = ftruncate(&file, before.st_size as u64);
            }
        })
    }
}

fn create_new(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Failure> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(parent, name, flags, NEW) {
        Err(Errno::EXIST) => Err(FileErrorCode::AlreadyExists.into()),
        file => Ok(file?),
    }
}

/// Gives a file the owner that the one before it had, where that is allowed.
fn keep_owner(file: BorrowedFd<'_>, old: &Stat) -> rustix::io::Result<()> {
    let new = fstat(file)?;
    if (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid) {
        return Ok(());
    }
    match fchown(file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid))) {
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        done => done,
    }
}

/// What there is room for once a file is gone: nothing for holes, nor for what has another name.
fn freed(old: &Stat) -> u64 {
    let kept = (old.st_blocks as u64).saturating_mul(512);
    if old.st_nlink > 1 { 0 } else { kept.min(old.st_size as u64) }
}

fn write_all(file: &OwnedFd, mut contents: &[u8]) -> Result<(), Failure> {
    while !contents.is_empty() {
        match rustix::io::write(file, contents) {
            Ok(0) => return Err(Errno::NOSPC.into()),
            Ok(count) => contents = &contents[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Makes sure that a file is on disk before it gets the name of another.
pub(super) fn settle(parent: &OwnedFd, name: &[u8]) {
    let regular = |stat: &Stat| FileType::from_raw_mode(stat.st_mode).is_file();
    if !statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| regular(&stat)) {
        return;
    }
    if let Ok(file) = super::place::beneath(parent, name, OFlags::RDONLY)
        && fstat(&file).is_ok_and(|stat| regular(&stat))
    {
        let _ = fsync(&file);
    }
}
