//! A clock that goes back: what was kept has times in the future.

use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar::Prune;

use crate::places::{files, sandbox};
use crate::tally;

const CENTURY: u64 = 100 * 365 * 24 * 3600 * 1000;

/// Sets when a session was made and used, as if the clock had said so then.
fn set_times(state: &Path, name: &str, time: u64) {
    let path = state.join("tenants/local/sessions").join(name).join("session.json");
    let text = fs::read_to_string(&path).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let replaced = rest.lines().map(|line| match line.trim_start().split_once(": ") {
        Some(("\"created\"" | "\"last_used\"", _)) => {
            let (key, _) = line.split_once(": ").unwrap();
            format!("{key}: {time},\n")
        }
        _ => format!("{line}\n"),
    });
    let rest: String = replaced.collect();
    let (begin, _) = first.split_once("\"checksum\": \"").unwrap();
    let checksum = blake3::hash(rest.as_bytes()).to_hex();
    fs::write(&path, format!("{begin}\"checksum\": \"{checksum}\",\n{rest}")).unwrap();
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

#[test]
fn sessions_from_the_future_are_used_as_before() {
    let state = tempfile::tempdir().unwrap();
    let sandbox = sandbox(state.path());
    for (time, name) in [(now() + CENTURY, "ahead"), (u64::MAX, "never"), (0, "old")] {
        let session = sandbox.create_blocking(Some(name)).unwrap();
        tally::begin(&session, 1);
        session.checkpoint_blocking(Some("one")).unwrap();
        session.hibernate_blocking().unwrap();
        set_times(state.path(), name, time);
        let registry = sandbox.registry().unwrap();
        assert_eq!(registry.session(name).unwrap().last_used_ms, time);
        let session = sandbox.open_blocking(name).unwrap();
        assert_eq!(tally::number(&session), 1);
        tally::mark(&session, 2);
        session.checkpoint_blocking(Some("two")).unwrap();
        session.rollback_blocking("one").unwrap();
        let child = session.fork_named_blocking(None, &format!("{name}-child")).unwrap();
        assert_eq!(tally::number(&child), 1);
        session.hibernate_blocking().unwrap();
        let info = registry.session(name).unwrap();
        // Time doesn't go back for a session, whatever the clock does.
        assert!(info.last_used_ms >= time && info.last_used_ms >= info.created_ms);
        assert_eq!(info.checkpoints.iter().map(|point| point.number).collect::<Vec<_>>(), [1, 2]);
        let entries = session.history_blocking().unwrap().entries;
        assert!(entries.is_sorted_by_key(|entry| entry.number), "{entries:?}");
        assert_eq!(tally::number(&session), 1);
    }
}

#[test]
fn pruning_keeps_what_was_used_last() {
    let state = tempfile::tempdir().unwrap();
    let sandbox = sandbox(state.path());
    let registry = sandbox.registry().unwrap();
    let names = ["a-old", "b-never", "c-now", "d-ahead"];
    for name in names {
        let session = sandbox.create_blocking(Some(name)).unwrap();
        tally::begin(&session, 1);
        session.hibernate_blocking().unwrap();
    }
    for (name, time) in [("a-old", now() - CENTURY / 10), ("b-never", u64::MAX), ("d-ahead", now() + CENTURY)]
    {
        set_times(state.path(), name, time);
    }
    let closed = |prune: Prune| -> Vec<String> {
        registry.prune(&prune).unwrap().closed.iter().map(ToString::to_string).collect()
    };
    let left = || -> Vec<String> {
        registry.sessions().unwrap().sessions.iter().map(|session| session.id.to_string()).collect()
    };
    assert_eq!(left(), names);
    // From the future isn't idle for long.
    let hour = Duration::from_secs(3600);
    assert_eq!(closed(Prune { idle: Some(hour), ..Prune::default() }), ["a-old"]);
    assert_eq!(closed(Prune { idle: Some(hour), ..Prune::default() }), [""; 0]);
    let by_size = Prune { keep_bytes: Some(0), dry_run: true, ..Prune::default() };
    assert_eq!(closed(by_size), ["c-now", "d-ahead", "b-never"]);
    assert_eq!(left(), ["b-never", "c-now", "d-ahead"]);
}

#[test]
fn files_from_the_future_are_collected_and_cooled_all_the_same() {
    let state = tempfile::tempdir().unwrap();
    let sandbox = sandbox(state.path());
    let registry = sandbox.registry().unwrap();
    let ahead = SystemTime::now() + Duration::from_millis(CENTURY);
    for name in ["a", "b"] {
        let session = sandbox.create_blocking(Some(name)).unwrap();
        tally::begin(&session, 7);
        session.hibernate_blocking().unwrap();
    }
    for path in files(&state.path().join("tenants")) {
        File::open(path).unwrap().set_times(FileTimes::new().set_modified(ahead)).unwrap();
    }
    assert_eq!(registry.cool(Duration::from_secs(3600)).unwrap().packs, 0);
    assert!(registry.cool(Duration::ZERO).unwrap().packs > 0);
    registry.collect().unwrap();
    let session = sandbox.open_blocking("a").unwrap();
    assert_eq!(tally::number(&session), 7);
    registry.close("b").unwrap();
    registry.collect().unwrap();
    tally::mark(&session, 8);
    session.hibernate_blocking().unwrap();
    assert_eq!(tally::number(&session), 8);
}
