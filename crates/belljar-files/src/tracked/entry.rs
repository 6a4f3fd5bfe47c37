//! What is known of one path.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Stat};

use super::contents::Contents;

/// A file that was changed so shortly before it was looked at may have been changed again in the same tick.
const TICK: Duration = Duration::from_millis(20);

/// A path as it was seen.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) stamp: Stamp,
    pub(super) kind: Kind,
    /// It may have changed since without a trace.
    pub(super) recent: bool,
}

/// What changes with every change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) blocks: u64,
    pub(super) links: u32,
    pub(super) mode: u32,
    pub(super) changed: (i64, u32),
    pub(super) modified: (i64, u32),
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Directory,
    /// With its contents, if they are kept.
    File(Option<Arc<Contents>>),
    /// Where it leads.
    Link(Vec<u8>),
    /// A pipe, a socket, a device: it isn't kept.
    Other,
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            mode: stat.st_mode,
            changed: (stat.st_ctime, stat.st_ctime_nsec as u32),
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
        }
    }

    pub(super) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Whether nothing was done to it; blocks come and go by themselves, and so do links.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Self { blocks: 0, links: 0, ..*self } == Self { blocks: 0, links: 0, ..*other }
    }

    /// Whether it was changed a moment ago.
    pub(super) fn is_recent(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let changed = Duration::new(self.changed.0.max(0) as u64, self.changed.1.min(999_999_999));
        changed + TICK > now
    }

    /// Bytes that it takes up on the disk. A file with several names has its share in each.
    pub(super) fn bytes(&self) -> u64 {
        let links = if self.file_type() == FileType::Directory { 1 } else { self.links.max(1) };
        self.blocks.saturating_mul(512).div_ceil(u64::from(links))
    }

    /// The mode that is put back: nothing gets its owner's rights by it.
    pub(super) fn rights(&self) -> u32 {
        match self.file_type() {
            FileType::Directory => self.mode & 0o3777,
            _ => self.mode & 0o777,
        }
    }
}

impl Entry {
    /// What is there, without contents.
    pub(super) fn seen(stamp: Stamp, link: Option<Vec<u8>>) -> Self {
        let kind = match (stamp.file_type(), link) {
            (FileType::Directory, _) => Kind::Directory,
            (FileType::RegularFile, _) => Kind::File(None),
            (FileType::Symlink, Some(target)) => Kind::Link(target),
            _ => Kind::Other,
        };
        Self { stamp, kind, recent: stamp.is_recent() }
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory)
    }

    pub(super) fn contents(&self) -> Option<&Arc<Contents>> {
        match &self.kind {
            Kind::File(contents) => contents.as_ref(),
            _ => None,
        }
    }
}
