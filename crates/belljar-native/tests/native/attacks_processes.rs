//! Signals, other processes, their memory.

use belljar_engine::{State, Status};

use crate::Session;

#[test]
fn killing_all_that_can_be_seen() {
    let mut session = Session::new();
    session.check("other = 1");
    session.check(
        "for number in range(1, 65):\n    assert error_of(os.kill, -1, number) in ('EPERM', 'EINVAL'), number",
    );
    session.survives();
    // Init is not to be killed, stopped, or talked into anything.
    session.check(
        "for number in range(1, 65):\n    try: os.kill(1, number)\n    except OSError: pass\ntime.sleep(0.1)",
    );
    session.check("signal.pidfd_send_signal(os.pidfd_open(1), 9)");
    session.survives();
    // The shadows die; the interpreter lives.
    session.check("for pid in others():\n    os.kill(pid, signal.SIGKILL)\ntime.sleep(0.1)");
    session.survives();
    // With nobody left to go back to the variables are lost, and the report says so.
    let report = session.run("for pid in others() + [os.getpid()]:\n    os.kill(pid, signal.SIGKILL)");
    assert!(matches!(report.state, State::Lost | State::RolledBack), "{report:#?}");
    assert_eq!(session.value("6 * 7"), "42");
    if report.state == State::RolledBack {
        session.survives();
    }
}

/// In an order in which they don't notice.
#[test]
fn killing_them_one_after_the_other() {
    let mut session = Session::new();
    for signal in ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGHUP", "SIGPIPE"] {
        let code =
            format!("for pid in others() + [os.getpid()]:\n    os.kill(pid, signal.{signal})\ntime.sleep(1)");
        let report = session.run(&code);
        assert!(report.state != State::Kept || report.status == Status::Error, "{report:#?}");
        assert_eq!(session.value("6 * 7"), "42", "after {signal}");
    }
}

#[test]
fn stopping_itself() {
    let mut session = Session::with(|spec| spec.limits.wall = Some(std::time::Duration::from_millis(500)));
    let report = session.run("kept = 0; os.kill(os.getpid(), signal.SIGSTOP)");
    assert_eq!((report.status, report.state), (Status::Timeout, State::RolledBack), "{report:#?}");
    session.survives();
}

/// A shadow that was stopped goes on when it is needed.
#[test]
fn stopping_the_shadows() {
    let mut session = Session::with(|spec| spec.limits.wall = Some(std::time::Duration::from_secs(3)));
    session.check("more = 1");
    let report = session.run(
        "for pid in others():\n    os.kill(pid, signal.SIGSTOP)\ntime.sleep(0.1)\nos.kill(os.getpid(), signal.SIGKILL)",
    );
    assert_ne!(report.state, State::Kept, "{report:#?}");
    let state = report.state;
    assert_eq!(session.value("6 * 7"), "42", "{state:?}");
    if state == State::RolledBack {
        session.survives();
    }
}

/// A process from an earlier cell fights on.
#[test]
fn a_saboteur_in_the_background() {
    let mut session = Session::with(|spec| spec.limits.wall = Some(std::time::Duration::from_secs(3)));
    session.check(
        r"
saboteur = os.fork()
if saboteur == 0:
    os.setsid()
    # The shadows of later cells only: whoever is killed each time can't answer.
    seen = set(others())
    while True:
        for pid in others():
            if pid not in seen:
                try: os.kill(pid, signal.SIGKILL)
                except OSError: pass
        time.sleep(0.001)
",
    );
    for _ in 0..3 {
        assert_eq!(session.value("kept"), "41");
    }
    session.run("os.kill(os.getpid(), signal.SIGKILL)");
    let answers = (0..5).any(|_| session.run("6 * 7").status == Status::Ok);
    assert!(answers, "nobody gets rid of it");
}

#[test]
fn looking_into_init() {
    let mut session = Session::new();
    session.check(
        r#"
for name in ("environ", "mem", "maps", "auxv", "root", "cwd", "exe", "fd/0", "fd/3", "map_files/0", "ns/mnt", "ns/user", "ns/pid", "io", "pagemap", "syscall", "stack", "personality", "smaps"):
    path = "/proc/1/" + name
    for action in (lambda p: os.open(p, os.O_RDONLY), lambda p: os.open(p, os.O_RDWR), os.readlink, os.listdir):
        try:
            done = action(path)
        except OSError:
            continue
        try:
            assert type(done) is int and not os.read(done, 1), (path, done)
        except OSError:
            pass
for name in ("oom_score_adj", "comm", "clear_refs", "coredump_filter", "attr/current", "setgroups", "uid_map", "gid_map", "loginuid", "timens_offsets", "autogroup"):
    try:
        open("/proc/1/" + name, "w").write("1")
    except OSError:
        continue
    raise AssertionError(name)
PTRACE = {"x86_64": 101}.get(os.uname().machine, 117)
VM_READ = {"x86_64": 310}.get(os.uname().machine, 270)
for pid in [1, *others()]:
    for request in (0, 16, 0x4206):
        assert syscall(PTRACE, request, pid, 0, 0) == errno.EPERM
    assert syscall(VM_READ, pid, 0, 0, 0, 0, 0) == errno.EPERM
    assert syscall(438, os.pidfd_open(pid), 3, 0) == errno.EPERM
    import resource
    if pid == 1:
        assert error_of(resource.prlimit, pid, resource.RLIMIT_NOFILE, (1000, 1000)), "the limits of init"
"#,
    );
    session.survives();
}

/// Commands are locked down by themselves: the interpreter doesn't see into them, nor they into it.
#[test]
fn a_command_and_the_interpreter() {
    let mut session = Session::new();
    let command =
        belljar_engine::Command { line: "SECRET=4711 exec sleep 100".to_owned(), ..Default::default() };
    session.on_guest("start", |guest| guest.start(command).unwrap());
    session.check(
        r#"
time.sleep(0.3)
sleeping = [pid for pid in others() if open(f"/proc/{pid}/comm").read() == "sleep\n"]
assert sleeping
for pid in sleeping:
    assert error_of(os.open, f"/proc/{pid}/mem", os.O_RDWR) in ("EACCES", "EPERM")
"#,
    );
    let report = session.command(
        "for p in /proc/[0-9]*; do [ $p != /proc/$$ ] && grep -l . $p/mem $p/environ 2>/dev/null; done; echo done",
    );
    assert!(report.stdout.text.ends_with("done\n"), "{report:#?}");
    session.survives();
}

/// What memory of shadows a cell can write to is its own; no state of theirs ends the session.
#[test]
fn rewriting_the_shadows() {
    let mut session = Session::new();
    session.check("more = 1");
    session.check(
        r#"
for pid in others():
    try:
        memory = open(f"/proc/{pid}/mem", "r+b", buffering=0)
        ranges = [line.split() for line in open(f"/proc/{pid}/maps")]
    except OSError:
        continue
    for place, rights, *_ in ranges:
        if rights.startswith("rw"):
            start, end = (int(part, 16) for part in place.split("-"))
            try:
                memory.seek(start)
                memory.write(b"\xff" * min(end - start, 1 << 20))
            except (OSError, ValueError, OverflowError):
                pass
"#,
    );
    assert_eq!(session.value("kept"), "41");
    session.run("os.kill(os.getpid(), 9)");
    // The first to need the shadow may find it dead.
    session.run("1");
    assert_eq!(session.value("6 * 7"), "42");
}

/// A child that isn't the interpreter's, but of whoever started it.
#[test]
fn children_of_somebody_else() {
    let mut session = Session::new();
    session.check(
        r#"
CLONE = {"x86_64": 56}.get(os.uname().machine, 220)
for _ in range(500):
    ctypes.set_errno(0)
    if _libc.syscall(CLONE, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        _libc._exit(0)
"#,
    );
    session.survives();
    assert_eq!(Session::new().value("1 + 1"), "2");
}
