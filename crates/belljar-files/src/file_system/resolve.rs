use std::borrow::Cow;
use std::sync::Arc;

use super::FileSystem;
use crate::handle::{HostPlace, Node};
use crate::mount::MountId;
use crate::path::{LINK_LIMIT, NAME_LIMIT, check, join, next_component, split};
use crate::tree::{InodeId, Kind, Tree};
use crate::{Errno, Handle, Result, host};

/// A directory that a walk starts from or has come to.
#[derive(Clone, Debug)]
pub(super) enum Position {
    Memory(InodeId),
    /// A path below a mount. Whether it is a directory, the host says when it is used.
    Host {
        mount: MountId,
        path: String,
    },
}

impl Position {
    pub(super) const ROOT: Self = Self::Memory(Tree::ROOT);
}

/// What to do with the last name of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// The name itself is meant: it will be made, removed or moved.
    Entry,
    /// What it names is meant, even if that is a symbolic link.
    NoFollow,
    /// What it leads to is meant.
    Follow,
}

/// How a path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Name,
    Root,
    Dot,
    DotDot,
}

/// Where a path leads.
#[derive(Debug)]
pub(super) enum Found {
    /// A directory in memory, reached without a name.
    Directory { inode: InodeId, ending: Ending },
    /// A name in a directory in memory, vacant if there is no inode.
    Entry {
        directory: InodeId,
        name: Arc<str>,
        inode: Option<InodeId>,
        /// A slash follows the name.
        slash: bool,
    },
    /// A path below a mount, which may or may not exist. Empty for the mount's own directory.
    Host { mount: MountId, path: String, slash: bool, ending: Ending },
}

impl Found {
    pub(super) fn ending(&self) -> Ending {
        match self {
            Self::Directory { ending, .. } | Self::Host { ending, .. } => *ending,
            Self::Entry { .. } => Ending::Name,
        }
    }
}

impl FileSystem {
    /// Where paths relative to a handle start.
    pub(super) fn position(&self, directory: Handle) -> Result<Position> {
        let file = self.handles.get(directory)?;
        if !file.access.directory {
            return Err(Errno::NotDirectory);
        }
        match &file.node {
            Node::Memory { inode, .. } => Ok(Position::Memory(*inode)),
            Node::Host { mount, place, .. } => match place {
                HostPlace::Path(path) => Ok(Position::Host { mount: *mount, path: path.to_string() }),
                HostPlace::Unlinked(_) => Err(Errno::NoEntry),
            },
        }
    }

    /// Walks a path, one component at a time in memory; below a mount the names are left to the host.
    pub(super) fn resolve(&self, start: Position, path: &str, last: Last) -> Result<Found> {
        check(path)?;
        let mut rest = Cow::Borrowed(path);
        let mut at = 0;
        let mut links = 0;
        let mut ending = Ending::Root;
        let mut position = if path.starts_with('/') { Position::ROOT } else { start };
        while let Some(component) = next_component(&rest, at) {
            at = component.end;
            match component.name {
                "." => {
                    ending = Ending::Dot;
                    continue;
                }
                ".." => {
                    ending = Ending::DotDot;
                    position = self.above(position)?;
                    continue;
                }
                name if name.len() > NAME_LIMIT => return Err(Errno::NameTooLong),
                _ => ending = Ending::Name,
            }
            let (name, slash) = (component.name, component.slash);
            let directory = match &mut position {
                Position::Memory(directory) => *directory,
                Position::Host { mount, path } => {
                    let mount = *mount;
                    if let Some(inner) = self.inner_mount(mount, path, name)? {
                        if component.last && last == Last::Entry {
                            return self.point_of(inner, slash);
                        }
                        position = Position::Host { mount: inner, path: String::new() };
                        continue;
                    }
                    if component.last && last == Last::Entry {
                        *path = self.real_host_directory(mount, path)?;
                    }
                    *path = join(path, name);
                    if component.last {
                        return Ok(Found::Host { mount, path: std::mem::take(path), slash, ending });
                    }
                    continue;
                }
            };
            let entry = self.tree.lookup(directory, name)?;
            let found = |inode| Found::Entry { directory, name: name.into(), inode, slash };
            let Some(entry) = entry else {
                return if component.last { Ok(found(None)) } else { Err(Errno::NoEntry) };
            };
            if component.last && last == Last::Entry {
                return Ok(found(Some(entry.inode)));
            }
            match &self.tree.inode(entry.inode)?.kind {
                Kind::Directory(below) => match below.mount {
                    Some(mount) => {
                        position = Position::Host { mount, path: String::new() };
                    }
                    None if component.last => return Ok(found(Some(entry.inode))),
                    None => position = Position::Memory(entry.inode),
                },
                Kind::Regular(_) if slash => return Err(Errno::NotDirectory),
                Kind::Regular(_) => return Ok(found(Some(entry.inode))),
                Kind::Symlink(_) if component.last && !slash && last == Last::NoFollow => {
                    return Ok(found(Some(entry.inode)));
                }
                Kind::Symlink(target) => {
                    links += 1;
                    if links > LINK_LIMIT {
                        return Err(Errno::Loop);
                    }
                    if target.starts_with('/') {
                        position = Position::ROOT;
                    }
                    rest = Cow::Owned(format!("{target}{}", &rest[at..]));
                    at = 0;
                }
            }
        }
        match position {
            Position::Memory(inode) => Ok(Found::Directory { inode, ending }),
            Position::Host { mount, path } => {
                if last == Last::Entry {
                    self.real_host_directory(mount, &path)?;
                }
                Ok(Found::Host { mount, path, slash: true, ending })
            }
        }
    }

    fn above(&self, position: Position) -> Result<Position> {
        match position {
            Position::Memory(inode) => Ok(Position::Memory(self.tree.parent(inode)?)),
            Position::Host { mount, path } if path.is_empty() => {
                let mount = self.mounts.get(mount)?;
                match &mount.outer {
                    Some(outer) => Ok(Position::Host { mount: outer.mount, path: outer.parent().to_owned() }),
                    None => Ok(Position::Memory(self.tree.parent(mount.point)?)),
                }
            }
            Position::Host { mount, path } => {
                let mut path = self.real_host_directory(mount, &path)?;
                if path.is_empty() {
                    return self.above(Position::Host { mount, path });
                }
                path.truncate(path.rfind('/').unwrap_or(0));
                Ok(Position::Host { mount, path })
            }
        }
    }

    /// The mount at `name` in a directory of another mount, by whatever path that directory was reached.
    /// A symbolic link to the mount itself is the host's to follow, and leads nowhere.
    fn inner_mount(&self, mount: MountId, directory: &str, name: &str) -> Result<Option<MountId>> {
        let inner = &self.mounts.get(mount)?.inner;
        if !inner.iter().any(|inner| inner.name() == name) {
            return Ok(None);
        }
        // If there is no such directory, it is the host that says so.
        let Ok(directory) = self.real_host_directory(mount, directory) else {
            return Ok(None);
        };
        let found = inner.iter().find(|inner| inner.name() == name && inner.parent() == directory);
        Ok(found.map(|inner| inner.mount))
    }

    /// The directory in memory that a mount covers, as what its name leads to.
    fn point_of(&self, mount: MountId, slash: bool) -> Result<Found> {
        let inode = self.mounts.get(mount)?.point;
        let point = self.tree.directory(inode)?;
        Ok(Found::Entry { directory: point.parent, name: point.name.clone(), inode: Some(inode), slash })
    }

    /// The mount that a mount point is inside of.
    pub(super) fn outer_mount(&self, point: InodeId) -> Option<MountId> {
        let mount = self.tree.directory(point).ok()?.mount?;
        Some(self.mounts.get(mount).ok()?.outer.as_ref()?.mount)
    }

    /// Whether what is missing at `path` is missing because a symbolic link there leads to the point of a
    /// mount inside this one, where the host has nothing and is to have nothing.
    pub(super) fn is_link_to_inner_mount(&self, mount: MountId, path: &str) -> Result<bool> {
        let mounted = self.mounts.get(mount)?;
        if mounted.inner.is_empty() {
            return Ok(false);
        }
        let dir = mounted.dir()?;
        let mut path = path.to_owned();
        for _ in 0..LINK_LIMIT {
            let Some(target) =
                dir.read_link(&path).ok().and_then(|target| target.to_str().map(str::to_owned))
            else {
                return Ok(false);
            };
            let start = Position::Host { mount, path: split(&path).0.to_owned() };
            path = match self.resolve(start, &target, Last::Entry) {
                Ok(Found::Entry { inode: Some(inode), .. }) => {
                    return Ok(self.outer_mount(inode) == Some(mount));
                }
                Ok(Found::Host { mount: on, path, .. }) if on == mount => path,
                _ => return Ok(false),
            };
        }
        Ok(false)
    }

    /// Where a directory below a mount is without symbolic links: what is above it is above there, and
    /// what changes in it is known by that path. The answer is only a path: the host resolves it again,
    /// confined, when it is used.
    pub(super) fn real_host_directory(&self, mount: MountId, path: &str) -> Result<String> {
        if path.is_empty() {
            return Ok(String::new());
        }
        let dir = self.mounts.get(mount)?.dir()?;
        if !host::stat(dir, path, true)?.is_dir() {
            return Err(Errno::NotDirectory);
        }
        host::canonicalise(dir, path)
    }
}
