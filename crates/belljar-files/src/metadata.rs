use serde::{Deserialize, Serialize};

/// A moment, as seconds and nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Below 1,000,000,000, and always forward from `seconds`.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// A moment from its nanoseconds since the epoch; those that don't fit are brought to the nearest that does.
    pub fn from_nanoseconds(nanoseconds: i128) -> Self {
        let seconds = nanoseconds.div_euclid(1_000_000_000);
        Self {
            seconds: seconds.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            nanoseconds: nanoseconds.rem_euclid(1_000_000_000) as u32,
        }
    }

    /// Nanoseconds since the epoch.
    pub fn as_nanoseconds(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds)
    }
}

/// What to do with one of a file's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// Leave it.
    Keep,
    /// The file system's clock ([`FileSystem::set_clock`](crate::FileSystem::set_clock)).
    Now,
    /// This moment.
    At(Timestamp),
}

impl SetTime {
    pub(crate) fn resolve(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Keep => None,
            Self::Now => Some(now),
            Self::At(time) => Some(time),
        }
    }
}

/// The kind of thing a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileType {
    /// A file with bytes.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device in a mounted directory. It can be seen, never opened.
    Other,
}

/// What `stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub file_type: FileType,
    /// Bytes: of a file its contents, of a symbolic link its target, of a directory nothing that means much.
    pub size: u64,
    /// How many names it has.
    pub links: u64,
    /// Set on creation and by `set_times`; reading doesn't move it.
    pub accessed: Timestamp,
    /// When its contents last changed.
    pub modified: Timestamp,
    /// When its contents or attributes last changed.
    pub changed: Timestamp,
    /// Stable while the file exists, unique within `device`.
    pub inode: u64,
    /// 0 for the in-memory tree, 1 and up for the mounts in the order they were made.
    pub device: u64,
}
