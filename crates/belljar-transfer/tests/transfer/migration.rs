//! Copies of packages that older systems left in workspaces.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use belljar_transfer::{Migrated, Migration, Progress, Quiet, TransferError, migrate};
use tempfile::{TempDir, tempdir};

use crate::tree::survey;

struct Scratch {
    directory: TempDir,
}

impl Scratch {
    fn new() -> Self {
        let scratch = Self { directory: tempdir().unwrap() };
        packages(&scratch.environment());
        fs::create_dir(scratch.root()).unwrap();
        scratch
    }

    fn environment(&self) -> PathBuf {
        self.directory.path().join("environment")
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("threads")
    }

    /// A thread as the older system made it.
    fn thread(&self, name: &str) -> PathBuf {
        let thread = self.root().join(name);
        packages(&thread.join("site-packages"));
        fs::write(thread.join("user_code.py"), "print(1)").unwrap();
        fs::write(thread.join(".metadata.json"), "{}").unwrap();
        thread
    }

    fn migrate(&self, dry_run: bool) -> Vec<Migrated> {
        migrate(&self.root(), &self.environment(), dry_run, &Quiet).unwrap()
    }
}

fn packages(directory: &Path) {
    let files = [
        ("tabulate/__init__.py", "def tabulate(): ..."),
        ("tabulate/version.py", "1"),
        ("openpyxl/cell.py", "cell"),
        ("openpyxl-3.1.dist-info/RECORD", "a"),
        ("openpyxl-3.1.dist-info/METADATA", "Name: openpyxl"),
        ("six.py", "six"),
    ];
    for (path, contents) in files {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
}

fn removed(thread: &str, files: u64, bytes: u64) -> Migrated {
    Migrated { thread: thread.to_owned(), migration: Migration::Removed { files, bytes } }
}

#[test]
fn copies_go_and_nothing_else_does() {
    let scratch = Scratch::new();
    let old = scratch.thread("old");
    let cached = scratch.thread("with-caches");
    fs::create_dir(cached.join("site-packages/tabulate/__pycache__")).unwrap();
    fs::write(cached.join("site-packages/tabulate/__pycache__/version.cpython-311.pyc"), "bytes").unwrap();
    fs::write(cached.join("site-packages/openpyxl-3.1.dist-info/RECORD"), "other").unwrap();
    fs::write(cached.join("site-packages/openpyxl-3.1.dist-info/INSTALLER"), "pip").unwrap();
    fs::create_dir(scratch.root().join("new")).unwrap();
    fs::write(scratch.root().join("a-file"), "").unwrap();
    let less = scratch.thread("with-less");
    fs::remove_file(less.join("site-packages/six.py")).unwrap();

    let before = survey(&scratch.root());
    let dry = scratch.migrate(true);
    assert_eq!(survey(&scratch.root()), before);
    let migrated = scratch.migrate(false);
    assert_eq!(migrated, dry);
    assert_eq!(migrated, [removed("old", 6, 42), removed("with-caches", 8, 54), removed("with-less", 5, 39)]);
    for thread in [old, cached, less] {
        assert_eq!(survey(&thread).into_keys().collect::<Vec<_>>(), [".metadata.json", "user_code.py"]);
    }
    assert_eq!(survey(&scratch.environment()).len(), 9);
    assert_eq!(scratch.migrate(false), []);
}

#[test]
fn a_copy_with_anything_of_its_own_stays_as_it_is() {
    let scratch = Scratch::new();
    type Change = fn(&Path);
    let changes: [(&str, &str, Change); 7] = [
        ("a-contents", "tabulate/version.py", |copy| {
            fs::write(copy.join("tabulate/version.py"), "2").unwrap()
        }),
        ("b-size", "six.py", |copy| fs::write(copy.join("six.py"), "sixty").unwrap()),
        ("c-more", "mine.py", |copy| fs::write(copy.join("mine.py"), "mine").unwrap()),
        ("d-link", "tabulate/link", |copy| symlink("/etc/passwd", copy.join("tabulate/link")).unwrap()),
        ("e-directory-link", "openpyxl", |copy| {
            fs::remove_dir_all(copy.join("openpyxl")).unwrap();
            symlink("../../../environment/openpyxl", copy.join("openpyxl")).unwrap();
        }),
        ("f-socket", "socket", |copy| {
            drop(std::os::unix::net::UnixListener::bind(copy.join("socket")).unwrap());
        }),
        ("g-ours", ".belljar-mine", |copy| fs::write(copy.join(".belljar-mine"), "mine").unwrap()),
    ];
    for (name, _, change) in &changes {
        change(&scratch.thread(name).join("site-packages"));
    }
    let before = survey(&scratch.root());
    let migrated = scratch.migrate(false);
    assert_eq!(survey(&scratch.root()), before);
    assert_eq!(migrated.len(), changes.len());
    for (migrated, (name, path, _)) in migrated.iter().zip(changes) {
        assert_eq!(migrated.thread, name);
        match &migrated.migration {
            Migration::Different { path: found, .. } => assert_eq!(found, path),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn links_in_place_of_threads_and_copies_are_left_alone() {
    let scratch = Scratch::new();
    let elsewhere = scratch.directory.path().join("elsewhere");
    packages(&elsewhere.join("site-packages"));
    symlink(&elsewhere, scratch.root().join("linked-thread")).unwrap();
    fs::create_dir(scratch.root().join("linked-copy")).unwrap();
    symlink(scratch.environment(), scratch.root().join("linked-copy/site-packages")).unwrap();
    assert_eq!(scratch.migrate(false), []);
    assert_eq!(survey(&elsewhere).len(), 10);
    assert_eq!(survey(&scratch.environment()).len(), 9);
    assert!(scratch.root().join("linked-copy/site-packages").is_symlink());
}

#[test]
fn what_an_interrupted_run_left_is_removed_by_the_next() {
    let scratch = Scratch::new();
    let thread = scratch.thread("half");
    fs::rename(thread.join("site-packages"), thread.join(".belljar-removed-0123456789abcdef")).unwrap();
    fs::remove_file(thread.join(".belljar-removed-0123456789abcdef/six.py")).unwrap();
    assert_eq!(scratch.migrate(true), []);
    assert!(thread.join(".belljar-removed-0123456789abcdef").exists());
    assert_eq!(scratch.migrate(false), []);
    assert_eq!(survey(&thread).len(), 2);
}

#[test]
fn an_environment_that_is_not_there_removes_nothing() {
    let scratch = Scratch::new();
    scratch.thread("old");
    let before = survey(&scratch.root());
    let missing = scratch.directory.path().join("missing");
    assert!(matches!(migrate(&scratch.root(), &missing, false, &Quiet), Err(TransferError::Host { .. })));
    fs::create_dir(&missing).unwrap();
    let migrated = migrate(&scratch.root(), &missing, false, &Quiet).unwrap();
    assert!(matches!(&migrated[0].migration, Migration::Different { .. }));
    assert_eq!(survey(&scratch.root()), before);
}

#[test]
fn it_can_be_stopped_between_threads() {
    struct After(AtomicU64);
    impl Progress for After {
        fn advance(&self, _: &str, files: u64, _: u64) {
            self.0.store(files, Ordering::Relaxed);
        }
        fn stop(&self) -> bool {
            self.0.load(Ordering::Relaxed) > 0
        }
    }
    let scratch = Scratch::new();
    for name in ["a", "b", "c"] {
        scratch.thread(name);
    }
    let stopped = migrate(&scratch.root(), &scratch.environment(), false, &After(AtomicU64::new(0)));
    assert!(matches!(stopped, Err(TransferError::Stopped)));
    assert!(!scratch.root().join("a/site-packages").exists());
    assert!(scratch.root().join("c/site-packages/six.py").exists());
}
