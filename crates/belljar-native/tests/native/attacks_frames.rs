//! A hostile interpreter on the kernel's socket: what it says is believed nowhere.

use std::time::Duration;

use belljar_engine::{State, Status};

use crate::{Session, within};

/// Code that finds the socket to the host, and a way to say anything on it.
const WIRE: &str = r#"
import random
found = [n for n in map(int, os.listdir("/proc/self/fd")) if n > 2 and os.path.exists(f"/proc/self/fd/{n}") and os.readlink(f"/proc/self/fd/{n}").startswith("socket:")]
assert found == [3], found
wire = socket.socket(fileno=os.dup(3))

def frame(kind, payload=b""):
    return struct.pack("<IB", 1 + len(payload), kind) + payload

DONE = frame(17, b'{"status":"ok","value":{"text/plain":"forged"},"exception":null,"exit_code":null}')
"#;

fn attacker() -> Session {
    let mut session = Session::with(|spec| spec.limits.wall = Some(Duration::from_secs(2)));
    session.check(WIRE);
    session
}

/// The attack may cost the cell, and its own variables; the next cell is answered.
fn then_answers(session: &mut Session, code: &str) {
    let report = session.run(code);
    let state = report.state;
    let next = session.run("6 * 7");
    assert_eq!(next.status, Status::Ok, "after {code}\n{report:#?}\n{next:#?}");
    assert_eq!(crate::value(&next), "42", "after {code}\n{report:#?}");
    if state == State::Lost {
        session.check(include_str!("attack.py"));
        session.check("kept = 41");
        session.check(WIRE);
    }
    session.survives();
}

#[test]
fn its_descriptors_are_known() {
    let mut session = attacker();
    session.check("wire.close()");
    session.check(
        r#"
held = {n: os.readlink(f"/proc/self/fd/{n}") for n in sorted(map(int, os.listdir("/proc/self/fd"))) if os.path.exists(f"/proc/self/fd/{n}") or n < 4}
held = {n: to for n, to in held.items() if "/proc/" not in to}
assert sorted(held) == [0, 1, 2, 3], held
assert held[0] == "/dev/null" and held[1].startswith("pipe:") and held[2].startswith("pipe:") and held[3].startswith("socket:"), held
"#,
    );
    let report = session.command("ls -l /proc/self/fd | awk 'NR > 1 { print $NF }'");
    assert_eq!(
        report.stdout.text.lines().filter(|line| !line.starts_with("/proc")).count(),
        3,
        "{report:#?}"
    );
}

#[test]
fn frames_of_every_kind() {
    let mut session = attacker();
    for (kind, payload) in
        (0..=255_u16).zip(["{}", "", "null", "[]", "\\xff", "{\"timeout\":1e999}"].iter().cycle())
    {
        // An exit is an exit, and a wait is a wait; the others break the contract.
        if kind % 3 != 0 && kind > 48 {
            continue;
        }
        let report = session.run(&format!("wire.sendall(frame({kind}, b'{payload}')); kept = {kind}"));
        assert!(report.status != Status::Ok || report.state == State::Kept, "{kind}: {report:#?}");
        let next = session.run("6 * 7");
        assert_eq!(next.status, Status::Ok, "after kind {kind} {payload}\n{report:#?}\n{next:#?}");
        assert_eq!(crate::value(&next), "42", "after kind {kind}");
        if report.state == State::Lost {
            session.check(include_str!("attack.py"));
            session.check(WIRE);
        }
    }
}

#[test]
fn garbage_while_a_cell_runs() {
    let mut session = attacker();
    for code in [
        "wire.sendall(random.randbytes(1000))",
        "wire.sendall(b'\\xff' * 1000)",
        "wire.sendall(struct.pack('<I', 0xffffffff))",
        "wire.sendall(struct.pack('<I', (64 << 20) + 1))",
        "wire.sendall(struct.pack('<I', 0))",
        // Half a frame, and the other half never.
        "wire.sendall(struct.pack('<IB', 1000, 36)); os.kill(os.getpid(), 9)",
        "wire.sendall(struct.pack('<IB', 64 << 20, 36)); time.sleep(60)",
        "wire.sendall(frame(23, b'{\"step\":\"x\",\"errno\":1,\"message\":\"x\"}'))",
        "wire.sendall(frame(16))",
        "wire.sendall(frame(32, b'{\"data\":' + b'[' * 100000))",
        "wire.sendall(frame(18, b'{\"timeout\":null}')); time.sleep(60)",
        "wire.shutdown(socket.SHUT_RDWR)",
        "wire.shutdown(socket.SHUT_RD)",
        "wire.shutdown(socket.SHUT_WR)",
        "os.close(3)",
        "os.dup2(0, 3)",
    ] {
        then_answers(&mut session, code);
    }
}

/// One end more than there are cells: the next one must not be taken for what the last one forged.
#[test]
fn done_twice() {
    let mut session = attacker();
    for code in ["wire.sendall(DONE + DONE)", "wire.sendall(DONE * 3); time.sleep(0.3)", "wire.sendall(DONE)"]
    {
        then_answers(&mut session, code);
    }
}

/// A process of an earlier cell has the socket too.
#[test]
fn garbage_between_cells() {
    for (number, code) in [
        "wire.sendall(random.randbytes(100))",
        "wire.sendall(DONE)",
        "wire.sendall(frame(19, b'{\"pid\":1}'))",
        "wire.sendall(frame(19, b'{\"pid\":999999}') * 3)",
        "wire.sendall(frame(20, b'{\"bytes\":1}'))",
        "wire.sendall(frame(16))",
        "wire.recv(1 << 20)",
        "wire.sendall(struct.pack('<IB', 1000, 36))",
    ]
    .into_iter()
    .enumerate()
    {
        let mut session = attacker();
        let fork = format!(
            "theirs = os.dup(3)\nif os.fork() == 0:\n    wire = socket.socket(fileno=theirs)\n    os.setsid()\n    time.sleep(0.2)\n    try: {code}\n    finally:\n        open('/tmp/over', 'w')\n        os.kill(os.getpid(), 9)"
        );
        session.check(&fork);
        // Which cell meets it, the scheduler says: whoever steals a message waits for it beside the interpreter.
        let mut report = session.run("kept");
        for _ in 0..600 {
            let done = session.on_guest("looking", |guest| guest.read_file("/tmp/over").is_ok());
            if done || report.status != Status::Ok || !report.notes.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            report = session.run("kept");
        }
        // The cell that meets it may pay for it, but the one after that is answered, and whoever loses says so.
        if report.status == Status::Ok {
            report = session.run("kept");
        }
        let next = session.run("6 * 7");
        assert_eq!(next.status, Status::Ok, "{number} {code}\n{report:#?}\n{next:#?}");
        assert_eq!(crate::value(&next), "42", "{number} {code}\n{report:#?}");
        if report.state != State::Lost {
            session.survives();
        }
    }
}

/// Frames without end, and nobody who reads the answers: time runs on, and the host's memory doesn't.
#[test]
fn a_flood_of_frames() {
    for frames in ["frame(36, b'\\x01')", "frame(36, b'\\x01' + b'x' * 60000)", "frame(32, b'{\"data\":{}}')"]
    {
        let mut session = attacker();
        let before = resident();
        let code =
            format!("flood = {frames} * ((1 << 20) // len({frames}))\nwhile True:\n    wire.sendall(flood)");
        let started = std::time::Instant::now();
        let report = session.run(&code);
        assert!(matches!(report.status, Status::Timeout | Status::Killed), "{report:#?}");
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
        let grown = resident().saturating_sub(before);
        assert!(grown < 300 << 20, "{frames}: the host has {} MiB more", grown >> 20);
        session.survives();
    }
}

/// Bytes of memory of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() << 12
}

/// What is small on the wire can be large in memory.
#[test]
fn a_display_of_empty_lists() {
    let mut session = attacker();
    let before = peak();
    let code = "wire.sendall(frame(32, b'{\"data\":{\"a\":[' + b'[],' * 20_000_000 + b'0]}}'))\nwire.recv(4)";
    session.run(code);
    let grown = peak().saturating_sub(before);
    assert!(grown < 400 << 20, "the host had {} MiB more", grown >> 20);
    session.survives();
}

fn peak() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn descriptors_on_the_wire() {
    let mut session = attacker();
    let held = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    session.check("pass");
    let before = held();
    session.check(
        r#"
import array
def give(data, descriptors):
    wire.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])
for _ in range(50):
    # They don't come, or the host doesn't take them.
    if error_of(give, frame(36, b"\x01x"), [0, 1, 2, 3] * 30) is None: wire.recv(4)
"#,
    );
    assert!(held() <= before + 8, "{} descriptors came", held() - before);
    session.survives();
}

/// Whoever closes this socket last waits until what was sent has arrived, if it wants to: it must not be the host.
#[test]
fn a_descriptor_that_is_slow_to_close() {
    let mut session = attacker();
    let code = r#"
import array
server = socket.create_server(("127.0.0.1", 0))
def slow():
    one = socket.create_connection(server.getsockname())
    other = server.accept()[0]
    one.setblocking(False)
    try:
        while True: one.send(b"x" * 65536)
    except BlockingIOError: pass
    try: one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 300))
    except PermissionError: pass
    return one, other
def give(data, one):
    wire.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one.fileno()]))])
held = []
for _ in range(3):
    one, other = slow()
    held.append(other)
    given = error_of(give, frame(36, b"\x01x"), one)
    os.dup2(0, one.fileno())
    one.detach()
    if given is None: wire.recv(4)
"#;
    let report = session.run(code);
    assert!(report.usage.wall < Duration::from_secs(15), "{report:#?}");
    session.survives();
    // Also not when what lies in the socket goes with it.
    session.check(
        "one, other = slow()\nerror_of(give, b'x', one)\nos.dup2(0, one.fileno())\nlast = one.detach()",
    );
    let guest = session.guest.take().unwrap();
    within("ending a session", move || drop(guest));
}
