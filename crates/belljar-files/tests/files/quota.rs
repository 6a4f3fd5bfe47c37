//! What a guest can use is bounded, whatever it tries.

use belljar_files::{Access, Errno, FileSystem, Quota};

use crate::{READ, WRITE, memory, mounted, open_host, scratch};

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn a_million_files_are_refused_before_they_cost_much() {
    let before = resident_bytes();
    let (mut files, root) = memory();
    let mut made = 0;
    let mut refused = 0;
    for number in 0..1_000_000 {
        match files.make_directory_at(root, &format!("workspace/{number}")) {
            Ok(()) => made += 1,
            Err(errno) => {
                assert_eq!(errno, Errno::NoSpace);
                refused += 1;
            }
        }
        if refused > 1000 {
            break;
        }
    }
    for number in 0..made {
        // Each directory's first name is what costs most.
        let _ = files.symlink_at("x", root, &format!("workspace/{number}/x"));
    }
    let quota = files.quota();
    assert!(files.usage().bytes <= quota.bytes);
    assert!(files.usage().files <= quota.files);
    // Other tests run beside this one, so the bound is wide: twice the quota.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 2 * quota.bytes + (64 << 20), "{grown}");
}

#[test]
fn the_charge_covers_what_files_cost() {
    const SHAPE: &str = "BELLJAR_FILES_SHAPE";
    if let Ok(shape) = std::env::var(SHAPE) {
        return charge_covers(&shape);
    }
    for shape in ["empty", "small", "links", "directories"] {
        // In a process of its own, so that nothing else allocates.
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "quota::the_charge_covers_what_files_cost"])
            .env(SHAPE, shape)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
    }
}

fn charge_covers(shape: &str) {
    let before = resident_bytes();
    let (mut files, root) = memory();
    files.write_file("/origin", b"").unwrap();
    for number in 0..20_000 {
        let path = format!("workspace/{number}");
        let result = match shape {
            "empty" => files.open_at(root, &path, WRITE).and_then(|file| files.close(file)),
            "small" => files.write_file(&format!("/{path}"), b"!"),
            "links" => files.link_at(root, "origin", false, root, &path),
            _ => files
                .make_directory_at(root, &path)
                .and_then(|()| files.symlink_at("x", root, &format!("{path}/x"))),
        };
        result.unwrap();
    }
    files.take_changes();
    let grown = resident_bytes().saturating_sub(before);
    let charged = files.usage().bytes;
    // What is counted beside the files: the test's own code and the change list, now freed.
    let beside = 3 << 20;
    assert!(grown <= charged + beside, "{shape}: {grown} of {charged}");
}

#[test]
fn bytes_are_charged_and_credited() {
    let (mut files, root) = memory();
    let file = files.open_at(root, "f", WRITE).unwrap();
    let empty = files.usage().bytes;
    files.write(file, 1000, b"x").unwrap();
    assert_eq!(files.usage().bytes, empty + 1001);
    files.write(file, 0, b"within").unwrap();
    assert_eq!(files.usage().bytes, empty + 1001);
    files.set_size(file, 10).unwrap();
    assert_eq!(files.usage().bytes, empty + 10);
    let room = files.quota().bytes - files.usage().bytes;
    assert_eq!(files.set_size(file, 10 + room + 1), Err(Errno::NoSpace));
    files.set_size(file, 10 + room).unwrap();
    assert_eq!(files.append(file, b"x"), Err(Errno::NoSpace));
    assert_eq!(files.make_directory_at(root, "d"), Err(Errno::NoSpace));
    assert_eq!(files.write(file, 0, b"overwriting is free"), Ok(19));
}

#[test]
fn a_file_that_does_not_fit_keeps_its_old_contents() {
    let (mut files, _) = memory();
    files.write_file("/f", b"old").unwrap();
    let room = files.quota().bytes as usize;
    assert_eq!(files.write_file("/f", &vec![0; room]), Err(Errno::NoSpace));
    assert_eq!(files.read_file("/f").unwrap(), b"old");
}

#[test]
fn handles_are_bounded() {
    let (mut files, root) = memory();
    files.write_file("/f", b"").unwrap();
    let mut last = root;
    let error = loop {
        match files.open_at(root, "f", READ) {
            Ok(handle) => last = handle,
            Err(errno) => break errno,
        }
    };
    assert_eq!(error, Errno::TooManyOpen);
    assert_eq!(files.open_at(root, "new", WRITE), Err(Errno::TooManyOpen));
    assert_eq!(files.stat_at(root, "new", true), Err(Errno::NoEntry));
    assert_eq!(files.read_file("/f").unwrap(), b"", "the host still can");
    files.close(last).unwrap();
    files.open_at(root, "f", READ).unwrap();
}

#[test]
fn growth_of_mounts_is_charged_too() {
    let host = scratch();
    std::fs::write(host.path().join("old"), [0; 5000]).unwrap();
    let mut files = FileSystem::new(Quota { bytes: 10_000, files: 3, ..Quota::default() });
    files.mount_directory("/mount", open_host(&host), Access::ReadWrite).unwrap();
    let root = files.root().unwrap();
    let start = files.usage();
    let file = files.open_at(root, "mount/f", WRITE).unwrap();
    let ten_terabytes = 10 << 40;
    assert_eq!(files.set_size(file, ten_terabytes), Err(Errno::NoSpace));
    assert_eq!(files.write(file, ten_terabytes, b"x"), Err(Errno::NoSpace));
    assert_eq!(std::fs::metadata(host.path().join("f")).unwrap().len(), 0);
    files.write(file, 0, &[1; 2000]).unwrap();
    assert_eq!(files.usage().bytes, start.bytes + 2000);
    assert_eq!(files.usage().files, start.files + 1);
    files.make_directory_at(root, "mount/d").unwrap();
    assert_eq!(files.open_at(root, "mount/g", WRITE), Err(Errno::NoSpace));
    assert!(!host.path().join("g").exists());

    // An unlinked file counts until it is closed, by whatever name it was unlinked.
    files.remove_directory_at(root, "mount/d").unwrap();
    files.unlink_at(root, "mount/f").unwrap();
    assert_eq!(files.usage().bytes, start.bytes + 2000);
    files.close(file).unwrap();
    assert_eq!(files.usage(), start);

    // What the host had before doesn't make room in memory.
    files.unlink_at(root, "mount/old").unwrap();
    assert_eq!(files.usage(), start);
}

#[test]
fn host_descriptors_are_bounded_and_come_back() {
    let (mut files, root, host) = mounted(Access::ReadOnly);
    let mut handles = Vec::new();
    for number in 0..300 {
        std::fs::write(host.path().join(number.to_string()), number.to_string()).unwrap();
        handles.push(files.open_at(root, &format!("mount/{number}"), READ).unwrap());
    }
    for _ in 0..2 {
        for (number, handle) in handles.iter().enumerate() {
            let mut buffer = [0; 8];
            let length = files.read(*handle, 0, &mut buffer).unwrap();
            assert_eq!(&buffer[..length], number.to_string().as_bytes());
        }
    }
    let inside = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.starts_with(host.path()))
        .count();
    assert!(inside <= 65, "{inside}");
}
