use std::sync::Arc;

use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};

use crate::path::join;
use crate::tree::InodeId;
use crate::{Access, Errno, Result};

/// Why a directory couldn't be mounted. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// There is a mount at this path.
    #[error("mount at {path} overlaps the mount at {other}")]
    Overlaps {
        /// The refused mount.
        path: String,
        /// The existing mount.
        other: String,
    },
    /// There is something where a mount would go: in memory, or in the host directory around it.
    #[error("mount at {path} would hide {hidden}")]
    Hides {
        /// The mount that would hide it: the refused one, or one inside it.
        path: String,
        /// The guest path of what is there.
        hidden: String,
    },
    /// Whether the mount would hide something can't be known until the one around it is attached.
    #[error("mount at {path} is inside the mount at {other}, which has to be attached first")]
    Detached {
        /// The refused mount.
        path: String,
        /// The mount around it.
        other: String,
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
        /// The mount without a place: the refused one, or one inside it.
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
    /// Whether it is the session's workspace. Said anew whenever that is attached.
    #[serde(skip)]
    pub(crate) is_workspace: bool,
    #[serde(skip)]
    dir: Option<Arc<Dir>>,
    /// The mount that this one is inside of, and where in it. Derived from the guest paths.
    #[serde(skip)]
    pub(crate) outer: Option<Place>,
    /// The mounts directly inside this one. Derived from the guest paths.
    #[serde(skip)]
    pub(crate) inner: Vec<Place>,
}

/// Where one mount is inside another.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The other of the two.
    pub(crate) mount: MountId,
    /// The path of the inner below the outer.
    pub(crate) path: String,
}

impl Place {
    /// The name in a directory of the outer that leads to the inner, if one does.
    pub(crate) fn step_below(&self, directory: &str) -> Option<&str> {
        let rest = if directory.is_empty() { &self.path } else { below(directory, &self.path)? };
        rest.split('/').next()
    }
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

    /// Whether a mount is somewhere below the directory at `path` of this one.
    pub(crate) fn has_mount_below(&self, path: &str) -> bool {
        self.inner.iter().any(|inner| below(path, &inner.path).is_some())
    }
}

/// The mounts in the order they were made. They are only ever added.
///
/// Which is inside which isn't written down: it follows from the guest paths, so it can't contradict them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Mount>")]
pub(crate) struct MountTable(Arc<Vec<Mount>>);

impl From<Vec<Mount>> for MountTable {
    fn from(mut mounts: Vec<Mount>) -> Self {
        nest(&mut mounts);
        Self(Arc::new(mounts))
    }
}

impl MountTable {
    pub(crate) fn get(&self, id: MountId) -> Result<&Mount> {
        self.0.get(id.0 as usize).ok_or(Errno::Io)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.0.iter()
    }

    pub(crate) fn with_ids(&self) -> impl Iterator<Item = (MountId, &Mount)> {
        self.0.iter().enumerate().map(|(index, mount)| (MountId(index as u32), mount))
    }

    pub(crate) fn next_id(&self) -> MountId {
        MountId(self.0.len() as u32)
    }

    /// The mount at exactly this path.
    pub(crate) fn at(&self, path: &str) -> Option<&Mount> {
        self.0.iter().find(|mount| mount.guest_path == path)
    }

    /// The innermost mount that `path` is inside of, and where in it.
    pub(crate) fn around<'path>(&self, path: &'path str) -> Option<(&Mount, &'path str)> {
        let around = self.0.iter().filter_map(|mount| Some((mount, below(&mount.guest_path, path)?)));
        around.min_by_key(|(_, rest)| rest.len())
    }

    /// Where in a mount at `path` the mounts would be that are directly inside it.
    pub(crate) fn inside(&self, path: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(move |mount| {
            let outer = mount.outer.as_ref().and_then(|outer| self.get(outer.mount).ok());
            if outer.is_some_and(|outer| below(path, &outer.guest_path).is_some()) {
                return None;
            }
            below(path, &mount.guest_path)
        })
    }

    /// Whether a mount is somewhere below `path`.
    pub(crate) fn any_below(&self, path: &str) -> bool {
        self.0.iter().any(|mount| below(path, &mount.guest_path).is_some())
    }

    pub(crate) fn push(&mut self, guest_path: String, access: Access, point: InodeId, dir: Dir) {
        let mounts = Arc::make_mut(&mut self.0);
        let dir = Some(Arc::new(dir));
        let is_workspace = false;
        mounts.push(Mount { guest_path, access, point, is_workspace, dir, outer: None, inner: Vec::new() });
        nest(mounts);
    }

    /// Makes the mount at `guest_path` the workspace.
    pub(crate) fn make_workspace(&mut self, guest_path: &str) {
        for mount in Arc::make_mut(&mut self.0) {
            mount.is_workspace = mount.guest_path == guest_path;
        }
    }

    /// The mount that is the workspace, if one is.
    pub(crate) fn workspace(&self) -> Option<(MountId, &Mount)> {
        self.with_ids().find(|(_, mount)| mount.is_workspace)
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

/// Finds out which mounts are inside which. An outer path is shorter than what is inside, so that even
/// hostile paths make no circle.
fn nest(mounts: &mut [Mount]) {
    let mut order: Vec<usize> = (0..mounts.len()).collect();
    // Each mount comes right before what is inside it.
    order
        .sort_by(|left, right| mounts[*left].guest_path.split('/').cmp(mounts[*right].guest_path.split('/')));
    for mount in mounts.iter_mut() {
        mount.outer = None;
        mount.inner.clear();
    }
    let mut around: Vec<usize> = Vec::new();
    for index in order {
        let found = loop {
            let Some(outer) = around.last().copied() else { break None };
            match below(&mounts[outer].guest_path, &mounts[index].guest_path) {
                Some(path) => break Some((outer, path.to_owned())),
                None => around.pop(),
            };
        };
        if let Some((outer, path)) = found {
            let place = |mount: usize| Place { mount: MountId(mount as u32), path: path.clone() };
            mounts[index].outer = Some(place(outer));
            mounts[outer].inner.push(place(index));
        }
        around.push(index);
    }
}

/// What is left of `path` below `directory`, if it is there.
pub(crate) fn below<'path>(directory: &str, path: &'path str) -> Option<&'path str> {
    path.strip_prefix(directory)?.strip_prefix('/').filter(|rest| !rest.is_empty())
}
