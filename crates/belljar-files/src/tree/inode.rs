use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::content::Content;
use crate::mount::MountId;
use crate::{FileType, Metadata, Timestamp};

/// Names an inode; never used twice in one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct InodeId(pub(crate) u64);

/// What a name in a directory leads to. The type is kept here too, so that listing needs no lookups.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) inode: InodeId,
    pub(crate) file_type: FileType,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Directory {
    #[serde(deserialize_with = "crate::cautious::map")]
    pub(crate) entries: OrdMap<Arc<str>, Entry>,
    pub(crate) parent: InodeId,
    /// Its name in `parent`, so that its path is found without searching.
    pub(crate) name: Arc<str>,
    /// Set where a host directory is mounted; then `entries` leads only to the points of mounts inside it.
    pub(crate) mount: Option<MountId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Kind {
    Regular(Content),
    Directory(Directory),
    Symlink(Arc<str>),
}

/// A file, directory or symbolic link in memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Inode {
    pub(crate) kind: Kind,
    /// Names; of a directory 2 and its subdirectories, as in Unix. 0: only handles keep it.
    pub(crate) links: u32,
    pub(crate) accessed: Timestamp,
    pub(crate) modified: Timestamp,
    pub(crate) changed: Timestamp,
}

/// Only an inode that two trees share is the same: this is how they are compared, and contents never are.
impl PartialEq for Inode {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// What an inode costs the host in maps and allocations, measured and rounded up.
const INODE_COST: u64 = 512;
/// A directory's first name allocates a leaf for 64.
const DIRECTORY_COST: u64 = 2048;
/// What a name costs on top of its bytes.
const NAME_COST: u64 = 96;

impl Inode {
    pub(crate) fn new(kind: Kind, now: Timestamp) -> Self {
        let links = match kind {
            Kind::Directory(_) => 2,
            Kind::Regular(_) | Kind::Symlink(_) => 1,
        };
        Self { kind, links, accessed: now, modified: now, changed: now }
    }

    pub(crate) fn new_directory(parent: InodeId, name: &str, now: Timestamp) -> Self {
        let directory = Directory { entries: OrdMap::new(), parent, name: name.into(), mount: None };
        Self::new(Kind::Directory(directory), now)
    }

    pub(crate) fn file_type(&self) -> FileType {
        match self.kind {
            Kind::Regular(_) => FileType::Regular,
            Kind::Directory(_) => FileType::Directory,
            Kind::Symlink(_) => FileType::Symlink,
        }
    }

    /// What this inode is charged for, its names apart.
    pub(crate) fn cost(&self) -> u64 {
        INODE_COST
            + match &self.kind {
                Kind::Regular(content) => content.size(),
                Kind::Directory(_) => DIRECTORY_COST,
                Kind::Symlink(target) => target.len() as u64,
            }
    }

    /// Bytes of contents that `newer` doesn't share.
    pub(crate) fn retained(&self, newer: Option<&Self>) -> u64 {
        let newer = newer.and_then(|newer| match &newer.kind {
            Kind::Regular(content) => Some(content),
            Kind::Directory(_) | Kind::Symlink(_) => None,
        });
        match &self.kind {
            Kind::Regular(content) => content.retained(newer),
            Kind::Directory(_) | Kind::Symlink(_) => 0,
        }
    }

    pub(crate) fn touch(&mut self, now: Timestamp) {
        self.modified = now;
        self.changed = now;
    }

    pub(crate) fn metadata(&self, id: InodeId) -> Metadata {
        Metadata {
            file_type: self.file_type(),
            size: match &self.kind {
                Kind::Regular(content) => content.size(),
                Kind::Directory(directory) => directory.entries.len() as u64,
                Kind::Symlink(target) => target.len() as u64,
            },
            links: self.links.into(),
            accessed: self.accessed,
            modified: self.modified,
            changed: self.changed,
            inode: id.0,
            device: 0,
        }
    }
}

/// What a name is charged for.
pub(crate) fn name_cost(name: &str) -> u64 {
    NAME_COST + name.len() as u64
}
