//! Archives of workspaces: there and back.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use belljar_engine::{FileDoor, FileError, FileErrorCode, FileOp, FileReply};
use belljar_files::DirDoor;
use belljar_transfer::{
    ExportOptions, Globs, ImportOptions, Progress, Quiet, TransferError, export, export_to_path, import,
};
use proptest::prelude::*;
use tempfile::tempdir;

use crate::tree::{Node, plant, survey, trees};

fn exported(door: &dyn FileDoor) -> Vec<u8> {
    let mut archive = Vec::new();
    export(door, &mut archive, &ExportOptions::default(), &Quiet).unwrap();
    archive
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_exported_is_imported_as_it_was(tree in trees()) {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        plant(from.path(), &tree);
        let archive = exported(&DirDoor::open(from.path()).unwrap());
        let imported =
            import(&DirDoor::open(to.path()).unwrap(), archive.as_slice(), &ImportOptions::default(), &Quiet).unwrap();
        prop_assert_eq!(imported.skipped.len(), 0);
        prop_assert_eq!(survey(from.path()), survey(to.path()));
        // The copy gives the same bytes again, if directories have the same times.
        prop_assert_eq!(exported(&DirDoor::open(to.path()).unwrap()), archive);
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic(tree in trees(), place in any::<prop::sample::Index>(), with in 1u8..) {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        plant(from.path(), &tree);
        let archive = exported(&DirDoor::open(from.path()).unwrap());
        let mut damaged = archive.clone();
        let place = place.index(damaged.len());
        damaged[place] ^= with;
        let door = DirDoor::open(to.path()).unwrap();
        prop_assert!(import(&door, damaged.as_slice(), &ImportOptions::default(), &Quiet).is_err());
        let cut = &archive[..place];
        prop_assert!(import(&door, cut, &ImportOptions::default(), &Quiet).is_err());
    }
}

#[test]
fn tar_reads_what_is_exported_and_what_tar_writes_is_imported() {
    let (from, to, back) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    let long = format!("{}/{}", "d".repeat(150), "e".repeat(200));
    let file =
        |contents: &[u8], executable| Node::File { contents: contents.to_vec(), executable, seconds: 77 };
    let tree = [
        ("run.sh".to_owned(), file(b"#!/bin/sh\n", true)),
        ("däta/x.bin".to_owned(), file(&vec![7; 3 << 20], false)),
        (long, file(b"long", false)),
        ("link".to_owned(), Node::Link("däta/x.bin".to_owned())),
        ("far".to_owned(), Node::Link("f".repeat(222))),
        ("empty".to_owned(), Node::Directory),
    ];
    plant(from.path(), &tree.into_iter().collect());
    let archive = from.path().with_extension("tar.zst");
    export_to_path(&DirDoor::open(from.path()).unwrap(), &archive, &ExportOptions::default(), &Quiet)
        .unwrap();

    let mut plain = Vec::new();
    zstd::Decoder::new(File::open(&archive).unwrap()).unwrap().read_to_end(&mut plain).unwrap();
    let tar_file = from.path().with_extension("tar");
    fs::write(&tar_file, plain).unwrap();
    let tar = |arguments: &[&str]| {
        let finished = Command::new("tar").args(arguments).output().unwrap();
        assert!(finished.status.success(), "{}", String::from_utf8_lossy(&finished.stderr));
    };
    tar(&["-xf", tar_file.to_str().unwrap(), "-C", to.path().to_str().unwrap()]);
    assert_eq!(survey(from.path()), survey(to.path()));

    for format in ["--format=gnu", "--format=posix", "--format=ustar"] {
        for compression in ["-c", "-cz"] {
            if format.ends_with("ustar") {
                // It has no room for these.
                for name in ["far", &"d".repeat(150)] {
                    let path = to.path().join(name);
                    let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
                }
            }
            let (to, made) = (to.path().to_str().unwrap(), tar_file.to_str().unwrap());
            tar(&[compression, "-f", made, format, "-C", to, "."]);
            let copy = back.path().join(format!("{format}{compression}"));
            fs::create_dir(&copy).unwrap();
            let door = DirDoor::open(&copy).unwrap();
            let imported =
                import(&door, File::open(made).unwrap(), &ImportOptions::default(), &Quiet).unwrap();
            assert_eq!(&imported.skipped[..], []);
            assert_eq!(survey(&copy), survey(to.as_ref()), "{format} {compression}");
        }
    }
    for file in [archive, tar_file] {
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn what_is_special_or_ours_is_skipped_and_links_are_not_followed() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("a"), "a").unwrap();
    fs::write(from.path().join(".belljar-part-0123456789abcdef"), "half").unwrap();
    symlink("/etc", from.path().join("out")).unwrap();
    assert!(Command::new("mkfifo").arg(from.path().join("pipe")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(from.path().join("socket")).unwrap();

    let mut archive = Vec::new();
    let door = DirDoor::open(from.path()).unwrap();
    let exported = export(&door, &mut archive, &ExportOptions::default(), &Quiet).unwrap();
    assert_eq!((exported.files, exported.links), (1, 1));
    let skipped: Vec<_> = exported.skipped.iter().map(|skipped| skipped.path.as_str()).collect();
    assert_eq!(skipped, ["pipe", "socket"]);

    let door = DirDoor::open(to.path()).unwrap();
    let imported = import(&door, archive.as_slice(), &ImportOptions::default(), &Quiet).unwrap();
    assert_eq!(imported.skipped[0].reason, "it leads out, to /etc");
    let with_links = ImportOptions { links_out: true, ..ImportOptions::default() };
    let imported = import(&door, archive.as_slice(), &with_links, &Quiet).unwrap();
    assert_eq!((imported.links, imported.skipped.total()), (1, 0));
    assert_eq!(fs::read_link(to.path().join("out")).unwrap().to_str(), Some("/etc"));
}

#[test]
fn a_giant_of_holes_is_an_error_before_it_is_read() {
    let from = tempdir().unwrap();
    File::create(from.path().join("giant")).unwrap().set_len(1 << 42).unwrap();
    let error = export(&DirDoor::open(from.path()).unwrap(), Vec::new(), &ExportOptions::default(), &Quiet)
        .unwrap_err();
    assert!(
        matches!(&error, TransferError::TooMuch { what: "bytes", path, .. } if path == "giant"),
        "{error}"
    );
    assert!(error.hint().is_some());
}

/// Run by `a_gigabyte_is_exported_in_little_memory` in a process of its own.
#[test]
#[ignore = "a part of another test"]
fn child() {
    let Ok(from) = std::env::var("BELLJAR_TRANSFER_TEST_FROM") else { return };
    let door = DirDoor::open(from.as_ref()).unwrap();
    let exported = export(&door, std::io::sink(), &ExportOptions::default(), &Quiet).unwrap();
    assert_eq!(exported.bytes, 1 << 30);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes <= 64 << 10, "{kilobytes} kB");
}

#[test]
fn a_gigabyte_is_exported_in_little_memory() {
    let from = tempdir().unwrap();
    for number in 0..4 {
        File::create(from.path().join(number.to_string())).unwrap().set_len(1 << 28).unwrap();
    }
    let finished = Command::new(std::env::current_exe().unwrap())
        .args(["archives::child", "--exact", "--ignored"])
        .env("BELLJAR_TRANSFER_TEST_FROM", from.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&finished.stdout);
    assert!(finished.status.success() && told.contains("1 passed"), "{told}");
}

#[test]
fn an_export_that_fails_leaves_what_was_there() {
    let (from, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("a"), "aaaa").unwrap();
    let path = elsewhere.path().join("w.tar.zst");
    fs::write(&path, "before").unwrap();
    let options = ExportOptions { most_bytes: 3, ..ExportOptions::default() };
    let door = DirDoor::open(from.path()).unwrap();
    assert!(export_to_path(&door, &path, &options, &Quiet).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"before");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
}

#[test]
fn globs_choose_what_is_moved() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for path in ["a.py", "b.txt", ".venv/x.py", "d/c.py"] {
        fs::create_dir_all(from.path().join(path).parent().unwrap()).unwrap();
        fs::write(from.path().join(path), path).unwrap();
    }
    let globs = Globs::usual().include(["*.py"]).unwrap();
    let mut archive = Vec::new();
    let options = ExportOptions { globs, ..ExportOptions::default() };
    let door = DirDoor::open(from.path()).unwrap();
    assert_eq!(export(&door, &mut archive, &options, &Quiet).unwrap().files, 2);
    let options = ImportOptions { globs: Globs::all().exclude(["d/"]).unwrap(), ..ImportOptions::default() };
    let imported = import(&DirDoor::open(to.path()).unwrap(), archive.as_slice(), &options, &Quiet).unwrap();
    assert_eq!(imported.files, 1);
    assert!(to.path().join("a.py").exists() && !to.path().join("d").exists());
}

#[test]
fn files_that_are_there_are_replaced_or_kept() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("a"), "new").unwrap();
    fs::write(to.path().join("a"), "old").unwrap();
    let archive = exported(&DirDoor::open(from.path()).unwrap());
    let door = DirDoor::open(to.path()).unwrap();
    let keep = ImportOptions { keep_existing: true, ..ImportOptions::default() };
    let imported = import(&door, archive.as_slice(), &keep, &Quiet).unwrap();
    assert_eq!((imported.files, imported.skipped.total()), (0, 1));
    assert_eq!(fs::read(to.path().join("a")).unwrap(), b"old");
    import(&door, archive.as_slice(), &ImportOptions::default(), &Quiet).unwrap();
    assert_eq!(fs::read(to.path().join("a")).unwrap(), b"new");
}

/// A guest that changes a file between two looks at it.
struct Restless<'d, F: Fn(&str, u64) + Send + Sync> {
    door: &'d dyn FileDoor,
    before_read: F,
}

impl<F: Fn(&str, u64) + Send + Sync> FileDoor for Restless<'_, F> {
    fn file(&self, operation: FileOp) -> Result<FileReply, FileError> {
        if let FileOp::Read { path, offset, .. } = &operation {
            (self.before_read)(path, *offset);
        }
        self.door.file(operation)
    }
}

#[test]
fn files_that_change_while_they_are_read_leave_the_archive_whole() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let at = |name: &str| from.path().join(name);
    for name in ["grows", "shrinks", "vanishes"] {
        fs::write(at(name), vec![b'x'; 5 << 20]).unwrap();
    }
    for name in ["gone", "small", "z"] {
        fs::write(at(name), "small").unwrap();
    }
    let door = DirDoor::open(from.path()).unwrap();
    let restless = Restless {
        door: &door,
        before_read: |path, offset| match (path, offset) {
            ("gone", _) => fs::remove_file(at("gone")).unwrap(),
            ("small", _) => fs::write(at("small"), vec![b'y'; 100]).unwrap(),
            ("grows", 1..) => fs::write(at("grows"), vec![b'x'; 9 << 20]).unwrap(),
            ("shrinks", 2_000_000..) => {
                File::options().write(true).open(at("shrinks")).unwrap().set_len(9).unwrap()
            }
            ("vanishes", 2_000_000..) => drop(fs::remove_file(at("vanishes"))),
            _ => {}
        },
    };
    let mut archive = Vec::new();
    let exported = export(&restless, &mut archive, &ExportOptions::default(), &Quiet).unwrap();
    assert_eq!(exported.files, 5);
    let changed: Vec<_> = exported.changed.iter().map(|changed| changed.path.as_str()).collect();
    assert_eq!(changed, ["shrinks", "vanishes"]);
    assert_eq!(exported.skipped[0].path, "gone");

    let imported =
        import(&DirDoor::open(to.path()).unwrap(), archive.as_slice(), &ImportOptions::default(), &Quiet)
            .unwrap();
    assert_eq!((imported.files, imported.skipped.total()), (5, 0));
    let read = |name: &str| fs::read(to.path().join(name)).unwrap();
    assert_eq!(read("grows"), vec![b'x'; 5 << 20]);
    assert_eq!(read("small"), vec![b'y'; 100]);
    assert_eq!(read("z"), b"small");
    let shrunk = read("shrinks");
    assert_eq!((shrunk.len(), shrunk[0], shrunk[4 << 20]), (5 << 20, b'x', 0));
}

#[test]
fn a_workspace_that_is_gone_is_an_error() {
    struct Gone;
    impl FileDoor for Gone {
        fn file(&self, _: FileOp) -> Result<FileReply, FileError> {
            Err(FileError::new(FileErrorCode::Failed, ""))
        }
    }
    assert!(matches!(
        export(&Gone, Vec::new(), &ExportOptions::default(), &Quiet),
        Err(TransferError::Files(error)) if error.code == FileErrorCode::Failed
    ));
}

#[test]
fn whoever_hears_of_the_progress_can_stop_it() {
    struct Once(AtomicBool);
    impl Progress for Once {
        fn advance(&self, _: &str, _: u64, _: u64) {}
        fn stop(&self) -> bool {
            self.0.swap(true, Ordering::Relaxed)
        }
    }
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for name in ["a", "b"] {
        fs::write(from.path().join(name), name).unwrap();
    }
    let door = DirDoor::open(from.path()).unwrap();
    let stop = || Once(AtomicBool::new(false));
    let stopped = export(&door, Vec::new(), &ExportOptions::default(), &stop());
    assert!(matches!(stopped, Err(TransferError::Stopped)));
    let to = DirDoor::open(to.path()).unwrap();
    let stopped = import(&to, exported(&door).as_slice(), &ImportOptions::default(), &stop());
    assert!(matches!(stopped, Err(TransferError::Stopped)));
}
