//! A workspace that is a directory of the host.
//!
//! Its quota is its own. What it holds is counted when something is first written there, then kept up to date by
//! what passes through; before something is refused, it is counted once more, since others may have changed it.
//! Files count with their whole length, holes included; a file with several names counts once.

use cap_std::fs::Dir;

use super::FileSystem;
use crate::handle::{HostPlace, Identity, Node};
use crate::mount::MountId;
use crate::path::normalise_absolute;
use crate::quota::Account;
use crate::tree::{InodeId, Kind, Tree};
use crate::{Access, Errno, FileType, MountError, Quota, Result, Usage, host};

impl FileSystem {
    /// Makes a host directory the session's workspace, at an absolute guest path, over an empty or missing
    /// directory. What the host has where another mount is, or will be, is hidden, and no directory is needed on
    /// the host for it.
    ///
    /// Where it is the workspace already, it is attached again: files that are open in another directory are opened
    /// in this one when they are next used, by their paths.
    pub fn mount_workspace(
        &mut self,
        guest_path: &str,
        dir: Dir,
        quota: Quota,
    ) -> std::result::Result<(), MountError> {
        let place = |errno| MountError::Place { path: guest_path.to_owned(), errno };
        let path = normalise_absolute(guest_path).map_err(place)?;
        let identity = |dir: &Dir| host::stat(dir, "", true).map(|found| Identity::of(&found));
        let new = identity(&dir).map_err(place)?;
        if self.mounts.at(&path).is_some() {
            let old = self.mounts.workspace().filter(|(_, mount)| mount.guest_path == path);
            if old.and_then(|(_, mount)| identity(mount.dir().ok()?).ok()) == Some(new) {
                self.ledger.set_workspace_quota(quota);
                return Ok(());
            }
            let mount = self.mounts.attach(&path, dir, Access::ReadWrite)?;
            self.handles.close_descriptors(mount);
        } else {
            self.cover_directory(path.clone(), dir, Access::ReadWrite, true)?;
        }
        self.mounts.make_workspace(&path);
        self.ledger.open_workspace(quota);
        Ok(())
    }

    /// What a workspace on the host's disk holds, if it was counted since it was mounted or put back.
    pub fn workspace_usage(&self) -> Option<Usage> {
        self.ledger.workspace()
    }

    /// Others have changed the workspace on the host's disk: what it holds is counted again when something is next
    /// written there.
    pub fn recount_workspace(&self) {
        self.ledger.set_workspace(None);
    }

    /// Charges for what a mount is about to grow by.
    pub(super) fn charge_host(&mut self, mount: MountId, bytes: u64, files: u64) -> Result<()> {
        let account = self.account(mount);
        if let Account::Mounts = account {
            return self.ledger.charge(account, bytes, files);
        }
        if self.ledger.workspace().is_none() {
            self.count(mount)?;
        }
        match self.ledger.charge(account, bytes, files) {
            // Once for all that one cell is refused: it takes time.
            Err(Errno::NoSpace) if self.counted != self.changes.epoch() => {
                self.counted = self.changes.epoch();
                self.count(mount)?;
                self.ledger.charge(account, bytes, files)
            }
            charged => charged,
        }
    }

    pub(super) fn credit_host(&mut self, mount: MountId, bytes: u64, files: u64) {
        self.ledger.credit(self.account(mount), bytes, files);
    }

    /// Charges for what a file in a mount grows by, or credits what it shrinks by.
    pub(super) fn resize_host(&mut self, mount: MountId, old: u64, new: u64) -> Result<()> {
        match new < old {
            true => self.credit_host(mount, old - new, 0),
            false if new > old => self.charge_host(mount, new - old, 0)?,
            false => {}
        }
        Ok(())
    }

    fn account(&self, mount: MountId) -> Account {
        match self.mounts.get(mount) {
            Ok(mount) if mount.is_workspace => Account::Workspace,
            _ => Account::Mounts,
        }
    }

    fn count(&mut self, mount: MountId) -> Result<()> {
        // One more than it may hold is as bad as a million more.
        let most = self.ledger.workspace_files().saturating_add(1);
        let mut usage = host::usage_below(self.mounts.get(mount)?.dir()?, most)?;
        let mut seen: Vec<Identity> = Vec::new();
        for file in self.handles.iter() {
            // Files without a name take room until they are closed.
            if let Node::Host { mount: on, place: HostPlace::Unlinked(_), descriptor: Some(open) } =
                &file.node
                && *on == mount
                && !seen.contains(&open.identity)
                && let Some(bytes) = open.nameless_bytes()
            {
                seen.push(open.identity);
                usage.bytes = usage.bytes.saturating_add(bytes);
                usage.files += 1;
            }
        }
        self.ledger.set_workspace(Some(usage));
        Ok(())
    }

    /// For the host: removes what is in a directory in memory, if there is one.
    pub fn clear_directory(&mut self, guest_path: &str) -> Result<()> {
        let path = normalise_absolute(guest_path)?;
        let mut directory = Tree::ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match self.tree.lookup(directory, name)? {
                Some(entry) if entry.file_type == FileType::Directory => directory = entry.inode,
                _ => return Ok(()),
            }
        }
        let mut found: Vec<(InodeId, String, InodeId)> = Vec::new();
        let mut pending = vec![directory];
        while let Some(directory) = pending.pop() {
            for (name, entry) in &self.tree.directory(directory)?.entries {
                if let Kind::Directory(below) = &self.tree.inode(entry.inode)?.kind {
                    if below.mount.is_some() {
                        return Err(Errno::Busy);
                    }
                    pending.push(entry.inode);
                }
                found.push((directory, name.to_string(), entry.inode));
            }
        }
        // What is in a directory was found after it.
        for (directory, name, inode) in found.into_iter().rev() {
            self.tree.remove(directory, &name, self.clock, &mut self.ledger)?;
            self.forget_name(directory, &name);
            self.reap(inode);
        }
        Ok(())
    }
}
