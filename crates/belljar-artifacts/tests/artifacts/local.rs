//! SQLite and a directory.

use std::cell::RefCell;

use belljar_artifacts::{ArtifactStore, StoreLimits};
use tempfile::TempDir;

use crate::suite;
use crate::support::settings;

#[test]
fn sqlite_and_a_directory_pass_the_suite() {
    let directories: RefCell<Vec<TempDir>> = RefCell::default();
    suite::run(&|limits: StoreLimits| {
        let directory = tempfile::tempdir().unwrap();
        let store = ArtifactStore::open(settings(directory.path(), limits)).unwrap();
        directories.borrow_mut().push(directory);
        store
    });
}
