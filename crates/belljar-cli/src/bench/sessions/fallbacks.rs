//! What it costs that cells can be taken back, where the kernel helps less.

use belljar::{Sandbox, Tracking};

use super::super::row::Row;
use super::super::sample::{Sample, microseconds, milliseconds, time};
use super::super::scene::{Scene, expect, run, settle};
use super::cells::CellTimes;
use super::{BIG, FILL_BIG, checkpoint, fill};

const WAYS: [(&str, Tracking); 4] = [
    ("tracked", Tracking::Automatic),
    ("compared", Tracking::Compare),
    ("page table", Tracking::PageTable),
    ("all pages", Tracking::All),
];

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let sandbox = |tracking| scene.builder().tracking(tracking).build_blocking();
    let ways = WAYS.into_iter().map(|(name, tracking)| Ok((name, sandbox(tracking)?)));
    let ways: Vec<(&str, Sandbox)> = ways.collect::<anyhow::Result<_>>()?;
    let mut rows = small_cells(scene, &ways)?;
    rows.extend(each(&ways, "cell in a session of 64 MB, settled", "µs", |way| in_big_session(scene, way))?);
    rows.extend(each(&ways, "checkpoint after 3 MB, in memory", "ms", |way| {
        checkpoint::in_memory(way, scene.many(30))
    })?);
    rows.extend(each(&ways, "os._exit to the next result", "ms", |way| exit(scene, way))?);
    Ok(rows)
}

/// A row for each way, against the first.
fn each(
    ways: &[(&str, Sandbox)],
    what: &str,
    unit: &'static str,
    sample: impl Fn(&Sandbox) -> anyhow::Result<Sample>,
) -> anyhow::Result<Vec<Row>> {
    let samples: Vec<Sample> = ways.iter().map(|(_, way)| sample(way)).collect::<anyhow::Result<_>>()?;
    Ok(rows(ways, what, unit, &samples))
}

fn rows(ways: &[(&str, Sandbox)], what: &str, unit: &'static str, samples: &[Sample]) -> Vec<Row> {
    let first = samples.first().map(|sample| sample.median);
    let row = |((name, _), sample): (&(&str, _), _)| {
        Row::new(format!("{what}, {name}"), unit, sample).against("tracked", first)
    };
    ways.iter().zip(samples).map(row).collect()
}

fn small_cells(scene: &Scene, ways: &[(&str, Sandbox)]) -> anyhow::Result<Vec<Row>> {
    let turns = ways.iter().map(|(_, way)| CellTimes::new(way.session_blocking()?));
    let mut turns: Vec<CellTimes> = turns.collect::<anyhow::Result<_>>()?;
    for _ in 0..scene.many(10) {
        for session in &mut turns {
            session.take_turn()?;
        }
    }
    let (alone, back_to_back): (Vec<Sample>, Vec<Sample>) = turns.into_iter().map(CellTimes::samples).unzip();
    let mut all = rows(ways, "cell x += 1", "µs", &alone);
    all.extend(rows(ways, "cell x += 1 back to back", "µs", &back_to_back));
    Ok(all)
}

fn in_big_session(scene: &Scene, sandbox: &Sandbox) -> anyhow::Result<Sample> {
    let session = sandbox.session_blocking()?;
    fill(&session, BIG, FILL_BIG)?;
    let cell = || {
        let (taken, _) = time(|| run(&session, "x = 1"))?;
        anyhow::Ok(microseconds(taken + settle(&session)))
    };
    cell()?;
    Sample::collect(scene.many(50), cell)
}

/// A cell that ends the interpreter, and the next one, which finds its variable.
fn exit(scene: &Scene, sandbox: &Sandbox) -> anyhow::Result<Sample> {
    let session = sandbox.session_blocking()?;
    run(&session, "import os\nkept = 41")?;
    Sample::collect(scene.many(50), || {
        session.settle_blocking();
        let (taken, ()) = time(|| {
            session.run_blocking("kept = 0\nos._exit(1)")?;
            expect(&session, "kept", "41")
        })?;
        Ok(milliseconds(taken))
    })
}
