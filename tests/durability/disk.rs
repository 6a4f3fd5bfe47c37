//! Disks that are full, or can't be written to.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use belljar::{Error, SessionLife, StoreError};
use belljar_tests::text;
use tempfile::TempDir;

use crate::places::{assert_gives_all_back, keeping, sandbox};
use crate::tally;

/// A small file system of its own, with a state directory in it.
struct Disk {
    directory: TempDir,
}

impl Disk {
    /// The interpreter that sessions are made from takes a part of it.
    fn new() -> Self {
        let disk = Self { directory: tempfile::tempdir().unwrap() };
        disk.mount("size=256m");
        disk
    }

    fn mount(&self, options: &str) {
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(self.path()).status();
        assert!(mount.unwrap().success(), "these tests mount a tmpfs: they need to be root");
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Leaves this much room, or somewhat less.
    fn leave(&self, bytes: u64) {
        self.free();
        let mut filler = fs::File::create(self.filler()).unwrap();
        let piece = vec![0; 64 << 10];
        while filler.write_all(&piece).is_ok() {}
        let length = filler.metadata().unwrap().len();
        filler.set_len(length.saturating_sub(bytes)).unwrap();
    }

    fn free(&self) {
        let _ = fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy"]).arg(self.path()).status();
    }
}

#[track_caller]
fn assert_full(error: &Error) {
    assert!(matches!(error, Error::Store(StoreError::Full { .. })), "{error}");
    assert!(error.to_string().contains("unharmed") && error.hint().is_some(), "{error}");
}

#[test]
fn a_session_grows_until_the_disk_is_full() {
    let disk = Disk::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let bystander = sandbox(elsewhere.path()).create_blocking(Some("bystander")).unwrap();
    tally::begin(&bystander, 5);
    let sandbox = sandbox(&disk.state());
    let neighbour = sandbox.create_blocking(Some("neighbour")).unwrap();
    tally::begin(&neighbour, 6);
    neighbour.hibernate_blocking().unwrap();
    let session = sandbox.create_blocking(Some("grows")).unwrap();
    tally::begin(&session, 1);
    session.run_blocking("import random; more = []").unwrap();
    session.hibernate_blocking().unwrap();
    disk.leave(24 << 20);
    let mut kept = 1;
    let error = loop {
        session.run_blocking("more.append(random.randbytes(4 << 20))").unwrap();
        tally::mark(&session, kept + 1);
        assert!(kept < 20, "the disk is never full");
        match session.hibernate_blocking() {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert_full(&error);
    assert!(kept > 1);
    // It stays awake, with all that it has.
    assert!(session.is_live_blocking());
    assert_eq!(tally::number(&session), kept + 1);
    assert_full(&session.commit_blocking().unwrap_err());
    assert_full(&session.checkpoint_blocking(Some("none")).unwrap_err());
    assert!(session.checkpoints_blocking().unwrap().is_empty());
    assert_eq!(tally::number(&session), kept + 1);
    assert_eq!(tally::number(&bystander), 5);
    bystander.hibernate_blocking().unwrap();
    // Without a word of it, only what was kept before is there.
    drop(session);
    let session = sandbox.open_blocking("grows").unwrap();
    assert_eq!(text(&session, "(look(), len(more))"), format!("({kept}, {})", kept - 1));
    assert_eq!(tally::number(&neighbour), 6);

    tally::mark(&session, 100);
    disk.leave(0);
    assert_full(&session.hibernate_blocking().unwrap_err());
    disk.free();
    session.hibernate_blocking().unwrap();
    assert_eq!(text(&session, "(look(), len(more))"), format!("(100, {})", kept - 1));
    session.checkpoint_blocking(Some("again")).unwrap();
    drop((session, neighbour));
    assert!(sandbox.registry().unwrap().verify().unwrap().is_empty());
    assert_gives_all_back(&sandbox);
}

#[test]
fn nothing_half_made_stays() {
    let disk = Disk::new();
    let sandbox = sandbox(&disk.state());
    let session = sandbox.create_blocking(Some("parent")).unwrap();
    tally::begin(&session, 1);
    session.checkpoint_blocking(Some("one")).unwrap();
    session.hibernate_blocking().unwrap();
    let registry = sandbox.registry().unwrap();
    let names = || -> Vec<String> {
        let list = registry.sessions().unwrap();
        assert!(list.damaged.is_empty(), "{:?}", list.damaged);
        list.sessions.iter().map(|session| session.id.to_string()).collect()
    };
    for (round, room) in (0..=96).step_by(4).enumerate() {
        let number = 2 + round as u64;
        tally::mark(&session, number);
        if round % 2 == 0 {
            // There is room for the parent, then.
            session.commit_blocking().unwrap();
        }
        disk.leave(room << 10);
        match session.fork_named_blocking(None, "child") {
            Ok(child) => {
                drop(child);
                disk.free();
                assert_eq!(tally::number(&sandbox.open_blocking("child").unwrap()), number);
                registry.close("child").unwrap();
            }
            Err(error) => assert_full(&error),
        }
        assert_eq!(names(), ["parent"], "{} KiB of room", room);
        match sandbox.create_blocking(Some("new")) {
            Ok(new) => new.close_blocking().unwrap(),
            Err(error) => assert_full(&error),
        }
        assert_eq!(names(), ["parent"], "{} KiB of room", room);
        assert_eq!(tally::number(&session), number);
        disk.free();
        session.hibernate_blocking().unwrap();
        assert_eq!(session.checkpoints_blocking().unwrap().len(), 1);
    }
    drop(session);
    assert_gives_all_back(&sandbox);
}

#[test]
fn durable_cells_on_a_full_disk() {
    let disk = Disk::new();
    let sandbox = keeping(&disk.state()).durable_cells(true).build_blocking().unwrap();
    let session = sandbox.create_blocking(Some("s")).unwrap();
    tally::begin(&session, 1);
    disk.leave(0);
    assert_full(&session.run_blocking("mark(2)").unwrap_err());
    assert_full(&session.run_blocking("look()").unwrap_err());
    disk.free();
    // What ran has run.
    assert_eq!(tally::number(&session), 2);
    drop(session);
    assert_eq!(tally::number(&sandbox.open_blocking("s").unwrap()), 2);
}

#[test]
fn a_disk_that_cannot_be_written_to() {
    let disk = Disk::new();
    let sandbox = sandbox(&disk.state());
    let session = sandbox.create_blocking(Some("s")).unwrap();
    tally::begin(&session, 1);
    session.hibernate_blocking().unwrap();
    disk.mount("remount,ro");
    let registry = sandbox.registry().unwrap();
    let refused = [
        session.run_blocking("1").map(drop),
        session.checkpoint_blocking(None).map(drop),
        session.undo_blocking(1).map(drop),
        session.fork_blocking(1).map(drop),
        sandbox.create_blocking(None).map(drop),
        registry.close("s"),
        registry.cool(std::time::Duration::ZERO).map(drop),
        registry.collect().map(drop),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::Io { .. })), "{error}");
        assert!(error.to_string().contains(disk.path().to_str().unwrap()), "{error}");
        assert!(error.hint().is_some(), "{error}");
    }
    // What can be read is.
    let list = registry.sessions().unwrap();
    assert_eq!((list.sessions.len(), list.damaged.len()), (1, 0));
    assert_eq!(list.sessions[0].state, SessionLife::Hibernated);
    assert_eq!(registry.history("s").unwrap().entries.len(), 1);
    disk.mount("remount,rw");
    assert_eq!(tally::number(&session), 1);
    session.hibernate_blocking().unwrap();
}

#[test]
fn a_file_in_place_of_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    fs::write(&path, "not a directory").unwrap();
    let error = keeping(&path).build_blocking().map(drop).unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    let below = path.join("below");
    let error = keeping(&below)
        .build_blocking()
        .and_then(|sandbox| sandbox.create_blocking(None))
        .map(drop)
        .unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "not a directory");
    // A directory of somebody else's.
    let foreign = directory.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("format"), "JPEG").unwrap();
    let error = keeping(&foreign).build_blocking().map(drop).unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Damaged { .. })), "{error}");
    fs::write(foreign.join("format"), "belljar state directory, version 7\n").unwrap();
    let error = keeping(&foreign).build_blocking().map(drop).unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Future { version: 7, .. })), "{error}");
}
