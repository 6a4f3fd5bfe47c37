//! A watch tells what was touched. All watches of a process share what the kernel remembers, so tests in which much happens
//! have another process.

#![allow(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use belljar_files::{FileEvent, FileEventKind, Touched, Watch};
use tempfile::TempDir;

fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn watch(directory: &Path) -> Watch {
    Watch::new(fs::File::open(directory).unwrap().as_fd()).unwrap()
}

fn paths(touched: Touched) -> Vec<String> {
    match touched {
        Touched::Everything => panic!("everything"),
        Touched::Paths(paths) => {
            paths.into_iter().map(|path| String::from_utf8_lossy(&path).into_owned()).collect()
        }
    }
}

#[test]
fn what_is_created_written_moved_removed_or_given_other_attributes_is_touched() {
    let directory = scratch();
    let root = directory.path();
    for name in ["written", "moved", "removed", "attributes", "untouched"] {
        fs::write(root.join(name), "a").unwrap();
    }
    let mut watch = watch(root);
    assert_eq!(paths(watch.take()), Vec::<String>::new());
    fs::write(root.join("created"), "a").unwrap();
    fs::write(root.join("written"), "b").unwrap();
    fs::rename(root.join("moved"), root.join("elsewhere")).unwrap();
    fs::remove_file(root.join("removed")).unwrap();
    fs::set_permissions(root.join("attributes"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::read(root.join("untouched")).unwrap();
    let expected = ["attributes", "created", "elsewhere", "moved", "removed", "written"];
    assert_eq!(paths(watch.take()), expected);
    assert_eq!(paths(watch.take()), Vec::<String>::new());
}

#[test]
fn what_is_in_new_and_moved_directories_is_touched_and_watched() {
    let directory = scratch();
    let root = directory.path();
    fs::create_dir_all(root.join("old/inner")).unwrap();
    fs::write(root.join("old/inner/file"), "a").unwrap();
    let mut watch = watch(root);
    fs::create_dir_all(root.join("new/a/b")).unwrap();
    fs::write(root.join("new/a/b/file"), "a").unwrap();
    fs::rename(root.join("old"), root.join("new/old")).unwrap();
    let expected =
        ["new", "new/a", "new/a/b", "new/a/b/file", "new/old", "new/old/inner", "new/old/inner/file"];
    assert_eq!(paths(watch.take()), [&expected[..], &["old"]].concat());
    fs::write(root.join("new/old/inner/file"), "b").unwrap();
    fs::write(root.join("new/a/b/other"), "b").unwrap();
    assert_eq!(paths(watch.take()), ["new/a/b/other", "new/old/inner/file"]);
}

#[test]
fn directories_that_were_exchanged_are_both_watched() {
    let directory = scratch();
    let root = directory.path();
    fs::create_dir(root.join("a")).unwrap();
    fs::create_dir(root.join("b")).unwrap();
    let mut watch = watch(root);
    let flags = rustix::fs::RenameFlags::EXCHANGE;
    let (here, a, b) = (rustix::fs::CWD, root.join("a"), root.join("b"));
    rustix::fs::renameat_with(here, &b, here, &a, flags).unwrap();
    assert_eq!(paths(watch.take()), ["a", "b"]);
    fs::write(a.join("file"), "a").unwrap();
    fs::write(b.join("file"), "a").unwrap();
    assert_eq!(paths(watch.take()), ["a/file", "b/file"]);
}

#[test]
fn a_directory_that_leaves_the_tree_is_watched_no_longer() {
    let (directory, elsewhere) = (scratch(), scratch());
    let root = directory.path();
    fs::create_dir_all(root.join("gone/inner")).unwrap();
    let mut watch = watch(root);
    fs::rename(root.join("gone"), elsewhere.path().join("gone")).unwrap();
    assert_eq!(paths(watch.take()), ["gone"]);
    fs::write(elsewhere.path().join("gone/inner/file"), "a").unwrap();
    assert_eq!(paths(watch.take()), Vec::<String>::new());
}

#[test]
fn links_do_not_lead_a_watch_out_of_the_tree() {
    let (directory, elsewhere) = (scratch(), scratch());
    let root = directory.path();
    let mut watch = watch(root);
    std::os::unix::fs::symlink(elsewhere.path(), root.join("link")).unwrap();
    assert_eq!(paths(watch.take()), ["link"]);
    fs::write(elsewhere.path().join("file"), "a").unwrap();
    assert_eq!(paths(watch.take()), Vec::<String>::new());
}

#[test]
fn trees_in_each_other_are_each_told_what_is_theirs() {
    let directory = scratch();
    let inner = directory.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let mut one = watch(directory.path());
    let mut two = watch(&inner);
    let three = watch(&inner);
    fs::write(inner.join("file"), "a").unwrap();
    assert_eq!(paths(two.take()), ["file"]);
    drop(three);
    drop(two);
    assert_eq!(paths(one.take()), ["inner/file"]);
    fs::write(inner.join("file"), "b").unwrap();
    assert_eq!(paths(one.take()), ["inner/file"]);
}

#[test]
fn names_that_are_no_text_are_told_as_they_are() {
    let directory = scratch();
    let mut watch = watch(directory.path());
    let name = std::ffi::OsString::from_vec(vec![b'a', 0xff, b'\n']);
    fs::write(directory.path().join(&name), "a").unwrap();
    assert_eq!(watch.take(), Touched::Paths(BTreeSet::from([name.into_vec()])));
}

#[test]
fn listeners_are_told_what_happened_in_the_end() {
    let directory = scratch();
    let root = directory.path();
    fs::create_dir(root.join("directory")).unwrap();
    for name in ["modified", "deleted", "replaced", "directory/inside"] {
        fs::write(root.join(name), "a").unwrap();
    }
    let mut watch = Watch::listening(fs::File::open(root).unwrap().as_fd()).unwrap();
    assert_eq!(watch.changes(Duration::ZERO), []);
    fs::write(root.join("modified"), "b").unwrap();
    fs::remove_file(root.join("deleted")).unwrap();
    fs::write(root.join("created"), "a").unwrap();
    fs::write(root.join("brief"), "a").unwrap();
    fs::remove_file(root.join("brief")).unwrap();
    fs::write(root.join("temporary"), "a").unwrap();
    fs::rename(root.join("temporary"), root.join("replaced")).unwrap();
    fs::rename(root.join("directory"), root.join("another")).unwrap();
    let event = |path: &str, kind| FileEvent { path: path.to_owned(), kind };
    assert_eq!(
        watch.changes(Duration::from_secs(60)),
        [
            event("another", FileEventKind::Created),
            event("another/inside", FileEventKind::Created),
            event("created", FileEventKind::Created),
            event("deleted", FileEventKind::Deleted),
            event("directory", FileEventKind::Deleted),
            event("directory/inside", FileEventKind::Deleted),
            event("modified", FileEventKind::Modified),
            event("replaced", FileEventKind::Modified),
        ]
    );
}

#[test]
fn a_listener_is_woken_by_a_change() {
    let directory = scratch();
    let mut watch = watch(directory.path());
    let path = directory.path().join("file");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            fs::write(path, "a").unwrap();
        });
        let events = watch.changes(Duration::from_secs(600));
        assert_eq!(events[0].path, "file");
    });
}
