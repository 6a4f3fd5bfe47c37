//! A workspace that is a directory of the host, with hostile code in it, hostile files from before, and others beside.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use belljar_engine::{FileOp, FileReply, State, WriteHow};

use crate::Session;
use crate::workspaces::{directory, on_disk, shown};

/// Threads beside each other that anybody on the host could read, and a secret above them.
fn threads() -> tempfile::TempDir {
    let root = directory();
    for name in ["one", "other"] {
        fs::create_dir(root.path().join(name)).unwrap();
        fs::write(root.path().join(name).join("own"), name).unwrap();
        for path in [root.path().join(name), root.path().join(name).join("own"), root.path().to_owned()] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
    }
    fs::write(root.path().join("secret"), "4711").unwrap();
    fs::set_permissions(root.path().join("secret"), Permissions::from_mode(0o666)).unwrap();
    root
}

fn is_untouched(root: &Path) {
    assert_eq!(fs::read(root.join("secret")).unwrap(), b"4711");
    assert_eq!(fs::read(root.join("other/own")).unwrap(), b"other");
    assert_eq!(fs::read_dir(root.join("other")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(root).unwrap().count(), 3);
}

#[test]
fn nothing_leads_out_of_a_directory() {
    let root = threads();
    for place in ["/workspace", "/mnt/r2/bucket/threads/one"] {
        let mut session = on_disk(&root.path().join("one"), |spec| spec.workspace = place.to_owned());
        session.check(&format!(
            r#"
host, here = {host:?}, {place:?}
targets = ["/etc/shadow", host + "/secret", host + "/other", "../secret", "../other/own", "../../../../../.." + host + "/secret",
           "/proc/1/root" + host + "/secret", "/proc/self/root/../.." + host + "/secret", "/proc/self/cwd/../secret"]
for number, target in enumerate(targets):
    os.symlink(target, f"link{{number}}")
    for path in (target, f"link{{number}}"):
        assert error_of(open, path) in ("ENOENT", "EACCES", "ENOTDIR"), path
        assert error_of(os.listdir, path) in ("ENOENT", "EACCES", "ENOTDIR"), path
assert not os.path.exists(host) and "secret" not in os.listdir(".."), os.listdir("..")
held = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
for top in (f"/proc/self/fd/{{held}}/..", "/proc/self/cwd/..", here + "/.."):
    assert not {{"secret", "other"}} & set(os.listdir(top)), top
for depth in range(1, 12):
    descriptor = os.open("/".join([".."] * depth), os.O_RDONLY | os.O_DIRECTORY, dir_fd=held)
    assert not {{"secret", "other"}} & set(os.listdir(descriptor)), depth
    os.close(descriptor)
# Nothing comes in or goes out by another name.
open("file", "w").write("x"); os.makedirs("d/e")
for outside in ("/etc/passwd", "/usr/bin/env", "/proc/self/exe", "/proc/self/fd/0", "/tmp/t"):
    if outside == "/tmp/t": open(outside, "w").write("t")
    assert error_of(os.link, outside, "linked") in ("EXDEV", "EPERM", "EACCES", "ENOENT"), outside
    assert error_of(os.rename, outside, "moved") in ("EXDEV", "EROFS", "EPERM", "EACCES"), outside
assert error_of(os.link, "file", "/tmp/linked") == "EXDEV" and error_of(os.rename, "d", "/tmp/d") == "EXDEV"
os.chdir("d/e"); assert error_of(os.rename, here + "/d", "/tmp/d") == "EXDEV"; os.chdir(here)
import stat
for kind in (stat.S_IFCHR, stat.S_IFBLK):
    assert error_of(os.mknod, "device", kind | 0o666, os.makedev(1, 3)) in ("EPERM", "EACCES")
# On the host it would be somebody else's program.
for mode in (0o4755, 0o2755, 0o6777):
    assert error_of(os.chmod, "file", mode) == "EPERM", mode
    assert error_of(os.open, "new", os.O_CREAT | os.O_WRONLY, mode) == "EPERM", mode
    assert error_of(os.mknod, "new", stat.S_IFREG | mode) == "EPERM", mode
    descriptor = os.open("file", os.O_RDONLY)
    assert error_of(os.fchmod, descriptor, mode) == "EPERM", mode
    os.close(descriptor)
numbers = {{"x86_64": dict(mount=165, umount2=166, pivot_root=155, chroot=161)}}.get(os.uname().machine, dict(mount=40, umount2=39, pivot_root=41, chroot=51))
assert syscall(numbers["mount"], b"/", here.encode(), None, 4096, None) == errno.EPERM
assert syscall(numbers["mount"], None, here.encode(), None, 32 | 4096, None) == errno.EPERM
assert syscall(numbers["umount2"], here.encode(), 2) == errno.EPERM
assert syscall(numbers["chroot"], here.encode()) == errno.EPERM
assert syscall(428, -100, b".", 1) == errno.EPERM and syscall(429, -100, b".", -100, b"d", 0) == errno.EPERM
assert syscall(437, -100, b".", ctypes.byref((ctypes.c_ulong * 3)(64 | 1, 0o4755, 0)), 24) == errno.ENOSYS
assert error_of(os.rmdir, here) in ("EBUSY", "EACCES", "EROFS") and error_of(os.rename, here, "/tmp/here") in ("EBUSY", "EXDEV", "EROFS")
"#,
            host = root.path().to_str().unwrap(),
        ));
        // Nor for the host, when it is asked.
        for number in 0..9 {
            let path = format!("{place}/link{number}");
            let read = session.on_guest("reading", move |guest| {
                let read = guest.read_file(&path);
                let _ = guest.write_file(&path, b"overwritten");
                read
            });
            assert!(read.is_err(), "{number}");
        }
        is_untouched(root.path());
        session.survives();
        drop(session);
        for found in fs::read_dir(root.path().join("one")).unwrap().flatten() {
            let metadata = fs::symlink_metadata(found.path()).unwrap();
            assert_eq!(
                (metadata.uid(), metadata.mode() & 0o6000),
                (rustix::process::geteuid().as_raw(), 0),
                "{found:?}"
            );
            if found.file_name() != "own" {
                match metadata.is_dir() {
                    true => fs::remove_dir_all(found.path()).unwrap(),
                    false => fs::remove_file(found.path()).unwrap(),
                }
            }
        }
    }
}

/// Who stands in a directory that others move away doesn't get out with it.
#[test]
fn a_directory_that_is_moved_out_takes_nobody_along() {
    let root = threads();
    let mut session = on_disk(&root.path().join("one"), |_| {});
    session.check("os.makedirs('d/e'); os.chdir('d/e'); held = os.open('.', os.O_RDONLY | os.O_DIRECTORY)");
    fs::rename(root.path().join("one/d"), root.path().join("d")).unwrap();
    session.check(
        r#"
def names(top, **more):
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY, **more)
    try: return set(os.listdir(descriptor))
    finally: os.close(descriptor)
for depth in range(1, 6):
    path = "/".join([".."] * depth)
    for more in ({}, {"dir_fd": held}):
        try: assert not {"secret", "other"} & names(path, **more), path
        except OSError as error: assert error.errno == errno.ENOENT, error
for path in ("../../secret", "../../other/own", f"/proc/self/fd/{held}/../../secret", "/proc/self/cwd/../../secret"):
    assert error_of(open, path) == "ENOENT", path
os.chdir("/workspace")
"#,
    );
    fs::rename(root.path().join("d"), root.path().join("one/d")).unwrap();
    is_untouched(root.path());
    session.survives();
}

#[test]
fn what_is_shown_in_a_workspace_cannot_be_written_to() {
    let (skills, ticket, thread) = (directory(), directory(), directory());
    for path in [skills.path(), ticket.path()] {
        fs::create_dir(path.join("deep")).unwrap();
        fs::write(path.join("deep/f"), "original").unwrap();
        fs::set_permissions(path.join("deep/f"), Permissions::from_mode(0o666)).unwrap();
        fs::set_permissions(path.join("deep"), Permissions::from_mode(0o777)).unwrap();
    }
    let mounts = vec![
        shown(skills.path(), "/workspace/.skills/system"),
        shown(skills.path(), "/workspace/.solven/skills/user"),
        shown(ticket.path(), "/workspace/.ticket"),
    ];
    let in_memory = mounts.clone();
    for session in [
        &mut on_disk(thread.path(), |spec| spec.mounts = mounts),
        &mut Session::with(|spec| spec.mounts = in_memory),
    ] {
        session.check(
            r#"
refused = ("EROFS", "EBUSY", "EXDEV", "EACCES", "EPERM", "EISDIR")
for place in (".skills/system", ".solven/skills/user", ".ticket"):
    f, d = place + "/deep/f", place + "/deep"
    assert open(f).read() == "original"
    for action in (lambda: open(f, "w"), lambda: open(f, "a"), lambda: open(f, "r+"), lambda: os.unlink(f), lambda: os.chmod(f, 0o777),
                   lambda: os.utime(f), lambda: os.truncate(f, 0), lambda: os.rename(f, place + "/g"), lambda: os.rename(f, "g"),
                   lambda: os.link(f, "g"), lambda: open(d + "/new", "w"), lambda: os.mkdir(d + "/new"), lambda: os.symlink("x", d + "/new"),
                   lambda: os.chmod(place, 0o777), lambda: os.rmdir(place), lambda: os.rename(place, "gone"), lambda: os.unlink(place),
                   lambda: os.rename(".skills", "gone"), lambda: os.rename(".solven", "gone"), lambda: os.rename(".solven/skills", "gone"),
                   lambda: os.setxattr(f, "user.x", b"1"), lambda: os.open(place, os.O_TMPFILE | os.O_WRONLY)):
        assert error_of(action) in refused, (place, action.__code__.co_firstlineno)
    descriptor = os.open(f, os.O_RDONLY)
    assert error_of(os.open, f"/proc/self/fd/{descriptor}", os.O_RDWR) in refused
    assert error_of(os.fchmod, descriptor, 0o777) in refused
    import mmap
    assert error_of(mmap.mmap, descriptor, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) in refused
mount = {"x86_64": 165}.get(os.uname().machine, 40)
for path in (b".skills/system", b".skills", b".ticket", b"/workspace"):
    for flags in (32, 32 | 4096, 4096, 8192):
        assert syscall(mount, b"/tmp", path, None, flags, None) == errno.EPERM
    assert syscall(442, -100, path, 0x8000, ctypes.byref((ctypes.c_ulong * 4)(0, 1, 0, 0)), 32) == errno.EPERM
"#,
        );
        let report = session.command("rm -rf .skills .solven .ticket; mv .skills x; chmod -R 777 .skills; touch .ticket/deep/f .ticket/new; sed -i s/o/x/ .skills/system/deep/f; ln -sfn /tmp .skills/system; ls .skills .ticket");
        assert_eq!(report.stdout.text, ".skills:\nsystem\n\n.ticket:\ndeep\n", "{report:#?}");
        session.survives();
        let report = session.run("os.kill(os.getpid(), 9)");
        assert_eq!(report.state, State::RolledBack, "{report:#?}");
        session.check(
            "assert open('.skills/system/deep/f').read() == open('.ticket/deep/f').read() == 'original'",
        );
    }
    for path in [skills.path(), ticket.path()] {
        assert_eq!(fs::read(path.join("deep/f")).unwrap(), b"original");
        assert_eq!(fs::metadata(path.join("deep/f")).unwrap().mode() & 0o7777, 0o666);
        assert_eq!(
            (fs::read_dir(path).unwrap().count(), fs::read_dir(path.join("deep")).unwrap().count()),
            (1, 1)
        );
    }
}

/// What somebody puts at a place, and how.
type Plant<'p> = (&'p str, &'p dyn Fn(&Path));

/// What an earlier session left where something is to be mounted, or made.
#[test]
fn whatever_is_at_a_mount_point_is_not_followed() {
    let (skills, outside) = (directory(), directory());
    fs::write(skills.path().join("f"), "skill").unwrap();
    let plants: [Plant<'_>; 7] = [
        ("a pipe", &|place| assert!(Command::new("mkfifo").arg(place).status().unwrap().success())),
        ("a link to a directory", &|place| symlink(outside.path(), place).unwrap()),
        ("a link to the root", &|place| symlink("/", place).unwrap()),
        ("a loop", &|place| symlink(place, place).unwrap()),
        ("a socket", &|place| drop(std::os::unix::net::UnixListener::bind(place).unwrap())),
        ("a file", &|place| fs::write(place, "file").unwrap()),
        ("a closed directory", &|place| {
            fs::create_dir(place).unwrap();
            fs::set_permissions(place, Permissions::from_mode(0o000)).unwrap();
        }),
    ];
    for (what, plant) in plants {
        for inner in ["a", "a/of-belljar", "a/of-belljar/c"] {
            let thread = directory();
            if let Some((above, _)) = inner.rsplit_once('/') {
                fs::create_dir_all(thread.path().join(above)).unwrap();
            }
            plant(&thread.path().join(inner));
            let mount = shown(skills.path(), "/workspace/a/of-belljar/c");
            let mut session = on_disk(thread.path(), |spec| {
                spec.mounts = vec![mount];
                spec.directories = vec!["a/of-belljar/other".to_owned(), "artifacts".to_owned()];
            });
            // What is closed to its owner is opened by its owner.
            session.check("for path in ('a', 'a/of-belljar'): os.chmod(path, 0o755)");
            session.check("assert open('a/of-belljar/c/f').read() == 'skill' and os.path.isdir('artifacts')");
            session.survives();
            drop(session);
            let _ = fs::set_permissions(thread.path().join(inner), Permissions::from_mode(0o700));
            assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "{what} at {inner}");
            assert_eq!(
                fs::read_dir(thread.path().join("a/of-belljar/c")).unwrap().count(),
                0,
                "{what} at {inner}"
            );
            if what == "a file" {
                assert_eq!(fs::read(thread.path().join(format!("{inner}.old"))).unwrap(), b"file");
            }
        }
    }
    assert!(!Path::new("/of-belljar").exists() && !Path::new("/artifacts").exists());
}

#[test]
fn a_directory_that_others_remove_ends_nothing_else() {
    let (thread, skills) = (directory(), directory());
    let mount = shown(skills.path(), "/workspace/.skills/system");
    let mut session = on_disk(thread.path(), |spec| spec.mounts = vec![mount]);
    session.check("open('f', 'w').write('x'); held = open('f')");
    fs::remove_dir_all(thread.path()).unwrap();
    session.survives();
    assert_eq!(
        session.value("held.read(), error_of(os.getcwd), error_of(open, 'new', 'w')"),
        "('x', 'ENOENT', 'ENOENT')"
    );
    let report = session.run("os.kill(os.getpid(), 9)");
    assert_ne!(report.state, State::Kept, "{report:#?}");
    assert_eq!(session.value("6 * 7"), "42");
    let report = session.command("echo alive; cat f");
    assert_eq!(report.stdout.text, "alive\n", "{report:#?}");
    let read = session.on_guest("reading", |guest| guest.read_file("/workspace/f"));
    assert!(read.is_err());
    let written = session.on_guest("writing", |guest| guest.write_file("/workspace/f", b"x"));
    assert!(written.is_err());
    session.on_guest("snapshot", |guest| guest.snapshot().map(drop).unwrap());
}

/// Two threads never meet, even at the same place.
#[test]
fn two_threads_share_nothing() {
    let root = threads();
    let mut sessions: Vec<Session> =
        ["one", "other"].iter().map(|name| on_disk(&root.path().join(name), |_| {})).collect();
    for (session, name) in sessions.iter_mut().zip(["one", "other"]) {
        session.command(&format!("echo 'Thread {name}' > thread.txt; export NAME={name}; echo $NAME > name"));
    }
    for (session, name) in sessions.iter_mut().zip(["one", "other"]) {
        assert_eq!(
            session.command("cat thread.txt name own").stdout.text,
            format!("Thread {name}\n{name}\n{name}")
        );
    }
}

/// The host's way to files in memory, while their owner is at its worst.
#[test]
fn a_door_stays_in_the_workspace() {
    let outside = threads();
    let secret = outside.path().join("secret");
    let mut session = Session::with(|spec| spec.workspace = "/mnt/threads/a".to_owned());
    let door = session.on_guest("door", |guest| guest.door().unwrap());
    let write = |path: &str| FileOp::Write {
        path: path.to_owned(),
        contents: b"host".to_vec(),
        how: WriteHow::Replace,
    };
    let read = |path: &str| FileOp::Read { path: path.to_owned(), offset: 0, length: 100 };
    door.file(write("a/b")).unwrap();
    session.check(&format!(
        "assert open('a/b').read() == 'host'; open('a/b', 'a').write('+'); os.mkfifo('fifo'); os.symlink({secret:?}, 'link'); os.symlink('/mnt/threads/a/a', 'inner'); os.symlink('/etc', 'etc'); os.symlink('/session/a/b', 'alias')"
    ));
    assert_eq!(door.file(read("inner/b")).unwrap(), FileReply::Contents(b"host+".to_vec()));
    assert_eq!(door.file(read("alias")).unwrap(), FileReply::Contents(b"host+".to_vec()));
    for path in ["fifo", "link", "etc/passwd", "etc/hostname"] {
        assert!(door.file(read(path)).is_err(), "{path}");
    }
    let _ = (door.file(write("link")), door.file(write("etc/planted")));
    is_untouched(outside.path());
    assert!(!Path::new("/etc/planted").exists());
    // What the host did between cells stays when the next one is taken back.
    session.on_guest("file", move |guest| {
        guest.file(FileOp::MakeDirectory { path: "kept".to_owned() }).unwrap();
        guest
            .file(FileOp::Write { path: "kept/f".to_owned(), contents: b"1".to_vec(), how: WriteHow::Create })
            .unwrap();
    });
    let report = session.run("import shutil; shutil.rmtree('kept'); os.kill(os.getpid(), 9)");
    assert_eq!(report.state, State::RolledBack, "{report:#?}");
    session.check("assert open('kept/f').read() == '1' and os.stat('kept/f').st_uid == os.getuid()");
    session.survives();
}
