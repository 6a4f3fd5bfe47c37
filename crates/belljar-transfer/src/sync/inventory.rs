//! What is on one side.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use belljar_engine::{FileKind, FileStat};

use crate::error::Result;
use crate::files::Files;
use crate::names::is_part;
use crate::skipped::{SkippedList, printable};
use crate::sync::SyncOptions;
use crate::walk::Walk;

/// Everything that is wanted on one side, by its path.
pub(crate) struct Inventory {
    pub(crate) items: BTreeMap<String, FileStat>,
    /// What couldn't be looked at.
    pub(crate) skipped: SkippedList,
    /// Copies that were interrupted.
    pub(crate) parts: Vec<String>,
}

impl Inventory {
    pub(crate) fn take(files: Files<'_>, options: &SyncOptions) -> Result<Self> {
        let mut inventory =
            Self { items: BTreeMap::new(), skipped: SkippedList::default(), parts: Vec::new() };
        let walk = Walk { files, globs: &options.globs, most: options.most_files };
        let Self { items, skipped, parts } = &mut inventory;
        let mut ours = |path: &str| {
            if is_part(path.rsplit('/').next().unwrap_or_default()) {
                parts.push(path.to_owned());
            }
        };
        walk.each_and_ours(&mut ours, skipped, &mut |found, _| {
            items.insert(found.path, found.stat);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(inventory)
    }

    pub(crate) fn kind(&self, path: &str) -> Option<FileKind> {
        self.items.get(path).map(|stat| stat.kind)
    }

    /// The first directory above a path that is something else here.
    pub(crate) fn in_the_way<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.match_indices('/')
            .map(|(end, _)| &path[..end])
            .find(|above| self.kind(above).is_some_and(|kind| kind != FileKind::Directory))
    }

    /// Whether something may be there that wasn't seen, so that its copy must not be removed.
    pub(crate) fn may_have(&self, path: &str) -> bool {
        // What is longer than the list, or was shortened in it, can't be told apart.
        if self.skipped.total() > self.skipped.len() as u64 {
            return true;
        }
        let path = printable(path);
        self.skipped.iter().any(|skipped| {
            let rest = path.strip_prefix(&skipped.path);
            skipped.path.ends_with('…') || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}
