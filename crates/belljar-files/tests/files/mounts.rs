//! Host directories in the guest's tree.

use belljar_files::{
    Access, Errno, FileSystem, FileType, MountError, OpenOptions, Quota, SetTime, Timestamp,
};

use crate::{READ, WRITE, memory, mounted, names, open_host, scratch};

#[test]
fn a_read_only_mount_can_be_read_and_nothing_else() {
    let (mut files, root, host) = mounted(Access::ReadOnly);
    std::fs::create_dir(host.path().join("d")).unwrap();
    std::fs::write(host.path().join("f"), "library").unwrap();
    assert_eq!(files.read_file("/mount/f").unwrap(), b"library");

    let refused = Err(Errno::ReadOnly);
    for options in [WRITE, OpenOptions::writing()] {
        assert_eq!(files.open_at(root, "mount/f", options), Err(Errno::ReadOnly));
        assert_eq!(files.open_at(root, "mount/new", options), Err(Errno::ReadOnly));
    }
    assert_eq!(files.make_directory_at(root, "mount/new"), refused);
    assert_eq!(files.remove_directory_at(root, "mount/d"), refused);
    assert_eq!(files.unlink_at(root, "mount/f"), refused);
    assert_eq!(files.rename_at(root, "mount/f", root, "mount/g"), refused);
    assert_eq!(files.symlink_at("f", root, "mount/l"), refused);
    assert_eq!(files.link_at(root, "mount/f", true, root, "mount/g"), refused);
    let (now, keep) = (SetTime::Now, SetTime::Keep);
    assert_eq!(files.set_times_at(root, "mount/f", true, now, keep), refused);
    let file = files.open_at(root, "mount/f", READ).unwrap();
    assert_eq!(files.set_times(file, now, keep), refused);
    assert_eq!(files.write(file, 0, b"x"), Err(Errno::BadDescriptor));
    assert_eq!(files.set_size(file, 0), Err(Errno::Invalid));
    assert_eq!(files.sync(file), Ok(()));
    assert_eq!(std::fs::read(host.path().join("f")).unwrap(), b"library");
}

#[test]
fn a_read_write_mount_is_the_hosts_directory() {
    let (mut files, root, host) = mounted(Access::ReadWrite);
    files.make_directories("/mount/a/b").unwrap();
    files.write_file("/mount/a/b/f", b"from the guest").unwrap();
    let on_host = host.path().join("a/b/f");
    assert_eq!(std::fs::read(&on_host).unwrap(), b"from the guest");
    std::fs::write(&on_host, "from the host").unwrap();
    assert_eq!(files.read_file("/mount/a/b/f").unwrap(), b"from the host");
    let file = files.open_at(root, "mount/a/b/f", WRITE).unwrap();
    files.append(file, b"!").unwrap();
    files.sync(file).unwrap();
    let time = Timestamp { seconds: 12345, nanoseconds: 0 };
    files.set_times(file, SetTime::Keep, SetTime::At(time)).unwrap();
    assert_eq!(files.stat(file).unwrap().modified, time);
    assert_eq!(std::fs::read(&on_host).unwrap(), b"from the host!");
}

#[test]
fn handles_follow_renames_in_a_mount() {
    let (mut files, root, _host) = mounted(Access::ReadWrite);
    files.make_directories("/mount/d/e").unwrap();
    files.write_file("/mount/d/e/f", b"moved").unwrap();
    let directory = files.open_at(root, "mount/d/e", READ).unwrap();
    files.rename_at(root, "mount/d", root, "mount/dd").unwrap();
    assert_eq!(names(&mut files, directory), ["f"]);
    assert!(files.open_at(directory, "f", READ).is_ok());
    files.unlink_at(root, "mount/dd/e/f").unwrap();
    files.remove_directory_at(root, "mount/dd/e").unwrap();
    assert_eq!(files.open_at(directory, "f", READ), Err(Errno::NoEntry));
    assert_eq!(files.stat(directory), Err(Errno::NoEntry));
}

#[test]
fn nothing_moves_between_devices() {
    let (mut files, root, _host) = mounted(Access::ReadWrite);
    let other = scratch();
    files.mount_directory("/other", open_host(&other), Access::ReadWrite).unwrap();
    files.write_file("/mount/f", b"").unwrap();
    files.write_file("/g", b"").unwrap();
    let cross = Err(Errno::CrossDevice);
    assert_eq!(files.rename_at(root, "mount/f", root, "other/f"), cross);
    assert_eq!(files.rename_at(root, "mount/f", root, "f"), cross);
    assert_eq!(files.rename_at(root, "g", root, "mount/g"), cross);
    assert_eq!(files.link_at(root, "g", true, root, "mount/g"), cross);
    assert_eq!(files.link_at(root, "mount/f", true, root, "other/g"), cross);
    let device = |files: &mut FileSystem, path| files.stat_at(root, path, true).unwrap().device;
    assert_eq!(device(&mut files, "g"), 0);
    assert_eq!(device(&mut files, "mount"), 1);
    assert_eq!(device(&mut files, "other"), 2);
}

#[test]
fn mount_points_stay_where_they_are() {
    let host = scratch();
    let (mut files, root) = memory();
    files.mount_directory("/data/deep/mount", open_host(&host), Access::ReadWrite).unwrap();
    let busy = Err(Errno::Busy);
    assert_eq!(files.remove_directory_at(root, "data/deep/mount"), busy);
    assert_eq!(files.rename_at(root, "data/deep/mount", root, "m"), busy);
    assert_eq!(files.rename_at(root, "data", root, "d"), busy);
    files.make_directory_at(root, "empty").unwrap();
    assert_eq!(files.rename_at(root, "empty", root, "data/deep/mount"), busy);
    assert_eq!(files.unlink_at(root, "data/deep/mount"), Err(Errno::IsDirectory));
    assert_eq!(files.make_directory_at(root, "data/deep/mount"), Err(Errno::Exist));
    let deep = files.open_at(root, "data/deep", READ).unwrap();
    let listed: Vec<_> = files.read_directory(deep).unwrap().collect();
    assert_eq!(listed[0].name, "mount");
    assert_eq!(listed[0].file_type, FileType::Directory);
}

#[test]
fn mounts_that_hide_something_are_refused() {
    let host = scratch();
    let mut files = FileSystem::new(Quota::default());
    files.make_directories("/workspace/d").unwrap();
    files.write_file("/f", b"").unwrap();
    let mut mount = |path: &str| files.mount_directory(path, open_host(&host), Access::ReadOnly);
    mount("/data").unwrap();
    for path in ["/data", "/data/"] {
        let error = mount(path).unwrap_err().to_string();
        assert!(error.ends_with("overlaps the mount at /data"), "{error}");
    }
    mount("/database").unwrap();
    assert_eq!(mount("/workspace").unwrap_err().to_string(), "mount at /workspace would hide /workspace/d");
    assert_eq!(mount("/f/x").unwrap_err().to_string(), "mount at /f/x would hide /f");
    assert!(matches!(mount("/"), Err(MountError::Overlaps { .. } | MountError::Hides { .. })));
    assert!(matches!(mount("relative"), Err(MountError::Place { .. })));
    mount("/workspace/d").unwrap();
}

#[test]
fn names_the_guest_cannot_say_are_left_out() {
    use std::os::unix::ffi::OsStrExt;
    let (mut files, root, host) = mounted(Access::ReadOnly);
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    std::fs::write(host.path().join(name), "").unwrap();
    std::fs::write(host.path().join("plain"), "").unwrap();
    let mount = files.open_at(root, "mount", READ).unwrap();
    assert_eq!(names(&mut files, mount), ["plain"]);
}

#[test]
fn an_unlinked_host_file_is_not_mistaken_for_its_successor() {
    let (mut files, root, _host) = mounted(Access::ReadWrite);
    files.write_file("/mount/f", b"old").unwrap();
    let file = files.open_at(root, "mount/f", READ).unwrap();
    files.write_file("/mount/g", b"new").unwrap();
    files.rename_at(root, "mount/g", root, "mount/f").unwrap();
    let mut buffer = [0; 3];
    files.read(file, 0, &mut buffer).unwrap();
    assert_eq!(&buffer, b"old");
    assert_eq!(files.read_file("/mount/f").unwrap(), b"new");
}
