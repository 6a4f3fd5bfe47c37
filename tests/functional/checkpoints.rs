//! A session can be kept as it is, gone back to, forked, and its last cells taken back.

use belljar::{Error, Policy, Rollback, Sandbox, Session, State, Status};
use belljar_tests::{builder, session};

fn value(session: &Session, code: &str) -> String {
    let outcome = session.run_blocking(code).unwrap();
    assert_eq!(outcome.status, Status::Ok, "{code}: {:?}", outcome.exception);
    outcome.value.map(|value| value.text).unwrap_or_default()
}

fn sandbox(policy: Policy) -> Sandbox {
    builder().policy(policy).build_blocking().unwrap()
}

/// Everything that pickling would lose.
const STATE: &str = r"
import sqlite3, io
def numbers():
    for n in range(100):
        yield n
generator = numbers(); next(generator); next(generator)
def counter():
    count = 0
    def step():
        nonlocal count
        count += 1
        return count
    return step
step = counter(); step()
file = open('notes.txt', 'w+'); file.write('unflushed')
database = sqlite3.connect(':memory:'); database.execute('create table t (x)'); database.execute('insert into t values (7)')
class Local:
    def __init__(self): self.me = self
local = Local()
";

const CHECK: &str = "(next(generator), step(), file.tell(), database.execute('select x from t').fetchone(), local.me is local)";

#[test]
fn all_that_python_holds_comes_back() {
    let session = session();
    session.run_blocking(STATE).unwrap();
    let point = session.checkpoint_blocking(None).unwrap();
    assert_eq!((point.number, point.cell), (1, 1));
    let expected = "(2, 2, 9, (7,), True)";
    assert_eq!(value(&session, CHECK), expected);
    assert_ne!(value(&session, CHECK), expected);
    session.rollback_blocking(&point).unwrap();
    assert_eq!(value(&session, CHECK), expected);
}

#[test]
fn files_go_back_with_the_variables() {
    let session = session();
    session.run_blocking("open('a.txt','w').write('one'); x = 1").unwrap();
    session.checkpoint_blocking(Some("before")).unwrap();
    session.run_blocking("open('a.txt','w').write('two'); open('b.txt','w').write('new'); x = 2").unwrap();
    session.rollback_blocking("before").unwrap();
    assert_eq!(
        value(&session, "import os; (x, open('a.txt').read(), sorted(os.listdir('.')))"),
        "(1, 'one', ['a.txt'])"
    );
}

#[test]
fn one_can_go_back_and_forth() {
    let session = session();
    let mut points = Vec::new();
    for n in 0..5 {
        session.run_blocking(format!("x = {n}; data = bytes(range(256)) * {}", 1 + n * 2000)).unwrap();
        points.push(session.checkpoint_blocking(None).unwrap());
    }
    for n in [2, 4, 0, 3, 1, 4] {
        session.rollback_blocking(&points[n]).unwrap();
        assert_eq!(
            value(&session, "(x, len(data), data[-1])"),
            format!("({n}, {}, 255)", 256 * (1 + n * 2000))
        );
        session.run_blocking("x = 'spoilt'; data = None").unwrap();
    }
    let listed = session.checkpoints_blocking().unwrap();
    assert_eq!(listed.iter().map(|point| point.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(listed[4].bytes > listed[0].bytes);
    session.delete_checkpoint_blocking(2).unwrap();
    assert!(matches!(session.rollback_blocking(2), Err(Error::NoCheckpoint { .. })));
}

#[test]
fn children_go_their_own_ways() {
    let session = session();
    session.run_blocking("x = [1]; open('f','w').write('parent'); big = bytearray(8 << 20)").unwrap();
    let children = session.fork_blocking(3).unwrap();
    for (n, child) in children.iter().enumerate() {
        assert_eq!(value(child, "(x, open('f').read(), len(big))"), "([1], 'parent', 8388608)");
        child
            .run_blocking(format!("x.append({n}); open('f','w').write('child {n}'); big[0] = {n} + 1"))
            .unwrap();
    }
    for (n, child) in children.iter().enumerate() {
        assert_eq!(
            value(child, "(x, open('f').read(), big[0])"),
            format!("([1, {n}], 'child {n}', {})", n + 1)
        );
    }
    assert_eq!(value(&session, "(x, open('f').read(), big[0])"), "([1], 'parent', 0)");
    let grandchild = children[1].fork_blocking(1).unwrap();
    assert_eq!(value(&grandchild[0], "(x, open('f').read(), big[0])"), "([1, 1], 'child 1', 2)");
}

#[test]
fn children_of_a_checkpoint() {
    let session = session();
    session.run_blocking("x = 1").unwrap();
    session.checkpoint_blocking(Some("one")).unwrap();
    session.run_blocking("x = 2").unwrap();
    let children = session.fork_from_blocking("one", 2).unwrap();
    assert!(children.iter().all(|child| value(child, "x") == "1"));
    assert_eq!(value(&session, "x"), "2");
}

#[test]
fn randomness_is_each_childs_own() {
    let session = session();
    session.run_blocking("import random; random.seed(5); random.random()").unwrap();
    let children = session.fork_blocking(3).unwrap();
    let mut seen: Vec<String> = children.iter().map(|child| value(child, "random.random()")).collect();
    seen.push(value(&session, "random.random()"));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4);
}

#[test]
fn seeded_children_repeat() {
    let run = || {
        let policy = Policy { entropy: belljar::Entropy::Seeded(3), ..Policy::default() };
        let session = sandbox(policy).session_blocking().unwrap();
        session.run_blocking("import random, os").unwrap();
        let children = session.fork_blocking(2).unwrap();
        children.iter().map(|child| value(child, "(random.random(), os.urandom(4))")).collect::<Vec<_>>()
    };
    let first = run();
    assert_eq!(first, run());
    assert_ne!(first[0], first[1]);
}

#[test]
fn cells_are_taken_back() {
    let session = session();
    for n in 1..=12 {
        session.run_blocking(format!("x = {n}; open('f','w').write('{n}')")).unwrap();
    }
    assert_eq!(session.undoable_blocking().unwrap(), [12, 11, 10, 9, 8, 7, 6, 5]);
    assert_eq!(session.undo_blocking(1).unwrap(), [12]);
    assert_eq!(value(&session, "(x, open('f').read())"), "(11, '11')");
    // The look was a cell too.
    assert_eq!(session.undo_blocking(4).unwrap(), [13, 11, 10, 9]);
    assert_eq!(value(&session, "(x, open('f').read())"), "(8, '8')");
    assert!(matches!(session.undo_blocking(9), Err(Error::Engine(_))));
    assert_eq!(value(&session, "x"), "8");
}

#[test]
fn the_first_cell_can_be_taken_back() {
    let session = session();
    session.run_blocking("x = 1").unwrap();
    session.undo_blocking(1).unwrap();
    assert_eq!(value(&session, "'x' in globals()"), "False");
    session.run_blocking("y = 1").unwrap();
    session.undo_blocking(2).unwrap();
    assert_eq!(value(&session, "'y' in globals()"), "False");
}

#[test]
fn undo_reaches_across_growth_checkpoints_and_forks() {
    let session = session();
    session.run_blocking("x = 1").unwrap();
    session.run_blocking("big = bytearray(40 << 20); x = 2").unwrap();
    session.run_blocking("x = 3").unwrap();
    session.checkpoint_blocking(None).unwrap();
    session.run_blocking("big[5] = 1; x = 4").unwrap();
    session.run_blocking("big[1 << 20] = 1; x = 5").unwrap();
    let child = session.fork_blocking(1).unwrap().remove(0);
    child.run_blocking("x = 6").unwrap();
    // A child takes back its own cells only.
    assert_eq!(child.undo_blocking(1).unwrap(), [6]);
    assert_eq!(value(&child, "(x, big[5], big[1 << 20], len(big))"), "(5, 1, 1, 41943040)");
    assert!(child.undo_blocking(2).is_err());
    session.undo_blocking(2).unwrap();
    assert_eq!(value(&session, "(x, big[5], big[1 << 20])"), "(3, 0, 0)");
    session.undo_blocking(1).unwrap();
    session.undo_blocking(2).unwrap();
    assert_eq!(value(&session, "(x, 'big' in globals())"), "(1, False)");
}

#[test]
fn a_cell_that_changed_too_much_is_told() {
    let session = session();
    session.run_blocking("big = bytearray(b'x') * (16 << 20)").unwrap();
    session.run_blocking("x = 0").unwrap();
    session.run_blocking("big[:] = b'y' * (16 << 20)").unwrap();
    session.run_blocking("x = 1").unwrap();
    assert_eq!(session.undoable_blocking().unwrap(), [4]);
    let error = session.undo_blocking(2).unwrap_err();
    assert!(error.to_string().contains("cell 3"), "{error}");
    assert!(error.hint().is_some());
    session.undo_blocking(1).unwrap();
    assert_eq!(value(&session, "(x, big[0])"), "(0, 121)");
}

#[test]
fn on_error_takes_back_what_failed() {
    let session =
        sandbox(Policy { rollback: Rollback::OnError, ..Policy::default() }).session_blocking().unwrap();
    session.run_blocking("x = 1").unwrap();
    let outcome = session.run_blocking("x = 2; open('f','w').write('1'); print('said'); 1 / 0").unwrap();
    assert_eq!((outcome.status, outcome.session.state), (Status::Error, State::RolledBack));
    assert_eq!(outcome.stdout, "said\n");
    assert!(outcome.files_created.is_empty());
    assert_eq!(value(&session, "import os; (x, os.listdir('.'))"), "(1, [])");
    let outcome = session.run_blocking("x = 3; raise SystemExit(0)").unwrap();
    assert_eq!((outcome.status, outcome.session.state), (Status::Exited, State::Kept));
    let outcome = session.run_blocking("x = 4; raise SystemExit(3)").unwrap();
    assert_eq!((outcome.status, outcome.session.state), (Status::Exited, State::RolledBack));
    assert_eq!(value(&session, "x"), "3");
}

#[test]
fn rollback_after_a_kill_reaches_the_state_after_the_checkpoint() {
    let session =
        sandbox(Policy { timeout: Some(std::time::Duration::from_millis(300)), ..Policy::default() })
            .session_blocking()
            .unwrap();
    session.run_blocking("x = [1]; big = bytearray(4 << 20)").unwrap();
    session.checkpoint_blocking(None).unwrap();
    for round in 0..3 {
        let outcome = session
            .run_blocking("x.append(2); big[:] = b'z' * len(big)\nwhile True:\n  try:\n    while True: pass\n  except BaseException: pass")
            .unwrap();
        assert_eq!((outcome.status, outcome.session.state), (Status::Timeout, State::RolledBack));
        assert_eq!(value(&session, "(x, big[9])"), "([1], 0)", "round {round}");
    }
}

#[test]
fn names_of_checkpoints() {
    let session = session();
    session.checkpoint_blocking(Some("a")).unwrap();
    assert!(matches!(session.checkpoint_blocking(Some("a")), Err(Error::CheckpointTaken { .. })));
    for name in ["", "12", "latest", "a\nb", &"x".repeat(65)] {
        assert!(session.checkpoint_blocking(Some(name)).is_err(), "{name:?}");
    }
    assert!(matches!(session.hibernate_blocking(), Err(Error::NotRegistered)));
}

#[test]
fn seeded_children_of_two_forks_differ() {
    let policy = Policy { entropy: belljar::Entropy::Seeded(7), ..Policy::default() };
    let session = sandbox(policy).session_blocking().unwrap();
    session.run_blocking("import random").unwrap();
    let children: Vec<Session> = (0..3).flat_map(|_| session.fork_blocking(1).unwrap()).collect();
    let mut drawn: Vec<String> = children.iter().map(|child| value(child, "random.random()")).collect();
    drawn.sort();
    drawn.dedup();
    assert_eq!(drawn.len(), 3);
}

#[test]
fn many_checkpoints_hold_few_descriptors_and_little_memory() {
    let session = session();
    session.run_blocking("b = bytearray(8 << 20); x = []").unwrap();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    for n in 0..60 {
        session.run_blocking(format!("b[:] = bytes([{n}]) * len(b); x.append(bytearray(9000))")).unwrap();
        let point = session.checkpoint_blocking(None).unwrap();
        session.delete_checkpoint_blocking(&point).unwrap();
    }
    assert!(open() < before + 40, "{} descriptors, {before} before", open());
    assert!(session.private_memory_blocking() < 40 << 20, "{}", session.private_memory_blocking());
    assert_eq!(value(&session, "(b[5], len(x), sum(map(len, x)))"), "(59, 60, 540000)");
    // What was rewritten whole can't be undone; that is told.
    assert!(session.undo_blocking(3).unwrap_err().to_string().contains("MiB"));
}
