//! Disks that are full.

use std::path::Path;
use std::process::Command;

use belljar_datasets::{DatasetError, DatasetStore, FetchOptions, NewDataset, Quiet, Shelf, Source};

use crate::server::{Answer, Server};
use crate::support::{TENANT, bytes, options, sha256};

/// A small file system of its own.
struct Disk {
    directory: tempfile::TempDir,
}

impl Disk {
    fn new(size: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(directory.path())
            .status()
            .unwrap();
        assert!(status.success(), "this test mounts a tmpfs: it needs to be root");
        Self { directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn a_full_disk_is_a_clear_error_and_gets_its_room_back() {
    let disk = Disk::new("4m");
    let store = DatasetStore::open(disk.path().join("store"));
    let server = Server::new(|asked, _| {
        let mut answer = Answer::ok(&bytes(8_000_000, 1));
        answer.chunked = asked.path == "/unsaid";
        if asked.path == "/small" { Answer::ok(b"small") } else { answer }
    });
    let room = || {
        let room = rustix::fs::statvfs(disk.path()).unwrap();
        room.f_bavail * room.f_frsize
    };
    store.add(TENANT, NewDataset::new("small", Source::http(server.url("/small")))).unwrap();
    store.fetch(TENANT, "small", None, &options(), &Quiet).unwrap();
    for path in ["/said", "/unsaid"] {
        let name = path.trim_start_matches('/');
        store.add(TENANT, NewDataset::new(name, Source::http(server.url(path)))).unwrap();
        let before = room();
        let error = store.fetch(TENANT, name, None, &options(), &Quiet).unwrap_err();
        assert!(matches!(error, DatasetError::Full { .. }), "{error}");
        assert!(error.hint().is_some());
        assert!(room() + 100_000 > before, "{} of {before}", room());
        let error =
            store.import_reader(TENANT, "given", None, &*bytes(8_000_000, 1), &options()).unwrap_err();
        assert!(matches!(error, DatasetError::Full { .. }), "{error}");
        assert!(room() + 100_000 > before);
    }
    assert!(store.fetch(TENANT, "small", None, &options(), &Quiet).unwrap().was_cached);
    store.verify(&sha256(b"small")).unwrap();
}

#[test]
fn a_shelf_on_another_file_system_has_a_copy_and_keeps_it() {
    let (disk, scratch) = (Disk::new("4m"), crate::support::Scratch::new());
    let path = scratch.file("x.csv", &bytes(100_000, 1));
    let dataset = scratch.add("x", Source::File { path });
    let cached = scratch.fetch_with("x", &FetchOptions::default()).unwrap();
    let shelf = Shelf::open(disk.path().join("shelf")).unwrap();
    let staged = shelf.stage(&cached, &dataset).unwrap();
    assert!(staged.copied);
    let file = shelf.path().join("data/x.csv");
    assert_eq!(std::fs::read(&file).unwrap(), bytes(100_000, 1));
    let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&file).unwrap());
    let before = inode();
    assert!(shelf.sync(&scratch.store).unwrap().is_empty());
    assert_eq!(shelf.stage(&cached, &dataset).unwrap(), staged);
    assert_eq!(inode(), before, "it isn't copied again");
    assert_eq!(shelf.lay("art_1", "x.csv", &cached.path).unwrap(), "artifacts/art_1/x.csv");
}
