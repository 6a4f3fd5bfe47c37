//! The operations on a session's files, by topic: one file for each.

mod attributes;
mod contents;
mod door;
mod entries;
mod open;
mod record;
mod removal;
mod rename;
mod resolve;
mod workspace;

use std::sync::Arc;

use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};

use crate::changes::ChangeLog;
use crate::handle::HandleTable;
use crate::mount::MountTable;
use crate::path::{join, normalise_absolute};
use crate::quota::Ledger;
use crate::tree::{Inode, InodeId, Tree};
use crate::{
    Access, Changes, Errno, FileType, MountError, MountInfo, OpenOptions, Quota, Result, Timestamp, Usage,
    host,
};
use resolve::Position;

/// What [`FileSystem::read_file`] reads at most, for the host's memory.
const READ_FILE_LIMIT: u64 = 1 << 30;

/// More than any quota makes sense for.
const MOST_BYTES: u64 = 64 << 30;

/// A session's files: a tree in memory, and host directories mounted into it.
///
/// Paths are relative to a directory handle (absolute ones to the root), and are walked as in Unix:
/// `..` at the root stays there, symbolic links in memory and in a workspace on disk may lead anywhere in
/// the tree, those in another mount only within it, and not into another mount inside it.
///
/// Cloning is cheap and takes a snapshot of the tree, the open handles and the pending changes. Files
/// in read-write mounts are the host's: they aren't part of the snapshot, and a rollback to it doesn't
/// bring them back.
///
/// It never asks the host for the time; [`FileSystem::set_clock`] sets it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileSystem {
    tree: Tree,
    mounts: MountTable,
    handles: HandleTable,
    changes: ChangeLog,
    ledger: Ledger,
    clock: Timestamp,
    next_unlinked: u64,
    /// The epoch of the change log in which the workspace was last counted because it was full.
    #[serde(skip)]
    counted: u64,
    #[serde(skip)]
    fallback: Option<Arc<Fallback>>,
}

/// A path that leads elsewhere where it would lead nowhere.
#[derive(Debug)]
struct Fallback {
    path: String,
    instead: String,
}

impl FileSystem {
    /// An empty root directory in memory.
    pub fn new(quota: Quota) -> Self {
        Self {
            tree: Tree::new(),
            mounts: MountTable::default(),
            handles: HandleTable::new(quota.handles, quota.descriptors),
            changes: ChangeLog::new(),
            ledger: Ledger::new(quota),
            clock: Timestamp::default(),
            next_unlinked: 0,
            counted: 0,
            fallback: None,
        }
    }

    /// Makes an absolute path, and all below it, lead elsewhere where there is nothing. It goes by the words of a
    /// path only: no name is listed for it.
    pub fn set_fallback(&mut self, path: &str, instead: &str) {
        self.fallback = Some(Arc::new(Fallback { path: path.to_owned(), instead: instead.to_owned() }));
    }

    /// Sets the time that files in memory are stamped with from now on.
    pub fn set_clock(&mut self, now: Timestamp) {
        self.clock = now;
    }

    /// Makes a host directory appear at an absolute guest path, over an empty or missing directory.
    /// The directories above are made. Symbolic links on the way are refused.
    ///
    /// It may be inside another mount, in a directory that the host has, by a name that the host hasn't; the
    /// two may be made in either order. Nothing is made on the host, and what the host puts there later is
    /// hidden.
    pub fn mount_directory(
        &mut self,
        guest_path: &str,
        dir: Dir,
        access: Access,
    ) -> std::result::Result<(), MountError> {
        let place = |errno| MountError::Place { path: guest_path.to_owned(), errno };
        let path = normalise_absolute(guest_path).map_err(place)?;
        if let Some(mount) = self.mounts.at(&path) {
            let other = mount.guest_path.clone();
            return Err(MountError::Overlaps { path, other });
        }
        self.cover_directory(path, dir, access, false)
    }

    fn cover_directory(
        &mut self,
        path: String,
        dir: Dir,
        access: Access,
        is_workspace: bool,
    ) -> std::result::Result<(), MountError> {
        let place = |errno| MountError::Place { path: path.clone(), errno };
        // A workspace may hide what the host has in it, and needs no directories for what is mounted in it.
        if let Some((outer, below)) = self.mounts.around(&path)
            && !outer.is_workspace
        {
            let Ok(outer_dir) = outer.dir() else {
                return Err(MountError::Detached { path, other: outer.guest_path.clone() });
            };
            check_host_place(outer_dir, &outer.guest_path, below)?;
        }
        for below in self.mounts.inside(&path).filter(|_| !is_workspace) {
            check_host_place(&dir, &path, below)?;
        }
        // On a copy, so that a refusal leaves nothing behind.
        let (mut tree, mut ledger) = (self.tree.clone(), self.ledger.clone());
        let point = mount_point(&mut tree, &mut ledger, &self.mounts, &path, self.clock)?;
        tree.directory_mut(point).map_err(place)?.mount = Some(self.mounts.next_id());
        self.tree = tree;
        self.ledger = ledger;
        self.mounts.push(path, access, point, dir);
        Ok(())
    }

    /// Gives a mount its directory again, after deserialising. What the guest may do there is said anew, for
    /// open files too. What the directory has where another mount is inside it is hidden.
    pub fn attach(
        &mut self,
        guest_path: &str,
        dir: Dir,
        access: Access,
    ) -> std::result::Result<(), MountError> {
        let path = normalise_absolute(guest_path)
            .map_err(|errno| MountError::Place { path: guest_path.to_owned(), errno })?;
        let mount = self.mounts.attach(&path, dir, access)?;
        if access == Access::ReadOnly {
            self.handles.make_read_only(mount);
        }
        Ok(())
    }

    /// The mounts, in the order they were made.
    pub fn mounts(&self) -> Vec<MountInfo> {
        self.mounts.info()
    }

    /// Makes a directory at an absolute guest path, and those above it, where they are missing.
    pub fn make_directories(&mut self, guest_path: &str) -> Result<()> {
        let path = normalise_absolute(guest_path)?;
        let ends = path.match_indices('/').map(|(index, _)| index).skip(1);
        for end in ends.chain([path.len()]) {
            let prefix = &path[..end];
            match self.stat_from(Position::ROOT, prefix, true) {
                Ok(metadata) if metadata.file_type == FileType::Directory => {}
                Ok(_) => return Err(Errno::NotDirectory),
                Err(Errno::NoEntry) => self.make_directory(Position::ROOT, prefix)?,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// What changed since the last call, by what passed through this file system: in memory and in
    /// read-write mounts alike.
    pub fn take_changes(&mut self) -> Changes {
        self.changes.take()
    }

    /// What is used of the quota.
    pub fn usage(&self) -> Usage {
        self.ledger.usage()
    }

    /// Bytes of file contents that this one holds and `newer`, made from a clone of it, doesn't: what keeping
    /// it costs.
    pub fn retained(&self, newer: &Self) -> u64 {
        self.tree.retained(&newer.tree)
    }

    /// Whether a deserialised file system is one: its names, links and sizes fit together, and it charges for
    /// what is there. What isn't sound must not be used.
    pub fn is_sound(&self) -> bool {
        let held = |inode| self.handles.holds(inode);
        self.tree.audit(held).is_some_and(|usage| usage == self.ledger.tree() && usage.bytes <= MOST_BYTES)
            && self.mounts_are_sound()
    }

    /// The quota it was made with.
    pub fn quota(&self) -> Quota {
        self.ledger.quota()
    }

    /// Changes the quota's bytes and files. What is there stays, even if it is more.
    pub fn set_quota(&mut self, quota: Quota) {
        self.ledger.set_quota(quota);
    }

    /// For the host: the contents of the file at an absolute guest path, up to 1 GiB.
    pub fn read_file(&mut self, path: &str) -> Result<Vec<u8>> {
        let file = self.open(Position::ROOT, path, OpenOptions::reading())?;
        if file.access.directory {
            return Err(Errno::IsDirectory);
        }
        let size = self.size_of(&file)?;
        if size > READ_FILE_LIMIT {
            return Err(Errno::TooLarge);
        }
        let mut bytes = vec![0; size as usize];
        let mut done = 0;
        while done < bytes.len() {
            match self.read_from(&file, done as u64, &mut bytes[done..])? {
                0 => break,
                length => done += length,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// For the host: makes or overwrites the file at an absolute guest path. When the quota refuses the
    /// new contents, the old ones stay.
    pub fn write_file(&mut self, path: &str, contents: &[u8]) -> Result<()> {
        let options = OpenOptions { truncate: false, ..OpenOptions::writing() };
        let file = self.open(Position::ROOT, path, options)?;
        let mut done = 0;
        while done < contents.len() {
            done += self.write_to(&file, done as u64, &contents[done..])?;
        }
        self.resize(&file, contents.len() as u64)?;
        self.record_write(&file);
        Ok(())
    }

    /// Whether each mount covers the directory at its path, and that directory knows.
    fn mounts_are_sound(&self) -> bool {
        self.mounts.with_ids().all(|(id, mount)| {
            self.tree.directory(mount.point).is_ok_and(|point| {
                let path = || self.tree.path_of(point.parent, &point.name);
                point.mount == Some(id) && path().as_deref() == Some(&mount.guest_path)
            })
        })
    }
}

/// Refuses a mount point below a mount where the host has something, or no directory for it.
fn check_host_place(outer: &Dir, outer_path: &str, below: &str) -> std::result::Result<(), MountError> {
    let path = || join(outer_path, below);
    let ends = below.match_indices('/').map(|(index, _)| index);
    for end in ends.chain([below.len()]) {
        let is_last = end == below.len();
        match host::stat(outer, &below[..end], false) {
            Ok(found) if found.is_dir() && !is_last => {}
            Ok(_) => {
                return Err(MountError::Hides { path: path(), hidden: join(outer_path, &below[..end]) });
            }
            Err(Errno::NoEntry) if is_last => {}
            Err(errno) => return Err(MountError::Place { path: path(), errno }),
        }
    }
    Ok(())
}

/// Finds or makes the directory that a mount will cover: empty, but for the points of mounts inside it.
fn mount_point(
    tree: &mut Tree,
    ledger: &mut Ledger,
    mounts: &MountTable,
    path: &str,
    now: Timestamp,
) -> std::result::Result<InodeId, MountError> {
    let hides = |hidden: String| MountError::Hides { path: path.to_owned(), hidden };
    let place = |errno| MountError::Place { path: path.to_owned(), errno };
    if path == "/" {
        return Err(hides("/".to_owned()));
    }
    let mut directory = Tree::ROOT;
    let mut walked = "/".to_owned();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        walked = join(&walked, name);
        directory = match tree.lookup(directory, name).map_err(place)? {
            None => {
                let inode = Inode::new_directory(directory, name, now);
                tree.create(directory, name, inode, ledger).map_err(place)?
            }
            Some(entry) if entry.file_type == FileType::Directory => entry.inode,
            Some(_) => return Err(hides(walked)),
        };
    }
    let mut pending = vec![(walked, directory)];
    while let Some((path, directory)) = pending.pop() {
        for (name, entry) in &tree.directory(directory).map_err(place)?.entries {
            let below = join(&path, name);
            if mounts.at(&below).is_some() {
                continue;
            }
            if !mounts.any_below(&below) {
                return Err(hides(below));
            }
            pending.push((below, entry.inode));
        }
    }
    Ok(directory)
}
