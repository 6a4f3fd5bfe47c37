use std::sync::Arc;

use cap_std::fs::{Metadata, MetadataExt};

use super::FileSystem;
use super::resolve::{Ending, Found, Last};
use crate::handle::{Descriptor, HostPlace, Identity, Node};
use crate::mount::MountId;
use crate::tree::{InodeId, Kind};
use crate::{Errno, Handle, Result, host};

impl FileSystem {
    /// Removes the name of a file or symbolic link. Handles keep what they are on.
    pub fn unlink_at(&mut self, directory: Handle, path: &str) -> Result<()> {
        let found = self.resolve(self.position(directory)?, path, Last::Entry)?;
        if found.ending() != Ending::Name {
            return Err(Errno::IsDirectory);
        }
        match found {
            Found::Directory { .. } => Err(Errno::IsDirectory),
            Found::Entry { inode: None, .. } => Err(Errno::NoEntry),
            Found::Entry { directory, name, inode: Some(inode), slash } => {
                match self.tree.inode(inode)?.kind {
                    Kind::Directory(_) => return Err(Errno::IsDirectory),
                    Kind::Regular(_) | Kind::Symlink(_) if slash => {
                        return Err(Errno::NotDirectory);
                    }
                    Kind::Regular(_) | Kind::Symlink(_) => {}
                }
                self.tree.remove(directory, &name, self.clock, &mut self.ledger)?;
                self.record_deleted_in_memory(directory, &name);
                self.forget_name(directory, &name);
                self.reap(inode);
                Ok(())
            }
            Found::Host { mount, path, slash, .. } => self.unlink_host(mount, &path, slash),
        }
    }

    /// Removes an empty directory.
    pub fn remove_directory_at(&mut self, directory: Handle, path: &str) -> Result<()> {
        let found = self.resolve(self.position(directory)?, path, Last::Entry)?;
        match found.ending() {
            Ending::Name => {}
            Ending::Root => return Err(Errno::Busy),
            Ending::Dot => return Err(Errno::Invalid),
            Ending::DotDot => return Err(Errno::NotEmpty),
        }
        match found {
            Found::Directory { .. } => Err(Errno::Busy),
            Found::Entry { inode: None, .. } => Err(Errno::NoEntry),
            Found::Entry { directory, name, inode: Some(inode), .. } => {
                let removed = self.tree.directory(inode)?;
                if removed.mount.is_some() {
                    return Err(Errno::Busy);
                }
                if !removed.entries.is_empty() {
                    return Err(Errno::NotEmpty);
                }
                self.tree.remove(directory, &name, self.clock, &mut self.ledger)?;
                self.reap(inode);
                Ok(())
            }
            Found::Host { mount, path, .. } => {
                let mounted = self.mounts.get(mount)?;
                let dir = mounted.writable_dir()?;
                if mounted.has_mount_below(&path) {
                    return Err(Errno::NotEmpty);
                }
                dir.remove_dir(&path)?;
                self.credit_host(mount, 0, 1);
                self.mark_unlinked(mount, &path, None);
                Ok(())
            }
        }
    }

    /// Frees an inode that neither a name nor a handle keeps.
    pub(super) fn reap(&mut self, inode: InodeId) {
        let links = self.tree.inode(inode).map_or(0, |inode| inode.links);
        let is_open = || {
            self.handles
                .iter()
                .any(|file| matches!(file.node, Node::Memory { inode: open, .. } if open == inode))
        };
        if links == 0 && !is_open() {
            self.tree.reap(inode, &mut self.ledger);
        }
    }

    /// Handles that were opened by this name have none any more.
    pub(super) fn forget_name(&mut self, directory: InodeId, name: &str) {
        self.handles.update(|node| match node {
            Node::Memory { inode, name: Some((in_directory, known)) }
                if *in_directory == directory && **known == *name =>
            {
                Some(Node::Memory { inode: *inode, name: None })
            }
            _ => None,
        });
    }

    /// Accounts for a host file that has just lost the name `path`. Its bytes are the guest's until its
    /// last handle is closed.
    pub(super) fn forget_host_file(&mut self, mount: MountId, path: &str, before: &Metadata) {
        let is_last_name = before.is_dir() || before.nlink() <= 1;
        let identity = is_last_name.then(|| Identity::of(before));
        let is_open = self.mark_unlinked(mount, path, identity);
        if is_last_name && !is_open {
            let bytes = if before.is_file() { before.len() } else { 0 };
            self.credit_host(mount, bytes, 1);
        }
    }

    /// Credits a nameless host file when its last handle is closed.
    pub(super) fn release_unlinked(&mut self, mount: MountId, number: u64, descriptor: &Arc<Descriptor>) {
        let is_open = self.handles.iter().any(|file| {
            matches!(&file.node, Node::Host { place: HostPlace::Unlinked(other), .. } if *other == number)
        });
        if !is_open && let Some(bytes) = descriptor.nameless_bytes() {
            self.credit_host(mount, bytes, 1);
        }
    }

    fn unlink_host(&mut self, mount: MountId, path: &str, slash: bool) -> Result<()> {
        let mounted = self.mounts.get(mount)?;
        let dir = mounted.writable_dir()?;
        let guest_path = mounted.guest_path_of(path);
        let before = host::stat(dir, path, false)?;
        if before.is_dir() {
            return Err(Errno::IsDirectory);
        }
        if slash {
            return Err(Errno::NotDirectory);
        }
        dir.remove_file(path)?;
        self.changes.deleted(guest_path);
        self.forget_host_file(mount, path, &before);
        Ok(())
    }

    /// Tells the handles on a removed host file that its path no longer leads to it, and whether any
    /// of them holds it open.
    fn mark_unlinked(&mut self, mount: MountId, path: &str, identity: Option<Identity>) -> bool {
        self.next_unlinked = self.next_unlinked.wrapping_add(1);
        let number = self.next_unlinked;
        self.handles.update(|node| match node {
            Node::Host { mount: on, place: HostPlace::Path(known), descriptor }
                if *on == mount
                    && (**known == *path
                        || identity.is_some()
                            && descriptor.as_ref().map(|open| open.identity) == identity) =>
            {
                Some(Node::Host { mount, place: HostPlace::Unlinked(number), descriptor: descriptor.clone() })
            }
            _ => None,
        });
        self.handles.iter().any(|file| {
            file.node.descriptor().is_some()
                && matches!(&file.node, Node::Host { place: HostPlace::Unlinked(other), .. } if *other == number)
        })
    }
}
