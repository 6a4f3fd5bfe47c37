//! Disks that are full, or can't be written to.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use belljar_artifacts::{
    ArtifactError, ArtifactStore, BlobPlace, CollectOptions, Database, Filter, StoreLimits,
};
use tempfile::TempDir;

use crate::local::files_below;
use crate::support::{TENANT, file, keep, noise, open, read, settings, try_keep};

/// A small file system of its own.
struct Disk {
    directory: TempDir,
}

impl Disk {
    fn new() -> Self {
        let disk = Self { directory: tempfile::tempdir().unwrap() };
        disk.mount("size=48m");
        disk
    }

    fn mount(&self, options: &str) {
        assert!(self.try_mount(options), "these tests mount a tmpfs: they need to be root");
    }

    fn try_mount(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(self.path()).stderr(Stdio::null());
        mount.status().unwrap().success()
    }

    fn path(&self) -> &Path {
        self.directory.path()
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

#[test]
fn on_a_full_disk_all_is_kept_or_nothing() {
    let disk = Disk::new();
    let store = open(disk.path());
    let before = keep(&store, vec![file("before", b"before")]).remove(0);
    let (mut full, mut fit) = (0, 0);
    for (round, room) in (0..64).step_by(4).chain([200, 1500, 3000, 5000]).enumerate() {
        disk.leave(room << 10);
        let bytes: Vec<Vec<u8>> = (0..20).map(|number| noise(round as u64 * 100 + number, 1_000)).collect();
        let large = noise(round as u64 * 100 + 99, 2 << 20);
        let mut files: Vec<_> = bytes.iter().map(|bytes| file("small", bytes)).collect();
        if round % 2 == 0 {
            files.push(file("large", &large));
        }
        let count = files.len();
        match try_keep(&store, files) {
            Ok(ingested) => {
                assert_eq!(ingested.kept.len(), count);
                fit += 1;
                disk.free();
                for artifact in ingested.kept {
                    store.verify(TENANT, artifact.id.as_str()).unwrap();
                    store.remove(TENANT, artifact.id.as_str()).unwrap();
                }
            }
            Err(error) => {
                assert!(matches!(error, ArtifactError::Full { .. }), "{room} KiB: {error}");
                assert!(error.hint().is_some());
                full += 1;
            }
        }
        disk.free();
        assert_eq!(store.list(TENANT, &Filter::default()).unwrap(), std::slice::from_ref(&before));
        store.collect(&CollectOptions { grace: Duration::ZERO, ..CollectOptions::default() }).unwrap();
        assert_eq!(files_below(&disk.path().join("blobs/sha256")).len(), 1);
        assert!(files_below(&disk.path().join("blobs/.new")).is_empty());
    }
    assert!(full > 3 && fit > 1, "{full} {fit}");
    assert_eq!(read(&store, &before), b"before");
}

#[test]
fn contents_on_a_disk_that_cannot_be_written_to() {
    let (disk, directory) = (Disk::new(), tempfile::tempdir().unwrap());
    let mut place = settings(directory.path(), StoreLimits::default());
    place.blobs = BlobPlace::Directory(disk.path().join("blobs"));
    let store = ArtifactStore::open(place.clone()).unwrap();
    let large = noise(1, 2 << 20);
    let kept = keep(&store, vec![file("a", b"a"), file("b", b"b")]);
    disk.mount("remount,ro");
    let refused = [
        try_keep(&store, vec![file("c", b"c")]).map(drop),
        try_keep(&store, vec![file("large", &large)]).map(drop),
        ArtifactStore::open(place).map(drop),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert!(matches!(error, ArtifactError::Io { .. }) && error.hint().is_some(), "{error:?}");
        assert!(error.to_string().contains(disk.path().to_str().unwrap()), "{error}");
    }
    // What can be read is; what is stored needn't be written; what is removed is gone, though its contents stay.
    assert_eq!(read(&store, &kept[0]), b"a");
    keep(&store, vec![file("a", b"a")]);
    store.remove(TENANT, kept[1].id.as_str()).unwrap();
    assert_eq!(files_below(&disk.path().join("blobs/sha256")).len(), 2);
    disk.mount("remount,rw");
    assert_eq!(store.collect(&CollectOptions::default()).unwrap().blobs, 1);
    keep(&store, vec![file("c", b"c"), file("large", &large)]);
}

#[test]
fn a_database_on_a_disk_that_cannot_be_written_to() {
    let (disk, directory) = (Disk::new(), tempfile::tempdir().unwrap());
    let mut place = settings(directory.path(), StoreLimits::default());
    place.database = Database::Sqlite(disk.path().join("artifacts.db"));
    let store = ArtifactStore::open(place.clone()).unwrap();
    let kept = keep(&store, vec![file("a", b"a")]).remove(0);
    drop(store);
    // Its connections are closed by and by.
    while !disk.try_mount("remount,ro") {
        std::thread::sleep(Duration::from_millis(20));
    }
    // SQLite may still be able to read it; nobody can write.
    let error = ArtifactStore::open(place.clone())
        .and_then(|store| try_keep(&store, vec![file("b", b"b")]).map(drop))
        .unwrap_err();
    let is_told = matches!(error, ArtifactError::ReadOnly { .. } | ArtifactError::Unreachable { .. });
    assert!(is_told && error.hint().is_some(), "{error:?}");
    disk.mount("remount,rw");
    assert_eq!(read(&ArtifactStore::open(place).unwrap(), &kept), b"a");
}

#[test]
fn a_file_in_place_of_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "not a directory").unwrap();
    let limits = StoreLimits::default;
    let error = ArtifactStore::open(settings(&path, limits())).map(drop).unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    let mut wrong = settings(directory.path(), limits());
    wrong.blobs = BlobPlace::Directory(path.clone());
    let error = ArtifactStore::open(wrong).map(drop).unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    let mut wrong = settings(directory.path(), limits());
    wrong.database = Database::Sqlite(directory.path().into());
    let error = ArtifactStore::open(wrong).map(drop).unwrap_err();
    assert!(matches!(error, ArtifactError::Unreachable { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "not a directory");
}
