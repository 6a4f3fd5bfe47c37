use super::inode::name_cost;
use super::{InodeId, Tree};
use crate::quota::{Account, Ledger};
use crate::{Errno, FileType, Result, Timestamp};

impl Tree {
    /// Moves a name, over another if there is one. Answers the inode that lost its name that way.
    pub(crate) fn rename(
        &mut self,
        old: (InodeId, &str),
        new: (InodeId, &str),
        now: Timestamp,
        ledger: &mut Ledger,
    ) -> Result<Option<InodeId>> {
        let entry = self.lookup(old.0, old.1)?.ok_or(Errno::NoEntry)?;
        let is_directory = entry.file_type == FileType::Directory;
        if is_directory && self.is_within(new.0, entry.inode)? {
            return Err(Errno::Invalid);
        }
        let replaced = self.lookup(new.0, new.1)?;
        if let Some(replaced) = replaced {
            if replaced.inode == entry.inode {
                return Ok(None);
            }
            self.check_replaceable(old.0, replaced.inode, is_directory)?;
        } else if self.inode(new.0)?.links == 0 {
            return Err(Errno::NoEntry);
        }
        if is_directory && old.0 != new.0 && self.inode(new.0)?.links == u32::MAX {
            return Err(Errno::TooManyLinks);
        }
        let (old_cost, new_cost) = (name_cost(old.1), name_cost(new.1));
        if replaced.is_none() {
            ledger.resize(Account::Tree, old_cost, new_cost)?;
        } else {
            ledger.credit(Account::Tree, old_cost, 0);
        }

        self.take_entry(old.0, old.1, now)?;
        self.insert_entry(new.0, new.1, entry, now)?;
        if is_directory {
            let directory = self.directory_mut(entry.inode)?;
            directory.parent = new.0;
            directory.name = new.1.into();
            self.remove_link(old.0)?;
            self.add_link(new.0)?;
        }
        self.inode_mut(entry.inode)?.changed = now;
        if let Some(replaced) = replaced {
            self.inode_mut(replaced.inode)?.changed = now;
            if is_directory {
                self.inode_mut(replaced.inode)?.links = 0;
                self.remove_link(new.0)?;
            } else {
                self.remove_link(replaced.inode)?;
            }
        }
        Ok(replaced.map(|entry| entry.inode))
    }

    fn check_replaceable(&self, old_directory: InodeId, replaced: InodeId, by_directory: bool) -> Result<()> {
        let is_directory = self.inode(replaced)?.file_type() == FileType::Directory;
        if is_directory && self.is_within(old_directory, replaced)? {
            return Err(Errno::NotEmpty);
        }
        match (by_directory, is_directory) {
            (true, false) => Err(Errno::NotDirectory),
            (false, true) => Err(Errno::IsDirectory),
            (true, true) if !self.directory(replaced)?.entries.is_empty() => Err(Errno::NotEmpty),
            _ => Ok(()),
        }
    }
}
