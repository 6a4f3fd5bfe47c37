use std::borrow::Cow;
use std::sync::Arc;

use super::FileSystem;
use crate::handle::{HostPlace, Node};
use crate::mount::{MountId, below};
use crate::path::{LINK_LIMIT, NAME_LIMIT, check, join, next_component, split};
use crate::tree::{InodeId, Kind, Tree};
use crate::{Errno, Handle, Result, host};

/// Names in one walk that follows links in the workspace itself, where they are long: each asks the host.
const MOST_LOOKS: u32 = 4096;

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

/// Who follows the symbolic links in a workspace on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    /// The host, within the workspace.
    OfHost,
    /// The walk itself, in the guest's tree.
    OfGuest,
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

    /// Walks a path, one component at a time in memory; below a mount the names are left to the host, until it
    /// refuses to follow a link out of the workspace.
    pub(super) fn resolve(&self, start: Position, path: &str, last: Last) -> Result<Found> {
        check(path)?;
        let instead = self.fall_back(&start, path);
        let path = instead.as_deref().unwrap_or(path);
        match self.walk(start.clone(), path, last, Links::OfHost) {
            Err(Errno::NotPermitted) => self.walk_through_links(start, path, last),
            found => found,
        }
    }

    /// Where a path leads that the host refused to follow: by the guest's own names, as if the links in the
    /// workspace were in memory. What comes out may be anywhere in the guest's tree, and has none of them on the
    /// way; should one come in between, the host refuses again. Links in other mounts stay the host's.
    pub(super) fn beyond_mount(&self, mount: MountId, path: &str, slash: bool, last: Last) -> Result<Found> {
        let start = Position::Host { mount, path: String::new() };
        match slash {
            true => self.walk_through_links(start, &format!("{path}/"), last),
            false => self.walk_through_links(start, path, last),
        }
    }

    /// A link that leads nowhere in the guest's tree was perhaps made for the host's: it stays refused.
    fn walk_through_links(&self, start: Position, path: &str, last: Last) -> Result<Found> {
        if self.mounts.workspace().is_none() {
            return Err(Errno::NotPermitted);
        }
        match self.walk(start, path, last, Links::OfGuest) {
            Err(Errno::NoEntry) | Ok(Found::Entry { inode: None, .. }) => Err(Errno::NotPermitted),
            found => found,
        }
    }

    fn walk(&self, start: Position, path: &str, last: Last, in_workspace: Links) -> Result<Found> {
        let mut rest = Cow::Borrowed(path);
        let mut at = 0;
        let mut links = 0;
        let mut looks = 0;
        let mut ending = Ending::Root;
        let mut position = if path.starts_with('/') { Position::ROOT } else { start };
        while let Some(component) = next_component(&rest, at) {
            at = component.end;
            looks += 1;
            if in_workspace == Links::OfGuest && looks > MOST_LOOKS {
                return Err(Errno::Loop);
            }
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
                    match self.inner(mount, path, name)? {
                        Some(inner) if component.last && last == Last::Entry => {
                            return self.point_of(inner, slash);
                        }
                        Some(inner) => {
                            position = self.covered_position(inner)?;
                            continue;
                        }
                        None => {}
                    }
                    let is_meant =
                        component.last && (last == Last::Entry || (last == Last::NoFollow && !slash));
                    let mounted = self.mounts.get(mount)?;
                    if in_workspace == Links::OfGuest && mounted.is_workspace && !is_meant {
                        let dir = mounted.dir()?;
                        if let Some(target) = host::link_target(dir, &join(path, name))? {
                            links += 1;
                            if links > LINK_LIMIT {
                                return Err(Errno::Loop);
                            }
                            if target.starts_with('/') {
                                position = Position::ROOT;
                            }
                            rest = Cow::Owned(format!("{target}{}", &rest[at..]));
                            at = 0;
                            continue;
                        }
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

    /// The path that is meant instead of one that leads nowhere.
    fn fall_back(&self, start: &Position, path: &str) -> Option<String> {
        let fallback = self.fallback.as_deref()?;
        if !path.starts_with('/') && !matches!(start, Position::Memory(Tree::ROOT)) {
            return None;
        }
        let mut at = 0;
        for name in fallback.path.split('/').filter(|name| !name.is_empty()) {
            let component = loop {
                let component = next_component(path, at)?;
                at = component.end;
                if component.name != "." {
                    break component;
                }
            };
            if component.name != name {
                return None;
            }
        }
        let found = self.walk(Position::ROOT, &fallback.path, Last::Follow, Links::OfHost);
        match found.and_then(|found| self.stat_found(found, true)) {
            Err(Errno::NoEntry) => Some(format!("{}{}", fallback.instead, &path[at..])),
            _ => None,
        }
    }

    fn above(&self, position: Position) -> Result<Position> {
        match position {
            Position::Memory(inode) => self.covered_position(self.tree.parent(inode)?),
            Position::Host { mount, path } if path.is_empty() => {
                self.covered_position(self.tree.parent(self.mounts.get(mount)?.point)?)
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

    /// The point of a mount at `name` in a directory of another mount, by whatever path that directory was
    /// reached; or the directory on the way to one, where the host has none.
    /// A symbolic link to the mount itself is the host's to follow, and leads nowhere.
    fn inner(&self, mount: MountId, directory: &str, name: &str) -> Result<Option<InodeId>> {
        let mounted = self.mounts.get(mount)?;
        if !mounted.inner.iter().any(|inner| inner.path.split('/').any(|part| part == name)) {
            return Ok(None);
        }
        // If there is no such directory, it is the host that says so.
        let Ok(directory) = self.real_host_directory(mount, directory) else {
            return Ok(None);
        };
        let path = join(&directory, name);
        for inner in &mounted.inner {
            if inner.path == path {
                return Ok(Some(self.mounts.get(inner.mount)?.point));
            }
            if below(&path, &inner.path).is_some() {
                return match self.has_host_directory(mount, &path) {
                    true => Ok(None),
                    false => self.below_point(mounted.point, &path).map(Some),
                };
            }
        }
        Ok(None)
    }

    /// Whether the host has a directory there, and no symbolic link to one.
    fn has_host_directory(&self, mount: MountId, path: &str) -> bool {
        let dir = self.mounts.get(mount).and_then(|mount| mount.dir());
        dir.is_ok_and(|dir| host::stat(dir, path, false).is_ok_and(|found| found.is_dir()))
    }

    /// The directory in memory at a path below a mount's point.
    fn below_point(&self, point: InodeId, path: &str) -> Result<InodeId> {
        path.split('/').try_fold(point, |directory, name| {
            Ok(self.tree.lookup(directory, name)?.ok_or(Errno::NoEntry)?.inode)
        })
    }

    /// Where a directory in memory really is, if a mount covers it or one above it.
    fn covered_position(&self, inode: InodeId) -> Result<Position> {
        let Some((mount, path)) = self.cover(inode)? else { return Ok(Position::Memory(inode)) };
        match path.is_empty() || self.has_host_directory(mount, &path) {
            true => Ok(Position::Host { mount, path }),
            // On the way to a mount inside, where the host has nothing.
            false => Ok(Position::Memory(inode)),
        }
    }

    /// The mount that covers a directory in memory, and where in it that is.
    fn cover(&self, inode: InodeId) -> Result<Option<(MountId, String)>> {
        let mut names: Vec<&str> = Vec::new();
        let mut inode = inode;
        // A tree that came from elsewhere may go in circles.
        for _ in 0..self.tree.inodes() {
            if inode == Tree::ROOT {
                return Ok(None);
            }
            let directory = self.tree.directory(inode)?;
            if let Some(mount) = directory.mount {
                names.reverse();
                return Ok(Some((mount, names.join("/"))));
            }
            names.push(&directory.name);
            inode = self.tree.parent(inode)?;
        }
        Err(Errno::Io)
    }

    /// Refuses what would be made in a directory that is only there because a mount is below it.
    pub(super) fn check_unsealed(&self, directory: InodeId) -> Result<()> {
        // Most file systems have no mount inside another, and need not look.
        let nested = self.mounts.iter().any(|mount| !mount.inner.is_empty());
        match nested && self.cover(directory)?.is_some_and(|(_, path)| !path.is_empty()) {
            true => Err(Errno::ReadOnly),
            false => Ok(()),
        }
    }

    /// A directory in memory that a mount covers, or that is on the way to one, as what its name leads to.
    fn point_of(&self, inode: InodeId, slash: bool) -> Result<Found> {
        let point = self.tree.directory(inode)?;
        Ok(Found::Entry { directory: point.parent, name: point.name.clone(), inode: Some(inode), slash })
    }

    /// The mount that a mount point, or a directory on the way to it, is inside of.
    pub(super) fn outer_mount(&self, point: InodeId) -> Option<MountId> {
        let (mount, path) = self.cover(point).ok()??;
        match path.is_empty() {
            true => Some(self.mounts.get(mount).ok()?.outer.as_ref()?.mount),
            false => Some(mount),
        }
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
