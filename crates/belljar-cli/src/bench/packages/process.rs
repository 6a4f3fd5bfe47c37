//! `belljar run --package` as a process.

use super::super::row::{Promise, Row};
use super::super::sample::Sample;
use super::super::scene::{Scene, process};
use super::{TABLE, USE};

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let run = |arguments: &[&str], printed| {
        process(scene.command()?.args(["run", "--no-config"]).args(arguments), Some(printed))
    };
    let with = || run(&["--package", "tabulate", "-c", USE], TABLE);
    let without = || run(&["-c", "print(1)"], "1\n");
    // The first one may have to fetch it.
    with()?;
    let (mut packaged, mut plain) = (Vec::new(), Vec::new());
    // One after the other, so that both meet the same noise.
    for _ in 0..scene.many(40) {
        packaged.push(with()?);
        plain.push(without()?);
    }
    Ok(vec![
        Row::new("belljar run --package tabulate, with import, ÷ belljar run", "ms", &Sample::new(packaged))
            .against("belljar run", Some(Sample::new(plain).median))
            .promise(Promise::AtMost(80.0)),
    ])
}
