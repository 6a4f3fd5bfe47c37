//! What Unix programs expect of files in memory. `model.rs` compares with Linux itself; here are the
//! parts that it doesn't reach.

use belljar_files::{Errno, FileType, Handle, OpenOptions, SetTime, Timestamp};

use crate::{READ, WRITE, memory, names};

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 5 }
}

#[test]
fn an_unlinked_file_lives_as_long_as_its_handles() {
    let (mut files, root) = memory();
    let before = files.usage();
    let one = files.open_at(root, "f", WRITE).unwrap();
    let two = files.open_at(root, "f", READ).unwrap();
    files.write(one, 0, b"still here").unwrap();
    files.unlink_at(root, "f").unwrap();
    assert_eq!(files.stat_at(root, "f", true), Err(Errno::NoEntry));
    assert_eq!(files.stat(one).unwrap().links, 0);
    files.close(one).unwrap();
    let mut buffer = [0; 20];
    assert_eq!(files.read(two, 6, &mut buffer), Ok(4));
    assert_eq!(&buffer[..4], b"here");
    files.close(two).unwrap();
    assert_eq!(files.usage(), before);
}

#[test]
fn a_removed_directory_takes_no_new_names() {
    let (mut files, root) = memory();
    files.make_directory_at(root, "d").unwrap();
    let directory = files.open_at(root, "d", READ).unwrap();
    files.remove_directory_at(root, "d").unwrap();
    assert_eq!(names(&mut files, directory), Vec::<String>::new());
    assert_eq!(files.open_at(directory, "f", WRITE), Err(Errno::NoEntry));
    assert_eq!(files.make_directory_at(directory, "e"), Err(Errno::NoEntry));
    files.write_file("/f", b"").unwrap();
    assert_eq!(files.rename_at(root, "f", directory, "f"), Err(Errno::NoEntry));
}

#[test]
fn handles_are_not_reused_and_stale_ones_are_refused() {
    let (mut files, root) = memory();
    let first = files.open_at(root, "f", WRITE).unwrap();
    files.close(first).unwrap();
    let second = files.open_at(root, "f", WRITE).unwrap();
    assert_ne!(first, second);
    assert_eq!(files.read(first, 0, &mut []), Err(Errno::BadDescriptor));
    assert_eq!(files.close(first), Err(Errno::BadDescriptor));
    assert_eq!(files.stat(Handle(77)), Err(Errno::BadDescriptor));
}

#[test]
fn a_handle_allows_what_it_was_opened_for() {
    let (mut files, root) = memory();
    files.write_file("/f", b"x").unwrap();
    let reading = files.open_at(root, "f", READ).unwrap();
    let writing = files.open_at(root, "f", WRITE).unwrap();
    assert_eq!(files.write(reading, 0, b"y"), Err(Errno::BadDescriptor));
    assert_eq!(files.append(reading, b"y"), Err(Errno::BadDescriptor));
    assert_eq!(files.set_size(reading, 0), Err(Errno::Invalid));
    let write_only = OpenOptions { read: false, ..WRITE };
    let blind = files.open_at(root, "f", write_only).unwrap();
    assert_eq!(files.read(blind, 0, &mut [0]), Err(Errno::BadDescriptor));
    assert_eq!(files.read(root, 0, &mut [0]), Err(Errno::IsDirectory));
    assert_eq!(files.write(root, 0, b"y"), Err(Errno::BadDescriptor));
    assert!(files.access(writing).unwrap().write);
    assert!(files.access(root).unwrap().directory);
    assert_eq!(files.read_directory(writing).err(), Some(Errno::NotDirectory));
    assert_eq!(files.open_at(writing, "x", READ), Err(Errno::NotDirectory));
}

#[test]
fn times_come_from_the_clock_that_was_set() {
    let (mut files, root) = memory();
    files.set_clock(at(100));
    let file = files.open_at(root, "f", WRITE).unwrap();
    files.set_clock(at(200));
    files.write(file, 0, b"x").unwrap();
    let metadata = files.stat(file).unwrap();
    assert_eq!(metadata.accessed, at(100));
    assert_eq!((metadata.modified, metadata.changed), (at(200), at(200)));
    assert_eq!(files.stat(root).unwrap().modified, at(100));

    files.set_clock(at(300));
    files.set_times(file, SetTime::At(at(-7)), SetTime::Keep).unwrap();
    let metadata = files.stat(file).unwrap();
    assert_eq!((metadata.accessed, metadata.modified, metadata.changed), (at(-7), at(200), at(300)));
    files.set_times_at(root, "f", true, SetTime::Now, SetTime::Now).unwrap();
    assert_eq!(files.stat(file).unwrap().accessed, at(300));
    let wrong = Timestamp { seconds: 0, nanoseconds: 1_000_000_000 };
    assert_eq!(files.set_times(file, SetTime::At(wrong), SetTime::Keep), Err(Errno::Invalid));
}

#[test]
fn symbolic_links_may_be_absolute_in_the_guests_own_root() {
    let (mut files, root) = memory();
    files.write_file("/workspace/f", b"through").unwrap();
    files.symlink_at("/workspace", root, "absolute").unwrap();
    files.symlink_at("../../../workspace/f", root, "upwards").unwrap();
    assert_eq!(files.read_file("/absolute/f").unwrap(), b"through");
    assert_eq!(files.read_file("/upwards").unwrap(), b"through");
    assert_eq!(files.read_link_at(root, "absolute").unwrap(), "/workspace");
    assert_eq!(files.stat_at(root, "absolute", false).unwrap().file_type, FileType::Symlink);
    assert_eq!(files.stat_at(root, "absolute/", false).unwrap().file_type, FileType::Directory);
}

#[test]
fn forty_links_are_followed_and_no_more() {
    let (mut files, root) = memory();
    files.write_file("/link0", b"end").unwrap();
    for number in 1..=41 {
        let target = format!("link{}", number - 1);
        files.symlink_at(&target, root, &format!("link{number}")).unwrap();
    }
    assert_eq!(files.read_file("/link40").unwrap(), b"end");
    assert_eq!(files.read_file("/link41"), Err(Errno::Loop));
    files.symlink_at("self", root, "self").unwrap();
    assert_eq!(files.stat_at(root, "self", true), Err(Errno::Loop));
    assert_eq!(files.stat_at(root, "self/x", false), Err(Errno::Loop));
}

#[test]
fn listing_is_sorted_and_survives_changes() {
    let (mut files, root) = memory();
    for name in ["b", "a", "c"] {
        files.write_file(&format!("/{name}"), b"").unwrap();
    }
    let mut stream = files.read_directory(root).unwrap();
    assert_eq!(stream.next().unwrap().name, "a");
    files.unlink_at(root, "b").unwrap();
    files.write_file("/bb", b"").unwrap();
    let rest: Vec<_> = stream.map(|entry| entry.name).collect();
    assert_eq!(rest, ["b", "c", "workspace"]);
    assert_eq!(names(&mut files, root), ["a", "bb", "c", "workspace"]);
}

#[test]
fn read_and_write_of_whole_files() {
    let (mut files, root) = memory();
    files.write_file("/workspace/f", &[1; 100_000]).unwrap();
    files.write_file("/workspace/f", b"shorter").unwrap();
    assert_eq!(files.read_file("/workspace/f").unwrap(), b"shorter");
    assert_eq!(files.read_file("/workspace"), Err(Errno::IsDirectory));
    assert_eq!(files.read_file("/none"), Err(Errno::NoEntry));
    assert_eq!(files.write_file("/no/f", b""), Err(Errno::NoEntry));
    assert_eq!(files.make_directories("/workspace/f/d"), Err(Errno::NotDirectory));
    files.make_directories("/workspace/x/y/z").unwrap();
    files.make_directories("/").unwrap();
    assert_eq!(files.stat_at(root, "workspace", true).unwrap().links, 3);
}
