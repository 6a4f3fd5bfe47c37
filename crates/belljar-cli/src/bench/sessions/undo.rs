//! Taking cells back, and going back to checkpoints.

use belljar::Session;

use super::super::row::Row;
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::{Scene, expect, run};
use super::{BIG, FILL_BIG, FILL_SMALL, SMALL, fill};

/// A megabyte in place.
const WRITE: &str = "for n in range(0, 1 << 20, 4096): small[n] ^= 1";

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let sandbox = scene.builder().build_blocking()?;
    let small = sandbox.session_blocking()?;
    fill(&small, SMALL, FILL_SMALL)?;
    run(&small, "x = 0")?;
    let (undoing, answers) = undo(&small, "x += 1", scene.many(100))?;
    let mut rows = vec![row("undo of x += 1", &undoing), row("  to the next result", &answers)];
    rows.push(row("undo of a cell that wrote 1 MB", &undo(&small, WRITE, scene.many(60))?.0));
    rows.extend(rollback("rollback of a small session, x += 1 since", &small, "x += 1", scene.many(60))?);
    rows.extend(rollback("rollback of a small session, 3 MB since", &small, FILL_SMALL, scene.many(60))?);
    let kept = scene.kept("undo").build_blocking()?.create_blocking(None)?;
    fill(&kept, SMALL, FILL_SMALL)?;
    run(&kept, "x = 0")?;
    rows.extend(rollback("rollback to a durable checkpoint, 3 MB since", &kept, FILL_SMALL, scene.many(40))?);
    kept.close_blocking()?;
    let big = sandbox.session_blocking()?;
    fill(&big, BIG, FILL_BIG)?;
    run(&big, "x = 0")?;
    let (undoing, answers) = undo(&big, "x += 1", scene.many(20))?;
    rows.extend([row("undo of x += 1 in a 64 MB session", &undoing), row("  to the next result", &answers)]);
    rows.extend(rollback("rollback of a 64 MB session, x += 1 since", &big, "x += 1", scene.many(40))?);
    rows.extend(rollback("rollback of a 64 MB session, all of it since", &big, FILL_BIG, scene.many(10))?);
    Ok(rows)
}

fn row(what: &str, sample: &Sample) -> Row {
    Row::new(what, "ms", sample)
}

/// Times of taking a cell back, and until the next one has answered.
fn undo(session: &Session, cell: &str, count: usize) -> anyhow::Result<(Sample, Sample)> {
    let (mut undoing, mut answers) = (Vec::new(), Vec::new());
    for _ in 0..count {
        run(session, "x = 5")?;
        run(session, cell)?;
        session.settle_blocking();
        let (back, _) = time(|| Ok(session.undo_blocking(1)?))?;
        let (answered, ()) = time(|| expect(session, "x", "5"))?;
        undoing.push(milliseconds(back));
        answers.push(milliseconds(back + answered));
    }
    Ok((Sample::new(undoing), Sample::new(answers)))
}

fn rollback(what: &str, session: &Session, cell: &str, count: usize) -> anyhow::Result<[Row; 2]> {
    run(session, "x = 7")?;
    let checkpoint = session.checkpoint_blocking(None)?;
    let (mut rolling, mut answers) = (Vec::new(), Vec::new());
    for _ in 0..count {
        run(session, &format!("x = 8\n{cell}"))?;
        session.settle_blocking();
        let (back, _) = time(|| Ok(session.rollback_blocking(&checkpoint)?))?;
        let (answered, ()) = time(|| expect(session, "x", "7"))?;
        rolling.push(milliseconds(back));
        answers.push(milliseconds(back + answered));
    }
    session.delete_checkpoint_blocking(&checkpoint)?;
    Ok([row(what, &Sample::new(rolling)), row("  to the next result", &Sample::new(answers))])
}
