//! Trees in which more happens than the kernel remembers. All watches of a process share what it does, so these have a
//! process of their own.

#![allow(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_files::{Touched, Watch};
use tempfile::TempDir;

fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn watch(directory: &Path) -> Watch {
    Watch::new(fs::File::open(directory).unwrap().as_fd()).unwrap()
}

/// All paths below a directory.
fn all(directory: &Path) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            found.insert(path.strip_prefix(directory).unwrap().as_os_str().as_bytes().to_vec());
            if path.is_dir() && !path.is_symlink() {
                waiting.push(path);
            }
        }
    }
    found
}

/// What somebody knows of a tree who only looks at what was touched.
struct Mirror {
    directory: PathBuf,
    watch: Watch,
    known: BTreeSet<Vec<u8>>,
}

impl Mirror {
    fn new(directory: &Path) -> Self {
        let watch = watch(directory);
        Self { directory: directory.to_owned(), watch, known: all(directory) }
    }

    fn update(&mut self) {
        let Touched::Paths(touched) = self.watch.take() else {
            self.known = all(&self.directory);
            return;
        };
        for path in touched {
            let below = [&path[..], b"/"].concat();
            let there =
                |path: &[u8]| fs::symlink_metadata(self.directory.join(OsStr::from_bytes(path))).is_ok();
            self.known.retain(|known| !known.starts_with(&below) || there(known));
            match there(&path) {
                true => self.known.insert(path),
                false => self.known.remove(&path),
            };
        }
    }
}

#[test]
fn too_much_is_everything_and_afterwards_each_change_is_told_again() {
    let directory = scratch();
    let root = directory.path();
    let mut watch = watch(root);
    // More than the kernel keeps for all, and more than is kept for one.
    let most: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    for number in 0..most.min(40_000) {
        fs::write(root.join(format!("{number}")), "a").unwrap();
    }
    fs::create_dir(root.join("late")).unwrap();
    assert_eq!(watch.take(), Touched::Everything);
    fs::write(root.join("late/file"), "a").unwrap();
    match watch.take() {
        Touched::Paths(paths) => assert!(paths.contains(&b"late/file"[..])),
        // Other tests share the kernel's queue.
        Touched::Everything => {}
    }
}

/// Names by which the threads below meet.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn disturb(root: &Path, mut seed: u64, stop: &AtomicBool) {
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    while !stop.load(Ordering::Relaxed) {
        let mut place = || {
            let depth = 1 + next(4);
            (0..depth).fold(root.to_owned(), |path, _| path.join(NAMES[next(NAMES.len())]))
        };
        let (one, two) = (place(), place());
        let _ = match next(8) {
            0 | 1 => fs::create_dir(&one),
            2 => fs::write(&one, "a"),
            3 => fs::remove_file(&one),
            4 => fs::remove_dir(&one),
            5 => fs::remove_dir_all(&one),
            _ => fs::rename(&one, &two),
        };
    }
}

#[test]
fn nothing_is_missed_while_directories_are_made_and_moved_about() {
    let directory: TempDir = scratch();
    let root = directory.path();
    for round in 0..6 {
        let mut mirror = Mirror::new(root);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let stop = &stop;
                scope.spawn(move || disturb(root, round * 2 + thread, stop));
            }
            for _ in 0..150 {
                mirror.update();
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Ordering::Relaxed);
        });
        mirror.update();
        assert_eq!(mirror.known, all(root));
        // Each directory is watched, under its right name.
        for path in all(root) {
            let path = root.join(OsStr::from_bytes(&path));
            if path.is_dir() {
                fs::write(path.join("new"), "a").unwrap();
            }
        }
        mirror.update();
        assert_eq!(mirror.known, all(root));
    }
}
