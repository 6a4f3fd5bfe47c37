//! What is asked of the host, always below a mount's directory handle: `cap-std` resolves each path
//! there, so neither `..`, a symbolic link nor a race leads out.

use std::collections::HashSet;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::{AtFlags, OFlags, Timespec, Timestamps, UTIME_OMIT};

use crate::{DirectoryEntry, Errno, FileType, Metadata, Result, Timestamp, Usage};

/// Times are brought within this many seconds of 1970 (34,000 years), as each host file system does
/// with its own limit. At the very end of the range `cap-std` would panic when it reads them back.
const TIME_LIMIT: i64 = 1 << 40;

/// How to open on the host. Truncation is the caller's, after it knows what it truncates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostOpen {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) create: Create,
    pub(crate) follow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Create {
    Never,
    IfMissing,
    Exclusive,
}

/// Opens a regular file or a directory. Anything else is refused, after an open that can't block.
pub(crate) fn open(dir: &Dir, path: &str, how: HostOpen) -> Result<(File, cap_std::fs::Metadata)> {
    let creates = how.create != Create::Never;
    let mut options = OpenOptions::new();
    options
        .read(how.read || !how.write)
        .write(how.write || creates)
        .create(how.create == Create::IfMissing)
        .create_new(how.create == Create::Exclusive)
        .nonblock(true)
        .custom_flags(OFlags::NOCTTY.bits() as i32)
        .follow(follow(how.follow));
    let file = dir.open_with(at(path), &options)?;
    let metadata = file.metadata()?;
    match file_type(metadata.file_type()) {
        FileType::Regular | FileType::Directory => Ok((file, metadata)),
        FileType::Symlink | FileType::Other => Err(Errno::NotSupported),
    }
}

pub(crate) fn stat(dir: &Dir, path: &str, follow: bool) -> Result<cap_std::fs::Metadata> {
    Ok(match (path, follow) {
        ("", _) => dir.dir_metadata()?,
        (path, true) => dir.metadata(path)?,
        (path, false) => dir.symlink_metadata(path)?,
    })
}

pub(crate) fn metadata(host: &cap_std::fs::Metadata, device: u64) -> Metadata {
    let time = |seconds, nanoseconds: i64| Timestamp {
        seconds,
        nanoseconds: nanoseconds.clamp(0, 999_999_999) as u32,
    };
    Metadata {
        file_type: file_type(host.file_type()),
        size: host.len(),
        links: host.nlink(),
        accessed: time(host.atime(), host.atime_nsec()),
        modified: time(host.mtime(), host.mtime_nsec()),
        changed: time(host.ctime(), host.ctime_nsec()),
        inode: host.ino(),
        device,
    }
}

pub(crate) fn file_type(host: cap_std::fs::FileType) -> FileType {
    if host.is_file() {
        FileType::Regular
    } else if host.is_dir() {
        FileType::Directory
    } else if host.is_symlink() {
        FileType::Symlink
    } else {
        FileType::Other
    }
}

pub(crate) fn list(dir: &Dir, path: &str) -> Result<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    for entry in dir.read_dir(at(path))? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string() {
            let file_type = file_type(entry.file_type()?);
            entries.push(DirectoryEntry { name, file_type });
        }
    }
    Ok(entries)
}

/// The files and symbolic links below a directory, as paths relative to it. Stops at `limit`.
pub(crate) fn files_below(dir: &Dir, path: &str, limit: usize) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut pending = vec![String::new()];
    let mut visited = 0;
    while let Some(below) = pending.pop() {
        let directory = if below.is_empty() { path.to_owned() } else { crate::path::join(path, &below) };
        for entry in list(dir, &directory)? {
            visited += 1;
            if visited > limit {
                return Err(Errno::TooLarge);
            }
            let below = crate::path::join(&below, &entry.name);
            if entry.file_type == FileType::Directory {
                pending.push(below);
            } else {
                files.push(below);
            }
        }
    }
    Ok(files)
}

/// What is below a directory, counted up to so many files. Symbolic links aren't followed; what can't be looked
/// into isn't counted.
pub(crate) fn usage_below(dir: &Dir, most: u64) -> Result<Usage> {
    let mut usage = Usage::default();
    let mut several_names = HashSet::new();
    let mut pending = vec![".".to_owned()];
    while let Some(path) = pending.pop() {
        let Ok(entries) = dir.read_dir(&path) else { continue };
        for entry in entries {
            let Ok(entry) = entry else { break };
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.nlink() > 1 && metadata.is_file() && !several_names.insert(metadata.ino()) {
                continue;
            }
            usage.files += 1;
            if metadata.is_file() {
                usage.bytes = usage.bytes.saturating_add(metadata.len());
            } else if metadata.is_dir()
                && let Ok(name) = entry.file_name().into_string()
            {
                pending.push(crate::path::join(&path, &name));
            }
            if usage.files >= most {
                return Ok(usage);
            }
        }
    }
    Ok(usage)
}

/// What the symbolic link at a path says, which may be absolute; nothing where there is no link.
pub(crate) fn link_target(dir: &Dir, path: &str) -> Result<Option<String>> {
    match dir.read_link_contents(path).map_err(Errno::from) {
        Ok(target) => target.into_os_string().into_string().map(Some).map_err(|_| Errno::IllegalByteSequence),
        // It is something else, or isn't there; whoever uses the path finds out.
        Err(Errno::Invalid | Errno::NoEntry | Errno::NotDirectory) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Where a path really is below `dir`, for `..` to be taken from there.
pub(crate) fn canonicalise(dir: &Dir, path: &str) -> Result<String> {
    let canonical = dir.canonicalize(at(path))?;
    let canonical = canonical.into_os_string().into_string().map_err(|_| Errno::IllegalByteSequence)?;
    Ok(if canonical == "." { String::new() } else { canonical })
}

pub(crate) fn set_times(file: &File, accessed: Option<Timestamp>, modified: Option<Timestamp>) -> Result<()> {
    Ok(rustix::fs::futimens(file, &timestamps(accessed, modified))?)
}

/// Sets the times of a symbolic link. Not by `cap-std`, which panics on times before 1970; it finds the
/// directory, and the name in it isn't followed.
pub(crate) fn set_symlink_times(
    dir: &Dir,
    path: &str,
    accessed: Option<Timestamp>,
    modified: Option<Timestamp>,
) -> Result<()> {
    let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
    let parent = dir.open_dir(parent)?;
    let times = timestamps(accessed, modified);
    Ok(rustix::fs::utimensat(&parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn timestamps(accessed: Option<Timestamp>, modified: Option<Timestamp>) -> Timestamps {
    let time = |time: Option<Timestamp>| match time {
        Some(time) => {
            Timespec { tv_sec: time.seconds.clamp(-TIME_LIMIT, TIME_LIMIT), tv_nsec: time.nanoseconds.into() }
        }
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    Timestamps { last_access: time(accessed), last_modification: time(modified) }
}

fn follow(follow: bool) -> FollowSymlinks {
    if follow { FollowSymlinks::Yes } else { FollowSymlinks::No }
}

/// The mount's own directory has the empty path.
fn at(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}
