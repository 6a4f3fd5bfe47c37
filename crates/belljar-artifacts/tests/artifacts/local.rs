//! SQLite and a directory.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_artifacts::{ArtifactStore, StoreLimits};
use tempfile::TempDir;

use crate::suite::{self, Maker};
use crate::support::settings;

fn check(check: fn(Maker<'_>)) {
    let directories: RefCell<Vec<TempDir>> = RefCell::default();
    check(&|limits: StoreLimits| {
        let directory = tempfile::tempdir().unwrap();
        let store = ArtifactStore::open(settings(directory.path(), limits)).unwrap();
        directories.borrow_mut().push(directory);
        store
    });
}

suite::tests!(check);

/// Nothing is garbage before it is known to be: not even where nobody waits.
#[test]
fn garbage_is_collected_at_once_while_others_write() {
    let directory = tempfile::tempdir().unwrap();
    let store = ArtifactStore::open(settings(directory.path(), StoreLimits::default())).unwrap();
    suite::collect_while_others_write(&store, Duration::ZERO);
    assert!(files_below(&directory.path().join("blobs/sha256")).is_empty());
}

/// All files below a directory.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() { pending.push(path) } else { files.push(path) }
        }
    }
    files
}
