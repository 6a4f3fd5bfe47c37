//! A session in the registry sleeps on disk and wakes as it was, in any process.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belljar::{Error, Policy, Sandbox, SandboxBuilder, Session, StoreError, Tracking};
use belljar_tests::{block_on, builder, text};
use tempfile::TempDir;

fn state() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn keeping(state: &Path) -> SandboxBuilder {
    builder().state_dir(state).wait(Duration::from_millis(100))
}

fn sandbox(state: &TempDir) -> Sandbox {
    keeping(state.path()).build_blocking().unwrap()
}

fn sleep_and_wake(session: &Session) {
    assert!(session.hibernate_blocking().unwrap());
    assert!(!session.is_live_blocking());
    assert_eq!(session.private_memory_blocking(), 0);
}

#[test]
fn all_that_python_holds_wakes() {
    let state = state();
    let session = sandbox(&state).create_blocking(Some("s")).unwrap();
    session
        .run_blocking(
            "import sqlite3, random\n\
             generator = (n * n for n in range(100)); next(generator); next(generator)\n\
             file = open('notes.txt', 'w+'); file.write('unflushed')\n\
             database = sqlite3.connect('t.db'); database.execute('create table t (x)')\n\
             database.execute('insert into t values (7)')\n\
             random.seed(3); random.random()\n\
             big = bytearray(random.randbytes(3 << 20)) * 4",
        )
        .unwrap();
    let expected = text(&session, "(random.getstate()[1][:3], hash(bytes(big)))");
    sleep_and_wake(&session);
    assert_eq!(text(&session, "(random.getstate()[1][:3], hash(bytes(big)))"), expected);
    assert_eq!(
        text(&session, "(next(generator), file.tell(), database.execute('select x from t').fetchone())"),
        "(4, 9, (7,))"
    );
    drop(session);
    // Another sandbox, as in another process.
    let session = sandbox(&state).open_blocking("s").unwrap();
    assert_eq!(text(&session, "next(generator)"), "9");
    assert_eq!(text(&session, "file.close(); open('notes.txt').read()"), "'unflushed'");
    assert_eq!(
        text(&session, "hash(bytes(big))"),
        expected.rsplit(", ").next().unwrap().trim_end_matches(')')
    );
}

#[test]
fn it_sleeps_and_wakes_many_times() {
    let state = state();
    let sandbox = sandbox(&state);
    let session = sandbox.create_blocking(None).unwrap();
    session.run_blocking("x = []; blob = bytearray(2 << 20)").unwrap();
    for n in 0..20 {
        session.run_blocking(format!("x.append({n}); blob[{n} * 9999] = {n} + 1")).unwrap();
        session.hibernate_blocking().unwrap();
    }
    assert_eq!(text(&session, "(x == list(range(20)), sum(blob))"), "(True, 210)");
}

#[test]
fn cells_can_be_taken_back_after_waking() {
    let state = state();
    let session = sandbox(&state).create_blocking(Some("s")).unwrap();
    for n in 1..=4 {
        session.run_blocking(format!("x = {n}; open('f', 'w').write('{n}' * 70_000)")).unwrap();
    }
    drop(session);
    let sandbox = sandbox(&state);
    let session = sandbox.open_blocking("s").unwrap();
    session.run_blocking("x = 5; more = bytearray(8 << 20)").unwrap();
    session.hibernate_blocking().unwrap();
    assert_eq!(session.undoable_blocking().unwrap(), [5, 4, 3, 2, 1]);
    session.undo_blocking(2).unwrap();
    assert_eq!(
        text(&session, "(x, open('f').read() == '3' * 70_000, 'more' in globals())"),
        "(3, True, False)"
    );
    session.hibernate_blocking().unwrap();
    assert_eq!(session.undo_blocking(3).unwrap(), [6, 3, 2]);
    assert_eq!(text(&session, "(x, open('f').read(3))"), "(1, '111')");
    session.undo_blocking(2).unwrap();
    assert_eq!(text(&session, "'x' in globals()"), "False");
}

#[test]
fn checkpoints_outlive_the_process() {
    let state = state();
    let first = sandbox(&state).create_blocking(Some("s")).unwrap();
    first.run_blocking("x = 1; open('f','w').write('one'); big = bytearray(5 << 20)").unwrap();
    let point = first.checkpoint_blocking(Some("good")).unwrap();
    first.run_blocking("x = 2; open('f','w').write('two'); big[77] = 1").unwrap();
    drop(first);
    let session = sandbox(&state).open_blocking("s").unwrap();
    assert_eq!(session.checkpoints_blocking().unwrap(), std::slice::from_ref(&point));
    assert_eq!(text(&session, "(x, open('f').read(), big[77])"), "(2, 'two', 1)");
    session.rollback_blocking("good").unwrap();
    assert_eq!(text(&session, "(x, open('f').read(), big[77])"), "(1, 'one', 0)");
    let child = session.fork_named_blocking(Some((&point).into()), "child").unwrap();
    child.run_blocking("x = 'child'; big[0] = 9").unwrap();
    drop((session, child));
    let sandbox = sandbox(&state);
    assert_eq!(text(&sandbox.open_blocking("child").unwrap(), "(x, big[0])"), "('child', 9)");
    assert_eq!(text(&sandbox.open_blocking("s").unwrap(), "(x, big[0])"), "(1, 0)");
    let list = sandbox.registry().unwrap().sessions().unwrap();
    let parents: Vec<_> = list
        .sessions
        .iter()
        .map(|info| info.parent.as_ref().map(|parent| parent.session.to_string()))
        .collect();
    assert_eq!(parents, [Some("s".to_owned()), None]);
}

#[test]
fn children_are_durable_when_fork_returns() {
    let state = state();
    let session = sandbox(&state).create_blocking(Some("parent")).unwrap();
    session.run_blocking("import random; x = 5; random.seed(1)").unwrap();
    let children = session.fork_blocking(2).unwrap();
    let names: Vec<String> = children.iter().map(|child| child.id().to_string()).collect();
    // As if the process were killed: nothing is put to sleep.
    std::mem::forget((session, children));
    // The leases of this process are still held, so look from a copy.
    let copy = tempfile::tempdir().unwrap();
    let copied =
        std::process::Command::new("cp").arg("-a").arg(state.path()).arg(copy.path()).status().unwrap();
    assert!(copied.success());
    let root = copy.path().join(state.path().file_name().unwrap());
    let sandbox = keeping(&root).build_blocking().unwrap();
    let drawn: Vec<String> = names
        .iter()
        .map(|name| {
            let child = sandbox.open_blocking(name).unwrap();
            assert_eq!(text(&child, "x"), "5");
            text(&child, "random.random()")
        })
        .collect();
    assert_ne!(drawn[0], drawn[1]);
}

#[test]
fn the_idle_sleep_by_themselves() {
    let state = state();
    let sandbox = keeping(state.path()).idle_hibernate(Duration::from_millis(50)).build_blocking().unwrap();
    let session = sandbox.create_blocking(None).unwrap();
    session.run_blocking("x = 1").unwrap();
    let begun = Instant::now();
    while session.is_live_blocking() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never sleeps");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(text(&session, "x"), "1");
}

#[test]
fn too_much_memory_puts_the_least_used_to_sleep() {
    let state = state();
    let sandbox = keeping(state.path()).live_memory(24 << 20).build_blocking().unwrap();
    let sessions: Vec<Session> = (0..4).map(|_| sandbox.create_blocking(None).unwrap()).collect();
    for (n, session) in sessions.iter().enumerate() {
        session.run_blocking(format!("x = {n}; big = bytearray(b'x' * (8 << 20))")).unwrap();
    }
    let begun = Instant::now();
    while sessions.iter().filter(|session| session.is_live_blocking()).count() > 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "they never sleep");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!sessions[0].is_live_blocking());
    for (n, session) in sessions.iter().enumerate() {
        assert_eq!(text(session, "(x, len(big))"), format!("({n}, 8388608)"));
    }
}

#[test]
fn one_process_at_a_time() {
    let state = state();
    let first = sandbox(&state).create_blocking(Some("s")).unwrap();
    first.run_blocking("x = 1").unwrap();
    let second = sandbox(&state).open_blocking("s").unwrap();
    let error = second.run_blocking("x = 2").unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Busy { .. })), "{error}");
    assert!(error.hint().is_some());
    first.hibernate_blocking().unwrap();
    assert_eq!(text(&second, "x += 1; x"), "2");
    second.hibernate_blocking().unwrap();
    // What the other did is there.
    assert_eq!(text(&first, "x"), "2");
}

#[test]
fn all_that_was_run_is_in_the_history() {
    let state = state();
    let session = sandbox(&state).create_blocking(Some("s")).unwrap();
    session.run_blocking("print('hello')").unwrap();
    session.run_blocking("1 / 0").unwrap();
    session.run_blocking("6 * 7").unwrap();
    session.undo_blocking(1).unwrap();
    let history = session.history_blocking().unwrap();
    let kinds: Vec<_> = history.entries.iter().map(|entry| (entry.number, entry.kind.as_str())).collect();
    assert_eq!(kinds, [(1, "cell"), (2, "cell"), (3, "cell"), (3, "undo")]);
    assert_eq!(history.entries[0].outcome.as_ref().unwrap()["stdout"], "hello\n");
    assert_eq!(history.entries[1].outcome.as_ref().unwrap()["exception"]["type"], "ZeroDivisionError");
    let notebook = history.to_notebook();
    assert_eq!(notebook["cells"][2]["outputs"][0]["data"]["text/plain"][0], "42");
    assert!(history.damaged.is_none());
}

#[test]
fn the_recorded_policy_holds() {
    let state = state();
    let policy = Policy { memory: 64 << 20, ..Policy::default() };
    let session =
        keeping(state.path()).policy(policy).build_blocking().unwrap().create_blocking(Some("s")).unwrap();
    session.run_blocking("x = 1").unwrap();
    drop(session);
    let session = sandbox(&state).open_blocking("s").unwrap();
    let outcome = session.run_blocking("bytearray(60 << 20)").unwrap();
    assert_eq!(outcome.status, belljar::Status::OutOfMemory);
    assert_eq!(text(&session, "x"), "1");
}

#[test]
fn mounts_are_there_again() {
    let (state, data) = (state(), tempfile::tempdir().unwrap());
    std::fs::write(data.path().join("a.txt"), "from the host").unwrap();
    let made = keeping(state.path()).mount(data.path(), "/data/in").build_blocking().unwrap();
    let session = made.create_blocking(Some("s")).unwrap();
    session.run_blocking("file = open('/data/in/a.txt'); first = file.read(4)").unwrap();
    drop(session);
    let session = sandbox(&state).open_blocking("s").unwrap();
    assert_eq!(text(&session, "(first, file.read())"), "('from', ' the host')");
    session.hibernate_blocking().unwrap();
    drop(data);
    let error = session.run_blocking("1").unwrap_err();
    assert!(error.to_string().contains("/data/in"), "{error}");
}

#[test]
fn a_closed_session_is_gone() {
    let state = state();
    let sandbox = sandbox(&state);
    let session = sandbox.create_blocking(Some("s")).unwrap();
    session.run_blocking("x = 1").unwrap();
    session.close_blocking().unwrap();
    assert!(matches!(sandbox.open_blocking("s"), Err(Error::Store(StoreError::NotFound { .. }))));
    assert!(sandbox.registry().unwrap().sessions().unwrap().sessions.is_empty());
    sandbox.create_blocking(Some("s")).unwrap();
    assert!(matches!(sandbox.create_blocking(Some("s")), Err(Error::Store(StoreError::Exists { .. }))));
    for name in ["", ".", "..", "a/b", "-x", "a b", "\u{e9}"] {
        assert!(sandbox.create_blocking(Some(name)).is_err(), "{name:?}");
    }
}

#[test]
fn without_a_state_directory_nothing_is_kept() {
    let sandbox = builder().build_blocking().unwrap();
    assert!(matches!(sandbox.create_blocking(Some("s")), Err(Error::NotRegistered)));
    assert!(matches!(sandbox.registry(), Err(Error::NotRegistered)));
}

#[test]
fn async_sessions_sleep_too() {
    let state = state();
    block_on(async {
        let sandbox = keeping(state.path()).build().await.unwrap();
        let session = sandbox.create(Some("s")).await.unwrap();
        session.run("x = 1").await.unwrap();
        session.checkpoint(Some("one")).await.unwrap();
        session.run("x = 2").await.unwrap();
        session.hibernate().await.unwrap();
        session.rollback("one").await.unwrap();
        assert_eq!(session.run("x").await.unwrap().value.unwrap().text, "1");
        let children = session.fork(2).await.unwrap();
        assert_eq!(children[1].run("x + 1").await.unwrap().value.unwrap().text, "2");
        session.undo(1).await.unwrap();
        drop((session, children));
        let session = sandbox.open("s").await.unwrap();
        assert_eq!(session.run("x").await.unwrap().value.unwrap().text, "1");
        session.close().await.unwrap();
    });
}

/// A cache with the interpreter, whose image isn't made yet.
fn other_cache() -> TempDir {
    let cache = tempfile::tempdir().unwrap();
    let ours = belljar::default_cache_dir().unwrap();
    let linked = std::process::Command::new("cp")
        .arg("-al")
        .args(["runtime", "code"].map(|kind| ours.join(kind)))
        .arg(cache.path())
        .status()
        .unwrap();
    assert!(linked.success());
    cache
}

#[test]
fn an_environment_outlives_the_cache() {
    let state = state();
    let session = sandbox(&state).create_blocking(Some("s")).unwrap();
    session.run_blocking("x = 41; import json").unwrap();
    drop(session);
    // A cache of its own has another image: the session brings its own.
    let cache = other_cache();
    let sandbox = keeping(state.path()).cache_dir(cache.path()).build_blocking().unwrap();
    let session = sandbox.open_blocking("s").unwrap();
    assert_eq!(text(&session, "import textwrap; x + 1"), "42");
}

/// Works, checkpoints, forks, sleeps, wakes and goes back, however a session's own pages are found.
fn works_by(tracking: Tracking) {
    let state = state();
    let sandbox = keeping(state.path()).tracking(tracking).build_blocking().unwrap();
    let session = sandbox.create_blocking(Some("s")).unwrap();
    session.run_blocking("x = 0; big = bytearray(3 << 20); open('f', 'w').write('0')").unwrap();
    for n in 1..=3 {
        session.run_blocking(format!("x = {n}; big[{n} << 16] = {n}; open('f', 'w').write('{n}')")).unwrap();
    }
    let look = "(x, sum(big), open('f').read())";
    session.undo_blocking(1).unwrap();
    assert_eq!(text(&session, look), "(2, 3, '2')");
    session.checkpoint_blocking(Some("two")).unwrap();
    let child = session.fork_blocking(1).unwrap().remove(0);
    child.run_blocking("x = 'child'; big[0] = 100").unwrap();
    session.run_blocking("x = 4; big[5] = 50").unwrap();
    session.hibernate_blocking().unwrap();
    child.hibernate_blocking().unwrap();
    assert_eq!(text(&session, look), "(4, 53, '2')");
    assert_eq!(text(&child, look), "('child', 103, '2')");
    session.run_blocking("import os\nx = 9\nos._exit(1)").unwrap();
    assert_eq!(text(&session, look), "(4, 53, '2')");
    session.rollback_blocking("two").unwrap();
    assert_eq!(text(&session, look), "(2, 3, '2')");
}

#[test]
fn it_works_with_tracked_writes() {
    works_by(Tracking::Automatic);
}

#[test]
fn it_works_by_comparing() {
    works_by(Tracking::Compare);
}

#[test]
fn it_works_by_the_page_table() {
    works_by(Tracking::PageTable);
}

#[test]
fn it_works_where_the_kernel_tells_nothing() {
    works_by(Tracking::All);
}

/// The largest pack: where the session's memory is.
fn largest_file(below: &Path) -> PathBuf {
    let mut files = Vec::new();
    let mut pending = vec![below.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { pending.push(path) } else { files.push(path) }
        }
    }
    files.into_iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

#[test]
fn a_file_that_breaks_under_a_session_costs_only_that_session() {
    let state = state();
    let sandbox = sandbox(&state);
    let [broken, other] = ["broken", "other"].map(|name| sandbox.create_blocking(Some(name)).unwrap());
    broken.run_blocking("x = 1; big = bytearray(b'y' * (16 << 20))").unwrap();
    broken.hibernate_blocking().unwrap();
    other.run_blocking("x = 2").unwrap();
    broken.wake_blocking().unwrap();
    let pack = largest_file(&state.path().join("tenants"));
    std::fs::File::options().write(true).open(&pack).unwrap().set_len(8192).unwrap();
    let error = broken.run_blocking("sum(big)").unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    assert_eq!(text(&other, "x"), "2");
    // What is on disk can't be woken any more, and the error names the file.
    let error = broken.run_blocking("x").unwrap_err();
    assert!(error.to_string().contains(pack.file_name().unwrap().to_str().unwrap()), "{error}");
    assert_eq!(text(&other, "x + 1"), "3");
}

#[test]
fn wrong_bytes_are_found_before_anything_is_kept() {
    let state = state();
    let sandbox = sandbox(&state);
    let session = sandbox.create_blocking(Some("s")).unwrap();
    session.run_blocking("x = 1; big = bytearray(b'y' * (16 << 20))").unwrap();
    session.hibernate_blocking().unwrap();
    let pack = largest_file(&state.path().join("tenants"));
    let file = std::fs::File::options().write(true).open(&pack).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"flip", 9 << 20).unwrap();
    session.run_blocking("x = 2").unwrap();
    // What is wrong once stays wrong.
    for _ in 0..3 {
        let error = session.hibernate_blocking().unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::Damaged { .. })), "{error}");
    }
    assert!(session.checkpoint_blocking(None).is_err());
    assert!(session.fork_blocking(1).is_err());
}

#[test]
fn a_session_travels_as_a_file() {
    let (here, there) = (state(), state());
    let data = tempfile::tempdir().unwrap();
    let session = keeping(here.path())
        .mount_writable(data.path(), "/out")
        .build_blocking()
        .unwrap()
        .create_blocking(Some("s"))
        .unwrap();
    session.run_blocking("x = 41; open('f', 'w').write('kept'); out = open('/out/a', 'w')").unwrap();
    session.checkpoint_blocking(Some("one")).unwrap();
    session.run_blocking("x = 42").unwrap();
    let file = here.path().join("s.belljar");
    session.export_blocking(&file).unwrap();
    drop(session);

    // Another machine has another image.
    let cache = other_cache();
    let runtimes = belljar::Runtimes { cache_dir: Some(cache.path().to_owned()), ..Default::default() };
    let registry = belljar::Registry::open(there.path()).unwrap();
    let imported = registry.import(&file, Some("t"), &runtimes).unwrap();
    assert_eq!(imported.dropped_mounts, ["/out"]);
    let sandbox = keeping(there.path()).runtimes(runtimes).build_blocking().unwrap();
    let session = sandbox.open_blocking("t").unwrap();
    assert_eq!(text(&session, "import colorsys; (x, open('f').read())"), "(42, 'kept')");
    // What was open in the mount is nowhere now.
    assert_eq!(session.run_blocking("out.write('x'); out.flush()").unwrap().status, belljar::Status::Error);
    session.rollback_blocking("one").unwrap();
    assert_eq!(text(&session, "x"), "41");
    assert_eq!(
        session.history_blocking().unwrap().entries.iter().filter(|entry| entry.kind == "cell").count(),
        5
    );
    session.hibernate_blocking().unwrap();
    assert!(std::fs::read(data.path().join("a")).unwrap().is_empty());
}
