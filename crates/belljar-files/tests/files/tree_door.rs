//! What hosts do with a workspace in memory.

use belljar_engine::{FileError, FileErrorCode, FileKind, FileOp, FileReply, MOST_IN_ONE, WriteHow};
use belljar_files::{Access, FileSystem, OpenOptions, Quota};

use crate::{open_host, scratch};

const PLACE: &str = "/workspace";

fn workspace() -> FileSystem {
    let mut files = FileSystem::new(Quota { bytes: 4 << 20, files: 100, handles: 8, ..Quota::default() });
    files.make_directories(PLACE).unwrap();
    files.make_directories("/tmp").unwrap();
    files.write_file("/tmp/outside", b"outside").unwrap();
    files
}

fn link(files: &mut FileSystem, target: &str, path: &str) {
    let root = files.root().unwrap();
    files.symlink_at(target, root, path).unwrap();
    files.close(root).unwrap();
}

fn write(files: &mut FileSystem, path: &str, contents: &[u8], how: WriteHow) -> Result<FileReply, FileError> {
    files.operate(PLACE, FileOp::Write { path: path.into(), contents: contents.to_vec(), how })
}

fn read(files: &mut FileSystem, path: &str) -> Result<Vec<u8>, FileErrorCode> {
    let operation = FileOp::Read { path: path.into(), offset: 0, length: MOST_IN_ONE };
    match files.operate(PLACE, operation) {
        Ok(FileReply::Contents(contents)) => Ok(contents),
        Ok(other) => panic!("{other:?}"),
        Err(error) => {
            assert_eq!(error.path, path);
            Err(error.code)
        }
    }
}

fn names(files: &mut FileSystem, path: &str) -> Vec<(String, FileKind)> {
    match files.operate(PLACE, FileOp::List { path: path.into() }).unwrap() {
        FileReply::List(entries) => entries.into_iter().map(|entry| (entry.name, entry.stat.kind)).collect(),
        other => panic!("{other:?}"),
    }
}

fn code(reply: Result<FileReply, FileError>) -> FileErrorCode {
    reply.unwrap_err().code
}

fn rename(files: &mut FileSystem, from: &str, to: &str) -> Result<FileReply, FileError> {
    files.operate(PLACE, FileOp::Rename { from: from.into(), to: to.into() })
}

fn remove(files: &mut FileSystem, path: &str) -> Result<FileReply, FileError> {
    files.operate(PLACE, FileOp::Remove { path: path.into() })
}

#[test]
fn files_are_written_read_moved_and_removed() {
    let mut files = workspace();
    write(&mut files, "a/b/c", b"one", WriteHow::Create).unwrap();
    assert_eq!(code(write(&mut files, "a/b/c", b"x", WriteHow::Create)), FileErrorCode::AlreadyExists);
    write(&mut files, "a/b/c", b" two", WriteHow::Append).unwrap();
    write(&mut files, "log", b"new", WriteHow::Append).unwrap();
    assert_eq!(read(&mut files, "a/b/c").unwrap(), b"one two");
    write(&mut files, "a/b/c", b"three", WriteHow::Replace).unwrap();
    assert_eq!(read(&mut files, "a/b/c").unwrap(), b"three");
    let part = FileOp::Read { path: "a/b/c".into(), offset: 2, length: 2 };
    assert_eq!(files.operate(PLACE, part).unwrap(), FileReply::Contents(b"re".to_vec()));
    let beyond = FileOp::Read { path: "a/b/c".into(), offset: u64::MAX, length: 2 };
    assert_eq!(files.operate(PLACE, beyond).unwrap(), FileReply::Contents(Vec::new()));
    rename(&mut files, "a/b/c", "d/e").unwrap();
    rename(&mut files, "log", "d/e").unwrap();
    assert_eq!(read(&mut files, "d/e").unwrap(), b"new");
    assert_eq!(names(&mut files, ""), [("a".into(), FileKind::Directory), ("d".into(), FileKind::Directory)]);
    assert_eq!(code(remove(&mut files, "d")), FileErrorCode::NotEmpty);
    remove(&mut files, "d/e").unwrap();
    remove(&mut files, "d").unwrap();
    assert_eq!(code(remove(&mut files, "d")), FileErrorCode::FileNotFound);
    assert!(files.is_sound());
}

#[test]
fn what_fails_says_why_and_changes_nothing() {
    let mut files = workspace();
    write(&mut files, "file", b"kept", WriteHow::Create).unwrap();
    files.operate(PLACE, FileOp::MakeDirectory { path: "d/e".into() }).unwrap();
    files.operate(PLACE, FileOp::MakeDirectory { path: "d/e".into() }).unwrap();
    let before = (files.usage(), names(&mut files, ""), names(&mut files, "d"));
    use FileErrorCode as Code;
    assert_eq!(read(&mut files, "none"), Err(Code::FileNotFound));
    assert_eq!(read(&mut files, "d"), Err(Code::IsDirectory));
    assert_eq!(read(&mut files, "file/x"), Err(Code::NotDirectory));
    assert_eq!(code(write(&mut files, "d", b"", WriteHow::Replace)), Code::IsDirectory);
    assert_eq!(code(write(&mut files, "file/x/y", b"", WriteHow::Replace)), Code::NotDirectory);
    assert_eq!(code(write(&mut files, "new/large", &vec![1; 5 << 20], WriteHow::Create)), Code::DiskFull);
    assert_eq!(code(write(&mut files, "file", &vec![1; 5 << 20], WriteHow::Replace)), Code::DiskFull);
    assert_eq!(code(write(&mut files, "file", &vec![1; 9 << 20], WriteHow::Append)), Code::TooLarge);
    assert_eq!(code(rename(&mut files, "none", "new/x")), Code::FileNotFound);
    assert_eq!(code(rename(&mut files, "file", "d")), Code::IsDirectory);
    assert_eq!(code(rename(&mut files, "d", "d/e/f")), Code::InvalidPath);
    assert_eq!(code(files.operate(PLACE, FileOp::List { path: "file".into() })), Code::NotDirectory);
    assert_eq!(
        code(files.operate(PLACE, FileOp::MakeDirectory { path: "file".into() })),
        Code::AlreadyExists
    );
    assert_eq!(code(files.operate(PLACE, FileOp::ReadLink { path: "file".into() })), Code::Failed);
    let large = FileOp::Read { path: "file".into(), offset: 0, length: MOST_IN_ONE + 1 };
    assert_eq!(code(files.operate(PLACE, large)), Code::TooLarge);
    for path in ["", "/etc", "../tmp", "a/../b", "a//b", "./a", "a/", "a\0b", "x/".repeat(3000).as_str()] {
        assert_eq!(code(write(&mut files, path, b"", WriteHow::Create)), Code::InvalidPath, "{path:.20}");
        assert_eq!(code(remove(&mut files, path)), Code::InvalidPath, "{path:.20}");
        assert_eq!(code(rename(&mut files, "file", path)), Code::InvalidPath, "{path:.20}");
    }
    assert_eq!((files.usage(), names(&mut files, ""), names(&mut files, "d")), before);
    assert_eq!(read(&mut files, "file").unwrap(), b"kept");
}

#[test]
fn links_are_followed_inside_the_workspace_only() {
    let mut files = workspace();
    write(&mut files, "d/file", b"inside", WriteHow::Create).unwrap();
    link(&mut files, "d/file", "workspace/relative");
    link(&mut files, "/workspace/d", "workspace/absolute");
    link(&mut files, "../relative", "workspace/d/up");
    link(&mut files, "d/later", "workspace/dangling");
    for path in ["relative", "absolute/file", "d/up", "absolute/up"] {
        assert_eq!(read(&mut files, path).unwrap(), b"inside", "{path}");
    }
    write(&mut files, "dangling", b"made", WriteHow::Replace).unwrap();
    assert_eq!(read(&mut files, "d/later").unwrap(), b"made");

    for (number, target) in
        ["/tmp/outside", "../tmp/outside", "/workspacex", "/", "..", "d/../../tmp/outside"].iter().enumerate()
    {
        let name = format!("out{number}");
        link(&mut files, target, &format!("workspace/{name}"));
        for path in [name.clone(), format!("{name}/x")] {
            assert_eq!(read(&mut files, &path), Err(FileErrorCode::InvalidPath), "{target}");
            assert_eq!(
                code(write(&mut files, &path, b"x", WriteHow::Replace)),
                FileErrorCode::InvalidPath,
                "{target}"
            );
        }
        let stat = FileOp::Stat { path: name.clone(), follow: false };
        assert!(
            matches!(files.operate(PLACE, stat), Ok(FileReply::Stat(stat)) if stat.kind == FileKind::Link)
        );
        let told = files.operate(PLACE, FileOp::ReadLink { path: name.clone() }).unwrap();
        assert_eq!(told, FileReply::Contents(target.as_bytes().to_vec()));
        remove(&mut files, &name).unwrap();
    }
    link(&mut files, "loop", "workspace/loop");
    assert_eq!(read(&mut files, "loop"), Err(FileErrorCode::InvalidPath));
    assert_eq!(files.read_file("/tmp/outside").unwrap(), b"outside");
}

#[test]
fn what_is_mounted_for_reading_can_be_read() {
    let host = scratch();
    std::fs::write(host.path().join("SKILL.md"), "how").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", host.path().join("out")).unwrap();
    let mut files = workspace();
    files.mount_directory("/workspace/.skills/system", open_host(&host), Access::ReadOnly).unwrap();
    assert_eq!(read(&mut files, ".skills/system/SKILL.md").unwrap(), b"how");
    let stat = FileOp::Stat { path: ".skills/system/SKILL.md".into(), follow: true };
    assert!(
        matches!(files.operate(PLACE, stat), Ok(FileReply::Stat(stat)) if stat.read_only && stat.size == 3)
    );
    use FileErrorCode::PermissionDenied;
    assert_eq!(code(write(&mut files, ".skills/system/SKILL.md", b"x", WriteHow::Replace)), PermissionDenied);
    assert_eq!(code(write(&mut files, ".skills/system/new", b"x", WriteHow::Create)), PermissionDenied);
    assert_eq!(code(remove(&mut files, ".skills/system/SKILL.md")), PermissionDenied);
    assert_eq!(code(remove(&mut files, ".skills/system")), PermissionDenied);
    assert_eq!(code(rename(&mut files, ".skills", "moved")), PermissionDenied);
    assert_eq!(read(&mut files, ".skills/system/out"), Err(PermissionDenied));
    let set = FileOp::Set { path: ".skills/system/SKILL.md".into(), executable: None, modified_ns: Some(1) };
    assert_eq!(code(files.operate(PLACE, set)), PermissionDenied);
}

#[test]
fn times_are_set_and_a_guest_without_room_for_handles_is_no_hindrance() {
    let mut files = workspace();
    write(&mut files, "f", b"x", WriteHow::Create).unwrap();
    let root = files.root().unwrap();
    while files.open_at(root, "workspace/f", OpenOptions::reading()).is_ok() {}
    let set = FileOp::Set { path: "f".into(), executable: Some(true), modified_ns: Some(1_500_000_000) };
    files.operate(PLACE, set).unwrap();
    let stat = files.operate(PLACE, FileOp::Stat { path: "f".into(), follow: false }).unwrap();
    assert!(matches!(stat, FileReply::Stat(stat) if stat.modified_ns == 1_500_000_000 && !stat.executable));
    assert_eq!(names(&mut files, "").len(), 1);
    remove(&mut files, "f").unwrap();
}

#[test]
fn links_into_mounts_that_can_only_be_read_are_followed() {
    let (shelf, other) = (scratch(), scratch());
    std::fs::create_dir(shelf.path().join("data")).unwrap();
    std::fs::write(shelf.path().join("data/x.parquet"), "PAR1").unwrap();
    std::fs::write(other.path().join("f"), "other").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", shelf.path().join("data/out")).unwrap();
    let mut files = workspace();
    files.mount_directory("/shelf", open_host(&shelf), Access::ReadOnly).unwrap();
    files.mount_directory("/other", open_host(&other), Access::ReadWrite).unwrap();
    write(&mut files, "own", b"own", WriteHow::Create).unwrap();
    let make = |files: &mut FileSystem, path: &str, target: &str| {
        files.operate(PLACE, FileOp::MakeLink { path: path.into(), target: target.into() }).unwrap();
    };
    make(&mut files, "data/x.parquet", "/shelf/data/x.parquet");
    make(&mut files, "shelved", "/shelf/data");
    make(&mut files, "all", "/shelf/");
    for path in ["data/x.parquet", "shelved/x.parquet", "all/data/x.parquet"] {
        assert_eq!(read(&mut files, path).unwrap(), b"PAR1", "{path}");
        let stat = files.operate(PLACE, FileOp::Stat { path: path.into(), follow: true });
        assert!(matches!(stat, Ok(FileReply::Stat(stat)) if stat.read_only && stat.size == 4), "{path}");
    }
    assert_eq!(names(&mut files, "shelved").len(), 2);
    use FileErrorCode::{InvalidPath, PermissionDenied};
    for path in ["data/x.parquet", "shelved/x.parquet", "shelved/new"] {
        assert_eq!(code(write(&mut files, path, b"x", WriteHow::Replace)), PermissionDenied, "{path}");
        assert_eq!(code(write(&mut files, path, b"x", WriteHow::Append)), PermissionDenied, "{path}");
    }
    assert_eq!(code(remove(&mut files, "shelved/x.parquet")), PermissionDenied);
    assert!(rename(&mut files, "own", "shelved/own").is_err());
    assert_eq!(read(&mut files, "shelved/out"), Err(PermissionDenied));
    for (number, target) in
        ["/other/f", "/shelf/../tmp/outside", "/shelfx", "/tmp/outside"].iter().enumerate()
    {
        let name = format!("out{number}");
        make(&mut files, &name, target);
        assert_eq!(read(&mut files, &name), Err(InvalidPath), "{target}");
        assert_eq!(code(write(&mut files, &name, b"x", WriteHow::Replace)), InvalidPath, "{target}");
    }
    assert_eq!(std::fs::read(shelf.path().join("data/x.parquet")).unwrap(), b"PAR1");
    assert_eq!(std::fs::read_dir(shelf.path().join("data")).unwrap().count(), 2);
}
