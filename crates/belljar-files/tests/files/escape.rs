//! No path, link, race or special file leads out of a mount.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use belljar_files::{Access, Errno, FileType, OpenOptions, SetTime};
use rustix::fs::{FileType as HostType, Mode};

use crate::{READ, WRITE, mounted, names, scratch};

#[test]
fn dots_stop_at_the_guests_root() {
    let (mut files, root, host) = mounted(Access::ReadWrite);
    std::fs::create_dir(host.path().join("d")).unwrap();
    files.write_file("/inside", b"memory").unwrap();
    for path in [
        "mount/../../../../../../etc/passwd",
        "mount/d/../../../../etc/passwd",
        "/../etc/passwd",
        "../../etc/passwd",
    ] {
        assert_eq!(files.open_at(root, path, READ), Err(Errno::NoEntry), "{path}");
    }
    let directory = files.open_at(root, "mount/d", READ).unwrap();
    for path in ["../../inside", "../../../inside", "../d/../../inside", "/inside"] {
        let file = files.open_at(directory, path, READ).unwrap();
        let mut buffer = [0; 6];
        files.read(file, 0, &mut buffer).unwrap();
        assert_eq!(&buffer, b"memory");
    }
    assert_eq!(names(&mut files, root), ["inside", "mount"]);
}

#[test]
fn links_in_a_mount_lead_nowhere_else() {
    let (mut files, root, host) = mounted(Access::ReadWrite);
    let outside = scratch();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    let at = |name: &str| host.path().join(name);
    symlink("/etc/passwd", at("absolute")).unwrap();
    symlink("/etc", at("absolute-directory")).unwrap();
    symlink(format!("../{name}/secret"), at("upwards")).unwrap();
    symlink(format!("../{name}"), at("upwards-directory")).unwrap();
    symlink(format!("../{name}/new"), at("dangling")).unwrap();
    symlink("/proc/self/root", at("magic")).unwrap();
    for path in
        ["absolute", "absolute-directory/passwd", "upwards", "upwards-directory/secret", "magic/etc/passwd"]
    {
        let path = format!("mount/{path}");
        for options in [READ, WRITE, OpenOptions::writing()] {
            let error = files.open_at(root, &path, options).unwrap_err();
            assert!(matches!(error, Errno::NotPermitted | Errno::Access), "{path}: {error}");
        }
        assert_eq!(files.stat_at(root, &path, true), Err(Errno::NotPermitted));
        let times = files.set_times_at(root, &path, true, SetTime::Now, SetTime::Now);
        assert_eq!(times, Err(Errno::NotPermitted));
    }
    for path in ["absolute-directory", "upwards-directory", "magic"] {
        for path in [format!("mount/{path}/x"), format!("mount/{path}/../x")] {
            assert!(files.open_at(root, &path, WRITE).is_err());
            assert!(files.make_directory_at(root, &path).is_err());
            assert!(files.symlink_at("x", root, &path).is_err());
            files.write_file("/mount/own", b"").unwrap();
            assert!(files.rename_at(root, "mount/own", root, &path).is_err());
            assert!(files.link_at(root, "mount/own", true, root, &path).is_err());
            assert!(files.unlink_at(root, &path).is_err());
        }
    }
    assert_eq!(files.open_at(root, "mount/dangling", OpenOptions::writing()), Err(Errno::NotPermitted));
    let stolen = files.link_at(root, "mount/upwards", true, root, "mount/stolen");
    assert_eq!(stolen, Err(Errno::NotPermitted));
    assert_eq!(files.read_link_at(root, "mount/absolute"), Err(Errno::NotPermitted));
    assert_eq!(files.symlink_at("/etc/passwd", root, "mount/mine"), Err(Errno::NotPermitted));
    let left: Vec<_> = std::fs::read_dir(outside.path()).unwrap().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"secret");
}

#[test]
fn links_within_a_mount_are_followed() {
    let (mut files, root, host) = mounted(Access::ReadOnly);
    std::fs::create_dir_all(host.path().join("a/b")).unwrap();
    std::fs::write(host.path().join("a/f"), "found").unwrap();
    symlink("a/b", host.path().join("link")).unwrap();
    symlink("../link/../f", host.path().join("a/round")).unwrap();
    for path in ["mount/a/round", "mount/link/../f", "mount/link/../../../mount/a/f"] {
        assert_eq!(files.read_file(&format!("/{path}")).unwrap(), b"found");
    }
    assert_eq!(files.read_link_at(root, "mount/link").unwrap(), "a/b");
    assert_eq!(
        files.open_at(root, "mount/link", OpenOptions { follow_symlinks: false, ..READ }),
        Err(Errno::Loop)
    );
    // A link in memory may lead into a mount.
    files.symlink_at("/mount/a", root, "into").unwrap();
    assert_eq!(files.read_file("/into/f").unwrap(), b"found");
    assert_eq!(files.read_file("/into/../a/f").unwrap(), b"found");
}

#[test]
fn special_files_neither_hang_nor_open() {
    let (mut files, root, host) = mounted(Access::ReadWrite);
    let directory = std::fs::File::open(host.path()).unwrap();
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(&directory, "fifo", HostType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(host.path().join("socket")).unwrap();
    let begin = Instant::now();
    for path in ["mount/fifo", "mount/socket"] {
        let write_only = OpenOptions { read: false, ..WRITE };
        for options in [READ, WRITE, write_only, OpenOptions::writing()] {
            assert_eq!(files.open_at(root, path, options), Err(Errno::NotSupported));
        }
        let metadata = files.stat_at(root, path, true).unwrap();
        assert_eq!(metadata.file_type, FileType::Other);
        let times = files.set_times_at(root, path, true, SetTime::Now, SetTime::Now);
        assert_eq!(times, Err(Errno::NotSupported));
    }
    assert!(begin.elapsed() < Duration::from_secs(2));
    let mount = files.open_at(root, "mount", READ).unwrap();
    let listed: Vec<_> = files.read_directory(mount).unwrap().collect();
    assert!(listed.iter().all(|entry| entry.file_type == FileType::Other));
    files.unlink_at(root, "mount/fifo").unwrap();
}

#[test]
fn a_directory_that_turns_into_a_link_leads_nowhere() {
    let (mut files, root, host) = mounted(Access::ReadWrite);
    let outside = scratch();
    std::fs::write(outside.path().join("f"), "secret").unwrap();
    let (swap, real) = (host.path().join("swap"), host.path().join("real"));
    std::fs::create_dir(&real).unwrap();
    std::fs::write(real.join("f"), "public").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = std::fs::rename(&real, &swap);
                let _ = std::fs::rename(&swap, &real);
                let _ = symlink(outside.path(), &swap);
                let _ = std::fs::remove_file(&swap);
            }
        });
        for _ in 0..3000 {
            for path in ["/mount/swap/f", "/mount/swap/../swap/f"] {
                if let Ok(contents) = files.read_file(path) {
                    assert_eq!(contents, b"public");
                }
            }
            let _ = files.open_at(root, "mount/swap/new", WRITE).map(|file| files.close(file));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(!outside.path().join("new").exists());
}
