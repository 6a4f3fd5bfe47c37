//! Disks that are full, or can't be written to.

use std::fs;
use std::path::Path;
use std::process::Command;

use belljar_store::{CheckpointNote, Store, StoreError, Tenant};

use crate::support::{assert_head, assert_loaded, create, id, live};

/// A small file system of its own.
struct Disk {
    directory: tempfile::TempDir,
}

impl Disk {
    fn new(size: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk = Self { directory };
        disk.mount(&format!("size={size}"));
        disk
    }

    fn mount(&self, options: &str) {
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(self.path())
            .status()
            .unwrap();
        assert!(status.success(), "these tests mount a tmpfs: they need to be root");
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Leaves this much room.
    fn leave(&self, bytes: u64) {
        let _ = fs::remove_file(self.path().join("filler"));
        let room = rustix::fs::statvfs(self.path()).unwrap();
        let room = (room.f_bavail * room.f_frsize).saturating_sub(bytes);
        fs::write(self.path().join("filler"), vec![0; room as usize]).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn a_full_disk_is_a_clear_error_at_any_moment() {
    let disk = Disk::new("4m");
    let store = Store::open(disk.path().join("state")).unwrap();
    let mut other = create(&store, "bystander");
    let mut bystander = live([(1, 1), (2, 2)]);
    bystander.commit(&mut other).unwrap();
    let mut lease = create(&store, "a");
    let mut live = live((0..40).map(|number| (number * 3, number)));
    live.commit(&mut lease).unwrap();
    let mut acknowledged = live.contents.clone();
    let (mut failed, mut succeeded, mut checkpoints) = (0, 0, Vec::new());
    for round in 0..60_u64 {
        disk.leave(round * 4096 * 2);
        for number in 0..40 {
            live.write(number * 3, 1000 * round + number);
        }
        let result = if round % 3 == 0 {
            let note = CheckpointNote { cell: round as u32, ..CheckpointNote::default() };
            lease.checkpoint(&live.saved(), live.facts(), note).map(|(record, tag)| {
                checkpoints.push((record.number, live.contents.clone()));
                live.now_known(tag);
            })
        } else {
            live.commit(&mut lease).map(|()| acknowledged = live.contents.clone())
        };
        match result {
            Ok(()) => succeeded += 1,
            Err(error @ StoreError::Full { .. }) => {
                assert!(error.hint().is_some());
                failed += 1;
            }
            Err(error) => panic!("{error}"),
        }
        assert_head(&lease, &acknowledged);
        assert_head(&other, &bystander.contents);
        while checkpoints.len() > 3 {
            lease_room(&disk);
            lease.delete_checkpoint(checkpoints.remove(0).0).unwrap();
        }
        for (number, contents) in &checkpoints {
            assert_loaded(&lease.load_checkpoint(*number).unwrap(), contents);
        }
    }
    assert!(failed > 5 && succeeded > 5, "{failed} failed, {succeeded} succeeded");
    drop(lease);
    lease_room(&disk);
    let lease = store.acquire(&Tenant::local(), &id("a"), std::time::Duration::ZERO, &|| false).unwrap();
    assert_head(&lease, &acknowledged);
    assert!(store.verify(&Tenant::local()).unwrap().is_empty());
    lease.close().unwrap();
    other.close().unwrap();
    store.collect().unwrap();
    assert_eq!(store.usage(&Tenant::local()).unwrap(), 0);
}

fn lease_room(disk: &Disk) {
    fs::remove_file(disk.path().join("filler")).unwrap();
    fs::write(disk.path().join("filler"), "").unwrap();
}

#[test]
fn creating_importing_and_cooling_on_a_full_disk() {
    let disk = Disk::new("4m");
    let store = Store::open(disk.path().join("state")).unwrap();
    let mut lease = create(&store, "a");
    let mut live = live((0..200).map(|number| (number, 2 * number + 1)));
    live.commit(&mut lease).unwrap();
    let parcel = tempfile::NamedTempFile::new().unwrap();
    lease.export(parcel.path(), None, &mut |_, _| ()).unwrap();
    disk.leave(100_000);
    let tenant = Tenant::local();
    let full = |error: StoreError| assert!(matches!(error, StoreError::Full { .. }), "{error}");
    full(store.import(&tenant, parcel.path(), Some(id("b"))).map(drop).map_or_else(|e| e, |()| panic!()));
    full(store.cool(&tenant, std::time::Duration::ZERO).unwrap_err());
    full(lease.export(&disk.path().join("parcel"), None, &mut |_, _| ()).unwrap_err());
    assert!(!disk.path().join("parcel").exists());
    disk.leave(0);
    full(store.create(&tenant, Default::default()).unwrap_err());
    assert_eq!(store.sessions(&tenant).unwrap().sessions.len(), 1);
    assert_head(&lease, &live.contents);
    assert_eq!(store.collect().unwrap().files, 0);
}

#[test]
fn a_disk_that_cant_be_written_to() {
    let disk = Disk::new("4m");
    let store = Store::open(disk.path().join("state")).unwrap();
    let mut lease = create(&store, "a");
    let mut live = live([(1, 1)]);
    live.commit(&mut lease).unwrap();
    drop(lease);
    disk.mount("remount,ro");
    let error = store
        .acquire(&Tenant::local(), &id("a"), std::time::Duration::ZERO, &|| false)
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }) && error.hint().is_some(), "{error}");
    assert!(error.to_string().contains("lease"), "{error}");
    assert!(store.create(&Tenant::local(), Default::default()).is_err());
    // What can be read is.
    assert_eq!(store.sessions(&Tenant::local()).unwrap().sessions.len(), 1);
    assert!(store.history(&Tenant::local(), &id("a")).unwrap().entries.is_empty());
    disk.mount("remount,rw");
    let lease = store.acquire(&Tenant::local(), &id("a"), std::time::Duration::ZERO, &|| false).unwrap();
    assert_head(&lease, &live.contents);
}
