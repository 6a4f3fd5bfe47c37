//! A cell that is stopped hard is taken back, whole, however its writes are found.

use std::time::Duration;

use belljar::{Outcome, Rollback, Session, State, Status, Tracking};
use belljar_tests::{builder, text};

/// Not to be interrupted softly: a loop in C.
const STUBBORN: &str = "sum(range(10**12))";

fn session(tracking: Tracking) -> Session {
    let timeout = Duration::from_secs(1);
    builder().tracking(tracking).timeout(timeout).build_blocking().unwrap().session_blocking().unwrap()
}

fn run(session: &Session, code: &str) -> Outcome {
    session.run_blocking(code).unwrap()
}

/// Works on memory of several kinds, is stopped hard again and again, and must find all of it as it was.
fn survives_hard_stops(tracking: Tracking) {
    let session = session(tracking);
    let prepare = "import random, hashlib\n\
        random.seed(5)\n\
        blob = bytearray(random.randbytes(6 << 20))\n\
        table = {n: str(n) * (n % 50) for n in range(5_000)}\n\
        def digest():\n    return hashlib.sha256(bytes(blob) + repr(sorted(table.items())).encode()).hexdigest()\n\
        squares = (n * n for n in range(100))\n\
        file = open('log.txt', 'w+'); file.write('begun'); file.flush()";
    assert_eq!(run(&session, prepare).status, Status::Ok);
    for round in 1..4 {
        let before = text(&session, "digest()");
        let change = format!(
            "blob[{round}000:{round}400] = b'x' * 400; table[{round}] = 'changed'; next(squares); digest()"
        );
        let after = text(&session, &change);
        assert_ne!(before, after);
        let spoil = format!(
            "blob[:] = b''; table.clear(); list(squares); file.close()\n\
             import os; os.remove('log.txt'); open('other.txt', 'w').write('y')\n\
             grown = [bytearray(1 << 20) for _ in range(40)]\n{STUBBORN}"
        );
        let outcome = run(&session, &spoil);
        assert_eq!((outcome.status, outcome.session.state), (Status::Timeout, State::RolledBack));
        assert!(outcome.files_created.is_empty());
        assert_eq!(text(&session, "digest()"), after, "round {round}");
        assert_eq!(text(&session, "'grown' in globals()"), "False");
        assert_eq!(text(&session, "file.seek(0); file.read()"), "'begun'");
        assert_eq!(text(&session, "import os; sorted(os.listdir('.'))"), "['log.txt']");
    }
    assert_eq!(text(&session, "next(squares)"), "9");
}

#[test]
fn with_writes_tracked_by_the_kernel() {
    survives_hard_stops(Tracking::Automatic);
}

#[test]
fn with_writes_found_by_comparing() {
    survives_hard_stops(Tracking::Compare);
}

/// Many small cells, among them some that are taken back: hot pages, cooling and re-tracking all take part.
#[test]
fn small_cells_add_up() {
    let session = session(Tracking::Automatic);
    assert_eq!(run(&session, "total = 0; seen = []").status, Status::Ok);
    let mut expected = 0;
    for cell in 0..300 {
        assert_eq!(run(&session, &format!("total += {cell}; seen.append({cell})")).status, Status::Ok);
        expected += cell;
        if cell % 75 == 74 {
            let outcome = run(&session, &format!("total = -1; seen.clear(); {STUBBORN}"));
            assert_eq!(outcome.session.state, State::RolledBack);
        }
    }
    assert_eq!(
        text(&session, "total, len(seen), seen == list(range(300))"),
        format!("({expected}, 300, True)")
    );
}

#[test]
fn the_first_cell_of_a_session() {
    let session = session(Tracking::Automatic);
    assert_eq!(run(&session, &format!("x = 1; open('a', 'w'); {STUBBORN}")).session.state, State::RolledBack);
    assert_eq!(text(&session, "'x' in globals(), __import__('os').listdir('.')"), "(False, [])");
}

#[test]
fn without_rollback_the_session_starts_afresh() {
    let policy = belljar::Policy {
        rollback: Rollback::Never,
        timeout: Some(Duration::from_millis(200)),
        ..belljar::Policy::default()
    };
    let session = builder().policy(policy).build_blocking().unwrap().session_blocking().unwrap();
    assert_eq!(run(&session, "x = 1").status, Status::Ok);
    assert_eq!(run(&session, STUBBORN).session.state, State::Lost);
    assert_eq!(text(&session, "'x' in globals()"), "False");
}

/// What is kept to take cells back is given up by idle sessions, and made again.
#[test]
fn many_idle_sessions_still_roll_back() {
    let sandbox = builder().timeout(Duration::from_millis(200)).build_blocking().unwrap();
    let sessions: Vec<Session> = (0..12).map(|_| sandbox.session_blocking().unwrap()).collect();
    for (number, session) in sessions.iter().enumerate() {
        assert_eq!(run(session, &format!("kept = {number}; blob = bytearray(4 << 20)")).status, Status::Ok);
        assert_eq!(run(session, "blob[0] = 1").status, Status::Ok);
        session.settle_blocking();
    }
    std::thread::sleep(Duration::from_millis(2500));
    for (number, session) in sessions.iter().enumerate() {
        let outcome = run(session, &format!("kept = -1; blob[0] = 2; {STUBBORN}"));
        assert_eq!(outcome.session.state, State::RolledBack);
        assert_eq!(text(session, "kept, blob[0], len(blob)"), format!("({number}, 1, {})", 4 << 20));
    }
}
