//! Whoever changes a directory while its door is used gets nothing by it.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use belljar_engine::{FileDoor, FileErrorCode as Code, FileKind, FileOp, FileReply, MOST_IN_ONE, WriteHow};
use belljar_files::operations::{self, FindOptions, GrepOptions, Step};
use belljar_files::{DirDoor, Room};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags, mkdirat, mknodat, openat, renameat_with};
use tempfile::TempDir;

use crate::door::{act, door, listed, read, stat, write};
use crate::scratch;

/// A directory that nothing may read or change, and what it had.
struct Canary {
    directory: TempDir,
    before: Vec<(String, u64, i64, i64, u32)>,
}

impl Canary {
    fn new() -> Self {
        let directory = scratch();
        for name in ["file", "victim", "outside-only"] {
            std::fs::write(directory.path().join(name), "SECRET").unwrap();
        }
        std::fs::create_dir(directory.path().join("directory")).unwrap();
        let before = Self::look(directory.path());
        Self { directory, before }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn look(path: &Path) -> Vec<(String, u64, i64, i64, u32)> {
        let mut found: Vec<_> = std::fs::read_dir(path)
            .unwrap()
            .chain(std::fs::read_dir(path.join("directory")).unwrap())
            .map(|entry| {
                let entry = entry.unwrap();
                let metadata = std::fs::symlink_metadata(entry.path()).unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, metadata.len(), metadata.ctime(), metadata.ctime_nsec(), metadata.mode())
            })
            .collect();
        found.sort();
        found
    }

    fn assert_untouched(&self) {
        assert_eq!(Self::look(self.path()), self.before);
        for name in ["file", "victim", "outside-only"] {
            assert_eq!(std::fs::read(self.path().join(name)).unwrap(), b"SECRET");
        }
    }
}

/// Swaps things at a name as fast as it can, while the body runs.
fn while_swapped(host: &Path, name: &str, with: &[&str], body: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let swapped = host.join(name);
            while !stop.load(Ordering::Relaxed) {
                for other in with {
                    let other = host.join(other);
                    let _ = renameat_with(CWD, &other, CWD, &swapped, RenameFlags::EXCHANGE);
                    std::hint::spin_loop();
                    let _ = renameat_with(CWD, &other, CWD, &swapped, RenameFlags::EXCHANGE);
                }
            }
        });
        // The swapping ends also where the body fails.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

/// A workspace whose `swap` is a directory, and what it may become.
fn arena(canary: &Canary) -> (TempDir, DirDoor, [&'static str; 5]) {
    let host = scratch();
    let outside = canary.path().to_str().unwrap();
    let relative = format!("../{}", canary.path().file_name().unwrap().to_str().unwrap());
    for directory in ["swap", "other"] {
        std::fs::create_dir(host.path().join(directory)).unwrap();
        std::fs::write(host.path().join(directory).join("file"), "public").unwrap();
    }
    symlink(outside, host.path().join("evil-absolute")).unwrap();
    symlink(relative, host.path().join("evil-relative")).unwrap();
    symlink("/workspace/other", host.path().join("good")).unwrap();
    std::fs::write(host.path().join("plain"), "public").unwrap();
    fifo(&host.path().join("fifo"));
    let door = door(&host);
    (host, door, ["evil-absolute", "evil-relative", "good", "plain", "fifo"])
}

#[test]
fn a_directory_that_is_swapped_for_links_reveals_nothing() {
    let canary = Canary::new();
    let (host, door, with) = arena(&canary);
    let (mut public, mut refused) = (0, 0);
    while_swapped(host.path(), "swap", &with, || {
        for _ in 0..20_000 {
            match read(&door, "swap/file") {
                Ok(contents) => {
                    assert!(contents == "public" || contents.is_empty(), "{contents}");
                    public += 1;
                }
                Err(_) => refused += 1,
            }
            if let Ok(names) = listed(&door, "swap") {
                assert!(!names.iter().any(|name| name == "outside-only"), "{names:?}");
            }
            assert!(stat(&door, "swap/outside-only").is_err());
            assert!(operations::stat(&door, "swap/outside-only").is_err());
            assert!(read(&door, "swap/outside-only").is_err());
        }
    });
    // Otherwise it showed nothing.
    assert!(public > 100 && refused > 100, "{public} {refused}");
    canary.assert_untouched();
}

#[test]
fn a_directory_that_is_swapped_for_links_lets_nothing_be_changed() {
    let canary = Canary::new();
    let (host, door, with) = arena(&canary);
    let (mut done, mut refused) = (0u32, 0u32);
    let mut note = |result: Result<(), Code>| if result.is_ok() { done += 1 } else { refused += 1 };
    while_swapped(host.path(), "swap", &with, || {
        for round in 0..10_000 {
            let path = |name: &str| format!("swap/{name}");
            note(write(&door, "swap/file", "public", WriteHow::Replace));
            note(write(&door, "swap/victim", "public", WriteHow::Append));
            note(write(&door, &path(&format!("new{round}")), "x", WriteHow::Create));
            note(act(&door, FileOp::Remove { path: path("victim") }));
            note(act(&door, FileOp::Remove { path: path(&format!("new{round}")) }));
            note(act(&door, FileOp::MakeDirectory { path: path("made/deep") }));
            note(act(&door, FileOp::Remove { path: path("made/deep") }));
            note(act(&door, FileOp::MakeLink { path: path("link"), target: "x".to_owned() }));
            note(act(&door, FileOp::Rename { from: path("outside-only"), to: "stolen".to_owned() }));
            note(act(&door, FileOp::Rename { from: path("link"), to: path("directory/moved") }));
            note(act(&door, FileOp::Remove { path: path("directory/moved") }));
            note(act(
                &door,
                FileOp::Set { path: path("file"), executable: Some(true), modified_ns: Some(0) },
            ));
            if round % 100 == 0 {
                let _ = operations::remove(&door, "swap/directory", true);
                let _ = operations::copy(&door, "other", "swap/directory/copied");
            }
        }
    });
    assert!(done > 100 && refused > 100, "{done} {refused}");
    assert!(!host.path().join("stolen").exists());
    canary.assert_untouched();
}

#[test]
fn a_file_that_is_swapped_for_links_and_pipes_neither_leaks_nor_hangs() {
    let canary = Canary::new();
    let host = scratch();
    let door = door(&host);
    std::fs::write(host.path().join("swap"), "public").unwrap();
    symlink(canary.path().join("file"), host.path().join("evil")).unwrap();
    symlink("/workspace/good", host.path().join("link")).unwrap();
    std::fs::write(host.path().join("good"), "public").unwrap();
    std::fs::create_dir(host.path().join("directory")).unwrap();
    fifo(&host.path().join("fifo"));
    while_swapped(host.path(), "swap", &["evil", "fifo", "link", "directory"], || {
        for _ in 0..20_000 {
            if let Ok(contents) = read(&door, "swap") {
                assert!(!contents.contains("SECRET"), "{contents}");
            }
            let _ = write(&door, "swap", "public", WriteHow::Append);
            let _ = write(&door, "swap", "public", WriteHow::Replace);
            let _ = act(
                &door,
                FileOp::Set { path: "swap".to_owned(), executable: Some(false), modified_ns: None },
            );
            assert_eq!(write(&door, "swap", "public", WriteHow::Create), Err(Code::AlreadyExists));
        }
    });
    canary.assert_untouched();
    // No temporary file stays.
    assert!(listed(&door, "").unwrap().iter().all(|name| !name.starts_with(".belljar-")));
}

#[test]
fn a_tree_that_is_swapped_while_it_is_walked_copied_and_removed_stays_inside() {
    let canary = Canary::new();
    let (host, door, with) = arena(&canary);
    while_swapped(host.path(), "swap", &with, || {
        for _ in 0..300 {
            operations::walk(&door, "", &mut |path, _| {
                assert!(!path.contains("outside-only"), "{path}");
                Step::Into
            })
            .unwrap();
            let found = operations::glob(&door, "**/outside-only", &FindOptions::default()).unwrap();
            assert_eq!(found.files, []);
            let found = operations::grep(&door, "SECRET", &GrepOptions::default()).unwrap();
            assert_eq!(found.matches, []);
            let _ = operations::copy(&door, "swap", "copied");
            // It may be a link that leads there, but nothing of what is there.
            assert!(stat(&door, "copied/outside-only").is_err());
            let _ = operations::remove(&door, "copied", true);
            let _ = operations::remove(&door, "swap", true);
            let _ = write(&door, "swap/file", "public", WriteHow::Replace);
        }
    });
    canary.assert_untouched();
}

#[test]
fn special_files_are_never_opened() {
    let host = scratch();
    let door = door(&host);
    fifo(&host.path().join("fifo"));
    let _socket = std::os::unix::net::UnixListener::bind(host.path().join("socket")).unwrap();
    let mut names = vec!["fifo", "socket", "link"];
    symlink("fifo", host.path().join("link")).unwrap();
    let null = rustix::fs::makedev(1, 3);
    // Only root may, and not everywhere.
    if mknodat(CWD, host.path().join("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o666), null)
        .is_ok()
    {
        names.push("null");
    }
    for name in names {
        assert_eq!(read(&door, name), Err(Code::NotAFile), "{name}");
        assert_eq!(write(&door, name, "x", WriteHow::Append), Err(Code::NotAFile), "{name}");
        assert_eq!(write(&door, name, "x", WriteHow::Replace), Err(Code::NotAFile), "{name}");
        assert_eq!(write(&door, name, "x", WriteHow::Create), Err(Code::AlreadyExists), "{name}");
        assert_eq!(operations::stat(&door, name).unwrap().kind, FileKind::Other, "{name}");
        let set = FileOp::Set { path: name.to_owned(), executable: Some(true), modified_ns: None };
        assert_eq!(act(&door, set), Err(Code::NotAFile), "{name}");
        assert_eq!(operations::read_lines(&door, name, 1, 1).unwrap_err().code, Code::NotAFile);
        let large = vec![0; MOST_IN_ONE as usize + 1];
        if name != "link" {
            assert_eq!(
                operations::write(&door, name, &mut large.as_slice()).unwrap_err().code,
                Code::NotAFile
            );
        }
    }
    assert_eq!(operations::grep(&door, "x", &GrepOptions::default()).unwrap().files, 0);
    operations::rename(&door, "fifo", "moved").unwrap();
    for name in listed(&door, "").unwrap() {
        operations::remove(&door, &name, false).unwrap();
    }
}

#[test]
fn other_file_systems_below_the_directory_are_not_entered() {
    // Every system has one there, with the strangest links.
    let door = DirDoor::open(Path::new("/")).unwrap();
    for path in ["proc/self/status", "proc/self/root/etc/passwd", "proc/self/exe", "proc/version"] {
        assert_eq!(read(&door, path), Err(Code::InvalidPath), "{path}");
        assert!(stat(&door, path).is_err());
    }
    assert_eq!(listed(&door, "proc"), Err(Code::InvalidPath));
    // One that is itself one is.
    let door = DirDoor::open(Path::new("/proc")).unwrap();
    assert_eq!(stat(&door, "version").unwrap().kind, FileKind::File);
    // But its links, which lead anywhere, aren't followed.
    for path in ["self/root", "self/cwd", "self/exe", "self/fd/0"] {
        assert!(operations::stat(&door, path).is_err(), "{path}");
        assert!(read(&door, path).is_err(), "{path}");
        assert!(listed(&door, path).is_err(), "{path}");
    }
}

#[test]
fn a_giant_made_of_a_hole_fills_nothing() {
    let host = scratch();
    let quota: Room = std::sync::Arc::new(|bytes, _| bytes < 1 << 30);
    let door = door(&host).with_quota(quota);
    let giant = std::fs::File::create(host.path().join("giant")).unwrap();
    giant.set_len(1 << 40).unwrap();
    let lines = std::fs::File::create(host.path().join("lines")).unwrap();
    std::io::Write::write_all(&mut &lines, "needle\n".repeat(10_000).as_bytes()).unwrap();
    lines.set_len(1 << 40).unwrap();
    for path in ["giant", "lines"] {
        assert_eq!(operations::read(&door, path, 100 << 20).unwrap_err().code, Code::TooLarge);
        assert_eq!(operations::read_text(&door, path, 100 << 20).unwrap_err().code, Code::TooLarge);
        assert_eq!(operations::edit(&door, path, "needle", "", true).unwrap_err().code, Code::TooLarge);
        assert_eq!(operations::copy(&door, path, "copied").unwrap_err().code, Code::TooLarge);
        assert_eq!(
            operations::download(&door, [path], 1 << 20)[0].error.as_ref().unwrap().code,
            Code::TooLarge
        );
    }
    let part = FileOp::Read { path: "giant".to_owned(), offset: 1 << 39, length: 5 };
    assert_eq!(door.file(part).unwrap(), FileReply::Contents(vec![0; 5]));
    let some = operations::read_lines(&door, "lines", 9_999, 2).unwrap();
    assert_eq!((some.text.as_str(), some.total_lines), ("needle\nneedle\n", None));
    let some = operations::read_lines(&door, "giant", 2, 2).unwrap();
    assert_eq!((some.count, some.total_lines, some.cut), (0, None, true));
    let found =
        operations::grep(&door, "needle", &GrepOptions { most_matches: 20_000, ..GrepOptions::default() });
    let found = found.unwrap();
    assert_eq!((found.matches.len(), found.files, found.complete), (10_000, 1, false));
    assert_eq!(operations::usage(&door, "", 10).unwrap().bytes, 2 << 40);
    assert_eq!(operations::copy(&door, "", "x").unwrap_err().code, Code::InvalidPath);
    assert!(!host.path().join("copied").exists());
}

/// Makes directories in each other, deeper than any path can name.
fn deep(host: &Path, name: &str, depth: usize) {
    let mut directory = OwnedFd::from(std::fs::File::open(host).unwrap());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for _ in 0..depth {
        mkdirat(&directory, name, Mode::from_raw_mode(0o755)).unwrap();
        openat(&directory, "file", OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(0o644)).unwrap();
        directory = openat(&directory, name, flags, Mode::empty()).unwrap();
    }
}

#[test]
fn a_tree_deeper_than_any_path_is_walked_as_far_as_it_goes_and_removed() {
    let host = scratch();
    let door = door(&host);
    for (name, depth) in [("d".to_owned(), 10_000), ("n".repeat(255), 200)] {
        std::fs::create_dir(host.path().join("deep")).unwrap();
        deep(&host.path().join("deep"), &name, depth);
        let walked = operations::walk(&door, "deep", &mut |_, _| Step::Into).unwrap();
        assert!(walked.visited > 30 && walked.skipped > 0, "{walked:?}");
        assert!(!operations::usage(&door, "deep", u64::MAX).unwrap().complete);
        assert!(operations::copy(&door, "deep", "x").unwrap().skipped > 0);
        operations::remove(&door, "x", true).unwrap();
        operations::remove(&door, "deep", true).unwrap();
        assert_eq!(listed(&door, "").unwrap(), [""; 0]);
    }
}

#[test]
fn links_that_are_long_and_many_take_no_time() {
    let host = scratch();
    let door = door(&host);
    std::fs::create_dir(host.path().join("d")).unwrap();
    // Each leads to the next, by as many names as fit.
    for number in 0..60 {
        let target = format!("{}l{}", "d/../".repeat(800), number + 1);
        symlink(target, host.path().join(format!("l{number}"))).unwrap();
    }
    assert_eq!(read(&door, "l0"), Err(Code::InvalidPath));
    assert_eq!(read(&door, "l57"), Err(Code::FileNotFound));
    // A path that grows with every link it follows.
    symlink("grow/grow", host.path().join("grow")).unwrap();
    assert_eq!(read(&door, "grow"), Err(Code::InvalidPath));
    let long = "n".repeat(250);
    symlink(format!("{long}/").repeat(16), host.path().join("long")).unwrap();
    let path = format!("long/{}", format!("{long}/").repeat(10) + "x");
    assert_eq!(write(&door, &path, "", WriteHow::Replace), Err(Code::InvalidPath));
}

#[test]
fn names_that_are_not_utf_8_are_listed_and_left_alone() {
    let host = scratch();
    let door = door(&host);
    std::fs::create_dir(host.path().join("t")).unwrap();
    let strange = host.path().join("t").join(OsStr::from_bytes(b"\xff\n.txt"));
    std::fs::write(&strange, "x").unwrap();
    std::fs::write(host.path().join("t/usual"), "x").unwrap();
    symlink(OsStr::from_bytes(b"t/\xff\n.txt"), host.path().join("link")).unwrap();
    symlink(OsStr::from_bytes(b"\xfe"), host.path().join("dangling")).unwrap();
    assert_eq!(listed(&door, "t").unwrap(), ["usual", "\u{fffd}\n.txt"]);
    assert_eq!(read(&door, "t/\u{fffd}\n.txt"), Err(Code::FileNotFound));
    // By a link it can be read.
    assert_eq!(read(&door, "link").unwrap(), "x");
    assert_eq!(operations::read_link(&door, "link").unwrap_err().code, Code::InvalidText);
    assert_eq!(read(&door, "dangling"), Err(Code::FileNotFound));
    let copied = operations::copy(&door, "t", "u").unwrap();
    assert_eq!((copied.files, copied.skipped), (1, 1));
    let error = operations::remove(&door, "t", true).unwrap_err();
    assert_eq!(error.code, Code::InvalidPath);
    assert!(error.message.contains("UTF-8"));
    assert_eq!(listed(&door, "t").unwrap().len(), 1);
    assert!(strange.exists());
}

#[test]
fn what_is_closed_to_its_owner_is_told_so() {
    let host = scratch();
    let path = host.path();
    for directory in ["closed/in", "blind", "fixed/in"] {
        std::fs::create_dir_all(path.join(directory)).unwrap();
        std::fs::write(path.join(directory).join("f"), "x").unwrap();
    }
    std::fs::write(path.join("secret"), "x").unwrap();
    let modes = [("closed", 0o000), ("blind", 0o444), ("fixed", 0o555), ("secret", 0o000)];
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        let chown = |path: &Path| std::os::unix::fs::chown(path, Some(1234), Some(1234)).unwrap();
        for below in
            ["", "closed", "closed/in", "closed/in/f", "blind", "blind/f", "fixed", "fixed/in", "secret"]
        {
            chown(&path.join(below));
        }
    }
    for (name, mode) in modes {
        std::fs::set_permissions(path.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    // A thread can give up its own rights only.
    let checked = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let door = door(&host);
                if is_root {
                    let user = rustix::process::Uid::from_raw(1234);
                    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
                }
                assert_eq!(read(&door, "secret"), Err(Code::PermissionDenied));
                assert_eq!(read(&door, "closed/in/f"), Err(Code::PermissionDenied));
                assert_eq!(listed(&door, "closed"), Err(Code::PermissionDenied));
                assert_eq!(write(&door, "closed/new", "", WriteHow::Replace), Err(Code::PermissionDenied));
                assert_eq!(write(&door, "fixed/new", "", WriteHow::Replace), Err(Code::PermissionDenied));
                assert_eq!(write(&door, "fixed/new", "", WriteHow::Create), Err(Code::PermissionDenied));
                assert_eq!(
                    act(&door, FileOp::MakeDirectory { path: "fixed/d".to_owned() }),
                    Err(Code::PermissionDenied)
                );
                assert_eq!(
                    act(&door, FileOp::Remove { path: "fixed/in".to_owned() }),
                    Err(Code::PermissionDenied)
                );
                assert_eq!(listed(&door, "blind").unwrap(), ["f"]);
                assert_eq!(stat(&door, "secret").unwrap().size, 1);
                let walked = operations::walk(&door, "", &mut |_, _| Step::Into).unwrap();
                assert_eq!(walked.skipped, 1);
                assert!(!operations::grep(&door, "x", &GrepOptions::default()).unwrap().complete);
                let error = operations::remove(&door, "fixed", true).unwrap_err();
                assert_eq!(error.code, Code::PermissionDenied);
                assert!(operations::exists(&door, "fixed/in").unwrap());
            })
            .join()
    });
    for (name, _) in modes {
        std::fs::set_permissions(path.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    checked.unwrap();
}

#[test]
fn many_threads_write_and_each_reader_sees_one_of_them_whole() {
    let host = scratch();
    let door = door(&host);
    let contents = |number: usize| char::from(b'a' + number as u8).to_string().repeat(100_000);
    write(&door, "f", &contents(0), WriteHow::Replace).unwrap();
    let (door, stop) = (&door, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|number| {
                scope.spawn(move || {
                    for _ in 0..300 {
                        write(door, "f", &contents(number), WriteHow::Replace).unwrap();
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let text = read(door, "f").unwrap();
                assert_eq!(text.len(), 100_000);
                assert!(text.bytes().all(|byte| byte == text.as_bytes()[0]));
            }
        });
        let ended = writers.into_iter().all(|writer| writer.join().is_ok());
        stop.store(true, Ordering::Relaxed);
        assert!(ended);
    });
    assert_eq!(listed(door, "").unwrap(), ["f"]);
}

/// Names and targets of which some are harmless.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just("l"), Just(".skills"), Just("system")]
        .prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 0..4).prop_map(|names| names.join("/"))
}

fn target(outside: String) -> impl Strategy<Value = String> {
    let start = prop_oneof![
        Just(String::new()),
        Just("/workspace/".to_owned()),
        Just(format!("{outside}/")),
        Just("/".to_owned()),
    ];
    let part = prop_oneof![name(), Just("..".to_owned()), Just(".".to_owned()), Just(String::new())];
    (start, prop::collection::vec(part, 1..5)).prop_map(|(start, parts)| start + &parts.join("/"))
}

fn operation(outside: String) -> impl Strategy<Value = FileOp> {
    let how = prop_oneof![Just(WriteHow::Replace), Just(WriteHow::Create), Just(WriteHow::Append)];
    prop_oneof![
        (path(), any::<bool>()).prop_map(|(path, follow)| FileOp::Stat { path, follow }),
        path().prop_map(|path| FileOp::List { path }),
        path().prop_map(|path| FileOp::Read { path, offset: 0, length: 100 }),
        (path(), how).prop_map(|(path, how)| FileOp::Write { path, contents: b"mine".to_vec(), how }),
        path().prop_map(|path| FileOp::MakeDirectory { path }),
        (path(), target(outside)).prop_map(|(path, target)| FileOp::MakeLink { path, target }),
        path().prop_map(|path| FileOp::ReadLink { path }),
        (path(), path()).prop_map(|(from, to)| FileOp::Rename { from, to }),
        path().prop_map(|path| FileOp::Remove { path }),
        (path(), any::<Option<bool>>(), any::<Option<i64>>())
            .prop_map(|(path, executable, modified_ns)| FileOp::Set { path, executable, modified_ns }),
    ]
}

#[test]
fn no_sequence_of_operations_reaches_what_is_outside_or_mounted() {
    let (canary, skills) = (Canary::new(), scratch());
    for file in ["a", "b"] {
        std::fs::write(skills.path().join(file), "skill").unwrap();
    }
    symlink(canary.path(), skills.path().join("l")).unwrap();
    let outside = canary.path().to_str().unwrap().to_owned();
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let sequences = prop::collection::vec(operation(outside), 1..60);
    let ran = runner.run(&sequences, |operations| {
        let host = scratch();
        let inner = std::sync::Arc::new(DirDoor::open(skills.path()).unwrap());
        let door = door(&host).with_mount(".skills/system", inner);
        for operation in operations {
            match door.file(operation) {
                Ok(FileReply::Contents(contents)) => prop_assert!(!contents.starts_with(b"SECRET")),
                Ok(FileReply::List(entries)) => {
                    prop_assert!(entries.iter().all(|entry| entry.name != "outside-only"));
                }
                _ => {}
            }
            prop_assert_eq!(
                listed(&door, ".skills/system"),
                Ok(vec!["a".to_owned(), "b".to_owned(), "l".to_owned()])
            );
            prop_assert_eq!(read(&door, ".skills/system/a"), Ok("skill".to_owned()));
            prop_assert!(listed(&door, "").is_ok_and(|names| names.contains(&".skills".to_owned())));
        }
        Ok(())
    });
    ran.unwrap();
    canary.assert_untouched();
    assert_eq!(std::fs::read(skills.path().join("b")).unwrap(), b"skill");
}
