//! Workspaces in directories.

use std::fs;

use belljar_files::DirDoor;
use belljar_transfer::{Globs, Place, Quiet, Step, SyncOptions, TransferError, pull, push};
use proptest::prelude::*;
use tempfile::tempdir;

use crate::tree::{plant, survey, trees};

fn options(delete: bool) -> SyncOptions {
    SyncOptions { globs: Globs::all(), delete, ..SyncOptions::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_becomes_any_other(one in trees(), two in trees(), checksum in any::<bool>()) {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        plant(from.path(), &one);
        plant(to.path(), &two);
        let door = DirDoor::open(from.path()).unwrap();
        let place = Place::Directory(to.path().to_owned());
        let options = SyncOptions { checksum, ..options(true) };
        let before = survey(to.path());
        let dry = push(&door, &place, &SyncOptions { dry_run: true, ..options.clone() }, &Quiet).unwrap();
        prop_assert_eq!(before, survey(to.path()));
        let synced = push(&door, &place, &options, &Quiet).unwrap();
        prop_assert_eq!(synced.skipped.len(), 0);
        prop_assert_eq!(survey(from.path()), survey(to.path()));
        prop_assert_eq!(dry.actions, synced.actions);
        let again = push(&door, &place, &options, &Quiet).unwrap();
        prop_assert_eq!(again.actions, vec![]);
    }
}

#[test]
fn a_workspace_is_pushed_and_pulled_and_a_dry_run_makes_nothing() {
    let (from, elsewhere, back) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    fs::create_dir(from.path().join("d")).unwrap();
    fs::write(from.path().join("d/a"), "a").unwrap();
    let there = elsewhere.path().join("x/y");
    let place = Place::Directory(there.clone());
    let door = DirDoor::open(from.path()).unwrap();
    let dry = SyncOptions { dry_run: true, ..options(true) };
    let planned = push(&door, &place, &dry, &Quiet).unwrap();
    assert!(!there.exists());
    assert_eq!(planned.actions.len(), 2);
    assert_eq!(push(&door, &place, &options(false), &Quiet).unwrap().actions, planned.actions);
    let back_door = DirDoor::open(back.path()).unwrap();
    pull(&back_door, &place, &options(false), &Quiet).unwrap();
    assert_eq!(survey(from.path()), survey(back.path()));
    let missing = Place::Directory(elsewhere.path().join("missing"));
    assert!(matches!(pull(&back_door, &missing, &options(true), &Quiet), Err(TransferError::Host { .. })));
    assert_eq!(survey(from.path()), survey(back.path()));
}

#[test]
fn kinds_that_changed_are_replaced_only_where_things_may_be_removed() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("x"), "a file").unwrap();
    fs::create_dir_all(to.path().join("x/below")).unwrap();
    fs::write(to.path().join("x/below/kept"), "kept").unwrap();
    let (door, there) = (DirDoor::open(from.path()).unwrap(), DirDoor::open(to.path()).unwrap());
    let synced = push(&door, &Place::Door(&there), &options(false), &Quiet).unwrap();
    assert_eq!(synced.skipped[0].path, "x");
    assert!(to.path().join("x/below/kept").exists());
    // What is excluded isn't removed with the directory that it is in.
    let excluding = SyncOptions { globs: Globs::all().exclude(["kept"]).unwrap(), ..options(true) };
    let synced = push(&door, &Place::Door(&there), &excluding, &Quiet).unwrap();
    assert_eq!(synced.skipped[0].path, "x");
    assert!(to.path().join("x/below/kept").exists());
    let synced = push(&door, &Place::Door(&there), &options(true), &Quiet).unwrap();
    assert_eq!(synced.skipped.total(), 0);
    assert_eq!(survey(from.path()), survey(to.path()));
}

#[test]
fn a_link_that_leads_out_is_not_put_into_a_directory_and_none_is_written_through() {
    let (from, outer) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(outer.path().join("precious"), "precious").unwrap();
    let to = outer.path().join("to");
    fs::create_dir(&to).unwrap();
    std::os::unix::fs::symlink("..", to.join("d")).unwrap();
    std::os::unix::fs::symlink("../precious", to.join("f")).unwrap();
    fs::create_dir(from.path().join("d")).unwrap();
    fs::write(from.path().join("d/precious"), "evil").unwrap();
    fs::write(from.path().join("f"), "evil").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", from.path().join("p")).unwrap();
    let door = DirDoor::open(from.path()).unwrap();
    let synced = push(&door, &Place::Directory(to.clone()), &options(false), &Quiet).unwrap();
    assert_eq!(fs::read(outer.path().join("precious")).unwrap(), b"precious");
    assert_eq!(synced.skipped.iter().map(|skipped| skipped.path.as_str()).collect::<Vec<_>>(), ["p"]);
    // Where the links were, there are a directory and a file now.
    assert_eq!(fs::read(to.join("d/precious")).unwrap(), b"evil");
    assert!(!to.join("d").is_symlink() && !to.join("f").is_symlink());
    let with_links = SyncOptions { links_out: true, ..options(false) };
    let synced = push(&door, &Place::Directory(to), &with_links, &Quiet).unwrap();
    assert_eq!(synced.actions[0].step, Step::Link);
}

#[test]
fn what_an_interrupted_copy_left_is_swept() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(to.path().join(".belljar-part-0123456789abcdef"), "half").unwrap();
    fs::write(to.path().join(".belljar-mine"), "not a part").unwrap();
    fs::write(from.path().join(".belljar-part-0123456789abcdef"), "half").unwrap();
    let door = DirDoor::open(from.path()).unwrap();
    push(&door, &Place::Directory(to.path().to_owned()), &options(false), &Quiet).unwrap();
    assert_eq!(survey(to.path()).into_keys().collect::<Vec<_>>(), [".belljar-mine"]);
    assert_eq!(survey(from.path()).len(), 1);
}
