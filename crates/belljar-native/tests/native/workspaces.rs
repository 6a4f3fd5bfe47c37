//! Where a session's files are, and where it sees them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use belljar_engine::{
    Command, Descent, Engine, EngineError, GuestSpec, Mount, MountAccess, Rollback, State, Status, Storage,
};

use crate::{Host, Session, engine};

/// The place of a workspace in the third of the systems that this one comes after.
const ELSEWHERE: &str = "/mnt/r2/bucket/threads/abc123";

/// A directory that only its owner can reach.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
}

pub(crate) fn on_disk(directory: &Path, change: impl FnOnce(&mut GuestSpec)) -> Session {
    let directory = directory.to_owned();
    Session::with(move |spec| {
        spec.storage = Storage::Disk(directory);
        change(spec);
    })
}

pub(crate) fn shown(host: &Path, guest: &str) -> Mount {
    Mount { host: host.to_owned(), guest: guest.to_owned(), access: MountAccess::ReadOnly }
}

fn refused(change: impl FnOnce(&mut GuestSpec)) -> String {
    let mut spec = GuestSpec::default();
    change(&mut spec);
    match engine().boot(Arc::new(spec)) {
        Err(EngineError::Boot(reason) | EngineError::Mount { reason, .. }) => reason,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was booted"),
    }
}

#[test]
fn a_workspace_is_where_it_is_said_to_be() {
    for place in ["/workspace", "/session", "/app", ELSEWHERE, "/home/user/a b", "/app/inner"] {
        let mut session = Session::with(|spec| spec.workspace = place.to_owned());
        session.check(&format!(
            r#"
place = {place:?}
assert os.getcwd() == os.environ["HOME"] == os.environ["PWD"] == os.path.expanduser("~") == place, os.getcwd()
import pwd
assert pwd.getpwuid(os.getuid()).pw_dir == place
open("of-a-cell", "w").write("1")
assert open(place + "/of-a-cell").read() == "1"
for alias in ("/workspace", "/session", "/app"):
    if not place.startswith(alias + "/"):
        assert os.path.samefile(alias, place), alias
        open(alias + "/by-alias", "w").write(alias)
assert error_of(open, os.path.dirname(place).rstrip("/") + "/beside", "w") in ("EROFS", "EACCES")
"#
        ));
        let report =
            session.command("pwd; echo $PWD $HOME ~user; cat of-a-cell; echo 2 > of-a-command; ls -d /app/.");
        assert_eq!(
            report.stdout.text,
            format!("{place}\n{place} {place} {place}\n1/app/.\n"),
            "{place} {report:#?}"
        );
        assert_eq!(report.changes.created, [format!("{place}/of-a-command")]);
        let read = |session: &mut Session, path: String| {
            session.on_guest("reading", move |guest| guest.read_file(&path).unwrap())
        };
        assert_eq!(read(&mut session, format!("{place}/of-a-cell")), b"1");
        if place == ELSEWHERE {
            assert_eq!(read(&mut session, "/workspace/of-a-cell".to_owned()), b"1");
        }
        let report = session.run("os.unlink('of-a-cell'); open('new', 'w'); os.kill(os.getpid(), 9)");
        assert_eq!(report.state, State::RolledBack, "{report:#?}");
        session.check("assert open('of-a-cell').read() == '1' and not os.path.exists('new')");
        session.survives();
    }
}

#[test]
fn a_place_that_the_jail_needs_is_refused() {
    for place in ["/usr/x", "/", "/proc", "/tmp/x", "relative", "/a/../b", "/data", "/etc/x", "/a:b"] {
        let reason = refused(|spec| spec.workspace = place.to_owned());
        assert!(reason.contains("the workspace can't be at"), "{place}: {reason}");
    }
    let reason = refused(|spec| spec.directories = vec!["a/../../b".to_owned()]);
    assert!(reason.contains("goes down only"), "{reason}");
    let host = directory();
    let reason = refused(|spec| {
        spec.workspace = "/mnt/a/b".to_owned();
        spec.mounts = vec![shown(host.path(), "/mnt/a")];
    });
    assert!(reason.contains("mounted around it"), "{reason}");
    let reason = refused(|spec| spec.storage = Storage::Disk(host.path().join("absent")));
    assert!(reason.contains("No such file"), "{reason}");
}

#[test]
fn sessions_made_ahead_of_time_have_the_same_workspace() {
    let spec = GuestSpec {
        workspace: ELSEWHERE.to_owned(),
        directories: vec!["artifacts".to_owned(), "data/raw".to_owned()],
        ..GuestSpec::default()
    };
    let spec = Arc::new(spec);
    engine().warm(&spec, 2);
    for _ in 0..4 {
        let mut session = Session::from(engine().boot(Arc::clone(&spec)).unwrap());
        assert_eq!(
            session.value("os.getcwd(), sorted(os.listdir('.')), os.listdir('data')"),
            format!("('{ELSEWHERE}', ['artifacts', 'data'], ['raw'])")
        );
    }
    engine().warm(&spec, 0);
}

/// They are there before the first cell, so they are there when it is taken back.
#[test]
fn directories_are_made_and_stay() {
    let mut session = Session::with(|spec| {
        spec.directories = vec!["artifacts".to_owned(), "data/raw".to_owned()];
    });
    session.check("os.rmdir('artifacts'); open('data/raw/f', 'w')");
    session.on_guest("undo", |guest| guest.undo(3).unwrap());
    let report = session.run("import os; sorted(os.listdir('.')), os.listdir('data/raw')");
    assert_eq!(crate::value(&report), "(['artifacts', 'data'], [])", "{report:#?}");
    let mut session = Session::with(|spec| {
        spec.directories = vec!["artifacts".to_owned()];
        spec.rollback = Rollback::Never;
    });
    session.run("os.rmdir('artifacts'); os._exit(1)");
    assert_eq!(session.value("__import__('os').listdir('.')"), "['artifacts']");
}

#[test]
fn a_directory_of_the_host_is_a_workspace() {
    let host = directory();
    fs::write(host.path().join("given"), "given").unwrap();
    fs::create_dir(host.path().join("old")).unwrap();
    for place in ["/workspace", ELSEWHERE] {
        let mut session = on_disk(host.path(), |spec| {
            spec.workspace = place.to_owned();
            spec.directories = vec!["artifacts".to_owned()];
        });
        let report = session.check(
            "assert os.getcwd() == os.environ['HOME']\nassert open('given').read() == 'given'\nopen('old/new', 'w').write('new'); open('/tmp/t', 'w').write('t'); os.makedirs('made/deep', exist_ok=True)",
        );
        // Whoever booted it knows what is below.
        assert_eq!((report.changes.created, report.changes.truncated), (vec!["/tmp/t".to_owned()], false));
        let report = session.command(
            "pwd; cat given old/new; echo c > artifacts/of-a-command; stat -c '%u %a' old/new artifacts",
        );
        assert_eq!(report.stdout.text, format!("{place}\ngivennew1000 644\n1000 755\n"), "{report:#?}");
        let path = format!("{place}/made/by-the-host");
        session.on_guest("writing", move |guest| {
            guest.write_file(&path, b"host").unwrap();
            assert_eq!(guest.read_file(&path).unwrap(), b"host");
        });
        session.check("open('made/by-the-host', 'a').write('!')");
        // What is there stays, whatever becomes of the variables; what is in memory doesn't.
        let report = session
            .run("kept = 0; open('stays', 'w').write('1'); open('/tmp/goes', 'w'); os.kill(os.getpid(), 9)");
        assert_eq!(report.state, State::RolledBack, "{report:#?}");
        session.check("assert open('stays').read() == '1' and not os.path.exists('/tmp/goes')");
        session.survives();
        for name in ["old/new", "stays", "artifacts/of-a-command", "made/deep", "made/by-the-host"] {
            let metadata = fs::symlink_metadata(host.path().join(name)).unwrap();
            assert_eq!(metadata.uid(), rustix::process::geteuid().as_raw(), "{name}");
        }
        assert_eq!(fs::read(host.path().join("made/by-the-host")).unwrap(), b"host!");
        drop(session);
        fs::remove_dir_all(host.path().join("made")).unwrap();
    }
}

/// A snapshot has the variables and what is in memory; the files are those of the directory that the next one is given.
#[test]
fn a_snapshot_goes_on_in_another_directory() {
    let (one, other) = (directory(), directory());
    fs::write(other.path().join("of-other"), "2").unwrap();
    let mut session = on_disk(one.path(), |_| {});
    session.check("open('of-one', 'w').write('1'); open('/tmp/t', 'w').write('t'); x = 7");
    let snapshot = session.on_guest("snapshot", |guest| guest.snapshot().unwrap());
    assert_eq!(snapshot.file_bytes(), 1);
    let saved = engine().restore(snapshot.save().unwrap()).unwrap();
    for snapshot in [snapshot, saved] {
        let mut spec = GuestSpec { storage: Storage::Disk(other.path().to_owned()), ..GuestSpec::default() };
        spec.limits.memory = 512 << 20;
        let guest = engine().resume(snapshot.as_ref(), Arc::new(spec), Descent::Child(1)).unwrap();
        let mut session = Session { guest: Some(guest), number: 10 };
        assert_eq!(session.value("x, os.listdir('.'), open('/tmp/t').read()"), "(7, ['of-other'], 't')");
    }
    // The same session goes back, and its files don't.
    let snapshot = session.on_guest("snapshot", |guest| guest.snapshot().unwrap());
    session.check("open('later', 'w'); open('/tmp/later', 'w'); x = 8");
    session.on_guest("back", move |guest| guest.roll_back_to(snapshot.as_ref()).unwrap());
    session.check("assert x == 7 and os.path.exists('later') and not os.path.exists('/tmp/later')");
    session.check("open('last', 'w')");
    session.on_guest("undo", |guest| guest.undo(1).unwrap());
    session.check("assert os.path.exists('last')");
}

/// Files that were in memory once aren't written over those on disk.
#[test]
fn files_in_memory_stay_out_of_a_directory() {
    let host = directory();
    fs::write(host.path().join("f"), "disk").unwrap();
    let mut session = Session::new();
    session.check("open('f', 'w').write('memory'); open('g', 'w')");
    let snapshot = session.on_guest("snapshot", |guest| guest.snapshot().unwrap());
    let mut spec = GuestSpec { storage: Storage::Disk(host.path().to_owned()), ..GuestSpec::default() };
    spec.limits.memory = 512 << 20;
    let guest = engine().resume(snapshot.as_ref(), Arc::new(spec), Descent::Same).unwrap();
    let mut session = Session { guest: Some(guest), number: 10 };
    assert_eq!(session.value("os.listdir('.'), open('f').read()"), "(['f'], 'disk')");
}

/// Files whose ids the session would have on the host stay their owner's.
#[test]
fn old_threads_open_as_they_are() {
    let (thread, skills) = (directory(), directory());
    fs::write(skills.path().join("SKILL.md"), "skill").unwrap();
    let old = thread.path().join(".solven/skills");
    fs::create_dir_all(&old).unwrap();
    symlink("/etc", old.join("system")).unwrap();
    symlink("../../nowhere", old.join("user")).unwrap();
    symlink("/usr/lib", thread.path().join(".ticket")).unwrap();
    fs::write(thread.path().join(".skills"), "a file of the user's").unwrap();
    let mounts: Vec<Mount> = [".solven/skills/system", ".solven/skills/user", ".ticket", ".skills/system"]
        .iter()
        .map(|path| shown(skills.path(), &format!("/workspace/{path}")))
        .collect();
    for round in 0..2 {
        let mounts = mounts.clone();
        let mut session = on_disk(thread.path(), |spec| spec.mounts = mounts);
        session.check(
            r#"
for place in (".solven/skills/system", ".solven/skills/user", ".ticket", ".skills/system"):
    assert os.listdir(place) == ["SKILL.md"] and not os.path.islink(place), place
    assert error_of(open, place + "/new", "w") == "EROFS", place
assert open(".skills.old").read() == "a file of the user's"
"#,
        );
        let places = fs::read_dir(thread.path().join(".solven/skills")).unwrap();
        for place in places.flatten() {
            assert!(place.file_type().unwrap().is_dir(), "{round} {place:?}");
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "{round} {place:?}");
        }
        session.survives();
    }
    assert!(!Path::new("/etc/SKILL.md").exists());
}

/// In memory too: whatever is taken back, what is mounted stays.
#[test]
fn mounts_in_a_workspace_outlive_what_is_taken_back() {
    let (skills, outer) = (directory(), directory());
    fs::write(skills.path().join("SKILL.md"), "skill").unwrap();
    fs::create_dir(outer.path().join("inner")).unwrap();
    let host = skills.path().to_owned();
    let outer_host = outer.path().to_owned();
    let mut session = Session::with(move |spec| {
        spec.mounts = vec![
            shown(&host, "/workspace/.skills/system"),
            shown(&host, "/workspace/.skills/user"),
            Mount { access: MountAccess::ReadWrite, ..shown(&outer_host, "/workspace/data") },
            shown(&host, "/workspace/data/inner"),
        ];
    });
    let look = "assert open('.skills/system/SKILL.md').read() == open('.skills/user/SKILL.md').read() == open('data/inner/SKILL.md').read() == 'skill'";
    session.check(look);
    let report = session.check("open('data/new', 'w').write('1'); open('own', 'w'); x = 1");
    assert_eq!(report.changes.created, ["/workspace/own"]);
    session.run("open('.skills/own', 'w'); os.kill(os.getpid(), 9)");
    session.check(look);
    session.check("assert os.listdir('.skills') == ['system', 'user'] or sorted(os.listdir('.skills')) == ['system', 'user']");
    let snapshot = session.on_guest("snapshot", |guest| guest.snapshot().unwrap());
    let count = session.on_guest("undoable", |guest| guest.undoable().unwrap().len());
    session.on_guest("undo", move |guest| guest.undo(count).unwrap());
    session.run("import os");
    session.check(look);
    session.on_guest("back", move |guest| guest.roll_back_to(snapshot.as_ref()).unwrap());
    session.check(look);
    // A snapshot of one that has no such mounts.
    let mut plain = Session::new();
    plain
        .check("os.mkdir('.skills'); open('.skills/system', 'w').write('a file'); open('f', 'w').write('f')");
    let snapshot = plain.on_guest("snapshot", |guest| guest.snapshot().unwrap());
    let mut spec = GuestSpec::default();
    spec.limits.memory = 512 << 20;
    spec.mounts = vec![shown(skills.path(), "/workspace/.skills/system")];
    let guest = engine().resume(snapshot.as_ref(), Arc::new(spec), Descent::Child(1)).unwrap();
    let mut session = Session { guest: Some(guest), number: 10 };
    session.check("assert open('.skills/system/SKILL.md').read() == 'skill' and open('f').read() == 'f'");
}

#[test]
fn a_mount_is_still_not_made_on_the_host() {
    let (outer, inner) = (directory(), directory());
    let reason = refused(|spec| {
        spec.mounts = vec![
            Mount { access: MountAccess::ReadWrite, ..shown(outer.path(), "/workspace/data") },
            shown(inner.path(), "/workspace/data/absent"),
        ];
    });
    assert!(reason.contains("isn't there in the mount around it"), "{reason}");
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 0);
}

fn filling(session: &mut Session, command: bool, what: &str) -> (Status, String) {
    let interrupter = session.on_guest("interrupter", |guest| guest.interrupter());
    interrupter.fill();
    let started = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        interrupter.fill();
    });
    let told = match command {
        true => {
            let report = session.command(what);
            (report.status, report.reason.unwrap_or_default())
        }
        false => {
            let report = session.run(what);
            assert_eq!(report.state, State::RolledBack, "{report:#?}");
            (report.status, report.reason.unwrap_or_default())
        }
    };
    started.join().unwrap();
    told
}

#[test]
fn whoever_fills_the_disk_is_stopped_at_once() {
    let host = directory();
    let mut session = on_disk(host.path(), |spec| spec.limits.file_bytes = 10 << 20);
    let stubborn = "signal.signal(2, signal.SIG_IGN)\nkept = 0\nwhile True:\n    try: time.sleep(100)\n    except BaseException: pass";
    let (status, reason) = filling(&mut session, false, stubborn);
    assert_eq!(status, Status::DiskFull);
    assert!(reason.contains("10485760 bytes"), "{reason}");
    session.survives();
    let (status, reason) = filling(&mut session, true, "trap '' TERM INT; while true; do sleep 1; done");
    assert_eq!(status, Status::DiskFull);
    assert!(reason.contains("10485760 bytes"), "{reason}");
    session.survives();
}

#[test]
fn a_quota_that_is_used_up_is_said() {
    let mut session = Session::with(|spec| spec.limits.file_bytes = 10 << 20);
    let report = session.run("open('large', 'wb').write(b'x' * (20 << 20))");
    assert_eq!((report.status, report.state), (Status::DiskFull, State::Kept), "{report:#?}");
    assert!(report.reason.as_ref().unwrap().contains("10485760 bytes"), "{report:#?}");
    let report = session.command("head -c 20M /dev/zero > more");
    assert_eq!(report.status, Status::DiskFull, "{report:#?}");
    session.check("os.unlink('large'); os.unlink('more')");
    // What has to do with something else is an error like others.
    let report = session.run("raise OSError(28, 'No space left on device')");
    assert_eq!(report.status, Status::Error, "{report:#?}");
    session.survives();
}

/// One file is never larger than the quota, and yet variables that are larger can be kept.
#[test]
fn one_write_does_not_go_far_beyond_the_quota() {
    let host = directory();
    let mut session = on_disk(host.path(), |spec| spec.limits.file_bytes = 4 << 20);
    let report = session.run("open('large', 'wb').write(b'x' * (20 << 20))");
    assert_eq!(report.status, Status::DiskFull, "{report:#?}");
    assert!(fs::metadata(host.path().join("large")).unwrap().len() <= 4 << 20);
    let report = session.run("with open('sparse', 'wb') as f: f.truncate(1 << 30)");
    assert_eq!(report.status, Status::DiskFull, "{report:#?}");
    let report = session.run("os.posix_fallocate(os.open('allocated', os.O_RDWR | os.O_CREAT), 0, 1 << 30)");
    assert_eq!(report.status, Status::DiskFull, "{report:#?}");
    let report = session
        .command("head -c 100M /dev/zero > of-a-command; fallocate -l 100M other; truncate -s 1G third");
    assert_ne!(report.exit_code, Some(0), "{report:#?}");
    for found in fs::read_dir(host.path()).unwrap().flatten() {
        assert!(found.metadata().unwrap().len() <= 4 << 20, "{found:?}");
    }
    session.check("much = os.urandom(30 << 20)");
    let snapshot = session.on_guest("snapshot", |guest| guest.snapshot().unwrap());
    assert!(snapshot.save().unwrap().memory.length >= 30 << 20);
    let report = session.run("open('again', 'wb').write(much)");
    assert_eq!(report.status, Status::DiskFull, "{report:#?}");
}

/// What shells of people read, those of a session read too.
#[test]
fn commands_read_what_the_workspace_says() {
    let host = directory();
    for session in
        [&mut on_disk(host.path(), |_| {}), &mut Session::with(|spec| spec.workspace = ELSEWHERE.to_owned())]
    {
        let said = |session: &mut Session, rc: &str, line: &str| {
            let write = format!("open('.bashrc', 'w').write({rc:?})");
            session.check(&write);
            let report = session.command(line);
            (report.exit_code, report.stdout.text)
        };
        let line = "hello $X\nexit 4";
        let good = "alias hello='echo hello'\nexport X=5\n";
        let expected = (Some(4), "hello 5\n".to_owned());
        for bad in [
            "",
            "exit 3\n",
            "return 3\n",
            "false\n",
            "set -e; false\n",
            "set -u; echo $nowhere\n",
            ": ${nowhere:?is absent}\n",
            "if (\n",
            "nonsense\n",
        ] {
            assert_eq!(said(session, &format!("{good}{bad}"), line), expected, "{bad}");
        }
        assert_eq!(
            said(session, good, "echo $# $0 \"$__line\"; bash -c 'hello' 2>/dev/null; trap"),
            (Some(0), "0 bash \n".to_owned())
        );
        // It can't make a command last.
        session.check("open('.bashrc', 'w').write('sleep 1000')");
        let command = Command {
            line: "echo 1".to_owned(),
            timeout: Some(Duration::from_millis(300)),
            ..Default::default()
        };
        let report = session
            .on_guest("a slow .bashrc", |guest| guest.command(command, Arc::new(Host::default())).unwrap());
        assert_eq!(report.status, Status::Timeout, "{report:#?}");
        session.check("os.unlink('.bashrc'); os.mkfifo('.bashrc')");
        assert_eq!(session.command("echo 1").stdout.text, "1\n");
        session.check("os.unlink('.bashrc'); os.mkdir('.bashrc')");
        let report = session.command("echo $PYTHONUNBUFFERED $PYTHONDONTWRITEBYTECODE $MPLBACKEND");
        assert_eq!(report.stdout.text, "1 1 Agg\n");
        session.survives();
    }
}

/// A `.venv` that was there before the session, as those of older systems' threads are.
#[test]
fn a_venv_of_the_workspace_comes_first() {
    let host = directory();
    let name: PathBuf = crate::environment().executable;
    let python = name.file_name().unwrap().to_str().unwrap();
    let site = host.path().join(format!(".venv/lib/{python}/site-packages"));
    fs::create_dir_all(&site).unwrap();
    fs::create_dir_all(host.path().join(".venv/bin")).unwrap();
    fs::create_dir_all(host.path().join("node_modules/.bin")).unwrap();
    fs::write(site.join("of_the_thread.py"), "x = 1").unwrap();
    for (path, text) in [
        (".venv/bin/tool", "#!/bin/sh\necho of-the-venv\n"),
        ("node_modules/.bin/other", "#!/bin/sh\necho of-node\n"),
    ] {
        fs::write(host.path().join(path), text).unwrap();
        fs::set_permissions(host.path().join(path), Permissions::from_mode(0o755)).unwrap();
    }
    symlink("/nowhere/python3", host.path().join(".venv/bin/python3")).unwrap();
    let mut session = on_disk(host.path(), |spec| spec.workspace = ELSEWHERE.to_owned());
    session.check("import of_the_thread; assert of_the_thread.__file__.startswith(os.getcwd())\nassert sys.path[0].startswith(os.getcwd() + '/.venv')");
    let report = session
        .command("tool; other; python3 -c 'import of_the_thread; print(of_the_thread.x)'; echo $VIRTUAL_ENV");
    assert_eq!(report.stdout.text, format!("of-the-venv\nof-node\n1\n{ELSEWHERE}/.venv\n"), "{report:#?}");
}

/// What sessions do to files, at random; and what is in the workspace.
const AT_RANDOM: &str = r#"
import json, random, shutil
def look():
    found = {}
    for top, directories, names in os.walk("/workspace"):
        for name in names + [d for d in directories if os.path.islink(os.path.join(top, d))]:
            path = os.path.join(top, name)
            if os.path.islink(path): found[path] = "-> " + os.readlink(path)
            elif os.path.isfile(path): found[path] = open(path).read()
            else: found[path] = "special"
    return found
def some(kind):
    all = [os.path.join(top, name) for top, directories, names in os.walk("/workspace") for name in (directories if kind == "d" else names)]
    all = [path for path in all if kind == "d" or not os.path.islink(path) and os.path.isfile(path)]
    return random.choice(all) if all else "/workspace/none"
def name(): return os.path.join(random.choice(["/workspace", some("d")]), random.choice("abcdefgh"))
def write(path, how="w"):
    if os.path.exists(path) and not os.path.isfile(path): raise OSError
    with open(path, how) as file: file.write(random.choice(["x", "yy", "z" * 5000]))
def directory(path):
    os.mkdir(path); write(path + "/inner"); os.mkdir(path + "/deeper"); write(path + "/deeper/most")
def replace(path):
    os.unlink(path); random.choice([os.mkdir, os.mkfifo, write])(path)
actions = [lambda: write(name()), lambda: write(some("f")), lambda: write(some("f"), "a"), lambda: directory(name()), lambda: os.unlink(some("f")),
           lambda: shutil.rmtree(some("d")), lambda: os.rename(some("f"), name()), lambda: os.rename(some("d"), name()), lambda: os.link(some("f"), name()),
           lambda: os.symlink(some("f"), name()), lambda: os.chmod(some("f"), random.choice([0o600, 0o755])), lambda: replace(some("f")), lambda: os.mkfifo(name()),
           lambda: os.truncate(some("f"), 1), lambda: os.chmod(some("d"), random.choice([0o700, 0o755]))]
def act(seed):
    random.seed(seed)
    for _ in range(random.randrange(1, 12)):
        try: random.choice(actions)()
        except OSError: pass
"#;

/// Only what was touched is looked at; and it is as if all had been.
#[test]
fn changes_are_what_changed() {
    use std::collections::{BTreeMap, BTreeSet};
    type Files = BTreeMap<String, String>;
    let mut session = Session::new();
    session.check(AT_RANDOM);
    let look = |session: &mut Session| -> Files {
        let report = session.check("print(json.dumps(look()))");
        assert_eq!(report.changes, belljar_engine::Changes::default());
        serde_json::from_str(&report.stdout.text).unwrap()
    };
    let mut before = look(&mut session);
    for seed in 0..150 {
        let report = session.check(&format!("act({seed})"));
        let after = look(&mut session);
        let missing = |one: &Files, other: &Files| -> Vec<String> {
            one.keys().filter(|path| !other.contains_key(*path)).cloned().collect()
        };
        assert_eq!(report.changes.created, missing(&after, &before), "{seed}");
        assert_eq!(report.changes.deleted, missing(&before, &after), "{seed}");
        let modified: BTreeSet<&String> = report.changes.modified.iter().collect();
        for (path, contents) in &after {
            if before.get(path).is_some_and(|former| former != contents) {
                assert!(modified.contains(path), "{seed}: {path} {report:#?}");
            }
        }
        assert!(
            modified.iter().all(|path| before.contains_key(*path) && after.contains_key(*path)),
            "{seed}"
        );
        assert!(!report.changes.truncated);
        // What is taken back is as it was, but for what has no contents.
        if seed % 5 == 0 {
            let report = session.run(&format!("act({seed} + 1000); os.kill(os.getpid(), 9)"));
            assert_eq!(report.state, State::RolledBack, "{report:#?}");
            let plain = |files: &Files| -> Files {
                files
                    .iter()
                    .filter(|(_, what)| *what != "special")
                    .map(|(a, b)| (a.clone(), b.clone()))
                    .collect()
            };
            let now = look(&mut session);
            assert_eq!(plain(&now), plain(&after), "{seed}");
            before = now;
        } else {
            before = after;
        }
    }
    assert!(before.len() > 5, "{before:?}");
}
