//! A clone is a snapshot: neither side sees what the other does afterwards.

use std::time::Instant;

use belljar_files::{Errno, FileSystem, Quota};

use crate::{READ, WRITE, memory, names};

#[test]
fn a_clone_and_its_origin_go_their_own_ways() {
    let (mut files, root) = memory();
    files.write_file("/workspace/f", &[1; 200_000]).unwrap();
    let file = files.open_at(root, "workspace/f", WRITE).unwrap();
    let mut fork = files.clone();

    fork.write(file, 100_000, b"fork").unwrap();
    files.set_size(file, 10).unwrap();
    fork.unlink_at(root, "workspace/f").unwrap();
    fork.write_file("/only-fork", b"").unwrap();
    files.rename_at(root, "workspace", root, "moved").unwrap();

    assert_eq!(files.read_file("/moved/f").unwrap(), [1; 10]);
    assert_eq!(files.stat_at(root, "only-fork", true), Err(Errno::NoEntry));
    let mut buffer = [0; 6];
    fork.read(file, 99_999, &mut buffer).unwrap();
    assert_eq!(&buffer, b"\x01fork\x01");
    assert_eq!(fork.stat(file).unwrap().size, 200_000);
    let workspace = fork.open_at(root, "workspace", READ).unwrap();
    assert_eq!(names(&mut fork, workspace), Vec::<String>::new());
}

#[test]
fn handles_and_usage_are_part_of_the_snapshot() {
    let (mut files, root) = memory();
    let file = files.open_at(root, "f", WRITE).unwrap();
    let checkpoint = files.clone();
    files.write(file, 0, &[7; 5000]).unwrap();
    files.close(file).unwrap();
    files.unlink_at(root, "f").unwrap();

    let mut back = checkpoint.clone();
    assert_eq!(back.append(file, b"again"), Ok(5));
    assert_eq!(back.read_file("/f").unwrap(), b"again");
    assert_eq!(back.usage().bytes, checkpoint.usage().bytes + 5);
    assert_eq!(files.take_changes().created, Vec::<String>::new());
    assert_eq!(back.take_changes().created, ["/f"]);
}

#[test]
fn cloning_ten_thousand_files_copies_none_of_them() {
    let (mut files, _) = memory();
    for number in 0..10_000 {
        let path = format!("/workspace/file-{number}");
        files.write_file(&path, b"contents").unwrap();
    }
    let begin = Instant::now();
    let clones: Vec<FileSystem> = (0..1000).map(|_| files.clone()).collect();
    // Copying 10,000 files a thousand times would take a minute; this bound only tells the two apart.
    assert!(begin.elapsed().as_millis() < 200, "{:?}", begin.elapsed());
    drop(clones);
}

#[test]
fn clones_cross_threads() {
    fn is_send_and_sync<T: Send + Sync + 'static>(_: &T) {}
    is_send_and_sync(&FileSystem::new(Quota::default()));
}
