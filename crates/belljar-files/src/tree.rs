//! The in-memory tree: a persistent table of inodes, so that a clone shares everything and each side
//! then copies only what it changes.

mod chunk;
mod content;
mod inode;
mod rename;

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use serde::{Deserialize, Serialize};

pub use chunk::{Chunk, with_chunks_apart, with_chunks_from};
pub(crate) use content::Content;
use inode::name_cost;
pub(crate) use inode::{Directory, Entry, Inode, InodeId, Kind};

use crate::path::{PATH_LIMIT, join};
use crate::quota::{Account, Ledger};
use crate::{Errno, FileType, Result, Timestamp, Usage};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tree {
    #[serde(deserialize_with = "crate::cautious::map")]
    inodes: OrdMap<InodeId, Arc<Inode>>,
    next: u64,
}

impl Tree {
    pub(crate) const ROOT: InodeId = InodeId(1);

    /// A tree with an empty root, which is free.
    pub(crate) fn new() -> Self {
        let root = Inode::new_directory(Self::ROOT, "", Timestamp::default());
        Self { inodes: OrdMap::unit(Self::ROOT, Arc::new(root)), next: Self::ROOT.0 + 1 }
    }

    /// How many there are.
    pub(crate) fn inodes(&self) -> usize {
        self.inodes.len()
    }

    /// A missing inode is a damaged state, not a missing file.
    pub(crate) fn inode(&self, id: InodeId) -> Result<&Inode> {
        self.inodes.get(&id).map(Arc::as_ref).ok_or(Errno::Io)
    }

    pub(crate) fn inode_mut(&mut self, id: InodeId) -> Result<&mut Inode> {
        self.inodes.get_mut(&id).map(Arc::make_mut).ok_or(Errno::Io)
    }

    pub(crate) fn directory(&self, id: InodeId) -> Result<&Directory> {
        match &self.inode(id)?.kind {
            Kind::Directory(directory) => Ok(directory),
            Kind::Regular(_) | Kind::Symlink(_) => Err(Errno::NotDirectory),
        }
    }

    pub(crate) fn directory_mut(&mut self, id: InodeId) -> Result<&mut Directory> {
        match &mut self.inode_mut(id)?.kind {
            Kind::Directory(directory) => Ok(directory),
            Kind::Regular(_) | Kind::Symlink(_) => Err(Errno::NotDirectory),
        }
    }

    pub(crate) fn content(&self, id: InodeId) -> Result<&Content> {
        match &self.inode(id)?.kind {
            Kind::Regular(content) => Ok(content),
            Kind::Directory(_) => Err(Errno::IsDirectory),
            Kind::Symlink(_) => Err(Errno::Invalid),
        }
    }

    fn content_mut(&mut self, id: InodeId) -> Result<&mut Content> {
        match &mut self.inode_mut(id)?.kind {
            Kind::Regular(content) => Ok(content),
            Kind::Directory(_) => Err(Errno::IsDirectory),
            Kind::Symlink(_) => Err(Errno::Invalid),
        }
    }

    pub(crate) fn lookup(&self, directory: InodeId, name: &str) -> Result<Option<Entry>> {
        Ok(self.directory(directory)?.entries.get(name).copied())
    }

    /// The directory above; a removed directory may have none any more.
    pub(crate) fn parent(&self, directory: InodeId) -> Result<InodeId> {
        let parent = self.directory(directory)?.parent;
        if self.inodes.contains_key(&parent) { Ok(parent) } else { Err(Errno::NoEntry) }
    }

    /// Whether `inode` is `ancestor` or somewhere below it.
    pub(crate) fn is_within(&self, mut inode: InodeId, ancestor: InodeId) -> Result<bool> {
        for _ in 0..self.inodes.len() {
            if inode == ancestor {
                return Ok(true);
            }
            if inode == Self::ROOT {
                return Ok(false);
            }
            inode = self.parent(inode)?;
        }
        Err(Errno::Io)
    }

    /// The absolute path of `name` in `directory`, or nothing when it would be longer than a path may be.
    pub(crate) fn path_of(&self, directory: InodeId, name: &str) -> Option<String> {
        let mut names = vec![name];
        let mut length = name.len();
        let mut inode = directory;
        while inode != Self::ROOT {
            let directory = self.directory(inode).ok()?;
            length += directory.name.len() + 1;
            if length > PATH_LIMIT {
                return None;
            }
            names.push(&directory.name);
            inode = directory.parent;
        }
        Some(names.iter().rev().fold("/".to_owned(), |path, name| join(&path, name)))
    }

    /// Makes an inode and its first name.
    pub(crate) fn create(
        &mut self,
        directory: InodeId,
        name: &str,
        inode: Inode,
        ledger: &mut Ledger,
    ) -> Result<InodeId> {
        self.check_vacant(directory, name)?;
        let now = inode.changed;
        let id = InodeId(self.next);
        let next = self.next.checked_add(1).ok_or(Errno::NoSpace)?;
        let file_type = inode.file_type();
        if file_type == FileType::Directory {
            self.add_link(directory)?;
        }
        let cost = inode.cost() + name_cost(name);
        if let Err(errno) = ledger.charge(Account::Tree, cost, 1) {
            if file_type == FileType::Directory {
                self.remove_link(directory)?;
            }
            return Err(errno);
        }
        self.next = next;
        self.inodes.insert(id, Arc::new(inode));
        self.insert_entry(directory, name, Entry { inode: id, file_type }, now)?;
        Ok(id)
    }

    /// Gives an inode another name.
    pub(crate) fn link(
        &mut self,
        directory: InodeId,
        name: &str,
        id: InodeId,
        now: Timestamp,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let file_type = self.inode(id)?.file_type();
        if file_type == FileType::Directory {
            return Err(Errno::NotPermitted);
        }
        self.check_vacant(directory, name)?;
        ledger.charge(Account::Tree, name_cost(name), 0)?;
        if let Err(errno) = self.add_link(id) {
            ledger.credit(Account::Tree, name_cost(name), 0);
            return Err(errno);
        }
        self.inode_mut(id)?.changed = now;
        self.insert_entry(directory, name, Entry { inode: id, file_type }, now)
    }

    /// Takes a name away. The inode stays until [`Tree::reap`], for there may be handles on it.
    pub(crate) fn remove(
        &mut self,
        directory: InodeId,
        name: &str,
        now: Timestamp,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let entry = self.lookup(directory, name)?.ok_or(Errno::NoEntry)?;
        self.take_entry(directory, name, now)?;
        ledger.credit(Account::Tree, name_cost(name), 0);
        let inode = self.inode_mut(entry.inode)?;
        inode.changed = now;
        if entry.file_type == FileType::Directory {
            inode.links = 0;
            self.remove_link(directory)
        } else {
            self.remove_link(entry.inode)
        }
    }

    /// Forgets an inode without names. The caller knows that no handle is on it.
    pub(crate) fn reap(&mut self, id: InodeId, ledger: &mut Ledger) {
        if let Some(inode) = self.inodes.get(&id)
            && inode.links == 0
        {
            ledger.credit(Account::Tree, inode.cost(), 1);
            self.inodes.remove(&id);
        }
    }

    pub(crate) fn write(
        &mut self,
        id: InodeId,
        offset: u64,
        data: &[u8],
        now: Timestamp,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let old = self.content(id)?.size();
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::TooLarge)?;
        ledger.resize(Account::Tree, old, old.max(end))?;
        self.content_mut(id)?.write(offset, data);
        self.inode_mut(id)?.touch(now);
        Ok(())
    }

    pub(crate) fn set_size(
        &mut self,
        id: InodeId,
        size: u64,
        now: Timestamp,
        ledger: &mut Ledger,
    ) -> Result<()> {
        ledger.resize(Account::Tree, self.content(id)?.size(), size)?;
        self.content_mut(id)?.set_size(size);
        self.inode_mut(id)?.touch(now);
        Ok(())
    }

    /// The files and symbolic links below a directory, as paths relative to it. Stops at `limit`.
    pub(crate) fn files_below(&self, directory: InodeId, limit: usize) -> Result<Vec<String>> {
        let mut files = Vec::new();
        let mut pending = vec![(String::new(), directory)];
        let mut visited = 0;
        while let Some((path, directory)) = pending.pop() {
            for (name, entry) in &self.directory(directory)?.entries {
                visited += 1;
                let path = join(&path, name);
                if visited > limit || path.len() > PATH_LIMIT {
                    return Err(Errno::TooLarge);
                }
                if entry.file_type == FileType::Directory {
                    pending.push((path, entry.inode));
                } else {
                    files.push(path);
                }
            }
        }
        Ok(files)
    }

    /// Bytes of contents that only this tree holds and not `newer`, which was made from a clone of it.
    pub(crate) fn retained(&self, newer: &Self) -> u64 {
        let changed = self.inodes.diff(&newer.inodes).map(|change| match change {
            DiffItem::Add(..) => 0,
            DiffItem::Remove(_, old) => old.retained(None),
            DiffItem::Update { old: (_, old), new: (_, new) } => old.retained(Some(new)),
        });
        changed.sum()
    }

    /// Whether a tree that came from elsewhere is one: every name leads to an inode of its kind, each inode
    /// is reached as often as it says, or is held by a handle. Answers what the tree costs.
    pub(crate) fn audit(&self, held: impl Fn(InodeId) -> bool) -> Option<Usage> {
        let mut usage = Usage::default();
        let mut names: BTreeMap<InodeId, u32> = BTreeMap::new();
        let mut subdirectories: BTreeMap<InodeId, u32> = BTreeMap::new();
        for (id, inode) in &self.inodes {
            if id.0 >= self.next || id.0 < Self::ROOT.0 {
                return None;
            }
            if *id != Self::ROOT {
                usage.bytes = usage.bytes.checked_add(inode.cost())?;
                usage.files += 1;
            }
            match &inode.kind {
                Kind::Regular(content) if !content.is_sound() => return None,
                Kind::Regular(_) | Kind::Symlink(_) => {}
                Kind::Directory(directory) => {
                    for (name, entry) in &directory.entries {
                        let target = self.inodes.get(&entry.inode)?;
                        let own = !name.is_empty()
                            && !name.contains(['/', '\0'])
                            && &**name != "."
                            && &**name != "..";
                        if !own || target.file_type() != entry.file_type {
                            return None;
                        }
                        if let Kind::Directory(child) = &target.kind {
                            if child.parent != *id || child.name != *name {
                                return None;
                            }
                            *subdirectories.entry(*id).or_default() += 1;
                        }
                        *names.entry(entry.inode).or_default() += 1;
                        usage.bytes = usage.bytes.checked_add(name_cost(name))?;
                    }
                }
            }
        }
        let linked = self.inodes.iter().all(|(id, inode)| {
            let named = names.get(id).copied().unwrap_or_default();
            match &inode.kind {
                Kind::Directory(_) if *id == Self::ROOT || named == 1 => {
                    inode.links == 2 + subdirectories.get(id).copied().unwrap_or_default()
                }
                Kind::Directory(_) => named == 0 && held(*id),
                Kind::Regular(_) | Kind::Symlink(_) => inode.links == named && (named > 0 || held(*id)),
            }
        });
        (linked && self.inodes.contains_key(&Self::ROOT)).then_some(usage)
    }

    fn check_vacant(&self, directory: InodeId, name: &str) -> Result<()> {
        if self.lookup(directory, name)?.is_some() {
            return Err(Errno::Exist);
        }
        // A removed directory that a handle still holds takes no new names.
        if self.inode(directory)?.links == 0 {
            return Err(Errno::NoEntry);
        }
        Ok(())
    }

    fn insert_entry(&mut self, directory: InodeId, name: &str, entry: Entry, now: Timestamp) -> Result<()> {
        self.directory_mut(directory)?.entries.insert(name.into(), entry);
        self.inode_mut(directory)?.touch(now);
        Ok(())
    }

    fn take_entry(&mut self, directory: InodeId, name: &str, now: Timestamp) -> Result<()> {
        self.directory_mut(directory)?.entries.remove(name);
        self.inode_mut(directory)?.touch(now);
        Ok(())
    }

    fn add_link(&mut self, id: InodeId) -> Result<()> {
        let inode = self.inode_mut(id)?;
        inode.links = inode.links.checked_add(1).ok_or(Errno::TooManyLinks)?;
        Ok(())
    }

    fn remove_link(&mut self, id: InodeId) -> Result<()> {
        let inode = self.inode_mut(id)?;
        inode.links = inode.links.saturating_sub(1);
        Ok(())
    }
}
