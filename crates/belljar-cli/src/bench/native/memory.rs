//! What sessions hold.

use belljar::Session;

use super::super::row::{Promise, Row};
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::{expect, run};
use super::processes::{held, preloaded};
use super::{FIRST, Ground};

const SESSIONS: usize = 100;
/// 1 MB of numbers.
const FRAME: &str = "\
import numpy as np, pandas as pd
df = pd.DataFrame(np.random.rand(15_625, 8))
";
const EACH_MB: f64 = 20.0;

pub(super) fn measure(ground: &Ground<'_>) -> anyhow::Result<Vec<Row>> {
    let sandbox = ground.science().build_blocking()?;
    let zygote = preloaded()?;
    let sample = |code: Option<&str>| {
        Sample::collect(ground.scene.many(10), || {
            let session = sandbox.session_blocking()?;
            // Not settled: what a shadow has too isn't private.
            if let Some(code) = code {
                run(&session, code)?;
            }
            Ok(session.private_memory_blocking() as f64 / 1e6)
        })
    };
    let (fresh, used) = (sample(None)?, sample(Some(FIRST))?);
    let before = held()?;
    let count = ground.scene.many(SESSIONS);
    let (taken, sessions) = time(|| {
        let sessions = (0..count).map(|_| {
            let session = sandbox.session_blocking()?;
            run(&session, FRAME)?;
            session.settle_blocking();
            Ok(session)
        });
        sessions.collect::<anyhow::Result<Vec<Session>>>()
    })?;
    let (answered, ()) =
        time(|| sessions.iter().try_for_each(|session| expect(session, "df.shape", "(15625, 8)")))?;
    sessions.iter().for_each(Session::settle_blocking);
    let all = held()?;
    let most = (zygote + EACH_MB * count as f64).round();
    Ok(vec![
        Row::new("private memory of a fresh session, % of the preloaded", "%", fresh.median / zygote * 100.0)
            .promise(Promise::AtMost(3.0)),
        Row::new("  of", "MB", &fresh).against("preloaded, resident", Some(zygote)),
        Row::new("  after a first result of pandas", "MB", &used)
            .against("preloaded, resident", Some(zygote)),
        Row::new(format!("{count} sessions with a frame of 1 MB each, PSS + page tables"), "MB", all.all())
            .promise(Promise::AtMost(most)),
        Row::new("  page tables alone", "MB", all.tables),
        Row::new("  each", "MB", (all.all() - before.all()) / count as f64),
        Row::new("  making one, with its frame", "ms", milliseconds(taken) / count as f64),
        Row::new("  the answer of one", "ms", milliseconds(answered) / count as f64),
    ])
}
