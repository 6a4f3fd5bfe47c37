//! Operations on names: directories, links, renaming, removing, and what isn't contents.

use belljar_engine::FileErrorCode;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, fchmod, fstat, renameat, statat,
    symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::place::{Last, beneath, split};
use super::write::settle;
use super::{DirDoor, Failure};
use crate::operations::is_temporary;

impl DirDoor {
    pub(super) fn make_directory(&self, path: &str) -> Result<(), Failure> {
        self.at_own_place(path, Last::Followed, |place| {
            if self.is_above_mount(place) {
                return Ok(());
            }
            match self.directory_made(place) {
                // The last of it is something else.
                Err(Failure::System(Errno::NOTDIR))
                    if self.beneath(place, OFlags::PATH | OFlags::NOFOLLOW).is_ok() =>
                {
                    Err(FileErrorCode::AlreadyExists.into())
                }
                done => done.map(drop),
            }
        })
    }

    pub(super) fn make_link(&self, path: &str, target: &str) -> Result<(), Failure> {
        self.at_own_place(path, Last::Named, |place| {
            if place.is_empty() || self.is_above_mount(place) {
                return Err(FileErrorCode::AlreadyExists.into());
            }
            let (parent, name) = self.parent_made(place)?;
            if statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                self.ask(0, 1)?;
            }
            Ok(symlinkat(target, &parent, name)?)
        })
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), Failure> {
        self.at_own_place(from, Last::Named, |old| {
            self.stays(old)?;
            let (old_parent, old_name) = self.parent(old)?;
            statat(&old_parent, old_name, AtFlags::SYMLINK_NOFOLLOW)?;
            let renamed = self.at_own_place(to, Last::Named, |new| {
                self.stays(new)?;
                let (new_parent, new_name) = self.parent_made(new)?;
                if is_temporary(old_name) {
                    settle(&old_parent, old_name);
                }
                match renameat(&old_parent, old_name, &new_parent, new_name) {
                    Err(Errno::INVAL) => Err(Failure::told(
                        FileErrorCode::InvalidPath,
                        "a directory cannot be moved into itself",
                    )),
                    Err(Errno::EXIST) => Err(FileErrorCode::NotEmpty.into()),
                    done => Ok(done?),
                }
            });
            renamed.map_err(|failure| Failure::At(Box::new(failure.at(to))))
        })
    }

    pub(super) fn remove(&self, path: &str) -> Result<(), Failure> {
        self.at_own_place(path, Last::Named, |place| {
            self.stays(place)?;
            let (parent, name) = self.parent(place)?;
            match unlinkat(&parent, name, AtFlags::empty()) {
                // Some file systems say the one, some the other.
                Err(Errno::ISDIR | Errno::PERM) if is_directory(&parent, name) => {}
                done => return Ok(done?),
            }
            match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                Err(Errno::EXIST) => Err(FileErrorCode::NotEmpty.into()),
                done => Ok(done?),
            }
        })
    }

    pub(super) fn set(
        &self,
        path: &str,
        executable: Option<bool>,
        modified_ns: Option<i64>,
    ) -> Result<(), Failure> {
        self.at_own_place(path, Last::Named, |place| {
            if self.is_above_mount(place) {
                return Err(below_are_others());
            }
            if let Some(executable) = executable {
                self.set_executable(place, executable)?;
            }
            if let Some(modified_ns) = modified_ns {
                let modified = Timespec {
                    tv_sec: modified_ns.div_euclid(1_000_000_000),
                    tv_nsec: modified_ns.rem_euclid(1_000_000_000),
                };
                let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
                let times = Timestamps { last_access: omitted, last_modification: modified };
                // Not where another file system is mounted, which the name would mean.
                self.beneath(place, OFlags::PATH | OFlags::NOFOLLOW)?;
                let (parent, name) = self.parent(place)?;
                let name = if name.is_empty() { b"." } else { name };
                utimensat(&parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Ok(())
        })
    }

    fn set_executable(&self, place: &[u8], executable: bool) -> Result<(), Failure> {
        let seen = fstat(self.beneath(place, OFlags::PATH | OFlags::NOFOLLOW)?)?;
        match FileType::from_raw_mode(seen.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(FileErrorCode::IsDirectory.into()),
            _ => return Err(FileErrorCode::NotAFile.into()),
        }
        let (parent, name) = split(place);
        let parent = self.beneath(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        // One that its owner may only write can still be changed.
        let file = match beneath(&parent, name, OFlags::RDONLY) {
            Err(Errno::ACCESS) => beneath(&parent, name, OFlags::WRONLY),
            file => file,
        }?;
        let stat = fstat(&file)?;
        super::look::expect_file(&stat)?;
        let mode = stat.st_mode & 0o7777;
        let new = if executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
        if new != mode {
            fchmod(&file, Mode::from_raw_mode(new))?;
        }
        Ok(())
    }

    /// Refuses to take away the workspace, or what leads to a mount.
    fn stays(&self, place: &[u8]) -> Result<(), Failure> {
        if place.is_empty() {
            return Err(Failure::told(FileErrorCode::PermissionDenied, "the workspace itself stays"));
        }
        if self.is_above_mount(place) { Err(below_are_others()) } else { Ok(()) }
    }
}

fn is_directory(parent: &std::os::fd::OwnedFd, name: &[u8]) -> bool {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
}

fn below_are_others() -> Failure {
    Failure::told(FileErrorCode::PermissionDenied, "below it are files that belong to others")
}
