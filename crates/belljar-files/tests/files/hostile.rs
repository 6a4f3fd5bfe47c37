//! Numbers and names that no honest program would say.

use belljar_files::{Access, Errno, FileSystem, Handle, OpenOptions, SetTime, Timestamp};

use crate::{READ, WRITE, memory, mounted};

const SIZES: [u64; 6] =
    [u64::MAX, u64::MAX - 1, i64::MAX as u64 + 1, i64::MAX as u64, i64::MAX as u64 - 1, 10 << 40];

fn refuses_hostile_offsets(files: &mut FileSystem, file: Handle) {
    files.write(file, 0, b"calm").unwrap();
    for size in SIZES {
        let expected = [Errno::NoSpace, Errno::TooLarge, Errno::Invalid];
        for data in [&b"x"[..], &[0; 70_000]] {
            assert!(expected.contains(&files.write(file, size, data).unwrap_err()));
        }
        assert!(expected.contains(&files.set_size(file, size).unwrap_err()));
        let read = files.read(file, size, &mut [0; 100]);
        assert!(matches!(read, Ok(0) | Err(Errno::Invalid)), "{read:?}");
        assert_eq!(files.write(file, i64::MAX as u64, b""), Ok(0));
    }
    assert_eq!(files.stat(file).unwrap().size, 4);
    assert_eq!(files.read(file, 4, &mut [0; 4]), Ok(0));
    assert_eq!(files.read(file, 0, &mut []), Ok(0));
}

#[test]
fn hostile_offsets_are_refused_in_memory() {
    let (mut files, root) = memory();
    let file = files.open_at(root, "f", WRITE).unwrap();
    let before = files.usage().bytes;
    refuses_hostile_offsets(&mut files, file);
    assert_eq!(files.usage().bytes, before + 4);
}

#[test]
fn hostile_offsets_are_refused_in_mounts() {
    let (mut files, root, _host) = mounted(Access::ReadWrite);
    let file = files.open_at(root, "mount/f", WRITE).unwrap();
    let before = files.usage().bytes;
    refuses_hostile_offsets(&mut files, file);
    assert_eq!(files.usage().bytes, before + 4);
}

#[test]
fn a_hole_is_charged_in_full_and_costs_nothing_to_make() {
    let (mut files, root) = memory();
    let file = files.open_at(root, "f", WRITE).unwrap();
    let before = files.usage().bytes;
    files.write(file, 50 << 20, b"x").unwrap();
    assert_eq!(files.usage().bytes, before + (50 << 20) + 1);
    let mut buffer = [9; 3];
    assert_eq!(files.read(file, (50 << 20) - 2, &mut buffer), Ok(3));
    assert_eq!(&buffer, b"\0\0x");
}

#[test]
fn hostile_paths_are_refused() {
    let (mut files, root, _host) = mounted(Access::ReadWrite);
    for prefix in ["", "mount/"] {
        let long_name = format!("{prefix}{}", "n".repeat(256));
        let long_path = format!("{prefix}{}", "a/".repeat(2500));
        let nul = format!("{prefix}a\0b");
        for (path, errno) in [
            (long_name.as_str(), Errno::NameTooLong),
            (&long_path, Errno::NameTooLong),
            (&nul, Errno::Invalid),
        ] {
            assert_eq!(files.open_at(root, path, READ), Err(errno));
            assert_eq!(files.open_at(root, path, WRITE), Err(errno));
            assert_eq!(files.stat_at(root, path, false), Err(errno));
            assert_eq!(files.make_directory_at(root, path), Err(errno));
            assert_eq!(files.symlink_at("x", root, path), Err(errno));
            assert_eq!(files.rename_at(root, "mount", root, path), Err(errno));
            assert_eq!(files.unlink_at(root, path), Err(errno));
        }
        let just = format!("{prefix}{}", "n".repeat(255));
        files.make_directory_at(root, &just).unwrap();
    }
    assert_eq!(files.open_at(root, "", READ), Err(Errno::NoEntry));
    assert_eq!(files.symlink_at("", root, "link"), Err(Errno::NoEntry));
    let long = "t".repeat(5000);
    assert_eq!(files.symlink_at(&long, root, "link"), Err(Errno::NameTooLong));
    assert_eq!(files.symlink_at("a\0", root, "link"), Err(Errno::Invalid));
}

#[test]
fn links_that_multiply_are_cut_short() {
    let (mut files, root) = memory();
    // Each link doubles the walk; without a bound on hops this would never end.
    files.make_directory_at(root, "link0").unwrap();
    for number in 1..=60 {
        let previous = format!("/link{}", number - 1);
        let target = format!("{previous}/..{previous}");
        files.symlink_at(&target, root, &format!("link{number}")).unwrap();
    }
    assert_eq!(files.stat_at(root, "link60", true), Err(Errno::Loop));
    assert!(files.stat_at(root, "link3", true).is_ok());
}

#[test]
fn a_tree_deeper_than_any_path_works_and_ends() {
    let (mut files, root) = memory();
    let mut directory = root;
    for _ in 0..5000 {
        files.make_directory_at(directory, "d").unwrap();
        let deeper = files.open_at(directory, "d", READ).unwrap();
        files.close(directory).unwrap();
        directory = deeper;
    }
    let file = files.open_at(directory, "f", WRITE).unwrap();
    files.write(file, 0, b"deep").unwrap();
    files.rename_at(directory, "f", directory, "g").unwrap();
    assert_eq!(files.rename_at(directory, "/d", directory, "loop"), Err(Errno::Invalid));
    files.rename_at(directory, "/d", directory, "/e").unwrap();
    assert!(files.take_changes().truncated);
}

#[test]
fn contradictory_options_are_refused() {
    let (mut files, root) = memory();
    let blind_truncation = OpenOptions { truncate: true, ..READ };
    let new_directory = OpenOptions { directory: true, ..WRITE };
    for options in [blind_truncation, new_directory] {
        assert_eq!(files.open_at(root, "f", options), Err(Errno::Invalid));
    }
}

#[test]
fn any_time_can_be_set() {
    let (mut files, root, _host) = mounted(Access::ReadWrite);
    for path in ["mount/f", "f"] {
        let file = files.open_at(root, path, WRITE).unwrap();
        files.symlink_at("f", root, &format!("{path}-link")).unwrap();
        for seconds in [i64::MIN, -1, 0, i64::MAX] {
            let time = SetTime::At(Timestamp { seconds, nanoseconds: 999_999_999 });
            let _ = files.set_times(file, time, time);
            let _ = files.set_times_at(root, path, true, time, time);
            let _ = files.set_times_at(root, &format!("{path}-link"), false, time, time);
            files.stat(file).unwrap();
            files.stat_at(root, &format!("{path}-link"), false).unwrap();
        }
    }
}
