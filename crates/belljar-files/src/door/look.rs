//! Operations that change nothing.

use std::os::fd::OwnedFd;

use belljar_engine::{FileEntry, FileErrorCode, FileKind, FileStat, MOST_LISTED};
use rustix::fs::{AtFlags, FileType, OFlags, RawDir, Stat, fstat, readlinkat, statat};
use rustix::io::{Errno, pread};

use super::place::Last;
use super::{DirDoor, Failure, virtual_directory};

/// Bytes of entries that are asked for at once.
const ENTRIES: usize = 32 << 10;

impl DirDoor {
    pub(super) fn stat(&self, place: &[u8], last: Last) -> Result<FileStat, Failure> {
        let above = self.is_above_mount(place);
        let stat = match last {
            Last::Followed => self.beneath(place, OFlags::PATH).and_then(fstat),
            Last::Named => self.beneath(place, OFlags::PATH | OFlags::NOFOLLOW).and_then(fstat),
        };
        match stat {
            Ok(stat) if !above || FileType::from_raw_mode(stat.st_mode).is_dir() => Ok(known(&stat)),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if above => Ok(virtual_directory()),
            stat => Ok(known(&stat?)),
        }
    }

    pub(super) fn list(&self, place: &[u8]) -> Result<Vec<FileEntry>, Failure> {
        let directory = match self.beneath(place, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if self.is_above_mount(place) => {
                return Ok(Vec::new());
            }
            directory => directory?,
        };
        let mut entries = Vec::new();
        let mut buffer = Vec::with_capacity(ENTRIES);
        let mut names = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = names.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if entries.len() == MOST_LISTED {
                break;
            }
            let stat = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT) {
                Ok(stat) => known(&stat),
                // It is gone again.
                Err(Errno::NOENT) => continue,
                // The directory can be read, but not entered.
                Err(Errno::ACCESS) => FileStat { kind: kind(entry.file_type()), ..unknown() },
                Err(errno) => return Err(errno.into()),
            };
            entries.push(FileEntry { name: name.to_string_lossy().into_owned(), stat });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    pub(super) fn read(&self, place: &[u8], offset: u64, length: u64) -> Result<Vec<u8>, Failure> {
        let (file, stat) = self.file(place, OFlags::RDONLY)?;
        let length = length.min((stat.st_size as u64).saturating_sub(offset)) as usize;
        let mut contents = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match pread(&file, &mut contents[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        contents.truncate(filled);
        Ok(contents)
    }

    pub(super) fn read_link(&self, place: &[u8]) -> Result<Vec<u8>, Failure> {
        let object = match self.beneath(place, OFlags::PATH | OFlags::NOFOLLOW) {
            Err(Errno::NOENT) if self.is_above_mount(place) => return Err(not_a_link()),
            object => object?,
        };
        match FileType::from_raw_mode(fstat(&object)?.st_mode) {
            FileType::Symlink if !self.is_above_mount(place) => {
                Ok(readlinkat(&object, c"", Vec::new())?.into_bytes())
            }
            _ => Err(not_a_link()),
        }
    }

    /// Opens a file, after a look at what it is: opening a device can do things already. What is there by then is
    /// looked at again, and can't have blocked.
    pub(super) fn file(&self, place: &[u8], flags: OFlags) -> Result<(OwnedFd, Stat), Failure> {
        if self.is_above_mount(place) {
            return Err(FileErrorCode::IsDirectory.into());
        }
        expect_file(&fstat(self.beneath(place, OFlags::PATH)?)?)?;
        let file = self.beneath(place, flags)?;
        let stat = fstat(&file)?;
        expect_file(&stat)?;
        Ok((file, stat))
    }
}

/// Refuses what isn't a regular file.
pub(super) fn expect_file(stat: &Stat) -> Result<(), Failure> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(FileErrorCode::IsDirectory.into()),
        // It has become one meanwhile.
        FileType::Symlink => Err(Errno::LOOP.into()),
        _ => Err(FileErrorCode::NotAFile.into()),
    }
}

fn known(stat: &Stat) -> FileStat {
    FileStat {
        kind: kind(FileType::from_raw_mode(stat.st_mode)),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified_ns: stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as i64),
        executable: stat.st_mode & 0o100 != 0,
        read_only: false,
    }
}

fn unknown() -> FileStat {
    FileStat { kind: FileKind::Other, size: 0, modified_ns: 0, executable: false, read_only: false }
}

fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    }
}

fn not_a_link() -> Failure {
    Failure::told(FileErrorCode::InvalidPath, "it is not a link")
}
