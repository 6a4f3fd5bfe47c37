//! What is known of all paths, and how much they take up.

use std::collections::{BTreeMap, BTreeSet};

use super::TreeUsage;
use super::entry::Entry;

/// Paths and what is there.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Paths of files that have several names: a change by one name isn't told of the others.
    linked: BTreeSet<Vec<u8>>,
    usage: TreeUsage,
}

impl Index {
    pub(super) fn get(&self, path: &[u8]) -> Option<&Entry> {
        self.entries.get(path)
    }

    pub(super) fn get_mut(&mut self, path: &[u8]) -> Option<&mut Entry> {
        self.entries.get_mut(path)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &Entry)> {
        self.entries.iter()
    }

    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn usage(&self) -> TreeUsage {
        self.usage
    }

    pub(super) fn linked(&self) -> &BTreeSet<Vec<u8>> {
        &self.linked
    }

    pub(super) fn below(&self, path: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &Entry)> {
        let below = [path, b"/"].concat();
        self.entries.range(below.clone()..).take_while(move |(path, _)| path.starts_with(&below))
    }

    pub(super) fn insert(&mut self, path: Vec<u8>, entry: Entry, installed: bool) -> Option<Entry> {
        self.usage.bytes += entry.stamp.bytes();
        self.usage.files += 1;
        if entry.stamp.links > 1 && !entry.is_directory() && !installed {
            self.linked.insert(path.clone());
        } else {
            self.linked.remove(&path);
        }
        let before = self.entries.insert(path, entry);
        self.leave_out(before.as_ref());
        before
    }

    pub(super) fn remove(&mut self, path: &[u8]) -> Option<Entry> {
        let before = self.entries.remove(path);
        self.linked.remove(path);
        self.leave_out(before.as_ref());
        before
    }

    fn leave_out(&mut self, entry: Option<&Entry>) {
        if let Some(entry) = entry {
            self.usage.bytes -= entry.stamp.bytes();
            self.usage.files -= 1;
        }
    }
}
