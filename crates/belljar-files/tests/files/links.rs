//! Links in a workspace on disk that lead to other mounts, as the guest sees them.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use belljar_files::{Access, Errno, FileSystem, FileType, Handle, OpenOptions, Quota, SetTime};
use tempfile::TempDir;

use crate::{READ, WRITE, names, open_host, scratch};

/// A workspace on disk, and a shelf beside it that can only be read.
struct Shelved {
    files: FileSystem,
    root: Handle,
    workspace: TempDir,
    shelf: TempDir,
}

impl Shelved {
    fn new() -> Self {
        let (workspace, shelf) = (scratch(), scratch());
        std::fs::create_dir(shelf.path().join("data")).unwrap();
        std::fs::write(shelf.path().join("data/x.parquet"), "PAR1").unwrap();
        std::fs::create_dir(workspace.path().join("data")).unwrap();
        let mut files = FileSystem::new(Quota::default());
        files.mount_workspace("/workspace", open_host(&workspace), Quota::default()).unwrap();
        files.mount_directory("/shelf", open_host(&shelf), Access::ReadOnly).unwrap();
        let root = files.root().unwrap();
        Self { files, root, workspace, shelf }
    }

    fn link(&self, target: impl AsRef<Path>, at: &str) {
        symlink(target, self.workspace.path().join(at)).unwrap();
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, Errno> {
        self.files.read_file(path)
    }

    fn open(&mut self, path: &str, options: OpenOptions) -> Result<Handle, Errno> {
        self.files.open_at(self.root, path, options)
    }
}

#[test]
fn a_link_to_another_mount_is_opened_and_looked_at() {
    let mut here = Shelved::new();
    here.link("/shelf/data/x.parquet", "data/x.parquet");
    let root = here.root;
    assert_eq!(here.read("/workspace/data/x.parquet").unwrap(), b"PAR1");
    assert_eq!(here.read("/workspace/data/../data/x.parquet").unwrap(), b"PAR1");
    let found = here.files.stat_at(root, "workspace/data/x.parquet", true).unwrap();
    assert_eq!((found.file_type, found.size), (FileType::Regular, 4));
    let link = here.files.stat_at(root, "workspace/data/x.parquet", false).unwrap();
    assert_eq!(link.file_type, FileType::Symlink);
    let target = here.files.read_link_at(root, "workspace/data/x.parquet").unwrap();
    assert_eq!(target, "/shelf/data/x.parquet");
    let unfollowed = OpenOptions { follow_symlinks: false, ..READ };
    assert_eq!(here.open("workspace/data/x.parquet", unfollowed), Err(Errno::Loop));
    // Relative to an open directory too, as libraries of the guest do it.
    let data = here.open("workspace/data", READ).unwrap();
    let file = here.files.open_at(data, "x.parquet", READ).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(here.files.read(file, 0, &mut buffer).unwrap(), 4);
}

#[test]
fn links_to_directories_lead_on_and_back() {
    let mut here = Shelved::new();
    here.link("/shelf/data", "shelved");
    here.link("shelved/x.parquet", "relative");
    here.link("/workspace/relative", "again");
    here.link("../shelf/data/", "upwards");
    std::fs::write(here.workspace.path().join("own"), "own").unwrap();
    for path in ["shelved/x.parquet", "relative", "again", "upwards/x.parquet", "upwards/../data/x.parquet"] {
        assert_eq!(here.read(&format!("/workspace/{path}")).unwrap(), b"PAR1", "{path}");
    }
    // What is above such a link is above where it leads, as in Linux.
    assert_eq!(here.read("/workspace/shelved/../../workspace/own").unwrap(), b"own");
    for path in ["workspace/shelved", "workspace/shelved/", "workspace/upwards", "workspace/shelved/../data"]
    {
        let directory = here.open(path, OpenOptions { directory: true, ..READ }).unwrap();
        assert_eq!(names(&mut here.files, directory), ["x.parquet"], "{path}");
        here.files.close(directory).unwrap();
    }
    assert_eq!(here.open("workspace/relative/", READ), Err(Errno::NotDirectory));
    // Into memory.
    here.files.write_file("/note", b"memory").unwrap();
    here.link("/note", "note");
    assert_eq!(here.read("/workspace/note").unwrap(), b"memory");
}

#[test]
fn a_read_only_mount_stays_so_through_links() {
    let mut here = Shelved::new();
    here.link("/shelf/data/x.parquet", "file");
    here.link("/shelf/data/new", "new");
    here.link("/shelf/data", "directory");
    let root = here.root;
    let exclusive = OpenOptions { exclusive: true, ..WRITE };
    for options in [OpenOptions { create: false, ..WRITE }, WRITE, OpenOptions::writing()] {
        for path in ["file", "new", "directory/x.parquet", "directory/new"] {
            assert_eq!(here.open(&format!("workspace/{path}"), options), Err(Errno::ReadOnly), "{path}");
        }
    }
    assert_eq!(here.open("workspace/file", exclusive), Err(Errno::Exist));
    assert_eq!(here.open("workspace/directory/new", exclusive), Err(Errno::ReadOnly));
    let files = &mut here.files;
    files.write_file("/workspace/own", b"own").unwrap();
    assert_eq!(files.unlink_at(root, "workspace/directory/x.parquet"), Err(Errno::ReadOnly));
    assert_eq!(files.make_directory_at(root, "workspace/directory/d"), Err(Errno::ReadOnly));
    assert_eq!(files.symlink_at("x", root, "workspace/directory/l"), Err(Errno::ReadOnly));
    assert!(files.rename_at(root, "workspace/directory/x.parquet", root, "workspace/mine").is_err());
    assert!(files.rename_at(root, "workspace/own", root, "workspace/directory/x.parquet").is_err());
    assert!(files.link_at(root, "workspace/file", true, root, "workspace/mine").is_err());
    assert!(files.set_times_at(root, "workspace/file", true, SetTime::Now, SetTime::Now).is_err());
    // The link itself is the workspace's.
    files.unlink_at(root, "workspace/file").unwrap();
    let shelf: Vec<_> = std::fs::read_dir(here.shelf.path().join("data")).unwrap().collect();
    assert_eq!(shelf.len(), 1);
    assert_eq!(std::fs::read(here.shelf.path().join("data/x.parquet")).unwrap(), b"PAR1");
}

#[test]
fn loops_and_long_links_end() {
    let mut here = Shelved::new();
    let root = here.root;
    here.link("/workspace/self", "self");
    here.link("/workspace/b", "a");
    here.link("/workspace/a", "b");
    here.link("/workspace/data/../deep/x", "deep");
    // Through the other mount's name and back.
    here.link("/shelf/../workspace/round", "round");
    for path in ["workspace/self", "workspace/a", "workspace/b/x", "workspace/deep", "workspace/round"] {
        assert_eq!(here.open(path, READ), Err(Errno::Loop), "{path}");
        assert_eq!(here.open(path, WRITE), Err(Errno::Loop), "{path}");
        assert_eq!(here.files.stat_at(root, path, true), Err(Errno::Loop), "{path}");
        assert_eq!(here.files.stat_at(root, &format!("{path}/../x"), true), Err(Errno::Loop), "{path}");
    }
    assert_eq!(here.files.unlink_at(root, "workspace/self/x"), Err(Errno::Loop));
    // As long a link as there can be, that leads to itself ever longer.
    let long = format!("/workspace/{}long", "./".repeat(2000));
    here.link(&long, "long");
    let longer = format!("/workspace{}/longer/x", "/data/..".repeat(500));
    here.link(&longer, "longer");
    for path in ["workspace/long", "workspace/longer"] {
        assert_eq!(here.open(path, READ), Err(Errno::Loop), "{path}");
    }
    let too_long = format!("/shelf/{}", "a".repeat(5000));
    assert_eq!(here.files.symlink_at(&too_long, root, "workspace/too-long"), Err(Errno::NameTooLong));
    here.link(format!("/shelf/{}", "a".repeat(300)), "long-name");
    assert_eq!(here.open("workspace/long-name", READ), Err(Errno::NameTooLong));
}

#[test]
fn a_link_that_leads_nowhere_in_the_guest_is_refused() {
    let mut here = Shelved::new();
    let root = here.root;
    for (target, name) in [
        ("/etc/passwd", "passwd"),
        ("/proc/self/environ", "environ"),
        ("/proc/self/root/etc/passwd", "magic"),
        ("../../../../etc/passwd", "upwards"),
        ("/shelf/../../../etc/passwd", "through-the-shelf"),
    ] {
        here.link(target, name);
        let path = format!("workspace/{name}");
        for options in [READ, WRITE, OpenOptions::writing()] {
            assert_eq!(here.open(&path, options), Err(Errno::NotPermitted), "{name}");
        }
        assert_eq!(here.files.stat_at(root, &path, true), Err(Errno::NotPermitted), "{name}");
    }
    // The host's own path of what is mounted means nothing to the guest.
    here.link(here.shelf.path().join("data/x.parquet"), "host");
    assert_eq!(here.open("workspace/host", READ), Err(Errno::NotPermitted));
    assert_eq!(names_of_root(&mut here), ["shelf", "workspace"]);
    // What is missing in a mount is just missing.
    here.link("/shelf/data/missing", "missing");
    assert_eq!(here.open("workspace/missing", READ), Err(Errno::NoEntry));
    assert_eq!(here.files.stat_at(root, "workspace/missing", true), Err(Errno::NoEntry));
    // Bytes that are no text.
    use std::os::unix::ffi::OsStrExt;
    here.link(std::ffi::OsStr::from_bytes(b"/shelf/\xff"), "bytes");
    assert_eq!(here.open("workspace/bytes", READ), Err(Errno::IllegalByteSequence));
}

#[test]
fn links_of_other_mounts_stay_where_they_are() {
    let mut here = Shelved::new();
    let root = here.root;
    std::fs::write(here.workspace.path().join("data/own"), "own").unwrap();
    let other = scratch();
    here.files.mount_directory("/other", open_host(&other), Access::ReadWrite).unwrap();
    for directory in [here.shelf.path(), other.path()] {
        for (target, name) in [
            ("/etc/passwd", "host"),
            ("/workspace/data/own", "back"),
            ("../workspace/data/own", "upwards"),
            ("..", "parent"),
            ("/", "root"),
        ] {
            symlink(target, directory.join(name)).unwrap();
        }
    }
    here.link("/shelf/back", "there-and-back");
    here.link("/shelf/root/other", "by-the-root");
    for path in [
        "shelf/host",
        "shelf/back",
        "shelf/upwards",
        "shelf/parent",
        "shelf/root/workspace/data/own",
        "other/back",
        "other/upwards",
        "other/parent",
        "workspace/there-and-back",
        "workspace/by-the-root",
    ] {
        assert_eq!(here.open(path, READ), Err(Errno::NotPermitted), "{path}");
        assert_eq!(here.files.stat_at(root, path, true), Err(Errno::NotPermitted), "{path}");
    }
    for path in ["shelf/host", "shelf/back", "other/back", "other/root"] {
        assert_eq!(here.files.read_link_at(root, path), Err(Errno::NotPermitted), "{path}");
    }
    // Refused before any link is looked at.
    assert_eq!(here.open("shelf/back", WRITE), Err(Errno::ReadOnly));
}

#[test]
fn guests_make_absolute_links_in_their_workspace_only() {
    let mut here = Shelved::new();
    let other = scratch();
    here.files.mount_directory("/other", open_host(&other), Access::ReadWrite).unwrap();
    let root = here.root;
    here.files.symlink_at("/shelf/data/x.parquet", root, "workspace/mine").unwrap();
    assert_eq!(here.files.read_link_at(root, "workspace/mine").unwrap(), "/shelf/data/x.parquet");
    assert_eq!(here.read("/workspace/mine").unwrap(), b"PAR1");
    assert_eq!(here.files.take_changes().created, ["/workspace/mine"]);
    here.files.symlink_at("/etc/passwd", root, "workspace/host").unwrap();
    assert_eq!(here.open("workspace/host", READ), Err(Errno::NotPermitted));
    assert_eq!(here.files.read_link_at(root, "workspace/host").unwrap(), "/etc/passwd");
    assert_eq!(here.files.symlink_at("/shelf/x", root, "other/mine"), Err(Errno::NotPermitted));
    assert!(std::fs::read_dir(other.path()).unwrap().next().is_none());
    // Through a link to a directory it is that directory which counts.
    here.files.symlink_at("/other", root, "workspace/others").unwrap();
    assert_eq!(here.files.symlink_at("/shelf/x", root, "workspace/others/mine"), Err(Errno::NotPermitted));
    here.files.write_file("/workspace/others/file", b"through").unwrap();
    assert_eq!(std::fs::read(other.path().join("file")).unwrap(), b"through");
}

#[test]
fn an_open_file_behind_a_link_outlives_a_snapshot() {
    let mut here = Shelved::new();
    here.link("/shelf/data/x.parquet", "x");
    let file = here.open("workspace/x", READ).unwrap();
    let bytes = postcard::to_allocvec(&here.files).unwrap();
    let mut files: FileSystem = postcard::from_bytes(&bytes).unwrap();
    assert!(files.is_sound());
    files.mount_workspace("/workspace", open_host(&here.workspace), Quota::default()).unwrap();
    files.attach("/shelf", open_host(&here.shelf), Access::ReadOnly).unwrap();
    std::fs::remove_file(here.workspace.path().join("x")).unwrap();
    let mut buffer = [0; 4];
    assert_eq!(files.read(file, 0, &mut buffer).unwrap(), 4);
    assert_eq!(&buffer, b"PAR1");
}

#[test]
fn a_link_that_changes_while_it_is_followed_leads_nowhere_else() {
    let mut here = Shelved::new();
    let outside = scratch();
    std::fs::write(outside.path().join("x.parquet"), "secret").unwrap();
    let workspace = here.workspace.path().to_owned();
    let outside_path = outside.path().to_owned();
    std::fs::create_dir(workspace.join("real")).unwrap();
    std::fs::write(workspace.join("real/x.parquet"), "real").unwrap();
    let stop = AtomicBool::new(false);
    let mut read = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let turning = workspace.join("turning");
            while !stop.load(Ordering::Relaxed) {
                for target in [Path::new("/shelf/data"), &outside_path, Path::new("real")] {
                    let next = workspace.join("next");
                    symlink(target, &next).unwrap();
                    std::fs::rename(&next, &turning).unwrap();
                }
            }
        });
        for _ in 0..3000 {
            for path in ["/workspace/turning/x.parquet", "/workspace/turning/../turning/x.parquet"] {
                if let Ok(contents) = here.files.read_file(path) {
                    assert!(contents == b"PAR1" || contents == b"real", "{contents:?}");
                    read += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(read > 0);
}

fn names_of_root(here: &mut Shelved) -> Vec<String> {
    let root = here.root;
    names(&mut here.files, root)
}
