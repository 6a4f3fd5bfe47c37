//! Forks and checkpoints of a small session.

use super::super::row::Row;
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::{expect, run};
use super::Ground;

const SMALL: &str = "import pandas as pd\ndf = pd.DataFrame({'a': range(1000)})\nx = 41";

pub(super) fn measure(ground: &Ground<'_>) -> anyhow::Result<Vec<Row>> {
    let sandbox = ground.science().build_blocking()?;
    let kept = ground.science().state_dir(ground.scene.state("native-branch")).build_blocking()?;
    let (memory, disk) = (sandbox.session_blocking()?, kept.create_blocking(None)?);
    for session in [&memory, &disk] {
        run(session, SMALL)?;
        session.settle_blocking();
    }
    let (mut forking, mut answering, mut back) = (Vec::new(), Vec::new(), Vec::new());
    let mut checkpoints = [Vec::new(), Vec::new()];
    for _ in 0..ground.scene.many(20) {
        let (forked, children) = time(|| Ok(memory.fork_blocking(1)?))?;
        let (answered, ()) =
            time(|| children.iter().try_for_each(|child| expect(child, "len(df) + x", "1041")))?;
        forking.push(milliseconds(forked));
        answering.push(milliseconds(forked + answered));
        drop(children);
        for (session, times) in [&memory, &disk].into_iter().zip(&mut checkpoints) {
            run(session, "x = 41")?;
            session.settle_blocking();
            let (taken, checkpoint) = time(|| Ok(session.checkpoint_blocking(None)?))?;
            times.push(milliseconds(taken));
            if std::ptr::eq(session, &memory) {
                let (returned, ()) = time(|| {
                    session.rollback_blocking(&checkpoint)?;
                    expect(session, "x", "41")
                })?;
                back.push(milliseconds(returned));
            }
            session.delete_checkpoint_blocking(&checkpoint)?;
        }
    }
    disk.close_blocking()?;
    let [in_memory, durable] = checkpoints.map(Sample::new);
    Ok(vec![
        Row::new("fork of a small session", "ms", &Sample::new(forking)),
        Row::new("  and the child's first answer", "ms", &Sample::new(answering)),
        Row::new("checkpoint of a small session, in memory", "ms", &in_memory),
        Row::new("  durable", "ms", &durable),
        Row::new("rollback to it, to the next result", "ms", &Sample::new(back)),
    ])
}
