//! What it costs that cells can be taken back.

use std::time::Duration;

use belljar::{Policy, Rollback, Sandbox, Session};

use super::super::peers::Peers;
use super::super::row::{Promise, Row};
use super::super::sample::{Sample, microseconds, milliseconds, time};
use super::super::scene::{Scene, run, settle};

const CELL: &str = "x += 1";
/// Cells between two sessions' turns.
const TURN: usize = 50;
/// Some ten milliseconds.
const LONG: &str = "s = 0\nfor n in range(80_000): s += n";
/// All of 100 MB in place.
const BUFFER: &str = "big = bytearray(100 << 20)\nblock = bytes(1 << 20)";
const WRITE: &str =
    "block = bytes([block[0] ^ 1]) * (1 << 20)\nfor n in range(100): big[n << 20:(n + 1) << 20] = block";

pub(super) fn measure(scene: &Scene, peers: &Peers) -> anyhow::Result<Vec<Row>> {
    let never = Policy { rollback: Rollback::Never, ..scene.policy() };
    let sandboxes = Sandboxes {
        never: scene.builder().policy(never).build_blocking()?,
        default: scene.builder().build_blocking()?,
        no_undo: scene.builder().policy(Policy { undo: 0, ..scene.policy() }).build_blocking()?,
    };
    let mut rows = small(scene, peers, &sandboxes)?;
    rows.extend(long(scene, &sandboxes)?);
    rows.extend(writing(scene, &sandboxes)?);
    Ok(rows)
}

struct Sandboxes {
    never: Sandbox,
    default: Sandbox,
    no_undo: Sandbox,
}

/// Times of one cell by itself, and of many without a pause between them.
pub(super) struct CellTimes {
    session: Session,
    alone: Vec<f64>,
    back_to_back: Vec<f64>,
}

impl CellTimes {
    pub(super) fn new(session: Session) -> anyhow::Result<Self> {
        run(&session, "x = 0")?;
        for _ in 0..20 {
            run(&session, CELL)?;
        }
        Ok(Self { session, alone: Vec::new(), back_to_back: Vec::new() })
    }

    pub(super) fn take_turn(&mut self) -> anyhow::Result<()> {
        for _ in 0..TURN {
            self.session.settle_blocking();
            self.alone.push(self.cell()?);
        }
        // The first one has nothing before it to settle.
        self.cell()?;
        for _ in 0..TURN {
            let taken = self.cell()?;
            self.back_to_back.push(taken);
        }
        self.session.settle_blocking();
        Ok(())
    }

    fn cell(&self) -> anyhow::Result<f64> {
        Ok(microseconds(time(|| run(&self.session, CELL))?.0))
    }

    /// Alone, and back to back.
    pub(super) fn samples(self) -> (Sample, Sample) {
        (Sample::new(self.alone), Sample::new(self.back_to_back))
    }
}

fn small(scene: &Scene, peers: &Peers, sandboxes: &Sandboxes) -> anyhow::Result<Vec<Row>> {
    let kept = scene.kept("cells").build_blocking()?.create_blocking(None)?;
    let mut turns = [
        CellTimes::new(sandboxes.never.session_blocking()?)?,
        CellTimes::new(sandboxes.default.session_blocking()?)?,
        CellTimes::new(sandboxes.no_undo.session_blocking()?)?,
        CellTimes::new(kept)?,
    ];
    for _ in 0..scene.many(40) {
        for session in &mut turns {
            session.take_turn()?;
        }
    }
    let [never, default, no_undo, kept] = turns.map(CellTimes::samples);
    let eryx = peers.number("eryx", "cell_us/median");
    let row = |what: &str, sample: &Sample| Row::new(what, "µs", sample);
    Ok(vec![
        row("cell x += 1, rollback=never, ÷ eryx", &never.0)
            .against("eryx", eryx)
            .promise(Promise::RatioAtMost(0.8)),
        row("  back to back", &never.1),
        row("cell x += 1, default (undo 8), ÷ eryx", &default.0)
            .against("eryx", eryx)
            .promise(Promise::RatioAtMost(1.0)),
        row("  back to back, settling included, ÷ never", &default.1)
            .against("never", Some(never.1.median))
            .promise(Promise::RatioAtMost(2.0)),
        row("cell x += 1, undo 0, ÷ eryx", &no_undo.0).against("eryx", eryx),
        row("  back to back, settling included, ÷ never", &no_undo.1).against("never", Some(never.1.median)),
        row("cell x += 1, default, in the registry", &kept.0),
        row("  back to back, settling included, ÷ never", &kept.1).against("never", Some(never.1.median)),
    ])
}

/// Cells of more than 10 ms, in turns.
fn long(scene: &Scene, sandboxes: &Sandboxes) -> anyhow::Result<Vec<Row>> {
    let sessions = [sandboxes.never.session_blocking()?, sandboxes.default.session_blocking()?];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..scene.many(100) + 2 {
        for (session, times) in sessions.iter().zip(&mut times) {
            let (taken, _) = time(|| run(session, LONG))?;
            if round >= 2 {
                times.push(milliseconds(taken));
            }
        }
    }
    let [never, default] = times.map(Sample::new);
    Ok(vec![
        Row::new("cell over 10 ms, default, ÷ never", "ms", &default)
            .against("never", Some(never.median))
            .promise(Promise::RatioAtMost(1.05)),
        Row::new("  the fastest of each", "ms", default.min).against("never", Some(never.min)),
    ])
}

fn writing(scene: &Scene, sandboxes: &Sandboxes) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut baseline = None;
    for (name, sandbox) in
        [("never", &sandboxes.never), ("default", &sandboxes.default), ("undo 0", &sandboxes.no_undo)]
    {
        let (mut first, mut again, mut settled) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..scene.many(4) {
            let session = sandbox.session_blocking()?;
            let written = |code| {
                let (ran, _) = time(|| run(&session, code))?;
                anyhow::Ok((ran, ran + settle(&session)))
            };
            first.push(milliseconds(written(BUFFER)?.1));
            for _ in 0..3 {
                let (ran, both): (Duration, Duration) = written(WRITE)?;
                again.push(milliseconds(ran));
                settled.push(milliseconds(both));
            }
        }
        let (first, again, settled) = (Sample::new(first), Sample::new(again), Sample::new(settled));
        let (first_never, again_never) = *baseline.get_or_insert((first.median, settled.median));
        let row = |what: &str, sample: &Sample, never| {
            Row::new(format!("{what}, {name}"), "ms", sample).against("never", Some(never))
        };
        rows.extend([
            row("cell that makes 100 MB, settled", &first, first_never),
            row("cell that writes 100 MB again", &again, again_never),
            row("  settled", &settled, again_never),
        ]);
    }
    Ok(rows)
}
