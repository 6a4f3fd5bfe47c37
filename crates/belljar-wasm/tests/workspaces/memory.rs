//! What the host does with a workspace in memory.

use belljar_engine::{Changes, FileErrorCode, FileOp, FileReply, WriteHow};

use super::*;

fn write(guest: &mut dyn Guest, path: &str, contents: &str) -> Result<FileReply, belljar_engine::FileError> {
    let contents = contents.as_bytes().to_vec();
    guest.file(FileOp::Write { path: path.into(), contents, how: WriteHow::Replace })
}

fn read(guest: &mut dyn Guest, path: &str) -> String {
    match guest.file(FileOp::Read { path: path.into(), offset: 0, length: 1000 }).unwrap() {
        FileReply::Contents(contents) => String::from_utf8(contents).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_host_writes_is_there_and_stays_when_a_cell_is_taken_back() {
    for workspace in ["/workspace", "/mnt/threads/a"] {
        let mut guest = boot(GuestSpec { workspace: workspace.to_owned(), ..GuestSpec::default() });
        let guest = guest.as_mut();
        write(guest, "in/put.txt", "one").unwrap();
        assert_eq!(text(guest, "open('in/put.txt').read()"), "'one'");
        write(guest, "in/put.txt", "two").unwrap();
        let report = run(guest, "open('in/put.txt', 'w').write('three')\nimport os\nos._exit(1)");
        assert_eq!(report.status, Status::Exited);
        assert_eq!(read(guest, "in/put.txt"), "two");
        let report = run(guest, "open('in/put.txt').read()");
        assert_eq!(report.value.unwrap().text(), "'two'");
        assert_eq!(report.changes, Changes::default(), "the host's changes aren't the cell's");
        text(guest, "open('out', 'w').write('made')");
        assert_eq!(read(guest, "out"), "made");
    }
}

#[test]
fn the_quota_holds_for_the_host_too() {
    let limits = Limits { file_bytes: 1 << 20, ..Limits::default() };
    let mut guest = boot(GuestSpec { limits, ..GuestSpec::default() });
    write(guest.as_mut(), "small", "kept").unwrap();
    let error = write(guest.as_mut(), "small", &"x".repeat(2 << 20)).unwrap_err();
    assert_eq!(error.code, FileErrorCode::DiskFull);
    assert_eq!(read(guest.as_mut(), "small"), "kept");
}

#[test]
fn files_on_disk_are_not_the_engines_to_hand_out() {
    let directory = TempDir::new().unwrap();
    let mut guest = boot(on_disk(&directory));
    let error = write(guest.as_mut(), "x", "y").unwrap_err();
    assert_eq!(error.code, FileErrorCode::Failed);
    assert!(error.message.contains("directory of the host"), "{error}");
}

#[test]
fn a_small_quota_leaves_room_for_what_everyone_has() {
    let limits = Limits { file_bytes: 0, file_count: 0, ..Limits::default() };
    for workspace in ["/workspace", "/mnt/a/b"] {
        let (limits, directories) = (limits.clone(), vec!["artifacts".to_owned()]);
        let workspace = workspace.to_owned();
        let mut guest = boot(GuestSpec { limits, directories, workspace, ..GuestSpec::default() });
        assert_eq!(text(guest.as_mut(), "import os\nos.listdir('/session')"), "['artifacts']");
        assert_eq!(run(guest.as_mut(), "open('x', 'w')").status, Status::DiskFull);
    }
}
