//! What a host directory's door does, and what it says when it doesn't.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use belljar_engine::{
    FileDoor, FileErrorCode as Code, FileKind, FileOp, FileReply, FileStat, MOST_IN_ONE, WriteHow,
};
use belljar_files::{DirDoor, operations};
use tempfile::TempDir;

use crate::scratch;

pub(crate) fn door(host: &TempDir) -> DirDoor {
    DirDoor::open(host.path()).unwrap().with_names(["/workspace", "/session"])
}

pub(crate) fn write(door: &dyn FileDoor, path: &str, contents: &str, how: WriteHow) -> Result<(), Code> {
    let operation = FileOp::Write { path: path.to_owned(), contents: contents.as_bytes().to_vec(), how };
    door.file(operation).map(drop).map_err(|error| error.code)
}

pub(crate) fn read(door: &dyn FileDoor, path: &str) -> Result<String, Code> {
    let operation = FileOp::Read { path: path.to_owned(), offset: 0, length: MOST_IN_ONE };
    match door.file(operation).map_err(|error| error.code)? {
        FileReply::Contents(contents) => Ok(String::from_utf8_lossy(&contents).into_owned()),
        reply => panic!("{reply:?}"),
    }
}

pub(crate) fn stat(door: &dyn FileDoor, path: &str) -> Result<FileStat, Code> {
    operations::stat_link(door, path).map_err(|error| error.code)
}

pub(crate) fn listed(door: &dyn FileDoor, path: &str) -> Result<Vec<String>, Code> {
    let entries = operations::list(door, path).map_err(|error| error.code)?;
    Ok(entries.into_iter().map(|entry| entry.name).collect())
}

pub(crate) fn act(door: &dyn FileDoor, operation: FileOp) -> Result<(), Code> {
    door.file(operation).map(drop).map_err(|error| error.code)
}

fn rename(door: &dyn FileDoor, from: &str, to: &str) -> Result<(), Code> {
    act(door, FileOp::Rename { from: from.to_owned(), to: to.to_owned() })
}

fn remove(door: &dyn FileDoor, path: &str) -> Result<(), Code> {
    act(door, FileOp::Remove { path: path.to_owned() })
}

fn make(door: &dyn FileDoor, path: &str) -> Result<(), Code> {
    act(door, FileOp::MakeDirectory { path: path.to_owned() })
}

fn link(door: &dyn FileDoor, path: &str, target: &str) -> Result<(), Code> {
    act(door, FileOp::MakeLink { path: path.to_owned(), target: target.to_owned() })
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn files_are_written_read_and_listed() {
    let host = scratch();
    let door = door(&host);
    write(&door, "a/b/c.txt", "one", WriteHow::Replace).unwrap();
    assert_eq!(read(&door, "a/b/c.txt").unwrap(), "one");
    write(&door, "a/b/c.txt", "two", WriteHow::Replace).unwrap();
    write(&door, "a/b/c.txt", " three", WriteHow::Append).unwrap();
    write(&door, "a/new", "added", WriteHow::Append).unwrap();
    assert_eq!(read(&door, "a/b/c.txt").unwrap(), "two three");
    assert_eq!(write(&door, "a/new", "", WriteHow::Create), Err(Code::AlreadyExists));
    write(&door, "created", "", WriteHow::Create).unwrap();
    assert_eq!(listed(&door, "").unwrap(), ["a", "created"]);
    assert_eq!(listed(&door, "a").unwrap(), ["b", "new"]);
    assert_eq!(listed(&door, "a/b").unwrap(), ["c.txt"]);
    let found = stat(&door, "a/b/c.txt").unwrap();
    assert_eq!(
        (found.kind, found.size, found.executable, found.read_only),
        (FileKind::File, 9, false, false)
    );
    assert_eq!(stat(&door, "").unwrap().kind, FileKind::Directory);
}

#[test]
fn a_part_of_a_file_ends_with_it() {
    let host = scratch();
    let door = door(&host);
    write(&door, "f", "0123456789", WriteHow::Create).unwrap();
    let part = |offset, length| match door.file(FileOp::Read { path: "f".to_owned(), offset, length }) {
        Ok(FileReply::Contents(contents)) => Ok(String::from_utf8(contents).unwrap()),
        Ok(reply) => panic!("{reply:?}"),
        Err(error) => Err(error.code),
    };
    assert_eq!(part(2, 3).unwrap(), "234");
    assert_eq!(part(8, 100).unwrap(), "89");
    for beyond in [10, 11, i64::MAX as u64, u64::MAX] {
        assert_eq!(part(beyond, 100).unwrap(), "");
    }
    assert_eq!(part(0, MOST_IN_ONE + 1), Err(Code::TooLarge));
    assert_eq!(part(0, 0).unwrap(), "");
    let contents = vec![0; MOST_IN_ONE as usize + 1];
    let large = FileOp::Write { path: "g".to_owned(), contents, how: WriteHow::Replace };
    assert_eq!(act(&door, large), Err(Code::TooLarge));
}

#[test]
fn each_failure_has_its_code() {
    let host = scratch();
    let door = door(&host);
    write(&door, "file", "x", WriteHow::Create).unwrap();
    make(&door, "directory/full").unwrap();
    assert_eq!(read(&door, "nothing"), Err(Code::FileNotFound));
    assert_eq!(read(&door, "nothing/at/all"), Err(Code::FileNotFound));
    assert_eq!(read(&door, "directory"), Err(Code::IsDirectory));
    assert_eq!(read(&door, ""), Err(Code::IsDirectory));
    assert_eq!(read(&door, "file/below"), Err(Code::NotDirectory));
    assert_eq!(listed(&door, "file"), Err(Code::NotDirectory));
    assert_eq!(listed(&door, "nothing"), Err(Code::FileNotFound));
    assert_eq!(make(&door, "file"), Err(Code::AlreadyExists));
    assert_eq!(make(&door, "file/below"), Err(Code::NotDirectory));
    assert_eq!(make(&door, "directory/full"), Ok(()));
    assert_eq!(make(&door, ""), Ok(()));
    assert_eq!(remove(&door, "directory"), Err(Code::NotEmpty));
    assert_eq!(remove(&door, "nothing"), Err(Code::FileNotFound));
    assert_eq!(remove(&door, ""), Err(Code::PermissionDenied));
    assert_eq!(rename(&door, "", "x"), Err(Code::PermissionDenied));
    assert_eq!(rename(&door, "nothing", "else/where"), Err(Code::FileNotFound));
    assert!(!host.path().join("else").exists());
    assert_eq!(rename(&door, "file", "directory"), Err(Code::IsDirectory));
    assert_eq!(rename(&door, "directory", "file"), Err(Code::NotDirectory));
    assert_eq!(rename(&door, "directory", "directory/full/x"), Err(Code::InvalidPath));
    make(&door, "other").unwrap();
    assert_eq!(rename(&door, "other", "directory"), Err(Code::NotEmpty));
    assert_eq!(write(&door, "directory", "", WriteHow::Replace), Err(Code::IsDirectory));
    assert_eq!(write(&door, "directory", "", WriteHow::Append), Err(Code::IsDirectory));
    assert_eq!(write(&door, "directory", "", WriteHow::Create), Err(Code::AlreadyExists));
    assert_eq!(write(&door, "", "", WriteHow::Replace), Err(Code::IsDirectory));
    assert_eq!(write(&door, "file/x", "", WriteHow::Replace), Err(Code::NotDirectory));
    assert_eq!(link(&door, "file", "x"), Err(Code::AlreadyExists));
    assert_eq!(link(&door, "l", ""), Err(Code::InvalidPath));
    assert_eq!(act(&door, FileOp::ReadLink { path: "file".to_owned() }), Err(Code::InvalidPath));
    let error = operations::rename(&door, "other", "file/x").unwrap_err();
    assert_eq!((error.code, error.path.as_str()), (Code::NotDirectory, "file/x"));
    let error = door.file(FileOp::Stat { path: "nothing".to_owned(), follow: true }).unwrap_err();
    assert_eq!(error.to_string(), "nothing: there is no such file or directory");
}

#[test]
fn paths_that_make_no_sense_are_refused_by_every_operation() {
    let host = scratch();
    let door = door(&host);
    let (long_name, long_path) = ("x".repeat(256), "x/".repeat(2100) + "x");
    let paths =
        ["/", "/a", "a/", "a//b", ".", "./a", "a/.", "..", "../a", "a/../b", "a\0b", &long_name, &long_path];
    for path in paths {
        let path = path.to_owned();
        let valid = "valid".to_owned();
        let operations = [
            FileOp::Stat { path: path.clone(), follow: true },
            FileOp::Stat { path: path.clone(), follow: false },
            FileOp::List { path: path.clone() },
            FileOp::Read { path: path.clone(), offset: 0, length: 1 },
            FileOp::Write { path: path.clone(), contents: Vec::new(), how: WriteHow::Replace },
            FileOp::MakeDirectory { path: path.clone() },
            FileOp::MakeLink { path: path.clone(), target: valid.clone() },
            FileOp::ReadLink { path: path.clone() },
            FileOp::Rename { from: path.clone(), to: valid.clone() },
            FileOp::Rename { from: valid, to: path.clone() },
            FileOp::Remove { path: path.clone() },
            FileOp::Set { path, executable: Some(true), modified_ns: Some(0) },
        ];
        for operation in operations {
            assert_eq!(act(&door, operation.clone()), Err(Code::InvalidPath), "{operation:?}");
        }
    }
    assert_eq!(std::fs::read_dir(host.path()).unwrap().count(), 0);
}

#[test]
fn replacing_keeps_the_mode_and_leaves_nothing_beside() {
    let host = scratch();
    let door = door(&host);
    let path = host.path().join("script");
    std::fs::write(&path, "old").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    let held = std::fs::File::open(&path).unwrap();
    write(&door, "script", "new", WriteHow::Replace).unwrap();
    assert_eq!(mode(&path), 0o750);
    // Who has the old one open reads the old one.
    assert_eq!(std::io::read_to_string(held).unwrap(), "old");
    std::fs::create_dir(host.path().join("d")).unwrap();
    assert_eq!(write(&door, "d", "x", WriteHow::Replace), Err(Code::IsDirectory));
    assert_eq!(listed(&door, "").unwrap(), ["d", "script"]);
}

#[test]
fn modes_and_times_are_set() {
    let host = scratch();
    let door = door(&host);
    write(&door, "f", "", WriteHow::Create).unwrap();
    std::fs::set_permissions(host.path().join("f"), std::fs::Permissions::from_mode(0o640)).unwrap();
    let set = |path: &str, executable, modified_ns| {
        act(&door, FileOp::Set { path: path.to_owned(), executable, modified_ns })
    };
    set("f", Some(true), Some(-1_500_000_000)).unwrap();
    assert_eq!(mode(&host.path().join("f")), 0o750);
    assert!(stat(&door, "f").unwrap().executable);
    assert_eq!(stat(&door, "f").unwrap().modified_ns, -1_500_000_000);
    set("f", Some(false), None).unwrap();
    assert_eq!(mode(&host.path().join("f")), 0o640);
    assert_eq!(stat(&door, "f").unwrap().modified_ns, -1_500_000_000);
    set("f", None, Some(i64::MAX)).unwrap();
    set("f", None, Some(i64::MIN)).unwrap();
    symlink("f", host.path().join("l")).unwrap();
    assert_eq!(set("l", Some(true), None), Err(Code::NotAFile));
    set("l", None, Some(7)).unwrap();
    assert_eq!(stat(&door, "l").unwrap().modified_ns, 7);
    assert_ne!(stat(&door, "f").unwrap().modified_ns, 7);
    set("", None, Some(7)).unwrap();
    assert_eq!(set("", Some(true), None), Err(Code::IsDirectory));
    assert_eq!(set("nothing", None, None), Ok(()));
    assert_eq!(set("nothing", None, Some(1)), Err(Code::FileNotFound));
}

#[test]
fn links_are_followed_inside_also_by_the_names_that_the_guest_knows() {
    let host = scratch();
    let door = door(&host);
    write(&door, "a/b/f", "found", WriteHow::Create).unwrap();
    link(&door, "short", "a/b").unwrap();
    link(&door, "a/up", "../short/f").unwrap();
    link(&door, "a/b/around", "../../a/./b//f").unwrap();
    link(&door, "absolute", "/workspace/a/b").unwrap();
    link(&door, "alias", "/session/absolute/../b/f").unwrap();
    link(&door, "root", "/workspace").unwrap();
    link(&door, "here", ".").unwrap();
    for path in
        ["short/f", "a/up", "short/around", "absolute/f", "alias", "root/a/b/f", "here/here/root/here/alias"]
    {
        assert_eq!(read(&door, path).as_deref(), Ok("found"), "{path}");
        assert_eq!(operations::stat(&door, path).unwrap().size, 5, "{path}");
    }
    assert_eq!(stat(&door, "alias").unwrap().kind, FileKind::Link);
    assert_eq!(stat(&door, "root/a").unwrap().kind, FileKind::Directory);
    assert_eq!(operations::read_link(&door, "root/short").unwrap(), "a/b");
    assert_eq!(listed(&door, "absolute").unwrap(), ["around", "f"]);
    // Writing goes where a link leads, and makes what isn't there.
    write(&door, "alias", "changed", WriteHow::Replace).unwrap();
    assert_eq!(stat(&door, "alias").unwrap().kind, FileKind::Link);
    assert_eq!(read(&door, "a/b/f").unwrap(), "changed");
    write(&door, "alias", "!", WriteHow::Append).unwrap();
    assert_eq!(read(&door, "a/b/f").unwrap(), "changed!");
    link(&door, "dangling", "/workspace/new/file").unwrap();
    assert_eq!(read(&door, "dangling"), Err(Code::FileNotFound));
    assert_eq!(write(&door, "dangling", "x", WriteHow::Create), Err(Code::AlreadyExists));
    write(&door, "dangling", "x", WriteHow::Replace).unwrap();
    assert_eq!(read(&door, "new/file").unwrap(), "x");
    make(&door, "root/made/deep").unwrap();
    assert!(host.path().join("made/deep").is_dir());
    // Names are about the link itself.
    rename(&door, "short", "here/renamed").unwrap();
    assert_eq!(stat(&door, "renamed").unwrap().kind, FileKind::Link);
    remove(&door, "renamed").unwrap();
    assert_eq!(read(&door, "a/b/f").unwrap(), "changed!");
}

#[test]
fn links_that_lead_out_or_in_circles_are_invalid() {
    let host = scratch();
    let door = door(&host);
    let outside = scratch();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let outside_path = outside.path().to_str().unwrap();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    make(&door, "d").unwrap();
    link(&door, "absolute", outside_path).unwrap();
    link(&door, "upwards", &format!("../{name}")).unwrap();
    link(&door, "d/upwards", &format!("../d/../../{name}")).unwrap();
    link(&door, "alias", &format!("/workspace/../{name}")).unwrap();
    link(&door, "other", "/workspaces").unwrap();
    link(&door, "slashes", &format!("/workspace/..//..{outside_path}")).unwrap();
    link(&door, "magic", "/proc/self/root").unwrap();
    link(&door, "circle", "circle").unwrap();
    link(&door, "ping", "pong/x").unwrap();
    link(&door, "pong", "ping/x").unwrap();
    for path in ["absolute", "upwards", "d/upwards", "alias", "other", "slashes", "magic", "circle", "ping"] {
        for path in [format!("{path}/secret"), path.to_owned()] {
            assert_eq!(read(&door, &path), Err(Code::InvalidPath), "{path}");
            assert_eq!(operations::stat(&door, &path).unwrap_err().code, Code::InvalidPath, "{path}");
            assert_eq!(listed(&door, &path), Err(Code::InvalidPath), "{path}");
            assert_eq!(write(&door, &path, "", WriteHow::Replace), Err(Code::InvalidPath), "{path}");
            assert_eq!(write(&door, &path, "", WriteHow::Append), Err(Code::InvalidPath), "{path}");
            assert_eq!(make(&door, &path), Err(Code::InvalidPath), "{path}");
        }
        let below = format!("{path}/secret");
        assert_eq!(write(&door, &below, "", WriteHow::Create), Err(Code::InvalidPath));
        assert_eq!(remove(&door, &below), Err(Code::InvalidPath));
        assert_eq!(rename(&door, &below, "stolen"), Err(Code::InvalidPath));
        assert_eq!(rename(&door, "d", &below), Err(Code::InvalidPath));
        assert_eq!(link(&door, &below, "x"), Err(Code::InvalidPath));
        assert_eq!(stat(&door, &below), Err(Code::InvalidPath));
        let set = FileOp::Set { path: below, executable: Some(true), modified_ns: Some(0) };
        assert_eq!(act(&door, set), Err(Code::InvalidPath));
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"secret");
}

fn with_mounts(host: &TempDir, skills: &TempDir, ticket: &TempDir) -> DirDoor {
    std::fs::create_dir(skills.path().join("pdf")).unwrap();
    std::fs::write(skills.path().join("pdf/SKILL.md"), "skill").unwrap();
    std::fs::write(ticket.path().join("t.txt"), "ticket").unwrap();
    door(host)
        .with_mount(".skills/system", Arc::new(DirDoor::open(skills.path()).unwrap()))
        .with_mount(".ticket", Arc::new(DirDoor::open(ticket.path()).unwrap()))
}

#[test]
fn mounts_are_shown_where_the_directory_has_nothing() {
    let (host, skills, ticket) = (scratch(), scratch(), scratch());
    let door = with_mounts(&host, &skills, &ticket);
    write(&door, "zz", "", WriteHow::Create).unwrap();
    assert_eq!(listed(&door, "").unwrap(), [".skills", ".ticket", "zz"]);
    assert_eq!(listed(&door, ".skills").unwrap(), ["system"]);
    assert_eq!(listed(&door, ".skills/system").unwrap(), ["pdf"]);
    assert_eq!(read(&door, ".skills/system/pdf/SKILL.md").unwrap(), "skill");
    assert_eq!(read(&door, ".ticket/t.txt").unwrap(), "ticket");
    let entries = operations::list(&door, "").unwrap();
    assert_eq!(entries.iter().map(|entry| entry.stat.read_only).collect::<Vec<_>>(), [false, true, false]);
    for path in [".ticket", ".ticket/t.txt", ".skills/system", ".skills/system/pdf"] {
        assert!(stat(&door, path).unwrap().read_only, "{path}");
    }
    assert!(operations::list(&door, ".skills/system").unwrap().iter().all(|entry| entry.stat.read_only));
    assert_eq!(stat(&door, ".skills").unwrap().kind, FileKind::Directory);
    assert_eq!(read(&door, ".skills"), Err(Code::IsDirectory));
    assert_eq!(read(&door, ".skills/other"), Err(Code::FileNotFound));
    let error = operations::stat(&door, ".ticket/nothing").unwrap_err();
    assert_eq!((error.code, error.path.as_str()), (Code::FileNotFound, ".ticket/nothing"));
    assert_eq!(std::fs::read_dir(host.path()).unwrap().count(), 1);
    // What is shown can be taken over.
    assert_eq!(operations::copy(&door, ".skills/system/pdf", "zz-pdf").unwrap().files, 1);
    write(&door, "zz-pdf/SKILL.md", "mine", WriteHow::Replace).unwrap();
    assert_eq!(read(&door, ".skills/system/pdf/SKILL.md").unwrap(), "skill");
    // Files beside a mount are the workspace's own.
    write(&door, ".skills/mine.md", "mine", WriteHow::Replace).unwrap();
    assert_eq!(listed(&door, ".skills").unwrap(), ["mine.md", "system"]);
    assert!(host.path().join(".skills/mine.md").is_file());
}

#[test]
fn mounts_hide_what_is_there_and_cannot_be_changed() {
    let (host, skills, ticket) = (scratch(), scratch(), scratch());
    std::fs::create_dir_all(host.path().join(".skills/system")).unwrap();
    std::fs::write(host.path().join(".skills/system/hidden"), "hidden").unwrap();
    std::fs::write(host.path().join(".ticket"), "hidden").unwrap();
    let door = with_mounts(&host, &skills, &ticket);
    symlink(".skills/system", host.path().join("way")).unwrap();
    symlink("/workspace/.skills/system/pdf/../hidden", host.path().join("round")).unwrap();
    symlink(".ticket/../zz", host.path().join("back")).unwrap();
    write(&door, "zz", "own", WriteHow::Create).unwrap();
    assert_eq!(stat(&door, ".ticket").unwrap().kind, FileKind::Directory);
    for path in [".skills/system/hidden", "way/hidden", "round"] {
        assert_eq!(read(&door, path), Err(Code::FileNotFound), "{path}");
    }
    assert_eq!(read(&door, "way/pdf/SKILL.md").unwrap(), "skill");
    assert_eq!(read(&door, "back").unwrap(), "own");
    for path in
        [".skills/system", ".skills/system/pdf", ".skills/system/pdf/SKILL.md", ".ticket/new", "way/new"]
    {
        let path = path.to_owned();
        let operations = [
            FileOp::Write { path: path.clone(), contents: Vec::new(), how: WriteHow::Replace },
            FileOp::Write { path: path.clone(), contents: Vec::new(), how: WriteHow::Append },
            FileOp::Write { path: path.clone(), contents: Vec::new(), how: WriteHow::Create },
            FileOp::MakeDirectory { path: path.clone() },
            FileOp::MakeLink { path: path.clone(), target: "x".to_owned() },
            FileOp::Rename { from: path.clone(), to: "stolen".to_owned() },
            FileOp::Rename { from: "zz".to_owned(), to: path.clone() },
            FileOp::Remove { path: path.clone() },
            FileOp::Set { path, executable: Some(true), modified_ns: Some(0) },
        ];
        for operation in operations {
            assert_eq!(act(&door, operation.clone()), Err(Code::PermissionDenied), "{operation:?}");
        }
    }
    for path in [".skills", ".ticket"] {
        assert_eq!(remove(&door, path), Err(Code::PermissionDenied));
        assert_eq!(rename(&door, path, "x"), Err(Code::PermissionDenied));
        assert_eq!(rename(&door, "zz", path), Err(Code::PermissionDenied));
        assert_eq!(operations::remove(&door, path, true).unwrap_err().code, Code::PermissionDenied);
    }
    assert_eq!(read(&door, "zz").unwrap(), "own");
    assert_eq!(std::fs::read(host.path().join(".skills/system/hidden")).unwrap(), b"hidden");
}

#[test]
fn everything_is_done_inside_the_hook() {
    let host = scratch();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let door = door(&host).with_owner(Arc::new(move |body| {
        counted.fetch_add(1, Ordering::Relaxed);
        body();
    }));
    write(&door, "a", "x", WriteHow::Replace).unwrap();
    assert_eq!(read(&door, "a").unwrap(), "x");
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    let door = self::door(&host).with_owner(Arc::new(|_| ()));
    assert_eq!(read(&door, "a"), Err(Code::Failed));
}

#[test]
fn what_there_is_no_room_for_is_not_written() {
    let host = scratch();
    let (bytes, files) = (Arc::new(AtomicU64::new(10)), Arc::new(AtomicU64::new(3)));
    let room = (Arc::clone(&bytes), Arc::clone(&files));
    let door = door(&host).with_quota(Arc::new(move |bytes, files| {
        let (room_bytes, room_files) = (room.0.load(Ordering::Relaxed), room.1.load(Ordering::Relaxed));
        bytes <= room_bytes && files <= room_files
    }));
    write(&door, "d/f", "0123456789", WriteHow::Replace).unwrap();
    bytes.store(0, Ordering::Relaxed);
    assert_eq!(write(&door, "d/f", "x", WriteHow::Append), Err(Code::DiskFull));
    assert_eq!(write(&door, "d/f", "0123456789x", WriteHow::Replace), Err(Code::DiskFull));
    write(&door, "d/f", "9876543210", WriteHow::Replace).unwrap();
    // A hole gives no room when it goes, nor does a file that has another name.
    std::fs::File::create(host.path().join("d/hole")).unwrap().set_len(1 << 30).unwrap();
    assert_eq!(write(&door, "d/hole", "x", WriteHow::Replace), Err(Code::DiskFull));
    std::fs::remove_file(host.path().join("d/hole")).unwrap();
    std::fs::hard_link(host.path().join("d/f"), host.path().join("d/h")).unwrap();
    assert_eq!(write(&door, "d/f", "x", WriteHow::Replace), Err(Code::DiskFull));
    std::fs::remove_file(host.path().join("d/h")).unwrap();
    files.store(0, Ordering::Relaxed);
    assert_eq!(write(&door, "new", "", WriteHow::Create), Err(Code::DiskFull));
    assert_eq!(write(&door, "new", "", WriteHow::Append), Err(Code::DiskFull));
    assert_eq!(write(&door, "new", "", WriteHow::Replace), Err(Code::DiskFull));
    assert_eq!(make(&door, "new"), Err(Code::DiskFull));
    assert_eq!(link(&door, "new", "x"), Err(Code::DiskFull));
    assert_eq!(make(&door, "d"), Ok(()));
    assert_eq!(rename(&door, "d/f", "d/g"), Ok(()));
    assert_eq!(read(&door, "d/g").unwrap(), "9876543210");
    assert_eq!(listed(&door, "").unwrap(), ["d"]);
    assert_eq!(listed(&door, "d").unwrap(), ["g"]);
}

#[test]
fn links_to_what_the_guest_sees_elsewhere_are_followed_for_reading() {
    let (host, shelf) = (scratch(), scratch());
    std::fs::create_dir(shelf.path().join("data")).unwrap();
    std::fs::write(shelf.path().join("data/x.parquet"), "PAR1").unwrap();
    symlink("x.parquet", shelf.path().join("data/same")).unwrap();
    symlink("/etc/passwd", shelf.path().join("data/out")).unwrap();
    symlink("/workspace/own", shelf.path().join("data/back")).unwrap();
    let inner = Arc::new(DirDoor::open(shelf.path()).unwrap());
    let door = door(&host).with_root("/shelf/", inner.clone()).with_root("relative", inner);
    write(&door, "own", "own", WriteHow::Create).unwrap();
    link(&door, "data/x.parquet", "/shelf/data/x.parquet").unwrap();
    link(&door, "shelved", "/shelf/data").unwrap();
    link(&door, "all", "/shelf").unwrap();
    link(&door, "dots", "/shelf/./data/../data//x.parquet").unwrap();
    link(&door, "again", "/workspace/shelved/same").unwrap();
    for path in ["data/x.parquet", "shelved/x.parquet", "shelved/same", "all/data/x.parquet", "dots", "again"]
    {
        assert_eq!(read(&door, path).as_deref(), Ok("PAR1"), "{path}");
        let found = operations::stat(&door, path).unwrap();
        assert_eq!((found.kind, found.size, found.read_only), (FileKind::File, 4, true), "{path}");
        assert_eq!(operations::read(&door, path, 100).unwrap(), b"PAR1");
    }
    assert_eq!(listed(&door, "shelved").unwrap(), ["back", "out", "same", "x.parquet"]);
    assert_eq!(operations::read_link(&door, "shelved/same").unwrap(), "x.parquet");
    assert_eq!(operations::read_link(&door, "data/x.parquet").unwrap(), "/shelf/data/x.parquet");
    // It can't be changed, and what is there leads nowhere else.
    for path in ["data/x.parquet", "shelved/x.parquet", "shelved/new", "all/new"] {
        assert_eq!(write(&door, path, "mine", WriteHow::Replace), Err(Code::PermissionDenied), "{path}");
        assert_eq!(write(&door, path, "mine", WriteHow::Append), Err(Code::PermissionDenied), "{path}");
    }
    assert_eq!(remove(&door, "shelved/x.parquet"), Err(Code::PermissionDenied));
    assert_eq!(make(&door, "shelved/d"), Err(Code::PermissionDenied));
    assert_eq!(rename(&door, "own", "shelved/own"), Err(Code::PermissionDenied));
    assert_eq!(rename(&door, "shelved/x.parquet", "mine"), Err(Code::PermissionDenied));
    for path in ["shelved/out", "shelved/back"] {
        assert_eq!(read(&door, path), Err(Code::InvalidPath), "{path}");
    }
    for (number, target) in
        ["/shelf/../etc/passwd", "/shelf/data/../../etc", "/shelfx/data", "/shel", "/"].iter().enumerate()
    {
        let name = format!("out{number}");
        link(&door, &name, target).unwrap();
        assert_eq!(read(&door, &name), Err(Code::InvalidPath), "{target}");
    }
    link(&door, "missing", "/shelf/data/missing").unwrap();
    assert_eq!(read(&door, "missing"), Err(Code::FileNotFound));
    // The link is the workspace's.
    remove(&door, "data/x.parquet").unwrap();
    assert_eq!(std::fs::read(shelf.path().join("data/x.parquet")).unwrap(), b"PAR1");
    assert_eq!(std::fs::read_dir(shelf.path().join("data")).unwrap().count(), 4);
}
