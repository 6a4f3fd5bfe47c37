//! Mounts inside mounts.

use std::os::unix::fs::symlink;
use std::path::Path;

use belljar_files::{
    Access, Changes, Dir, Errno, FileSystem, FileType, Handle, MountError, OpenOptions, Quota, SetTime,
};
use tempfile::TempDir;

use crate::{READ, WRITE, names, open_host, scratch};

/// The user's directory at `/data`, read-write, and packages inside it, read-only.
struct Nested {
    files: FileSystem,
    root: Handle,
    data: TempDir,
    packages: TempDir,
}

fn nested(access: Access, inner: &str) -> Nested {
    let (data, packages) = (scratch(), scratch());
    std::fs::create_dir_all(data.path().join("sub/deep")).unwrap();
    std::fs::write(data.path().join("own"), "own").unwrap();
    std::fs::create_dir(packages.path().join("numpy")).unwrap();
    std::fs::write(packages.path().join("numpy/f"), "package").unwrap();
    let mut files = FileSystem::new(Quota::default());
    files.mount_directory("/data", open_host(&data), access).unwrap();
    files.mount_directory(inner, open_host(&packages), Access::ReadOnly).unwrap();
    let root = files.root().unwrap();
    Nested { files, root, data, packages }
}

fn host_names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn is_untouched(packages: &TempDir) -> bool {
    host_names(packages.path()) == ["numpy"]
        && host_names(&packages.path().join("numpy")) == ["f"]
        && std::fs::read(packages.path().join("numpy/f")).unwrap() == b"package"
}

#[test]
fn an_inner_mount_is_a_directory_of_the_outer() {
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let Nested { mut files, root, data, packages: _packages } = nested(access, "/data/site-packages");
        let outer = files.open_at(root, "data", READ).unwrap();
        let listed: Vec<_> = files.read_directory(outer).unwrap().collect();
        let listed: Vec<_> = listed.iter().map(|entry| (&*entry.name, entry.file_type)).collect();
        let expected = [
            ("own", FileType::Regular),
            ("site-packages", FileType::Directory),
            ("sub", FileType::Directory),
        ];
        assert_eq!(listed, expected);
        assert_eq!(host_names(data.path()), ["own", "sub"]);

        for path in
            ["site-packages", "./site-packages/", "sub/../site-packages", "sub/deep/../../site-packages"]
        {
            for follow in [true, false] {
                let metadata = files.stat_at(outer, path, follow).unwrap();
                assert_eq!((metadata.file_type, metadata.device), (FileType::Directory, 2), "{path}");
            }
            let inner = files.open_at(outer, path, OpenOptions { directory: true, ..READ }).unwrap();
            assert_eq!(names(&mut files, inner), ["numpy"]);
            assert_eq!(files.stat(inner).unwrap().device, 2);
            for (path, device) in [("..", 1), ("../own", 1), ("../sub/..", 1), ("../..", 0), ("numpy/..", 2)]
            {
                assert_eq!(files.stat_at(inner, path, true).unwrap().device, device, "{path}");
            }
        }
        assert_eq!(files.read_file("/data/site-packages/numpy/f").unwrap(), b"package");
        assert_eq!(files.read_file("/data/site-packages/../own").unwrap(), b"own");
        assert_eq!(files.read_file("/data/site-packages/numpy/../../own").unwrap(), b"own");
        assert_eq!(files.stat_at(root, "data/sub/site-packages", true), Err(Errno::NoEntry));
        assert_eq!(files.read_link_at(outer, "site-packages"), Err(Errno::Invalid));
        assert!(files.is_sound());
    }
}

#[test]
fn the_order_of_mounts_makes_no_difference() {
    for inner in ["/data/site-packages", "/data/sub/deep/packages"] {
        let Nested { files: mut one, root, data, packages } = nested(Access::ReadWrite, inner);
        let mut other = FileSystem::new(Quota::default());
        other.mount_directory(inner, open_host(&packages), Access::ReadOnly).unwrap();
        other.mount_directory("/data", open_host(&data), Access::ReadWrite).unwrap();
        other.root().unwrap();
        assert_eq!(one.usage(), other.usage());
        for files in [&mut one, &mut other] {
            assert!(files.is_sound());
            assert_eq!(files.read_file(&format!("{inner}/numpy/f")).unwrap(), b"package");
            assert_eq!(files.read_file("/data/own").unwrap(), b"own");
            let parent = files.open_at(root, &format!("{inner}/.."), READ).unwrap();
            let name = inner.rsplit('/').next().unwrap().to_owned();
            assert_eq!(names(files, parent).iter().filter(|listed| **listed == name).count(), 1);
            assert_eq!(files.remove_directory_at(root, inner), Err(Errno::Busy));
        }
    }
}

#[test]
fn mounts_nest_more_than_once_and_side_by_side() {
    let hosts = [scratch(), scratch(), scratch(), scratch()];
    let mut files = FileSystem::new(Quota::default());
    for (number, path) in ["/a/b/c", "/a/b", "/a", "/a/d"].into_iter().enumerate() {
        std::fs::write(hosts[number].path().join("f"), path).unwrap();
        files.mount_directory(path, open_host(&hosts[number]), Access::ReadWrite).unwrap();
    }
    let root = files.root().unwrap();
    for (path, found) in
        [("/a/b/c/f", "/a/b/c"), ("/a/b/c/../f", "/a/b"), ("/a/b/c/../../f", "/a"), ("/a/b/../d/f", "/a/d")]
    {
        assert_eq!(files.read_file(path).unwrap(), found.as_bytes());
    }
    assert_eq!(files.rename_at(root, "a/b", root, "a/d"), Err(Errno::Busy));
    assert_eq!(files.rename_at(root, "a/b/c", root, "a/x"), Err(Errno::CrossDevice));
    assert!(files.is_sound());
}

#[test]
fn an_inner_mount_hides_nothing_of_the_host() {
    let (data, packages) = (scratch(), scratch());
    std::fs::create_dir_all(data.path().join("directory/empty")).unwrap();
    std::fs::write(data.path().join("file"), "").unwrap();
    symlink("nowhere", data.path().join("link")).unwrap();
    symlink("directory", data.path().join("alias")).unwrap();
    let refused = [
        ("/data/directory", "mount at /data/directory would hide /data/directory"),
        ("/data/directory/empty", "mount at /data/directory/empty would hide /data/directory/empty"),
        ("/data/file", "mount at /data/file would hide /data/file"),
        ("/data/link", "mount at /data/link would hide /data/link"),
        ("/data/file/x", "mount at /data/file/x would hide /data/file"),
        ("/data/alias/x", "mount at /data/alias/x would hide /data/alias"),
        ("/data/none/x", "mount at /data/none/x: no such file or directory"),
    ];
    for (path, error) in refused {
        let mut outer_first = FileSystem::new(Quota::default());
        outer_first.mount_directory("/data", open_host(&data), Access::ReadWrite).unwrap();
        let before = outer_first.usage();
        let found = outer_first.mount_directory(path, open_host(&packages), Access::ReadOnly);
        assert_eq!(found.unwrap_err().to_string(), error);
        assert_eq!(outer_first.usage(), before);
        assert_eq!(outer_first.mounts().len(), 1);

        let mut inner_first = FileSystem::new(Quota::default());
        inner_first.mount_directory(path, open_host(&packages), Access::ReadOnly).unwrap();
        let found = inner_first.mount_directory("/data", open_host(&data), Access::ReadWrite);
        assert_eq!(found.unwrap_err().to_string(), error);
        assert_eq!(inner_first.mounts().len(), 1);
        assert!(outer_first.is_sound() && inner_first.is_sound());
    }
    assert_eq!(host_names(data.path()), ["alias", "directory", "file", "link"]);

    let mut files = FileSystem::new(Quota::default());
    files.mount_directory("/data/directory/b", open_host(&packages), Access::ReadOnly).unwrap();
    files.write_file("/data/directory/f", b"").unwrap();
    assert_eq!(
        files.mount_directory("/data", open_host(&data), Access::ReadOnly),
        Err(MountError::Hides { path: "/data".into(), hidden: "/data/directory/f".into() })
    );
}

#[test]
fn an_inner_mount_point_stays_where_it_is() {
    for inner in ["/data/site-packages", "/data/sub/deep/site-packages"] {
        let Nested { mut files, root, data, packages } = nested(Access::ReadWrite, inner);
        symlink(".", data.path().join("alias")).unwrap();
        files.make_directories("/data/empty").unwrap();
        let before = host_names(data.path());
        let directory = files.open_at(root, inner.rsplit_once('/').unwrap().0, READ).unwrap();
        let below = inner.strip_prefix("/data/").unwrap();
        let paths = [
            (root, inner.to_owned()),
            (root, format!("/data/./{below}")),
            (root, format!("/data/sub/../{below}")),
            (root, format!("/data/alias/{below}")),
            (root, format!("/data/alias/alias/sub/../{below}")),
            (root, format!("{inner}/numpy/../../site-packages")),
            (directory, "site-packages".to_owned()),
            (directory, "./site-packages/".to_owned()),
        ];
        for (at, path) in &paths {
            let (at, path) = (*at, path.as_str());
            let exists = Err(Errno::Exist);
            assert_eq!(files.remove_directory_at(at, path), Err(Errno::Busy), "{path}");
            assert_eq!(files.unlink_at(at, path), Err(Errno::IsDirectory), "{path}");
            assert_eq!(files.make_directory_at(at, path), exists, "{path}");
            assert_eq!(files.symlink_at("own", at, path), exists, "{path}");
            assert_eq!(files.link_at(root, "data/own", true, at, path), exists, "{path}");
            for (from, to) in [("data/own", path), ("data/empty", path)] {
                assert_eq!(files.rename_at(root, from, at, to), Err(Errno::Busy), "{path}");
            }
            for to in ["data/new", "data/empty", "data/own", "data/sub/new"] {
                assert_eq!(files.rename_at(at, path, root, to), Err(Errno::Busy), "{path}");
            }
            assert!(matches!(files.rename_at(at, path, root, "new"), Err(Errno::Busy | Errno::CrossDevice)));
            let exclusive = OpenOptions { exclusive: true, ..WRITE };
            for options in [WRITE, OpenOptions::writing(), exclusive] {
                let error = files.open_at(at, path, options).unwrap_err();
                assert!(matches!(error, Errno::IsDirectory | Errno::Exist), "{path}: {error}");
            }
            assert!(files.stat_at(at, path, false).unwrap().device == 2, "{path}");
        }
        assert_eq!(host_names(data.path()), before);
        assert_eq!(host_names(&data.path().join("sub/deep")), Vec::<String>::new());
        assert!(is_untouched(&packages));
        assert!(files.is_sound());
    }
}

#[test]
fn directories_around_an_inner_mount_stay_where_they_are() {
    let Nested { mut files, root, data, packages: _packages } =
        nested(Access::ReadWrite, "/data/sub/deep/packages");
    files.make_directories("/data/empty").unwrap();
    for path in ["data/sub", "data/sub/deep", "data/sub/deep/../deep"] {
        assert_eq!(files.rename_at(root, path, root, "data/moved"), Err(Errno::Busy), "{path}");
        assert_eq!(files.remove_directory_at(root, path), Err(Errno::NotEmpty), "{path}");
        assert_eq!(files.rename_at(root, "data/empty", root, path), Err(Errno::NotEmpty), "{path}");
        assert_eq!(files.rename_at(root, "data/own", root, path), Err(Errno::IsDirectory), "{path}");
    }
    assert_eq!(files.rename_at(root, "data", root, "d"), Err(Errno::Busy));
    assert_eq!(host_names(data.path()), ["empty", "own", "sub"]);
    // Names that only begin alike are no matter.
    files.make_directories("/data/su").unwrap();
    files.rename_at(root, "data/su", root, "data/subs").unwrap();
    files.remove_directory_at(root, "data/subs").unwrap();
    files.write_file("/data/sub/packages", b"elsewhere").unwrap();
    files.unlink_at(root, "data/sub/packages").unwrap();
    assert_eq!(files.read_file("/data/sub/deep/packages/numpy/f").unwrap(), b"package");
}

#[test]
fn a_read_only_mount_in_a_read_write_one_is_read_only() {
    let Nested { mut files, root, data: _data, packages } = nested(Access::ReadWrite, "/data/site-packages");
    let refused = Err(Errno::ReadOnly);
    let inner = files.open_at(root, "data/site-packages", READ).unwrap();
    let file = files.open_at(inner, "numpy/f", READ).unwrap();
    for prefix in ["data/site-packages", "data/sub/../site-packages"] {
        let at = |name: &str| format!("{prefix}/{name}");
        for options in [WRITE, OpenOptions::writing()] {
            assert_eq!(files.open_at(root, &at("numpy/f"), options), Err(Errno::ReadOnly));
            assert_eq!(files.open_at(root, &at("new"), options), Err(Errno::ReadOnly));
        }
        assert_eq!(files.make_directory_at(root, &at("new")), refused);
        assert_eq!(files.remove_directory_at(root, &at("numpy")), refused);
        assert_eq!(files.unlink_at(root, &at("numpy/f")), refused);
        assert_eq!(files.rename_at(root, &at("numpy"), root, &at("scipy")), refused);
        assert_eq!(files.symlink_at("f", root, &at("l")), refused);
        assert_eq!(files.link_at(root, &at("numpy/f"), true, root, &at("g")), refused);
        for path in [prefix.to_owned(), at("numpy"), at("numpy/f")] {
            assert_eq!(files.set_times_at(root, &path, true, SetTime::Now, SetTime::Now), refused);
        }
        let cross = Err(Errno::CrossDevice);
        assert_eq!(files.rename_at(root, &at("numpy/f"), root, "data/f"), cross);
        assert_eq!(files.rename_at(root, "data/own", root, &at("own")), cross);
        assert_eq!(files.link_at(root, &at("numpy/f"), true, root, "data/f"), cross);
        assert_eq!(files.link_at(root, "data/own", true, root, &at("own")), cross);
    }
    assert_eq!(files.set_times(inner, SetTime::Now, SetTime::Now), refused);
    assert_eq!(files.set_times(file, SetTime::Now, SetTime::Now), refused);
    assert_eq!(files.write(file, 0, b"x"), Err(Errno::BadDescriptor));
    assert_eq!(files.set_size(file, 0), Err(Errno::Invalid));
    assert!(files.make_directories("/data/site-packages/x").is_err());
    assert!(files.write_file("/data/site-packages/x", b"").is_err());
    assert!(is_untouched(&packages));
    assert_eq!(files.take_changes(), Changes::default());
}

#[test]
fn links_of_the_outer_lead_neither_out_nor_over_the_inner() {
    let Nested { mut files, root, data, packages } = nested(Access::ReadWrite, "/data/site-packages");
    let outside = scratch();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    let at = |name: &str| data.path().join(name);
    symlink(format!("../{name}"), at("upwards")).unwrap();
    symlink(outside.path(), at("absolute")).unwrap();
    symlink("site-packages", at("to-inner")).unwrap();
    symlink("sub/../to-inner", at("to-inner-again")).unwrap();
    symlink("site-packages/numpy/f", at("into-inner")).unwrap();
    symlink("new", at("dangling")).unwrap();
    let before = host_names(data.path());

    for path in ["upwards/site-packages", "absolute/site-packages", "upwards/secret", "absolute/secret"] {
        let path = format!("data/{path}");
        for options in [READ, WRITE] {
            assert_eq!(files.open_at(root, &path, options), Err(Errno::NotPermitted));
        }
        assert!(files.make_directory_at(root, &path).is_err());
    }
    for path in ["data/to-inner", "data/to-inner-again"] {
        assert_eq!(files.open_at(root, path, WRITE), Err(Errno::IsDirectory));
        assert_eq!(files.make_directory_at(root, path), Err(Errno::Exist));
        assert_eq!(files.stat_at(root, path, true), Err(Errno::NoEntry));
        assert_eq!(files.open_at(root, &format!("{path}/numpy/f"), READ), Err(Errno::NoEntry));
    }
    assert!(files.open_at(root, "data/into-inner", WRITE).is_err());
    assert_eq!(host_names(data.path()), before);
    files.write_file("/data/dangling", b"made").unwrap();
    assert_eq!(std::fs::read(at("new")).unwrap(), b"made");
    assert_eq!(host_names(outside.path()), ["secret"]);
    assert!(is_untouched(&packages));
    // A link in memory leads anywhere.
    files.symlink_at("/data/site-packages/numpy", root, "memory").unwrap();
    assert_eq!(files.read_file("/memory/f").unwrap(), b"package");
    assert_eq!(files.read_file("/memory/../../own").unwrap(), b"own");
}

#[test]
fn what_the_host_puts_there_later_is_hidden() {
    let Nested { mut files, root, data, packages: _packages } =
        nested(Access::ReadWrite, "/data/site-packages");
    std::fs::write(data.path().join("site-packages"), "late").unwrap();
    assert_eq!(files.read_file("/data/site-packages/numpy/f").unwrap(), b"package");
    let outer = files.open_at(root, "data", READ).unwrap();
    let listed: Vec<_> = files.read_directory(outer).unwrap().collect();
    let listed: Vec<_> = listed.iter().filter(|entry| entry.name == "site-packages").collect();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].file_type, FileType::Directory);
    assert_eq!(files.unlink_at(outer, "site-packages"), Err(Errno::IsDirectory));
    assert_eq!(std::fs::read(data.path().join("site-packages")).unwrap(), b"late");
}

#[test]
fn changes_in_both_are_listed_by_guest_path() {
    let (data, inner) = (scratch(), scratch());
    let mut files = FileSystem::new(Quota::default());
    files.mount_directory("/data", open_host(&data), Access::ReadWrite).unwrap();
    files.mount_directory("/data/inner", open_host(&inner), Access::ReadWrite).unwrap();
    let root = files.root().unwrap();
    symlink(".", data.path().join("alias")).unwrap();
    files.write_file("/data/f", b"").unwrap();
    files.write_file("/data/inner/f", b"").unwrap();
    files.write_file("/data/alias/inner/g", b"").unwrap();
    files.write_file("/data/inner/../alias/g", b"").unwrap();
    files.make_directories("/data/inner/d").unwrap();
    files.write_file("/data/inner/d/h", b"").unwrap();
    files.rename_at(root, "data/inner/d", root, "data/alias/inner/e").unwrap();
    let created = ["/data/f", "/data/g", "/data/inner/e/h", "/data/inner/f", "/data/inner/g"];
    assert_eq!(files.take_changes().created, created);
    assert_eq!(host_names(data.path()), ["alias", "f", "g"]);
    assert_eq!(host_names(inner.path()), ["e", "f", "g"]);
    files.unlink_at(root, "data/alias/inner/f").unwrap();
    assert_eq!(files.take_changes().deleted, ["/data/inner/f"]);
}

#[test]
fn nested_mounts_survive_being_written_down() {
    let Nested { mut files, root, data, packages } = nested(Access::ReadWrite, "/data/site-packages");
    let inner = files.open_at(root, "data/site-packages/numpy", READ).unwrap();
    let file = files.open_at(inner, "f", READ).unwrap();
    let text = serde_json::to_string(&files).unwrap();
    let mounts = serde_json::to_value(&files).unwrap()["mounts"].clone();
    let fields: Vec<_> = mounts[1].as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["access", "guest_path", "point"], "what is kept has this shape");

    let clone = files.clone();
    for order in [["/data", "/data/site-packages"], ["/data/site-packages", "/data"]] {
        let mut restored: FileSystem = serde_json::from_str(&text).unwrap();
        assert!(restored.is_sound());
        assert_eq!(restored.read_file("/data/site-packages/numpy/f"), Err(Errno::Io));
        assert!(matches!(
            restored.mount_directory("/data/new", open_host(&packages), Access::ReadOnly),
            Err(MountError::Detached { .. })
        ));
        for path in order {
            let (host, access) = match path {
                "/data" => (&data, Access::ReadWrite),
                _ => (&packages, Access::ReadOnly),
            };
            restored.attach(path, open_host(host), access).unwrap();
        }
        for mut files in [restored, clone.clone()] {
            let paths: Vec<_> = files.mounts().into_iter().map(|mount| mount.guest_path).collect();
            assert_eq!(paths, ["/data", "/data/site-packages"]);
            assert_eq!(files.read_file("/data/site-packages/numpy/f").unwrap(), b"package");
            let mut buffer = [0; 7];
            assert_eq!(files.read(file, 0, &mut buffer), Ok(7));
            assert_eq!(files.stat_at(inner, "../../own", true).unwrap().device, 1);
            assert_eq!(files.remove_directory_at(root, "data/site-packages"), Err(Errno::Busy));
            assert_eq!(files.make_directory_at(root, "data/site-packages/x"), Err(Errno::ReadOnly));
            let again = files.mount_directory("/data/site-packages", open_host(&data), Access::ReadWrite);
            assert!(matches!(again, Err(MountError::Overlaps { .. })));
        }
    }
}

#[test]
fn hostile_mounts_neither_hang_nor_lead_out() {
    let Nested { files, root: _, data, packages } = nested(Access::ReadWrite, "/data/site-packages");
    let state = serde_json::to_value(&files).unwrap();
    let points: Vec<_> = (0..2).map(|mount| state["mounts"][mount]["point"].clone()).collect();
    let mut hostile = Vec::new();
    for path in
        ["", "/", "/data", "/data/", "/data//x", "/data/..", "/data/../x", "/data/site-packages/x", "x"]
    {
        for mount in 0..2 {
            let mut state = state.clone();
            state["mounts"][mount]["guest_path"] = path.into();
            hostile.push((state, path != "/data" || mount != 0));
        }
    }
    for (mount, point) in [(0, &points[1]), (1, &points[0]), (1, &1.into()), (0, &99.into())] {
        let mut state = state.clone();
        state["mounts"][mount]["point"] = point.clone();
        hostile.push((state, true));
    }
    for (inode, mount) in [(&points[0], 1), (&points[1], 0), (&points[1], 7)] {
        let mut state = state.clone();
        state["tree"]["inodes"][inode.to_string()]["kind"]["Directory"]["mount"] = mount.into();
        hostile.push((state, true));
    }
    // Each the parent of the other.
    let mut circle = state.clone();
    circle["tree"]["inodes"][points[0].to_string()]["kind"]["Directory"]["parent"] = points[1].clone();
    hostile.push((circle, true));
    let mut many = state.clone();
    let deep = (0..2000).map(|number| {
        let mut mount = state["mounts"][0].clone();
        mount["guest_path"] = format!("/data{}", "/d".repeat(number % 1000)).into();
        mount
    });
    many["mounts"] = deep.collect();
    hostile.push((many, true));

    for (state, is_unsound) in hostile {
        let text = state["mounts"].to_string();
        let mut files: FileSystem = serde_json::from_value(state).unwrap();
        assert_eq!(files.is_sound(), !is_unsound, "{text:.300}");
        let paths: Vec<_> = files.mounts().into_iter().map(|mount| mount.guest_path).collect();
        for path in paths.iter().take(4) {
            let dir = if path == "/data" { &data } else { &packages };
            let _ = files.attach(path, open_host(dir), Access::ReadWrite);
        }
        let root = files.root().unwrap();
        for path in ["data", "data/site-packages", "data/site-packages/../..", "data/x", "data/d/d", "x"] {
            for suffix in ["", "/..", "/../../..", "/numpy/../../own"] {
                let path = format!("{path}{suffix}");
                let _ = files.stat_at(root, &path, true);
                if let Ok(directory) = files.open_at(root, &path, READ) {
                    let _ = files.read_directory(directory);
                    assert!(files.stat_at(directory, "../../../../../etc/passwd", true).is_err());
                }
                let _ = files.rename_at(root, &path, root, "data/moved");
                let _ = files.remove_directory_at(root, &path);
                let _ = files.make_directory_at(root, &path);
            }
        }
        let _ = files.mount_directory("/data/other", open_host(&packages), Access::ReadOnly);
        let _ = files.mount_directory("/other", open_host(&packages), Access::ReadOnly);
    }
}

#[test]
fn the_guests_old_handle_on_a_covered_directory_covers_nothing_up() {
    let (data, packages) = (scratch(), scratch());
    let mut files = FileSystem::new(Quota::default());
    files.mount_directory("/data/packages", open_host(&packages), Access::ReadOnly).unwrap();
    let root = files.root().unwrap();
    let covered = files.open_at(root, "data", READ).unwrap();
    let dir = Dir::open_ambient_dir(data.path(), cap_std::ambient_authority()).unwrap();
    files.mount_directory("/data", dir, Access::ReadWrite).unwrap();
    files.open_at(covered, "below", WRITE).unwrap();
    assert_eq!(files.remove_directory_at(covered, "packages"), Err(Errno::Busy));
    assert_eq!(files.rename_at(covered, "below", covered, "packages"), Err(Errno::Busy));
    assert_eq!(files.stat_at(root, "data/below", true), Err(Errno::NoEntry));
    assert_eq!(files.stat_at(root, "data/packages", true).unwrap().device, 1);
    assert_eq!(host_names(data.path()), Vec::<String>::new());
    assert!(files.is_sound());
}
