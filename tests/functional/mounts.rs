use std::fs;

use belljar::{Error, Mount, MountAccess, Policy, Status};
use belljar_tests::{builder, text};
use tempfile::TempDir;

fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("in.txt"), "from the host").unwrap();
    fs::create_dir(directory.path().join("below")).unwrap();
    directory
}

#[test]
fn a_mount_is_read_only_unless_asked() {
    let host = directory();
    let session =
        builder().mount(host.path(), "/data/input").build_blocking().unwrap().session_blocking().unwrap();
    assert_eq!(text(&session, "open('/data/input/in.txt').read()"), "'from the host'");
    assert_eq!(text(&session, "import os\nsorted(os.listdir('/data/input'))"), "['below', 'in.txt']");
    for code in [
        "open('/data/input/new', 'w')",
        "open('/data/input/in.txt', 'a')",
        "open('/data/input/in.txt', 'r+')",
        "os.unlink('/data/input/in.txt')",
        "os.mkdir('/data/input/d')",
        "os.rmdir('/data/input/below')",
        "os.rename('/data/input/in.txt', '/data/input/out.txt')",
        "os.symlink('in.txt', '/data/input/s')",
        "os.truncate('/data/input/in.txt', 0)",
        "os.utime('/data/input/in.txt', (1, 1))",
    ] {
        let raised = session.run_blocking(code).unwrap().exception.unwrap();
        assert!(raised.message.contains("Read-only file system"), "{code}: {raised:?}");
    }
    assert_eq!(fs::read_to_string(host.path().join("in.txt")).unwrap(), "from the host");
    assert_eq!(fs::read_dir(host.path()).unwrap().count(), 2);
}

#[test]
fn a_writable_mount_is_written_at_once() {
    let host = directory();
    let session =
        builder().mount_writable(host.path(), "/out").build_blocking().unwrap().session_blocking().unwrap();
    let outcome = session.run_blocking("import os\nopen('/out/result.txt', 'w').write('made')\nopen('/out/in.txt', 'a').write('!')\nos.mkdir('/out/d')\nos.rename('/out/below', '/out/d/moved')").unwrap();
    assert_eq!(outcome.status, Status::Ok, "{outcome:#?}");
    assert_eq!(
        (outcome.files_created, outcome.files_modified),
        (vec!["/out/result.txt".into()], vec!["/out/in.txt".into()])
    );
    assert_eq!(fs::read_to_string(host.path().join("result.txt")).unwrap(), "made");
    assert_eq!(fs::read_to_string(host.path().join("in.txt")).unwrap(), "from the host!");
    assert!(host.path().join("d/moved").is_dir());
    session.run_blocking("os.unlink('/out/result.txt')").unwrap();
    assert!(!host.path().join("result.txt").exists());
}

#[test]
fn a_writable_mount_is_outside_rollback() {
    let host = directory();
    let session =
        builder().mount_writable(host.path(), "/out").build_blocking().unwrap().session_blocking().unwrap();
    session.run_blocking("x = 1\nimport os").unwrap();
    session
        .run_blocking("open('/out/kept', 'w').write('k')\nopen('/workspace/lost', 'w').close()\nos._exit(1)")
        .unwrap();
    assert!(host.path().join("kept").exists());
    assert_eq!(
        text(&session, "x, os.path.exists('/out/kept'), os.path.exists('/workspace/lost')"),
        "(1, True, False)"
    );
}

#[test]
fn the_workspace_can_be_a_mount() {
    let host = directory();
    let session = builder()
        .mount_writable(host.path(), "/workspace")
        .build_blocking()
        .unwrap()
        .session_blocking()
        .unwrap();
    assert_eq!(
        text(&session, "import os\nopen('in.txt').read(), os.getcwd()"),
        "('from the host', '/workspace')"
    );
    session.run_blocking("open('out.txt', 'w').write('here')").unwrap();
    assert_eq!(fs::read_to_string(host.path().join("out.txt")).unwrap(), "here");
}

#[test]
fn several_mounts_and_renaming_between_them() {
    let (one, two) = (directory(), directory());
    let sandbox = builder()
        .mount_writable(one.path(), "/one")
        .mount_writable(two.path(), "/two")
        .build_blocking()
        .unwrap();
    let session = sandbox.session_blocking().unwrap();
    let raised = session
        .run_blocking("import os, shutil\nos.rename('/one/in.txt', '/two/moved')")
        .unwrap()
        .exception
        .unwrap();
    assert!(raised.message.contains("Cross-device link"), "{raised:?}");
    assert_eq!(text(&session, "shutil.move('/one/in.txt', '/two/moved')"), "'/two/moved'");
    assert!(!one.path().join("in.txt").exists() && two.path().join("moved").exists());
}

#[test]
fn what_the_host_changes_is_seen() {
    let host = directory();
    let session = builder().mount(host.path(), "/in").build_blocking().unwrap().session_blocking().unwrap();
    session.run_blocking("1").unwrap();
    fs::write(host.path().join("later.txt"), "later").unwrap();
    assert_eq!(text(&session, "open('/in/later.txt').read()"), "'later'");
}

#[test]
fn sessions_share_a_writable_mount_and_nothing_else() {
    let host = directory();
    let sandbox = builder().mount_writable(host.path(), "/shared").build_blocking().unwrap();
    let (one, two) = (sandbox.session_blocking().unwrap(), sandbox.session_blocking().unwrap());
    one.run_blocking("open('/shared/m', 'w').write('hi')\nopen('/tmp/own', 'w').close()").unwrap();
    assert_eq!(
        text(&two, "import os\nopen('/shared/m').read(), os.path.exists('/tmp/own')"),
        "('hi', False)"
    );
}

#[test]
fn impossible_mounts_are_refused() {
    let host = directory();
    let mount =
        |guest: &str| Mount { host: host.path().into(), guest: guest.into(), access: MountAccess::ReadOnly };
    for guest in ["", "/", "relative", "/python", "/usr/", "/python/inner", "/usr/share/zoneinfo/Europe"] {
        let policy = Policy { mounts: vec![mount(guest)], ..Policy::default() };
        assert!(matches!(builder().policy(policy).build_blocking(), Err(Error::Policy(_))), "{guest:?}");
    }
    for mounts in [
        vec![mount("/a/../b")],
        vec![mount("/a"), mount("/a/below")],
        vec![mount("/a/in.txt"), mount("/a")],
        vec![Mount { host: "/nowhere/at/all".into(), guest: "/a".into(), access: MountAccess::ReadOnly }],
        vec![Mount { host: host.path().join("in.txt"), guest: "/a".into(), access: MountAccess::ReadOnly }],
    ] {
        let policy = Policy { mounts: mounts.clone(), ..Policy::default() };
        let refused =
            builder().policy(policy).build_blocking().and_then(|sandbox| sandbox.session_blocking());
        assert!(refused.is_err(), "{mounts:?}");
        assert!(refused.err().unwrap().hint().is_some(), "{mounts:?}");
    }
}

#[test]
fn a_mount_can_be_inside_another() {
    let (outer, inner) = (directory(), directory());
    fs::write(inner.path().join("in.txt"), "from within").unwrap();
    let session = builder()
        .mount_writable(outer.path(), "/out")
        .mount(inner.path(), "/out/inner")
        .build_blocking()
        .unwrap()
        .session_blocking()
        .unwrap();
    assert_eq!(
        text(&session, "open('/out/inner/in.txt').read(), open('/out/in.txt').read()"),
        "('from within', 'from the host')"
    );
    assert_eq!(text(&session, "import os\nsorted(os.listdir('/out'))"), "['below', 'in.txt', 'inner']");
    assert_eq!(session.run_blocking("open('/out/inner/new', 'w')").unwrap().status, Status::Error);
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 2, "nothing is made on the host");
}
