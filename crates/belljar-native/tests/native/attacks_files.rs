//! Hostile files, looked at from outside.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use belljar_engine::{EngineError, State};

use crate::Session;

impl Session {
    fn read(&mut self, path: &str) -> Result<Vec<u8>, EngineError> {
        let path = path.to_owned();
        self.on_guest("reading", move |guest| guest.read_file(&path))
    }

    fn write(&mut self, path: &str, contents: &'static [u8]) -> Result<(), EngineError> {
        let path = path.to_owned();
        self.on_guest("writing", move |guest| guest.write_file(&path, contents))
    }
}

#[test]
fn links_lead_nowhere_outside() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::set_permissions(outside.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "4711").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o666)).unwrap();
    let mut session = Session::new();
    let targets = [
        secret.to_str().unwrap().to_owned(),
        format!("../../../../../../../..{}", secret.display()),
        format!("/proc/self/root{}", secret.display()),
        format!("/proc/{}/root{}", std::process::id(), secret.display()),
        format!("/proc/{}/cwd", std::process::id()),
        "/etc/shadow".to_owned(),
        "/etc/passwd".to_owned(),
        "/proc/self/environ".to_owned(),
        "/proc/self/fd/0".to_owned(),
        "/dev/stdin".to_owned(),
        "/dev/zero".to_owned(),
    ];
    for (number, target) in targets.iter().enumerate() {
        session.check(&format!("os.symlink({target:?}, 'link{number}')\nos.makedirs('d{number}')\nos.symlink(os.path.dirname({target:?}) or '/', 'd{number}/up')"));
        assert!(
            session.read(&format!("/workspace/link{number}")).map_or(true, |read| read == b"overwritten"),
            "{target}"
        );
        let _ = session.write(&format!("/workspace/link{number}"), b"overwritten");
        let name = target.rsplit('/').next().unwrap();
        let _ = session.write(&format!("/workspace/d{number}/up/{name}"), b"overwritten");
        let _ = session.write(&format!("/workspace/d{number}/up/new/file"), b"overwritten");
    }
    for path in [
        "/workspace/../../../../etc/hostname",
        "/../etc/hostname",
        "/etc/passwd",
        "/proc/self/environ",
        "",
        "/",
        "/workspace",
        ".",
    ] {
        // What was written before may be read; it is in a tree that nobody sees.
        assert!(session.read(path).map_or(true, |read| read == b"overwritten"), "{path}");
        let _ = session.write(path, b"overwritten");
    }
    assert_eq!(std::fs::read(&secret).unwrap(), b"4711");
    let names: Vec<_> = std::fs::read_dir(outside.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(!std::fs::read_to_string("/etc/passwd").unwrap().contains("overwritten"));
    session.survives();
}

/// Hard links, loops of links, and a link of its own output.
#[test]
fn links_within() {
    let mut session = Session::with(|spec| spec.limits.output = 1000);
    session.check("os.symlink('b', 'a'); os.symlink('a', 'b'); os.symlink('.', 'here'); open('f', 'w').write('x'); os.link('f', 'g')");
    assert!(session.read("/workspace/a").is_err());
    assert_eq!(session.read("/workspace/here/here/here/g").unwrap(), b"x");
    assert!(error_of_link(&mut session));
    // The overflow of a cell's output goes into a file of a known name.
    let next = session.number + 1;
    for what in ["os.symlink('/workspace/f', p)", "os.mkdir(p)", "os.mkfifo(p)", "os.link('/workspace/f', p)"]
    {
        let code = format!(
            "p = '/tmp/cell-{{}}.stdout'\nfor n in range({next}, {next} + 60):\n    p = f'/tmp/cell-{{n}}.stdout'\n    if not os.path.lexists(p): {what}\nprint('y' * 100_000)"
        );
        session.run(&code);
        assert_eq!(session.read("/workspace/f").unwrap(), b"x", "{what}");
        session.check("import shutil\nfor n in os.listdir('/tmp'):\n    p = '/tmp/' + n\n    shutil.rmtree(p) if os.path.isdir(p) and not os.path.islink(p) else os.unlink(p)");
    }
    session.survives();
}

fn error_of_link(session: &mut Session) -> bool {
    session.value("error_of(os.link, '/etc/passwd', '/workspace/passwd')") != "None"
}

#[test]
fn pipes_sockets_and_odd_names() {
    let mut session = Session::new();
    session.check(
        r#"
os.mkfifo("fifo"); os.mkfifo("full"); hold = os.open("full", os.O_RDWR | os.O_NONBLOCK)
try:
    while True: os.write(hold, b"x" * 4096)
except BlockingIOError: pass
listening = socket.socket(socket.AF_UNIX); listening.bind("socket"); listening.listen()
os.mkdir("a\nb"); open(b"a\nb/\xff\xfe\x01", "w").write("1"); open("\u202e" * 50, "w"); open("-rf *", "w"); open("x" * 255, "w")
os.mkdir("closed"); open("closed/f", "w").write("1"); os.chmod("closed", 0)
open("unreadable", "w").write("1"); os.chmod("unreadable", 0)
"#,
    );
    for path in ["fifo", "full", "socket", "closed/f", "unreadable"] {
        assert!(session.read(&format!("/workspace/{path}")).is_err(), "{path}");
        let _ = session.write(&format!("/workspace/{path}"), b"new");
    }
    session.survives();
    let report = session.run("os.kill(os.getpid(), 9)");
    assert_eq!(report.state, State::RolledBack, "{report:#?}");
    session.survives();
    session.check("os.chmod('closed', 0o700); assert open('closed/f').read() == '1', os.listdir('closed')");
}

/// What the last cell made is taken back, whatever it is.
#[test]
fn taking_back_what_resists() {
    for code in [
        "os.makedirs('d/e/f'); open('d/e/f/g', 'w').write('x'); os.chmod('d/e', 0); os.chmod('d', 0)",
        "for _ in range(1000):\n    os.mkdir('d')\n    os.chdir('d')\nopen('f', 'w').write('x')",
        "os.makedirs('.venv/a/b'); os.chmod('.venv/a', 0)",
        "os.chmod('/workspace', 0)",
        "os.chmod('/tmp', 0o500); open('x', 'w')",
        "os.chmod('before', 0)",
        "os.rename('before', 'after'); os.mkdir('before'); os.mkfifo('before/fifo')",
        "os.chmod('/workspace', 0o500)",
    ] {
        let mut session = Session::new();
        session.check("os.mkdir('before'); open('before/f', 'w').write('kept')");
        let report = session.run(&format!("{code}\nos.kill(os.getpid(), 9)"));
        assert_eq!(report.state, State::RolledBack, "{code}\n{report:#?}");
        assert_eq!(
            session.value("open('/workspace/before/f').read(), sorted(os.listdir('/workspace'))"),
            "('kept', ['before'])",
            "{code}"
        );
        session.survives();
    }
}

/// A process of an earlier cell exchanges directories and links while files are read, written, compared and restored.
#[test]
fn a_directory_that_is_sometimes_a_link() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::set_permissions(outside.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(outside.path().join("f"), "outside").unwrap();
    std::fs::set_permissions(outside.path().join("f"), std::fs::Permissions::from_mode(0o666)).unwrap();
    let mut session = Session::new();
    session.check(&format!(
        r#"
os.makedirs("real/deep"); open("real/f", "w").write("inside"); os.symlink({:?}, "link")
RENAMEAT2 = {{"x86_64": 316}}.get(os.uname().machine, 276)
if os.fork() == 0:
    os.setsid()
    while True:
        for _ in range(1000):
            syscall(RENAMEAT2, -100, b"/workspace/real", -100, b"/workspace/link", 2)
        open("/workspace/real/f", "w").write("inside") if not os.path.islink("/workspace/real") else None
"#,
        outside.path().to_str().unwrap()
    ));
    for round in 0..200 {
        if let Ok(read) = session.read("/workspace/real/f") {
            assert_ne!(read, b"outside", "{round}");
        }
        let _ = session.write("/workspace/real/f", b"inside");
        let _ = session.write("/workspace/real/new/f", b"inside");
    }
    assert_eq!(std::fs::read(outside.path().join("f")).unwrap(), b"outside");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    for _ in 0..3 {
        let report = session.run("os.kill(os.getpid(), 9)");
        assert_eq!(report.state, State::RolledBack, "{report:#?}");
    }
    session.survives();
    assert_eq!(std::fs::read(outside.path().join("f")).unwrap(), b"outside");
}

#[test]
fn giants_and_crowds() {
    let mut session = Session::with(|spec| spec.limits.file_bytes = 400 << 20);
    session.check(
        "f = open('giant', 'wb'); f.truncate(1 << 30); f.seek((1 << 30) - 10); f.write(b'end'); f.close()",
    );
    assert!(session.read("/workspace/giant").is_err());
    session.check("os.unlink('giant')");
    session.check("for d in range(50):\n    os.mkdir(f'd{d}')\n    for n in range(1000):\n        open(f'd{d}/{n}', 'w').write('x')");
    assert_eq!(session.read("/workspace/d49/999").unwrap(), b"x");
    let report =
        session.run("import shutil\nfor d in range(25): shutil.rmtree(f'd{d}')\nos.kill(os.getpid(), 9)");
    assert_eq!(report.state, State::RolledBack, "{report:#?}");
    assert_eq!(session.value("sum(len(os.listdir(d)) for d in os.listdir('.'))"), "50000");
    session.survives();
}

/// A mount that can be written to is the host's directory: what leads out of it leads nowhere.
#[test]
fn a_mount_is_no_way_out() {
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("shared");
    std::fs::create_dir(&inner).unwrap();
    for path in [outer.path(), &inner] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    std::fs::write(outer.path().join("secret"), "4711").unwrap();
    std::fs::set_permissions(outer.path().join("secret"), std::fs::Permissions::from_mode(0o666)).unwrap();
    std::fs::write(inner.join("given"), "given").unwrap();
    let host = inner.clone();
    let mut session = Session::with(move |spec| {
        let mount = |guest: &str, access| belljar_engine::Mount {
            host: host.clone(),
            guest: guest.to_owned(),
            access,
        };
        spec.mounts = vec![
            mount("/shared", belljar_engine::MountAccess::ReadWrite),
            mount("/shown", belljar_engine::MountAccess::ReadOnly),
        ];
    });
    session.check(
        r#"
assert open("/shown/given").read() == "given"
assert error_of(open, "/shown/new", "w") in ("EROFS", "EACCES") and error_of(os.unlink, "/shown/given") in ("EROFS", "EACCES")
assert not os.path.exists("/shared/../secret") and not os.path.exists("/secret")
os.symlink("../secret", "/shared/link"); os.mkfifo("/shared/fifo")
assert error_of(open, "/shared/link") == "ENOENT"
open("/shared/program", "w").write('#!/bin/sh\nid -u\n'); os.chmod("/shared/program", 0o755)
import stat
assert error_of(os.chmod, "/shared/program", 0o4755) == error_of(os.chmod, "/shared/program", 0o2755) == "EPERM"
assert error_of(os.mknod, "/shared/device", stat.S_IFCHR | 0o666, os.makedev(1, 3)) in ("EPERM", "EACCES")
assert subprocess.run(["/shared/program"], capture_output=True, text=True).stdout in ("1000\n", "")
"#,
    );
    for path in ["/shared/link", "/shared/fifo", "/shared/../secret"] {
        assert!(session.read(path).map_or(true, |read| read == b"overwritten"), "{path}");
        let _ = session.write(path, b"overwritten");
    }
    assert_eq!(std::fs::read(outer.path().join("secret")).unwrap(), b"4711");
    session.survives();
}

/// The same path while a command makes and removes it.
#[test]
fn reading_while_it_is_written() {
    let mut session = Session::new();
    let command = belljar_engine::Command {
        line: "while true; do echo x > f; rm -f f; mkfifo f; rm -f f; mkdir f; rmdir f; ln -s /dev/zero f; rm -f f; done".to_owned(),
        ..Default::default()
    };
    session.on_guest("start", |guest| guest.start(command).unwrap());
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    let clock = thread::spawn(move || {
        thread::sleep(Duration::from_secs(2));
        told.store(true, Ordering::Relaxed);
    });
    while !over.load(Ordering::Relaxed) {
        let _ = session.read("/workspace/f");
        let _ = session.write("/workspace/f", b"x");
    }
    clock.join().unwrap();
    session.check("kept");
}
