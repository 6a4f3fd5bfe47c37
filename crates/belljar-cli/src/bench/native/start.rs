//! New sessions, ready and with a first result, beside bubblewrap.

use std::thread;
use std::time::Duration;

use anyhow::ensure;
use belljar::Sandbox;

use super::super::row::{Promise, Row};
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::run;
use super::plain::first_line;
use super::{FIRST, Ground, MODULES};

/// Sessions of ours beside each of bubblewrap's.
const OURS: usize = 5;
/// Sessions without a pause.
const BURST: usize = 20;
const REST: Duration = Duration::from_millis(50);

pub(super) fn measure(ground: &Ground<'_>) -> anyhow::Result<Vec<Row>> {
    let cold = ground.science().build_blocking()?;
    let warm = ground.science().warm(2).build_blocking()?;
    let expected = first_result(&cold)?.1;
    first_result(&warm)?;
    let (mut ready, mut first, mut warmed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut stack, mut pandas) = (Vec::new(), Vec::new());
    // One after the other, so that all meet the same noise; the first of all fills caches.
    for round in 0..ground.scene.many(12) + 1 {
        let theirs = |code, printed| {
            ground.plain.bwrap(code).map(|command| first_line(command, Some(printed))).transpose()
        };
        let (imported, printed) = (theirs(MODULES, "1\n")?, theirs(FIRST, &expected)?);
        for _ in 0..OURS {
            thread::sleep(REST);
            let (taken, session) = time(|| Ok(cold.session_blocking()?))?;
            drop(session);
            thread::sleep(REST);
            let (firsts, text) = first_result(&cold)?;
            thread::sleep(REST);
            let (warm_firsts, warm_text) = first_result(&warm)?;
            ensure!(text == expected && warm_text == expected, "sessions print {text} and {warm_text}");
            if round > 0 {
                ready.push(milliseconds(taken));
                first.push(firsts);
                warmed.push(warm_firsts);
            }
        }
        if round > 0 {
            stack.extend(imported);
            pandas.extend(printed);
        }
    }
    let burst = Sample::collect(ground.scene.many(10), || {
        thread::sleep(REST);
        let (taken, sessions) = time(|| {
            let sessions = (0..BURST).map(|_| Ok(cold.session_blocking()?));
            sessions.collect::<anyhow::Result<Vec<_>>>()
        })?;
        drop(sessions);
        Ok(milliseconds(taken) / BURST as f64)
    })?;
    let median = |values: Vec<f64>| (!values.is_empty()).then(|| Sample::new(values).median);
    let (stack, pandas) = (median(stack), median(pandas));
    Ok(vec![
        Row::new("session ready, everything of science imported", "ms", &Sample::new(ready))
            .against("bwrap + imports", stack)
            .promise(Promise::Faster(100.0)),
        Row::new(format!("  {BURST} at once, each"), "ms", &burst).against("bwrap + imports", stack),
        Row::new("session ready + first result of pandas", "ms", &Sample::new(first))
            .against("bwrap + pandas", pandas)
            .promise(Promise::Faster(8.0)),
        Row::new("  from the warmed pool", "ms", &Sample::new(warmed))
            .against("bwrap + pandas", pandas)
            .promise(Promise::Faster(25.0)),
    ])
}

/// Milliseconds to the first result of a new session, and what it printed.
pub(super) fn first_result(sandbox: &Sandbox) -> anyhow::Result<(f64, String)> {
    let (taken, (session, outcome)) = time(|| {
        let session = sandbox.session_blocking()?;
        let outcome = run(&session, FIRST)?;
        Ok((session, outcome))
    })?;
    drop(session);
    Ok((milliseconds(taken), outcome.stdout))
}
