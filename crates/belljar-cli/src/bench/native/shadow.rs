//! What it costs that cells can be taken back: after each, the interpreter is forked.

use belljar::{EngineKind, Policy, Rollback, Sandbox, SandboxBuilder, Session};

use super::super::row::Row;
use super::super::sample::{Sample, microseconds, time};
use super::super::scene::{run, settle};
use super::Ground;
use super::processes::held;

const CELL: &str = "x += 1";
/// Cells between two sessions' turns.
const TURN: usize = 25;
/// Shadows that are weighed; a session keeps one more.
const WEIGHED: usize = 8;

pub(super) fn measure(ground: &Ground<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = environment(ground, "plain", &|| ground.bare())?;
    rows.extend(environment(ground, "science", &|| ground.science())?);
    Ok(rows)
}

fn environment(
    ground: &Ground<'_>,
    name: &str,
    builder: &dyn Fn() -> SandboxBuilder,
) -> anyhow::Result<Vec<Row>> {
    let never = sandbox(builder(), Rollback::Never)?;
    let default = sandbox(builder(), Rollback::OnKill)?;
    let sessions = [running(&never)?, running(&default)?];
    let mut times = [Vec::new(), Vec::new()];
    let mut settling = Vec::new();
    for _ in 0..ground.scene.many(20) {
        for (session, times) in sessions.iter().zip(&mut times) {
            for _ in 0..TURN {
                times.push(microseconds(time(|| run(session, CELL))?.0));
            }
            settle(session);
        }
        run(&sessions[1], CELL)?;
        settling.push(microseconds(settle(&sessions[1])));
    }
    drop(sessions);
    let [without, with] = times.map(Sample::new);
    let weight = (grown(&default)? - grown(&never)?) / WEIGHED as f64;
    Ok(vec![
        Row::new(format!("cell x += 1, back to back, {name}"), "µs", &with)
            .against("rollback=never", Some(without.median)),
        Row::new("  settling after a cell: the fork", "µs", &Sample::new(settling)),
        Row::new("  memory of a shadow, page tables included", "MB", weight),
    ])
}

fn sandbox(builder: SandboxBuilder, rollback: Rollback) -> anyhow::Result<Sandbox> {
    let policy = Policy { rollback, ..Policy::for_engine(EngineKind::Native) };
    Ok(builder.policy(policy).build_blocking()?)
}

fn running(sandbox: &Sandbox) -> anyhow::Result<Session> {
    let session = sandbox.session_blocking()?;
    run(&session, "x = 0")?;
    for _ in 0..20 {
        run(&session, CELL)?;
    }
    session.settle_blocking();
    Ok(session)
}

/// What some cells make all processes grow, in 10⁶ bytes.
fn grown(sandbox: &Sandbox) -> anyhow::Result<f64> {
    let session = sandbox.session_blocking()?;
    run(&session, "x = 0")?;
    session.settle_blocking();
    let before = held()?.all();
    for _ in 0..WEIGHED {
        run(&session, CELL)?;
        session.settle_blocking();
    }
    Ok(held()?.all() - before)
}
