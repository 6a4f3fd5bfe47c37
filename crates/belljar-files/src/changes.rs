use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// What changed since the last look: net, by absolute guest path, sorted. Files and symbolic links
/// only; a new attribute (`set_times`) isn't a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// New since then.
    pub created: Vec<String>,
    /// There before and after, and written in between.
    pub modified: Vec<String>,
    /// Gone since then.
    pub deleted: Vec<String>,
    /// There was more than the lists hold.
    pub truncated: bool,
}

/// The lists stop here, so that a guest can't fill the host with names.
const PATHS_LIMIT: usize = 10_000;
const BYTES_LIMIT: usize = 2 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Change {
    Created,
    Modified,
    Deleted,
}

/// Collects [`Changes`] as operations pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ChangeLog {
    #[serde(deserialize_with = "crate::cautious::map")]
    paths: OrdMap<Arc<str>, Change>,
    bytes: usize,
    truncated: bool,
    epoch: u64,
}

impl ChangeLog {
    pub(crate) fn new() -> Self {
        Self { paths: OrdMap::new(), bytes: 0, truncated: false, epoch: 1 }
    }

    /// Rises with every `take`; a handle that was recorded in this epoch needn't be recorded again.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Some change couldn't be recorded.
    pub(crate) fn truncate(&mut self) {
        self.truncated = true;
    }

    pub(crate) fn created(&mut self, path: String) {
        match self.paths.get_mut(path.as_str()) {
            Some(change) if *change == Change::Deleted => *change = Change::Modified,
            Some(_) => {}
            None => self.insert(path, Change::Created),
        }
    }

    pub(crate) fn modified(&mut self, path: String) {
        match self.paths.get_mut(path.as_str()) {
            Some(change) if *change == Change::Deleted => *change = Change::Modified,
            Some(_) => {}
            None => self.insert(path, Change::Modified),
        }
    }

    pub(crate) fn deleted(&mut self, path: String) {
        match self.paths.get(path.as_str()) {
            Some(Change::Created) => {
                self.paths.remove(path.as_str());
                self.bytes = self.bytes.saturating_sub(path.len());
            }
            Some(Change::Modified | Change::Deleted) => {
                self.paths.insert(path.into(), Change::Deleted);
            }
            None => self.insert(path, Change::Deleted),
        }
    }

    pub(crate) fn take(&mut self) -> Changes {
        let mut changes = Changes { truncated: self.truncated, ..Changes::default() };
        for (path, change) in &self.paths {
            let list = match change {
                Change::Created => &mut changes.created,
                Change::Modified => &mut changes.modified,
                Change::Deleted => &mut changes.deleted,
            };
            list.push(path.to_string());
        }
        *self = Self { epoch: self.epoch.wrapping_add(1), ..Self::new() };
        changes
    }

    fn insert(&mut self, path: String, change: Change) {
        // Once something is missing, a path that isn't here may be one of the missing: whether it
        // was there before is no longer known, so nothing is added until the next `take`.
        if self.truncated || self.paths.len() >= PATHS_LIMIT || self.bytes + path.len() > BYTES_LIMIT {
            self.truncated = true;
            return;
        }
        self.bytes += path.len();
        self.paths.insert(path.into(), change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_net() {
        let mut log = ChangeLog::new();
        log.created("/new".into());
        log.modified("/new".into());
        log.created("/brief".into());
        log.deleted("/brief".into());
        log.deleted("/replaced".into());
        log.created("/replaced".into());
        log.modified("/gone".into());
        log.deleted("/gone".into());
        log.modified("/old".into());
        let changes = log.take();
        assert_eq!(changes.created, ["/new"]);
        assert_eq!(changes.modified, ["/old", "/replaced"]);
        assert_eq!(changes.deleted, ["/gone"]);
        assert!(!changes.truncated);
        assert_eq!(log.take(), Changes::default());
    }

    #[test]
    fn changes_are_bounded() {
        let mut log = ChangeLog::new();
        for number in 0..PATHS_LIMIT + 5 {
            log.created(format!("/{number}"));
        }
        log.deleted("/0".into());
        log.deleted("/unrecorded".into());
        let changes = log.take();
        assert_eq!(changes.created.len(), PATHS_LIMIT - 1);
        assert_eq!(changes.deleted, Vec::<String>::new());
        assert!(changes.truncated);
        assert!(!log.take().truncated);
    }
}
