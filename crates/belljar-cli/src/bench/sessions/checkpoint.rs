//! Checkpoints of a session that wrote 3 MB since the last one.

use belljar::{Sandbox, Session};

use super::super::row::{Promise, Row};
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::{Scene, run, settle};
use super::{FILL_SMALL, SMALL, fill};

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let memory = scene.builder().build_blocking()?.session_blocking()?;
    let disk = scene.kept("checkpoint").build_blocking()?.create_blocking(None)?;
    let (_, in_memory) = checkpoints(&memory, scene.many(60))?;
    let (settling, durable) = checkpoints(&disk, scene.many(60))?;
    disk.close_blocking()?;
    Ok(vec![
        Row::new("checkpoint after 3 MB were written, in memory", "ms", &in_memory)
            .promise(Promise::AtMost(3.0)),
        Row::new("  durable", "ms", &durable).promise(Promise::AtMost(15.0)),
        Row::new("  settling before it (in async code after the outcome)", "ms", &settling),
    ])
}

/// Times of settling, and of the checkpoint itself.
fn checkpoints(session: &Session, count: usize) -> anyhow::Result<(Sample, Sample)> {
    fill(session, SMALL, FILL_SMALL)?;
    let (mut settling, mut taking) = (Vec::new(), Vec::new());
    for _ in 0..count {
        run(session, FILL_SMALL)?;
        settling.push(milliseconds(settle(session)));
        let (taken, checkpoint) = time(|| Ok(session.checkpoint_blocking(None)?))?;
        taking.push(milliseconds(taken));
        session.delete_checkpoint_blocking(&checkpoint)?;
    }
    Ok((Sample::new(settling), Sample::new(taking)))
}

/// The same in memory, for other sandboxes.
pub(super) fn in_memory(sandbox: &Sandbox, count: usize) -> anyhow::Result<Sample> {
    Ok(checkpoints(&sandbox.session_blocking()?, count)?.1)
}
