//! 200 sessions awake and 2,000 asleep, in one process.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use belljar::{Sandbox, Session};

use super::super::row::{Promise, Row};
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::{Scene, expect, memory, process, run, whole_memory};

const AWAKE: usize = 200;
const ASLEEP: usize = 2000;
/// Of those asleep, every so manyth is woken.
const WOKEN_OF: usize = 5;

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let sandbox =
        scene.kept("crowd").idle_hibernate(Duration::ZERO).live_memory(u64::MAX).build_blocking()?;
    let (awake, asleep) = (scene.many(AWAKE), scene.many(ASLEEP));
    let mut rows = Vec::new();
    let before = whole_memory()?;

    let (mut creating, mut sleeping, mut sessions) = (Vec::new(), Vec::new(), Vec::new());
    let started = Instant::now();
    for number in 0..asleep + awake {
        let (created, session) = time(|| create(&sandbox, number))?;
        creating.push(milliseconds(created));
        if number < asleep {
            session.settle_blocking();
            sleeping.push(milliseconds(time(|| Ok(session.hibernate_blocking()?))?.0));
        }
        sessions.push((number, session));
    }
    rows.push(Row::new(format!("making {} sessions", sessions.len()), "s", started.elapsed().as_secs_f64()));
    rows.push(Row::new("  one, registered, with its first cell", "ms", &Sample::new(creating)));
    rows.push(Row::new("  putting it to sleep", "ms", &Sample::new(sleeping)));

    let (mut answers, mut wakings) = (Vec::new(), Vec::new());
    for (number, session) in sessions.iter().skip(asleep) {
        ensure!(session.is_live_blocking(), "session {number} isn't awake");
        answers.push(milliseconds(time(|| answer(session, *number))?.0));
    }
    for (number, session) in sessions.iter().take(asleep).step_by(WOKEN_OF) {
        ensure!(!session.is_live_blocking(), "session {number} isn't asleep");
        wakings.push(milliseconds(time(|| answer(session, *number))?.0));
        session.hibernate_blocking()?;
    }
    rows.push(Row::new("  those awake answer", "ms", &Sample::new(answers)));
    rows.push(Row::new("  those asleep answer", "ms", &Sample::new(wakings)));
    thread::sleep(Duration::from_millis(2500));
    let what = format!("memory (PSS, frozen pages included), {awake} awake, {asleep} asleep");
    rows.push(Row::new(what, "MB", whole_memory()?).promise(Promise::AtMost(600.0)));
    rows.push(Row::new("  before any", "MB", before));
    // A page of the interpreter that all of them share is counted once for each of them.
    rows.push(Row::new("  RSS", "MB", memory("Rss")?));

    rows.extend(listing(scene, &sandbox, sessions.len())?);
    let (taken, closed) = time(|| {
        let count = sessions.len();
        sessions.into_iter().try_for_each(|(_, session)| session.close_blocking())?;
        Ok(count)
    })?;
    rows.push(Row::new(format!("closing {closed} sessions"), "s", taken.as_secs_f64()));
    Ok(rows)
}

fn create(sandbox: &Sandbox, number: usize) -> anyhow::Result<Session> {
    let session = sandbox.create_blocking(None)?;
    run(&session, &format!("x = {number}"))?;
    Ok(session)
}

fn answer(session: &Session, number: usize) -> anyhow::Result<()> {
    expect(session, "x", &number.to_string())
}

fn listing(scene: &Scene, sandbox: &Sandbox, count: usize) -> anyhow::Result<[Row; 2]> {
    let registry = sandbox.registry()?;
    let inside = Sample::collect(scene.many(20), || {
        let (taken, list) = time(|| Ok(registry.sessions()?))?;
        ensure!(list.sessions.len() == count && list.damaged.is_empty(), "the list isn't complete");
        Ok(milliseconds(taken))
    })?;
    let state = scene.state("crowd");
    let outside = Sample::collect(scene.many(20), || {
        process(scene.command()?.args(["session", "ls", "--state-dir"]).arg(&state), None)
    })?;
    Ok([
        Row::new("Registry::sessions", "ms", &inside),
        Row::new("belljar session ls, as a process", "ms", &outside).promise(Promise::AtMost(50.0)),
    ])
}
