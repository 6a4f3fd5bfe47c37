//! SQLite and a directory.

use std::cell::RefCell;

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
