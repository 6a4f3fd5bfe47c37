//! Keeping 1 MB of state and going back to it, as the peers do.

use belljar::Session;

use super::super::peers::Peers;
use super::super::row::{Promise, Row};
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::{Scene, expect, run, settle};

/// What `benches/peers/worker.py` holds: the code, the length, and where the peers' numbers are.
const STATES: [(&str, &str, &str, &str); 2] = [
    ("one string", "data = '0123456789abcdef' * 65536", "1048576", "snapshot"),
    (
        "many objects",
        "data = [{'number': n, 'text': f'item {n}'} for n in range(6000)]",
        "6000",
        "snapshot/structured",
    ),
];

struct Times {
    settling: Sample,
    checkpoint: Sample,
    rollback: Sample,
    /// To the answer of a cell that reads it.
    reload: Sample,
    /// The same in a child of the checkpoint, made and dropped meanwhile.
    restore: Sample,
}

pub(super) fn measure(scene: &Scene, peers: &Peers) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let memory = scene.builder().build_blocking()?;
    let disk = scene.kept("snapshot").build_blocking()?;
    for (name, code, length, path) in STATES {
        let held = times(&memory.session_blocking()?, code, length, scene.many(60))?;
        let kept = times(&disk.create_blocking(None)?, code, length, scene.many(60))?;
        let peer = |peer, times: [&str; 2]| {
            let number = |time| peers.number(peer, &format!("{path}/{time}/median"));
            Some(number(times[0])? + number(times[1])?)
        };
        let pair = held.checkpoint.median + held.reload.median;
        let reloads = ["snapshot_ms", "reload_ms"];
        rows.extend([
            Row::new(format!("snapshot + restore of 1 MB ({name}), same session, ÷ eryx"), "ms", pair)
                .against("eryx", peer("eryx", reloads))
                .promise(Promise::RatioAtMost(0.04)),
            Row::new("  ÷ monty", "ms", pair)
                .against("monty", peer("monty", reloads))
                .promise(Promise::RatioAtMost(3.0)),
            Row::new("  checkpoint, in memory", "ms", &held.checkpoint),
            Row::new("  settling before it", "ms", &held.settling),
            Row::new("  rollback", "ms", &held.rollback),
            Row::new("  rollback to the first result", "ms", &held.reload),
            Row::new("  + settling, ÷ monty", "ms", pair + held.settling.median)
                .against("monty", peer("monty", reloads)),
            Row::new(
                "  in a new session, made and dropped meanwhile, ÷ eryx",
                "ms",
                held.checkpoint.median + held.restore.median,
            )
            .against("eryx", peer("eryx", ["snapshot_ms", "restore_ms"]))
            .promise(Promise::RatioAtMost(0.04)),
            Row::new("  checkpoint, durable", "ms", &kept.checkpoint),
            Row::new("  rollback to that, to the first result", "ms", &kept.reload),
            Row::new(
                "  durable checkpoint + rollback, ÷ eryx",
                "ms",
                kept.checkpoint.median + kept.reload.median,
            )
            .against("eryx", peer("eryx", reloads)),
        ]);
    }
    Ok(rows)
}

fn times(session: &Session, code: &str, length: &str, count: usize) -> anyhow::Result<Times> {
    let (mut settling, mut checkpoints, mut rollbacks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut reloads, mut restores) = (Vec::new(), Vec::new());
    run(session, code)?;
    for _ in 0..count {
        // Made anew each time: there is 1 MB to keep.
        run(session, code)?;
        settling.push(milliseconds(settle(session)));
        let (taken, checkpoint) = time(|| Ok(session.checkpoint_blocking(None)?))?;
        checkpoints.push(milliseconds(taken));
        // And 1 MB to take back.
        run(session, &format!("{code}\ndata = data[1:]"))?;
        session.settle_blocking();
        let (back, _) = time(|| Ok(session.rollback_blocking(&checkpoint)?))?;
        let (read, ()) = time(|| expect(session, "len(data)", length))?;
        rollbacks.push(milliseconds(back));
        reloads.push(milliseconds(back + read));
        let (taken, ()) = time(|| {
            let children = session.fork_from_blocking(&checkpoint, 1)?;
            expect(&children[0], "len(data)", length)
        })?;
        restores.push(milliseconds(taken));
        session.delete_checkpoint_blocking(&checkpoint)?;
    }
    Ok(Times {
        settling: Sample::new(settling),
        checkpoint: Sample::new(checkpoints),
        rollback: Sample::new(rollbacks),
        reload: Sample::new(reloads),
        restore: Sample::new(restores),
    })
}
