//! Making environments whose sessions start with modules in memory.

use belljar::{Runtimes, SandboxBuilder};

use super::super::row::Row;
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::{Scene, run};
use super::{IMPORT, both, builder, preloaded};

pub(super) fn measure(scene: &Scene, ready: &Runtimes) -> anyhow::Result<Vec<Row>> {
    let unprepared = both(builder(ready))?.build_blocking()?;
    // A set-up that was never run before makes the environment new.
    let make = |builder: SandboxBuilder, round: usize| {
        anyhow::Ok(milliseconds(time(|| Ok(builder.setup(format!("# bench {round}")).build_blocking()?))?.0))
    };
    let (mut making, mut nothing, mut importing) = (Vec::new(), Vec::new(), Vec::new());
    // One after the other, so that all meet the same noise.
    for round in 0..scene.many(12) {
        making.push(make(preloaded(both(builder(ready))?), round)?);
        nothing.push(make(both(builder(ready))?, round)?);
        let session = unprepared.session_blocking()?;
        importing.push(milliseconds(time(|| run(&session, IMPORT))?.0));
    }
    let importing = Some(Sample::new(importing).median);
    Ok(vec![
        Row::new("making an environment with both preloaded, ÷ importing them", "ms", &Sample::new(making))
            .against("import in a session", importing),
        Row::new("  with nothing preloaded, an image made all the same", "ms", &Sample::new(nothing))
            .against("import in a session", importing),
    ])
}
