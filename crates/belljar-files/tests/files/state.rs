//! A file system is data: it survives being written down, with its open handles.

use belljar_files::{
    Access, DirectoryStream, Errno, FileSystem, MountError, with_chunks_apart, with_chunks_from,
};

use crate::{READ, WRITE, memory, mounted, open_host};

fn round_trip(files: &FileSystem) -> FileSystem {
    serde_json::from_str(&serde_json::to_string(files).unwrap()).unwrap()
}

#[test]
fn the_tree_handles_and_changes_survive() {
    let (mut files, root) = memory();
    files.write_file("/workspace/f", &[3; 150_000]).unwrap();
    files.take_changes();
    files.symlink_at("f", root, "workspace/link").unwrap();
    let file = files.open_at(root, "workspace/link", WRITE).unwrap();
    files.write(file, 70_000, b"written").unwrap();
    let orphan = files.open_at(root, "orphan", WRITE).unwrap();
    files.write(orphan, 0, b"nameless").unwrap();
    files.unlink_at(root, "orphan").unwrap();

    let mut restored = round_trip(&files);
    assert_eq!(restored.usage(), files.usage());
    let mut buffer = [0; 8];
    assert_eq!(restored.read(orphan, 0, &mut buffer), Ok(8));
    assert_eq!(&buffer, b"nameless");
    restored.read(file, 70_000, &mut buffer).unwrap();
    assert_eq!(&buffer, b"written\x03");
    restored.append(file, b"end").unwrap();
    assert_eq!(restored.read_file("/workspace/f").unwrap().len(), 150_003);
    let changes = restored.take_changes();
    assert_eq!(changes.created, ["/workspace/link"]);
    assert_eq!(changes.modified, ["/workspace/f"]);
    restored.close(orphan).unwrap();
    assert_eq!(restored.usage().files + 1, files.usage().files);
    let fresh = restored.open_at(root, "workspace/f", READ).unwrap();
    assert!(fresh > orphan, "numbers go on where they were");
}

#[test]
fn host_handles_open_again_when_the_mount_is_attached() {
    let (mut files, root, host) = mounted(Access::ReadWrite);
    files.write_file("/mount/f", b"host file").unwrap();
    files.write_file("/mount/gone", b"").unwrap();
    files.make_directories("/mount/d").unwrap();
    let file = files.open_at(root, "mount/f", WRITE).unwrap();
    let gone = files.open_at(root, "mount/gone", READ).unwrap();
    let unlinked = files.open_at(root, "mount/unlinked", WRITE).unwrap();
    files.unlink_at(root, "mount/unlinked").unwrap();
    let directory = files.open_at(root, "mount/d", READ).unwrap();

    let mut restored = round_trip(&files);
    let info = restored.mounts();
    assert_eq!(info[0].guest_path, "/mount");
    assert!(!info[0].attached && files.mounts()[0].attached);
    assert_eq!(restored.read(file, 0, &mut [0]), Err(Errno::Io));
    assert_eq!(restored.stat_at(root, "mount/f", true), Err(Errno::Io));

    assert_eq!(
        restored.attach("/other", open_host(&host), Access::ReadWrite),
        Err(MountError::Unknown { path: "/other".into() })
    );
    restored.attach("/mount", open_host(&host), Access::ReadWrite).unwrap();
    std::fs::remove_file(host.path().join("gone")).unwrap();
    let mut buffer = [0; 9];
    assert_eq!(restored.read(file, 0, &mut buffer), Ok(9));
    assert_eq!(&buffer, b"host file");
    restored.append(file, b"!").unwrap();
    assert_eq!(restored.read(gone, 0, &mut buffer), Err(Errno::Io));
    assert_eq!(restored.read(unlinked, 0, &mut buffer), Err(Errno::Io));
    restored.open_at(directory, "new", WRITE).unwrap();
    for handle in [file, gone, unlinked, directory] {
        restored.close(handle).unwrap();
    }
}

#[test]
fn a_half_read_directory_goes_on() {
    let (mut files, root, _host) = mounted(Access::ReadWrite);
    for name in ["a", "b", "c"] {
        files.write_file(&format!("/{name}"), b"").unwrap();
        files.write_file(&format!("/mount/{name}"), b"").unwrap();
    }
    let mount = files.open_at(root, "mount", READ).unwrap();
    for (directory, expected) in [(root, vec!["b", "c", "mount"]), (mount, vec!["b", "c"])] {
        let mut stream = files.read_directory(directory).unwrap();
        stream.next().unwrap();
        let text = serde_json::to_string(&stream).unwrap();
        let rest: DirectoryStream = serde_json::from_str(&text).unwrap();
        let rest: Vec<_> = rest.map(|entry| entry.name).collect();
        assert_eq!(rest, expected);
    }
}

#[test]
fn a_damaged_state_answers_errors() {
    let (mut files, root) = memory();
    files.write_file("/workspace/f", b"x").unwrap();
    let file = files.open_at(root, "workspace/f", WRITE).unwrap();
    let mut state: serde_json::Value = serde_json::to_value(&files).unwrap();
    let inodes = state["tree"]["inodes"].as_object_mut().unwrap();
    let lost: Vec<String> = inodes.keys().filter(|key| *key != "1").cloned().collect();
    for key in lost {
        inodes.remove(&key);
    }
    let mut damaged: FileSystem = serde_json::from_value(state).unwrap();
    assert_eq!(damaged.read_file("/workspace/f"), Err(Errno::Io));
    assert_eq!(damaged.write(file, 0, b"y"), Err(Errno::Io));
    assert_eq!(damaged.rename_at(root, "workspace", root, "w"), Err(Errno::Io));
    damaged.close(file).unwrap();
}

#[test]
fn contents_travel_apart_and_once() {
    let (mut files, _) = memory();
    files.write_file("/workspace/a", &[7; 100_000]).unwrap();
    files.write_file("/workspace/b", b"short").unwrap();
    let older = files.clone();
    files.write_file("/workspace/b", b"other").unwrap();
    let (texts, chunks) = with_chunks_apart(|| [&files, &older].map(|it| serde_json::to_string(it).unwrap()));
    // Two of `a`, and one for each `b`: what the two share is there once.
    assert_eq!(chunks.len(), 4);
    assert!(texts.iter().all(|text| text.len() < 4096));
    let [mut files, mut older]: [FileSystem; 2] =
        with_chunks_from(chunks, || texts.map(|text| serde_json::from_str(&text).unwrap()));
    assert!(files.is_sound() && older.is_sound());
    assert_eq!(files.read_file("/workspace/a").unwrap(), [7; 100_000]);
    assert_eq!(files.read_file("/workspace/b").unwrap(), b"other");
    assert_eq!(older.read_file("/workspace/b").unwrap(), b"short");
}

#[test]
fn a_chunk_that_is_not_there_is_an_error() {
    let (mut files, _) = memory();
    files.write_file("/workspace/a", b"contents").unwrap();
    let (text, _) = with_chunks_apart(|| serde_json::to_string(&files).unwrap());
    assert!(with_chunks_from(Vec::new(), || serde_json::from_str::<FileSystem>(&text)).is_err());
}

#[test]
fn what_does_not_fit_together_is_not_sound() {
    let (mut files, _) = memory();
    files.write_file("/workspace/a", &[1; 10]).unwrap();
    assert!(files.is_sound());
    let text = serde_json::to_string(&files).unwrap();
    for (right, wrong) in [
        (r#""size":10"#, r#""size":1152921504606846976"#),
        (r#""size":10"#, r#""size":5"#),
        (r#""links":1"#, r#""links":2"#),
        (r#""name":"workspace""#, r#""name":"elsewhere""#),
    ] {
        assert!(text.contains(right), "{right}");
        if let Ok(damaged) = serde_json::from_str::<FileSystem>(&text.replacen(right, wrong, 1)) {
            assert!(!damaged.is_sound(), "{wrong}");
        }
    }
}

#[test]
fn keeping_an_older_one_costs_what_changed_since() {
    let (mut files, _) = memory();
    files.write_file("/workspace/a", &[1; 200_000]).unwrap();
    files.write_file("/workspace/b", &[1; 1000]).unwrap();
    let older = files.clone();
    assert_eq!(older.retained(&files), 0);
    files.write_file("/workspace/c", &[1; 50_000]).unwrap();
    assert_eq!(older.retained(&files), 0);
    files.write_file("/workspace/b", b"new").unwrap();
    assert_eq!(older.retained(&files), 1000);
    let root = files.root().unwrap();
    files.unlink_at(root, "workspace/a").unwrap();
    assert_eq!(older.retained(&files), 201_000);
}

#[test]
fn what_is_attached_for_reading_cannot_be_written_through_old_handles() {
    let (mut files, root, host) = mounted(Access::ReadWrite);
    let handle = files.open_at(root, "mount/a", WRITE).unwrap();
    files.write(handle, 0, b"before").unwrap();
    let mut restored = round_trip(&files);
    restored.attach("/mount", open_host(&host), Access::ReadOnly).unwrap();
    assert_eq!(restored.write(handle, 0, b"after").unwrap_err(), Errno::BadDescriptor);
    assert!(restored.open_at(root, "mount/b", WRITE).is_err());
    assert_eq!(restored.read_file("/mount/a").unwrap(), b"before");
}
