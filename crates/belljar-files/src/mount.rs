use std::sync::Arc;

use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};

use crate::path::join;
use crate::tree::InodeId;
use crate::{Access, Errno, Result};

/// Why a directory couldn't be mounted. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// One of the two would hide files of the other.
    #[error("mount at {path} overlaps the mount at {other}")]
    Overlaps {
        /// The refused mount.
        path: String,
        /// The existing mount.
        other: String,
    },
    /// There are files in memory where the mount would go.
    #[error("mount at {path} would hide {hidden}")]
    Hides {
        /// The refused mount.
        path: String,
        /// The existing file or directory.
        hidden: String,
    },
    /// No mount was made at this path, so there is nothing to attach to.
    #[error("there is no mount at {path} to attach to")]
    Unknown {
        /// The path that was asked for.
        path: String,
    },
    /// The place couldn't be made.
    #[error("mount at {path}: {errno}")]
    Place {
        /// The refused mount.
        path: String,
        /// What the file system answered.
        errno: Errno,
    },
}

/// A mounted directory, as [`FileSystem::mounts`](crate::FileSystem::mounts) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountInfo {
    /// Where the guest sees it.
    pub guest_path: String,
    /// Whether the guest may change it.
    pub access: Access,
    /// False in a deserialised file system until [`FileSystem::attach`](crate::FileSystem::attach).
    pub attached: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountId(u32);

impl MountId {
    /// The memory tree is device 0.
    pub(crate) fn device(self) -> u64 {
        u64::from(self.0) + 1
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) guest_path: String,
    pub(crate) access: Access,
    /// The directory in the tree that it covers.
    pub(crate) point: InodeId,
    #[serde(skip)]
    dir: Option<Arc<Dir>>,
}

impl Mount {
    /// The host's directory; a detached mount answers an I/O error.
    pub(crate) fn dir(&self) -> Result<&Dir> {
        self.dir.as_deref().ok_or(Errno::Io)
    }

    /// The host's directory, to be changed.
    pub(crate) fn writable_dir(&self) -> Result<&Dir> {
        match self.access {
            Access::ReadOnly => Err(Errno::ReadOnly),
            Access::ReadWrite => self.dir(),
        }
    }

    pub(crate) fn guest_path_of(&self, path: &str) -> String {
        join(&self.guest_path, path)
    }
}

/// The mounts in the order they were made. They are only ever added.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MountTable(Arc<Vec<Mount>>);

impl MountTable {
    pub(crate) fn get(&self, id: MountId) -> Result<&Mount> {
        self.0.get(id.0 as usize).ok_or(Errno::Io)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.0.iter()
    }

    pub(crate) fn next_id(&self) -> MountId {
        MountId(self.0.len() as u32)
    }

    /// Answers the mount that one at `path` would hide, or be hidden by.
    pub(crate) fn overlapping(&self, path: &str) -> Option<&Mount> {
        let contains = |outer: &str, inner: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.0.iter().find(|mount| contains(&mount.guest_path, path) || contains(path, &mount.guest_path))
    }

    pub(crate) fn push(&mut self, guest_path: String, access: Access, point: InodeId, dir: Dir) {
        Arc::make_mut(&mut self.0).push(Mount { guest_path, access, point, dir: Some(Arc::new(dir)) });
    }

    /// Gives the mount at `guest_path` its directory.
    pub(crate) fn attach(
        &mut self,
        guest_path: &str,
        dir: Dir,
        access: Access,
    ) -> std::result::Result<MountId, MountError> {
        let mounts = Arc::make_mut(&mut self.0);
        let index = mounts
            .iter()
            .position(|mount| mount.guest_path == guest_path)
            .ok_or_else(|| MountError::Unknown { path: guest_path.to_owned() })?;
        mounts[index].dir = Some(Arc::new(dir));
        mounts[index].access = access;
        Ok(MountId(index as u32))
    }

    pub(crate) fn info(&self) -> Vec<MountInfo> {
        self.iter()
            .map(|mount| MountInfo {
                guest_path: mount.guest_path.clone(),
                access: mount.access,
                attached: mount.dir.is_some(),
            })
            .collect()
    }
}
