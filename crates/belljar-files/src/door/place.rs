//! Where a path leads in a directory that changes, through links.

use std::os::fd::{AsFd, OwnedFd};

use belljar_engine::FileErrorCode;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat2, readlinkat};
use rustix::io::Errno;

use super::{DirDoor, Failure, Inner};
use crate::path::PATH_LIMIT;

/// As in Linux: this many links in one path.
const MOST_LINKS: usize = 40;
/// Names that are looked at for one path; links can have many.
const MOST_STEPS: usize = 10_000;
/// How often an operation is tried while links change below it.
const TRIES: usize = 16;

/// No link, no other file system, nothing above: how everything is opened.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// What becomes of a link that is the last of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// It is meant.
    Named,
    /// What it leads to is meant.
    Followed,
}

/// Where a path leads.
pub(super) enum Place<'door> {
    /// To this path of the directory, in which no name is a link, or at least none should be.
    Directory(Vec<u8>),
    /// To this path of another door.
    Mount(&'door Inner, String),
}

impl DirDoor {
    /// Does something where a path leads. It is tried with the path as it is; where there is a link on the way
    /// (`ELOOP`), with the path that the links lead to.
    pub(super) fn at_place<'door, T>(
        &'door self,
        path: &str,
        last: Last,
        mut body: impl FnMut(&Place<'door>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut place = self.place(path.as_bytes().to_vec())?;
        for _ in 0..TRIES {
            match body(&place) {
                Err(Failure::System(Errno::LOOP)) => match self.resolve(path, last) {
                    Ok(resolved) => place = resolved,
                    Err(Failure::System(Errno::LOOP)) => {}
                    Err(failure) => return Err(failure),
                },
                done => return done,
            }
        }
        Err(Errno::LOOP.into())
    }

    /// As [`DirDoor::at_place`], for what changes something: mounts can't be.
    pub(super) fn at_own_place<T>(
        &self,
        path: &str,
        last: Last,
        mut body: impl FnMut(&[u8]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.at_place(path, last, |place| body(self.own(place)?))
    }

    /// The path of a place where changes are possible.
    pub(super) fn own<'place>(&self, place: &'place Place<'_>) -> Result<&'place [u8], Failure> {
        match place {
            Place::Directory(path) => Ok(path),
            Place::Mount(..) => Err(Failure::told(
                FileErrorCode::PermissionDenied,
                "it is shown here read-only, and belongs to others",
            )),
        }
    }

    /// Where a path without links leads.
    fn place(&self, path: Vec<u8>) -> Result<Place<'_>, Failure> {
        let Some(mount) = self.mounts.iter().find(|mount| rest_below(&path, mount.at.as_bytes()).is_some())
        else {
            return Ok(Place::Directory(path));
        };
        let rest = rest_below(&path, mount.at.as_bytes()).unwrap_or_default().to_vec();
        let rest = String::from_utf8(rest).map_err(|_| Errno::NOENT)?;
        Ok(Place::Mount(mount, rest))
    }

    /// Whether this is a directory because a mount is below it.
    pub(super) fn is_above_mount(&self, path: &[u8]) -> bool {
        self.mounts.iter().any(|mount| {
            rest_below(mount.at.as_bytes(), path).is_some_and(|rest| !rest.is_empty()) && !path.is_empty()
        })
    }

    /// Follows the links of a path. What isn't there yet leads where it would be.
    pub(super) fn resolve(&self, path: &str, last: Last) -> Result<Place<'_>, Failure> {
        let mut at = Vec::new();
        let mut pending = Vec::new();
        push_names(&mut pending, path.as_bytes());
        // The directory at `at`, where it is known.
        let mut here: Option<OwnedFd> = None;
        let (mut missing, mut links, mut steps) = (false, 0, 0);
        while let Some(name) = pending.pop() {
            steps += 1;
            if steps > MOST_STEPS {
                return Err(Failure::told(FileErrorCode::InvalidPath, "the links in it are too long"));
            }
            if name == b".." {
                if missing {
                    return Err(Errno::NOENT.into());
                }
                if at.is_empty() {
                    return Err(leads_out());
                }
                at.truncate(at.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
                here = None;
                continue;
            }
            let next = join(&at, &name);
            if next.len() > PATH_LIMIT {
                return Err(Errno::NAMETOOLONG.into());
            }
            let in_mount = self.mounts.iter().any(|mount| rest_below(&next, mount.at.as_bytes()).is_some());
            if missing || in_mount || self.is_above_mount(&next) {
                (at, here) = (next, None);
                continue;
            }
            let opened = match here.take() {
                Some(directory) => Ok(directory),
                None => self.beneath(&at, OFlags::PATH | OFlags::DIRECTORY),
            };
            let found = match &opened {
                Ok(directory) => beneath(directory, &name, OFlags::PATH | OFlags::NOFOLLOW),
                Err(errno) => Err(*errno),
            };
            let object = match found {
                Err(Errno::NOENT) => {
                    (at, missing) = (next, true);
                    continue;
                }
                found => found?,
            };
            let kind = FileType::from_raw_mode(fstat(&object)?.st_mode);
            if kind == FileType::Symlink && (last == Last::Followed || !pending.is_empty()) {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Failure::told(FileErrorCode::InvalidPath, "there are too many links in it"));
                }
                let target = readlinkat(&object, c"", Vec::new())?.into_bytes();
                if target.first() == Some(&b'/') {
                    let Some(own) = self.below_names(&target) else {
                        return self.beside(&target, pending);
                    };
                    push_names(&mut pending, own);
                    at.clear();
                } else {
                    push_names(&mut pending, &target);
                    here = opened.ok();
                }
            } else if kind == FileType::Directory {
                (at, here) = (next, Some(object));
            } else if pending.is_empty() {
                at = next;
            } else {
                return Err(Errno::NOTDIR.into());
            }
        }
        self.place(at)
    }

    /// Where an absolute link leads that isn't in the directory, with the names that come after it.
    fn beside(&self, target: &[u8], mut pending: Vec<Vec<u8>>) -> Result<Place<'_>, Failure> {
        let roots =
            self.roots.iter().filter_map(|root| Some((root, rest_below(target, root.at.as_bytes())?)));
        let (root, rest) = roots.min_by_key(|(_, rest)| rest.len()).ok_or_else(leads_out)?;
        push_names(&mut pending, rest);
        let mut names: Vec<Vec<u8>> = Vec::new();
        while let Some(name) = pending.pop() {
            match name.as_slice() {
                b".." => drop(names.pop().ok_or_else(leads_out)?),
                _ => names.push(name),
            }
        }
        let path = names.join(&b'/');
        if path.len() > PATH_LIMIT {
            return Err(Errno::NAMETOOLONG.into());
        }
        Ok(Place::Mount(root, String::from_utf8(path).map_err(|_| Errno::NOENT)?))
    }

    /// What is left of a link's target below one of the names that the guest has for the directory.
    fn below_names<'target>(&self, target: &'target [u8]) -> Option<&'target [u8]> {
        let names = self.names.iter().map(|name| name.trim_end_matches('/').as_bytes());
        names.filter(|name| !name.is_empty()).find_map(|name| rest_below(target, name))
    }

    /// Opens something below the directory, by a path without links.
    pub(super) fn beneath(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        beneath(&self.directory, if path.is_empty() { b"." } else { path }, flags)
    }

    /// Opens the directory of a path, and says what the last name is.
    pub(super) fn parent<'path>(&self, path: &'path [u8]) -> rustix::io::Result<(OwnedFd, &'path [u8])> {
        let (parent, name) = split(path);
        Ok((self.beneath(parent, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    /// As [`DirDoor::parent`], and makes the directories that are missing.
    pub(super) fn parent_made<'path>(&self, path: &'path [u8]) -> Result<(OwnedFd, &'path [u8]), Failure> {
        let (parent, name) = split(path);
        Ok((self.directory_made(parent)?, name))
    }

    /// Opens a directory, and makes those that are missing.
    pub(super) fn directory_made(&self, path: &[u8]) -> Result<OwnedFd, Failure> {
        let mut there = path;
        let mut directory = loop {
            match self.beneath(there, OFlags::PATH | OFlags::DIRECTORY) {
                Err(Errno::NOENT) if !there.is_empty() => there = split(there).0,
                directory => break directory?,
            }
        };
        let missing = path[there.len()..].split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        for name in missing {
            self.ask(0, 1)?;
            match mkdirat(&directory, name, Mode::from_raw_mode(0o777)) {
                // Others were faster.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            directory = beneath(&directory, name, OFlags::PATH | OFlags::DIRECTORY)?;
        }
        Ok(directory)
    }
}

/// Opens something below a directory. Nothing that is opened like this can block or become a terminal.
pub(super) fn beneath(directory: impl AsFd, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let quiet =
        if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
    openat2(directory, path, flags | quiet | OFlags::CLOEXEC, Mode::empty(), BENEATH)
}

/// A path's directory and its last name.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// The name by which a directory leads towards a mount, and whether it is the mount itself.
pub(super) fn child_towards<'mount>(directory: &[u8], mount: &'mount str) -> Option<(&'mount str, bool)> {
    let rest = rest_below(mount.as_bytes(), directory)?;
    let rest = mount.get(mount.len() - rest.len()..).filter(|rest| !rest.is_empty())?;
    Some(match rest.split_once('/') {
        Some((name, _)) => (name, false),
        None => (rest, true),
    })
}

/// What is left of `path` below `above`; nothing where they are the same.
fn rest_below<'path>(path: &'path [u8], above: &[u8]) -> Option<&'path [u8]> {
    let rest = path.strip_prefix(above)?;
    match rest.first() {
        _ if above.is_empty() => Some(rest),
        None => Some(rest),
        Some(b'/') => Some(&rest[1..]),
        Some(_) => None,
    }
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

/// Puts the names of a path on a stack, the first on top.
fn push_names(pending: &mut Vec<Vec<u8>>, path: &[u8]) {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    pending.extend(names.rev().map(<[u8]>::to_vec));
}

fn leads_out() -> Failure {
    Failure::told(FileErrorCode::InvalidPath, "a link in it leads out of the workspace")
}
