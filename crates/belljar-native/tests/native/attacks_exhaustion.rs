//! Using up what there is: processes, memory, files, descriptors, output.

use std::time::Duration;

use belljar_engine::{Engine, State, Status};

use crate::{Session, engine};

/// Whether all processes of a session have a limit together, or each its own.
fn has_layer(name: &str) -> bool {
    engine().layers().iter().any(|layer| layer.name == name && layer.missing.is_none())
}

#[test]
fn a_fork_bomb() {
    let mut session = Session::with(|spec| spec.limits.wall = Some(Duration::from_secs(10)));
    // Those that sleep: so many and no more.
    session.check("made = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            time.sleep(100)\n            os._exit(0)\n        made += 1\nexcept OSError as error:\n    why = errno.errorcode[error.errno]");
    assert_eq!(session.value("why"), "'EAGAIN'");
    assert_eq!(session.value("100 < made < 300"), "True");
    assert_eq!(session.value("kept"), "41");
    assert_eq!(Session::new().value("in_child(print)"), "0", "another session has its own");
    session.check("for pid in others():\n    try: os.kill(pid, 9) if os.getpgid(pid) == os.getpgid(0) else None\n    except OSError: pass\ntry:\n    while True: os.waitpid(-1, 0) if made else 1\nexcept ChildProcessError: pass\nexcept KeyboardInterrupt: pass");
    assert_eq!(session.value("kept"), "41");
}

/// A shell's own.
#[test]
fn a_fork_bomb_of_a_command() {
    let mut session = Session::with(|spec| spec.limits.wall = Some(Duration::from_secs(2)));
    let report = session.command("b() { b | b & }; b; sleep 10");
    assert!(report.status != Status::Ok, "{report:#?}");
    assert_eq!(session.value("kept"), "41");
    session.survives();
}

/// They multiply in a cell that is stopped hard, faster than they can be listed.
#[test]
fn rabbits() {
    let mut session = Session::with(|spec| spec.limits.wall = Some(Duration::from_millis(500)));
    for _ in 0..2 {
        let report = session.run(
            r"
signal.signal(2, signal.SIG_IGN)
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            try:
                if os.fork(): os.kill(os.getpid(), 9)
            except OSError: pass
while True: pass
",
        );
        assert_eq!((report.status, report.state), (Status::Timeout, State::RolledBack), "{report:#?}");
        // Of what was started in it nothing is left, but for the shadows.
        assert_eq!(session.value("len(others()) < 12"), "True");
        session.survives();
    }
}

/// Starting a command in a full session fails, and that is all.
#[test]
fn no_room_for_a_command() {
    let mut session = Session::new();
    session.check("try:\n    while True:\n        if os.fork() == 0:\n            time.sleep(100)\n            os._exit(0)\nexcept OSError: pass");
    let command = belljar_engine::Command { line: "echo x".to_owned(), ..Default::default() };
    let refused = session.on_guest("command", |guest| {
        guest.command(command, std::sync::Arc::default() as std::sync::Arc<crate::Host>)
    });
    assert!(
        !matches!(refused, Err(belljar_engine::EngineError::Gone(_))),
        "the guest isn't gone: {refused:?}"
    );
    assert_eq!(session.value("kept"), "41");
}

#[test]
fn a_memory_bomb_in_one_process() {
    let mut session = Session::new();
    for code in [
        "x = bytearray(10 << 30)",
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        "x = 'x' * (1 << 33)",
        "x = [0]\nwhile True: x = x * 2",
    ] {
        let report = session.run(code);
        assert!(matches!(report.status, Status::OutOfMemory), "{code}: {report:#?}");
        session.run("x = None");
        assert_eq!(session.value("kept"), "41", "{code}");
    }
    session.survives();
}

/// Memory that no limit of a process counts.
#[test]
fn a_memory_bomb_of_shared_pages() {
    if !has_layer("cgroup-memory") {
        return;
    }
    let mut session = Session::new();
    let report =
        session.run("import mmap\nm = mmap.mmap(-1, 2 << 30)\nfor n in range(0, 2 << 30, 4096): m[n] = 1");
    assert!(report.status != Status::Ok, "{report:#?}");
    session.survives();
}

#[test]
fn a_memory_bomb_of_many_processes() {
    // Without a common limit the processes have theirs; what holds is that this session and others answer.
    let (children, bytes) = if has_layer("cgroup-memory") { (20, 200 << 20) } else { (6, 60 << 20) };
    let mut session = Session::with(|spec| spec.limits.wall = Some(Duration::from_secs(4)));
    let mut other = Session::new();
    session.run(&format!(
        "for _ in range({children}):\n    if os.fork() == 0:\n        x = bytearray(b'x') * {bytes}\n        time.sleep(1)\n        os._exit(0)\ntry:\n    while True: os.wait()\nexcept ChildProcessError: pass"
    ));
    let _ = session.run("6 * 7");
    assert_eq!(session.value("6 * 7"), "42");
    other.survives();
}

/// Init is not the first to go when memory is short, even if somebody recommends it.
#[test]
fn the_killer_is_sent_to_init() {
    if !has_layer("cgroup-memory") {
        return;
    }
    let mut session = Session::new();
    session.check("try: open('/proc/1/oom_score_adj', 'w').write('1000')\nexcept OSError: pass\ntry: open('/proc/self/oom_score_adj', 'w').write('0')\nexcept OSError: pass");
    session.run("import mmap\nm = mmap.mmap(-1, 2 << 30)\nfor n in range(0, 2 << 30, 4096): m[n] = 1");
    session.survives();
}

#[test]
fn filling_all_file_systems() {
    let mut session = Session::with(|spec| {
        spec.limits.file_bytes = 16 << 20;
        spec.limits.file_count = 2000;
    });
    session.check(
        r#"
def fill(place):
    try:
        with open(place + "/big", "wb") as file:
            while True: file.write(b"x" * (1 << 20))
    except OSError as error:
        first = errno.errorcode[error.errno]
    os.unlink(place + "/big")
    return first
for place in ("/workspace", "/tmp", "/dev/shm"):
    assert fill(place) == "ENOSPC", place
def crowd(place):
    os.mkdir(place + "/many")
    try:
        for n in range(200_000): open(f"{place}/many/{n}", "w").close()
    except OSError as error:
        return errno.errorcode[error.errno], n
for place in ("/workspace", "/dev/shm"):
    why, n = crowd(place)
    assert why == "ENOSPC", (place, why)
try: open("/tmp/one-more", "w"); raise AssertionError
except OSError: pass
import shutil
shutil.rmtree("/workspace/many"); shutil.rmtree("/dev/shm/many")
"#,
    );
    // Full of small things, full of one: cells, commands and rollback work.
    session.run("f = open('/workspace/full', 'wb')\nwhile True: f.write(b'x' * 65536)");
    session.check("print('y' * 3_000_000)");
    assert_eq!(session.value("kept"), "41");
    let report = session.run("os.unlink('/workspace/full'); os.kill(os.getpid(), 9)");
    assert_eq!(report.state, State::RolledBack, "{report:#?}");
    // While the interpreter has the old file open there is no room for another; then the report says so.
    let told = report.notes.iter().any(|note| note.contains("could not be put back"));
    assert!(told || session.value("os.path.getsize('/workspace/full') > 10 << 20") == "True", "{report:#?}");
    let refused = session.on_guest("writing", |guest| guest.write_file("/workspace/x", &[0; 8 << 20]));
    assert!(refused.is_err());
    session.survives();
}

#[test]
fn all_descriptors() {
    let mut session = Session::new();
    session.check("held = []\ntry:\n    while True: held.append(os.open('/dev/null', 0))\nexcept OSError as error: why = errno.errorcode[error.errno]\nassert why == 'EMFILE' and len(held) < 1100");
    assert_eq!(session.value("kept"), "41");
    let report = session.run("os.kill(os.getpid(), 9)");
    assert_ne!(report.state, State::Kept);
    assert_eq!(session.value("6 * 7"), "42");
    if report.state == State::RolledBack {
        session.survives();
    }
}

#[test]
fn a_flood_of_output() {
    let mut session = Session::with(|spec| spec.limits.wall = Some(Duration::from_secs(1)));
    for code in [
        "while True: os.write(1, b'x' * 65536)",
        "while True: os.write(2, b'x' * 65536)",
        "while True: print('x' * 1000)",
        "while True: display('x' * 1000)",
        "subprocess.run(['yes'])",
    ] {
        let report = session.run(code);
        assert!(report.stdout.text.len() + report.stderr.text.len() < 5 << 20);
        assert_ne!(report.status, Status::Ok, "{code}");
        session.survives();
    }
    // From behind, while other cells run.
    session.check("noisy = subprocess.Popen(['yes'])\nloud = subprocess.Popen('yes >&2', shell=True)");
    for _ in 0..5 {
        assert_eq!(session.value("kept"), "41");
    }
    let report = session.run("os.kill(os.getpid(), 9)");
    assert_eq!(report.state, State::RolledBack, "{report:#?}");
    assert_eq!(session.value("kept"), "41");
    session.on_guest("start", |guest| {
        let command = belljar_engine::Command { line: "yes".to_owned(), ..Default::default() };
        guest.start(command).unwrap()
    });
    session.survives();
}

#[test]
fn a_command_that_does_not_end() {
    let mut session = Session::with(|spec| spec.limits.wall = Some(Duration::from_millis(600)));
    for line in [
        "trap '' TERM INT HUP; while true; do sleep 1; done",
        "kill -STOP $$",
        "setsid sleep 100 & setsid yes > /dev/null & wait",
        "exec > /dev/null 2>&1; sleep 100",
        "yes",
        "yes >&2",
        "cat /dev/zero",
    ] {
        let report = session.command(line);
        assert_eq!(report.status, Status::Timeout, "{line}: {report:#?}");
        assert_eq!(session.value("kept"), "41", "{line}");
        assert_eq!(
            session.value(
                "[p for p in others() if open(f'/proc/{p}/comm').read().strip() in ('sleep', 'yes', 'cat')]"
            ),
            "[]",
            "{line}"
        );
    }
    session.survives();
}

/// A session that has just begun, and a command that is over before the clock ticks.
#[test]
fn a_short_command_ends_nothing_else() {
    for _ in 0..5 {
        let mut spec = belljar_engine::GuestSpec::default();
        spec.limits.memory = 512 << 20;
        let mut guest = engine().boot(std::sync::Arc::new(spec)).unwrap();
        let command = belljar_engine::Command {
            line: "sleep 10".to_owned(),
            timeout: Some(Duration::from_millis(1)),
            ..Default::default()
        };
        guest.command(command, std::sync::Arc::new(crate::Host::default())).unwrap();
        let report = crate::run(guest.as_mut(), 1, "6 * 7");
        assert_eq!(report.status, Status::Ok, "{report:#?}");
    }
}

#[test]
fn threads_without_end() {
    let mut session = Session::new();
    session.run("import threading\nstop = threading.Event()\ntry:\n    while True: threading.Thread(target=stop.wait, daemon=True).start()\nexcept RuntimeError: pass");
    assert_eq!(session.value("kept"), "41");
    let report = session.run("os._exit(1)");
    assert_ne!(report.state, State::Kept);
    assert_eq!(session.value("6 * 7"), "42");
}

#[test]
fn deep_recursion_and_crashes_in_c() {
    let mut session = Session::with(|spec| spec.limits.wall = Some(Duration::from_secs(2)));
    for code in [
        "import sys; sys.setrecursionlimit(1 << 30)\ndef f(): f()\nf()",
        "ctypes.string_at(0)",
        "ctypes.memset(id(None), 0, 64)",
        "import gc\nfor o in gc.get_objects(): ctypes.memset(id(o), 0xff, 16)",
        "exec(type((lambda: 0).__code__)(0,0,0,0,0,0,b'\\x90'*200,(),(),(),'','','',0,b'',b''))",
        "signal.raise_signal(signal.SIGBUS)",
        "os.abort()",
    ] {
        session.run(code);
        assert_eq!(session.value("kept"), "41", "{code}");
    }
    session.survives();
}
