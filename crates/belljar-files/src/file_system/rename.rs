use std::sync::Arc;

use super::FileSystem;
use super::resolve::{Ending, Found, Last};
use crate::handle::{HostPlace, Identity, Node};
use crate::mount::MountId;
use crate::path::join;
use crate::tree::InodeId;
use crate::{Errno, FileType, Handle, Result, host};

impl FileSystem {
    /// Moves a name, over another if there is one: a file over a file, a directory over an empty one.
    pub fn rename_at(
        &mut self,
        old_directory: Handle,
        old_path: &str,
        new_directory: Handle,
        new_path: &str,
    ) -> Result<()> {
        let old = self.resolve(self.position(old_directory)?, old_path, Last::Entry)?;
        let new = self.resolve(self.position(new_directory)?, new_path, Last::Entry)?;
        if old.ending() != Ending::Name || new.ending() != Ending::Name {
            return Err(Errno::Busy);
        }
        match (old, new) {
            (Found::Entry { inode: None, .. }, _) => Err(Errno::NoEntry),
            (
                Found::Entry { directory, name, inode: Some(inode), slash },
                Found::Entry { directory: new_directory, name: new_name, slash: new_slash, .. },
            ) => {
                let is_directory = self.tree.inode(inode)?.file_type() == FileType::Directory;
                if (slash || new_slash) && !is_directory {
                    return Err(Errno::NotDirectory);
                }
                self.rename_memory((directory, name), (new_directory, new_name), inode)
            }
            (
                Found::Host { mount, path: old, slash: old_slash, .. },
                Found::Host { mount: new_mount, path: new, slash: new_slash, .. },
            ) if mount == new_mount => self.rename_host(mount, &old, &new, old_slash || new_slash),
            (Found::Entry { inode: Some(point), .. }, Found::Host { mount, .. })
            | (Found::Host { mount, .. }, Found::Entry { inode: Some(point), .. })
                if self.outer_mount(point) == Some(mount) =>
            {
                Err(Errno::Busy)
            }
            _ => Err(Errno::CrossDevice),
        }
    }

    fn rename_memory(
        &mut self,
        old: (InodeId, Arc<str>),
        new: (InodeId, Arc<str>),
        inode: InodeId,
    ) -> Result<()> {
        let replaced = self.tree.lookup(new.0, &new.1)?;
        for mount in self.mounts.iter() {
            // Mounts are attached again by their guest path, so it mustn't change.
            if self.tree.is_within(mount.point, inode)?
                || replaced.is_some_and(|entry| entry.inode == mount.point)
            {
                return Err(Errno::Busy);
            }
        }
        self.check_unsealed(new.0)?;
        let is_directory = self.tree.inode(inode)?.file_type() == FileType::Directory;
        let old_path = self.tree.path_of(old.0, &old.1);
        let orphan = self.tree.rename((old.0, &old.1), (new.0, &new.1), self.clock, &mut self.ledger)?;
        if replaced.is_some() && orphan.is_none() {
            // Two names of one file: nothing has moved.
            return Ok(());
        }
        let new_path = self.tree.path_of(new.0, &new.1);
        match (old_path, new_path) {
            (Some(old), Some(new)) if is_directory => {
                self.record_moved_in_memory(inode, &old, &new);
            }
            (Some(old), Some(new)) => {
                self.changes.deleted(old);
                if replaced.is_some() {
                    self.changes.deleted(new.clone());
                }
                self.changes.created(new);
            }
            _ => self.changes.truncate(),
        }
        self.forget_name(new.0, &new.1);
        self.follow_name(&old, &new);
        if let Some(orphan) = orphan {
            self.reap(orphan);
        }
        Ok(())
    }

    fn rename_host(&mut self, mount: MountId, old: &str, new: &str, slash: bool) -> Result<()> {
        let mounted = self.mounts.get(mount)?;
        let dir = mounted.writable_dir()?;
        let (old_guest, new_guest) = (mounted.guest_path_of(old), mounted.guest_path_of(new));
        let moved = host::stat(dir, old, false)?;
        if slash && !moved.is_dir() {
            return Err(Errno::NotDirectory);
        }
        let replaced = host::stat(dir, new, false).ok();
        if let Some(replaced) = &replaced
            && Identity::of(replaced) == Identity::of(&moved)
        {
            return Ok(());
        }
        if mounted.has_mount_below(old) {
            return Err(Errno::Busy);
        }
        if moved.is_dir() && mounted.has_mount_below(new) {
            return Err(Errno::NotEmpty);
        }
        dir.rename(old, dir, new)?;
        if let Some(replaced) = &replaced {
            self.forget_host_file(mount, new, replaced);
        }
        if moved.is_dir() {
            self.record_moved_on_host(mount, new, &old_guest, &new_guest);
        } else {
            self.changes.deleted(old_guest);
            if replaced.is_some() {
                self.changes.deleted(new_guest.clone());
            }
            self.changes.created(new_guest);
        }
        self.follow_path(mount, old, new);
        Ok(())
    }

    /// Handles that were opened by the old name are now known by the new.
    fn follow_name(&mut self, old: &(InodeId, Arc<str>), new: &(InodeId, Arc<str>)) {
        self.handles.update(|node| match node {
            Node::Memory { inode, name: Some(name) } if name == old => {
                Some(Node::Memory { inode: *inode, name: Some(new.clone()) })
            }
            _ => None,
        });
    }

    /// Handles on what has moved in a mount, or on what is below it, are found at the new path.
    fn follow_path(&mut self, mount: MountId, old: &str, new: &str) {
        self.handles.update(|node| match node {
            Node::Host { mount: on, place: HostPlace::Path(path), descriptor } if *on == mount => {
                let below = path.strip_prefix(old)?;
                let path = match below.strip_prefix('/') {
                    Some(below) => join(new, below),
                    None if below.is_empty() => new.to_owned(),
                    None => return None,
                };
                Some(Node::Host {
                    mount,
                    place: HostPlace::Path(path.into()),
                    descriptor: descriptor.clone(),
                })
            }
            _ => None,
        });
    }
}
