//! New sessions that import packages.

use belljar::Runtimes;

use super::super::row::{Promise, Row};
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::Scene;
use super::{IMPORT, both, builder, preloaded, print};

pub(super) fn measure(scene: &Scene, ready: &Runtimes) -> anyhow::Result<Vec<Row>> {
    let plain = scene.builder().build_blocking()?;
    let unprepared = both(builder(ready))?.build_blocking()?;
    let prepared = preloaded(both(builder(ready))?).build_blocking()?;
    let code = format!("{IMPORT}; print(1)");
    let timed = |sandbox, code| anyhow::Ok(milliseconds(time(|| print(sandbox, code, "1\n"))?.0));
    let kinds = [(&plain, "print(1)"), (&prepared, &code), (&prepared, "print(1)")];
    let mut times = [const { Vec::new() }; 3];
    // One after the other, so that all meet the same noise, and each first as often as the others.
    for round in 0..scene.many(240) + 1 {
        for place in 0..kinds.len() {
            let kind = (round + place) % kinds.len();
            let taken = timed(kinds[kind].0, kinds[kind].1)?;
            if round > 0 {
                times[kind].push(taken);
            }
        }
    }
    let imported = Sample::collect(scene.many(30), || timed(&unprepared, &code))?;
    let [plain, with, with_plain] = times.map(Sample::new);
    let plain = Some(plain.median);
    Ok(vec![
        Row::new("new session + import of preloaded packages, ÷ plain", "ms", &with)
            .against("plain print(1)", plain)
            .promise(Promise::RatioAtMost(1.2)),
        Row::new("  without the import", "ms", &with_plain).against("plain print(1)", plain),
        Row::new("  import of the same, not preloaded", "ms", &imported).against("plain print(1)", plain),
    ])
}
