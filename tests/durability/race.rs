//! Processes that want the same session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use belljar::{Error, SessionLife, StoreError};
use belljar_tests::text;

use crate::places::{child, childs_state, keeping, sandbox};

const PROCESSES: usize = 4;
const TURNS: usize = 12;

/// Run by `no_turn_is_lost` in processes of their own.
#[test]
#[ignore = "a part of another test"]
fn takes_turns() {
    let Some(state) = childs_state() else { return };
    // However long the others take.
    let sandbox = keeping(&state).wait(Duration::from_secs(500)).build_blocking().unwrap();
    for turn in 0..TURNS {
        let session = sandbox.open_blocking("shared").unwrap();
        let add = "number += 1; n = int(open('n').read()); file = open('n', 'w'); file.write(str(n + 1)); file.close()";
        session.run_blocking(add).unwrap();
        if turn % 2 == 0 {
            session.hibernate_blocking().unwrap();
        }
    }
}

#[test]
fn no_turn_is_lost() {
    let state = tempfile::tempdir().unwrap();
    let sandbox = sandbox(state.path());
    let session = sandbox.create_blocking(Some("shared")).unwrap();
    session.run_blocking("number = 0; file = open('n', 'w'); file.write('0'); file.close()").unwrap();
    session.hibernate_blocking().unwrap();
    let children: Vec<_> =
        (0..PROCESSES).map(|_| child("race::takes_turns", state.path()).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let sum = PROCESSES * TURNS;
    assert_eq!(text(&session, "(number, open('n').read())"), format!("({sum}, '{sum}')"));
    let entries = session.history_blocking().unwrap().entries;
    let numbers: Vec<usize> = entries.iter().map(|entry| entry.number as usize).collect();
    assert_eq!(numbers, (1..=sum + 2).collect::<Vec<_>>());
    assert!(entries.iter().all(|entry| entry.note.is_none()), "all of it was kept");
}

#[test]
fn who_does_not_wait_gets_an_error_that_says_who_has_it() {
    let state = tempfile::tempdir().unwrap();
    let sandbox = sandbox(state.path());
    let session = sandbox.create_blocking(Some("shared")).unwrap();
    session.run_blocking("x = 1").unwrap();
    let impatient = keeping(state.path()).wait(Duration::ZERO).build_blocking().unwrap();
    let other = impatient.open_blocking("shared").unwrap();
    let registry = impatient.registry().unwrap();
    let attempts = [
        other.run_blocking("x = 2").map(drop),
        other.checkpoint_blocking(None).map(drop),
        other.undo_blocking(1).map(drop),
        other.fork_blocking(1).map(drop),
        registry.close("shared"),
        registry.export("shared", &state.path().join("parcel")).map(drop),
    ];
    for attempt in attempts {
        let error = attempt.unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::Busy { .. })), "{error}");
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    }
    assert_eq!(text(&session, "x"), "1");
}

/// Whoever lets go of a session finds it asleep, also while the sandbox looks whether some should be.
#[test]
fn letting_go_is_done_when_it_returns() {
    let state = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let sandbox = sandbox(state.path());
    let registry = sandbox.registry().unwrap();
    let others: Vec<_> = (0..6).map(|_| sandbox.create_blocking(None).unwrap()).collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // Each that wakes makes the sandbox look at all.
        scope.spawn(|| {
            for other in others.iter().cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                other.run_blocking("x = 1").unwrap();
                other.hibernate_blocking().unwrap();
                others.iter().for_each(|other| drop(other.wake_blocking()));
            }
        });
        let found: Vec<_> = (1..=300)
            .map(|turn| {
                let session =
                    sandbox.open_blocking("s").or_else(|_| sandbox.create_blocking(Some("s"))).unwrap();
                session.run_blocking(format!("x = {turn}")).unwrap();
                drop(session);
                let info = registry.session("s").unwrap();
                (info.cells, info.state)
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        let expected: Vec<_> = (1..=300).map(|turn| (turn, SessionLife::Hibernated)).collect();
        assert_eq!(found, expected);
    });
}
