//! `belljar run --session` as a process.

use std::path::Path;
use std::process::Command;

use super::super::row::{Promise, Row};
use super::super::sample::Sample;
use super::super::scene::{Scene, process};

const SYSTEM_PYTHON: &str = "/usr/bin/python3";

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let state = scene.state("process");
    let in_session = |code: &str| {
        let mut command = scene.run_command()?;
        command.args(["--session", "s", "-c", code, "--state-dir"]).arg(&state);
        anyhow::Ok(command)
    };
    process(&mut in_session("x = 41")?, Some(""))?;
    let python = Path::new(SYSTEM_PYTHON).exists();
    let (mut kept, mut alone, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    // One after the other, so that all meet the same noise.
    for _ in 0..scene.many(60) {
        kept.push(process(&mut in_session("print(1)")?, Some("1\n"))?);
        alone.push(process(scene.run_command()?.args(["-c", "print(1)"]), Some("1\n"))?);
        if python {
            theirs.push(process(Command::new(SYSTEM_PYTHON).args(["-c", "print(1)"]), Some("1\n"))?);
        }
    }
    process(&mut in_session("print(x + 1)")?, Some("42\n"))?;
    let (kept, alone) = (Sample::new(kept), Sample::new(alone));
    let theirs = python.then(|| Sample::new(theirs).median);
    Ok(vec![
        Row::new("belljar run --session s, small, ÷ python3", "ms", &kept)
            .against("python3", theirs)
            .promise(Promise::RatioAtMost(1.5)),
        Row::new("  ÷ belljar run", "ms", &kept).against("belljar run", Some(alone.median)),
        Row::new("belljar run, ÷ python3", "ms", &alone).against("python3", theirs),
    ])
}
