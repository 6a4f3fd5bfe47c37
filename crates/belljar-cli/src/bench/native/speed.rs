//! Python itself, and commands, beside the same without Belljar.

use std::process::Command;

use anyhow::{Context, ensure};

use super::super::row::{Promise, Row};
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::run;
use super::Ground;

/// About a second.
const LOOP: &str = "\
import time
def main():
    total = 0
    for n in range(12_000_000):
        total += n & 7
    return total
wall, cpu = time.perf_counter(), time.process_time()
total = main()
print(time.perf_counter() - wall, time.process_time() - cpu, total)
";

pub(super) fn measure(ground: &Ground<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = python(ground)?;
    rows.extend(command(ground)?);
    Ok(rows)
}

fn python(ground: &Ground<'_>) -> anyhow::Result<Vec<Row>> {
    let session = ground.science().build_blocking()?.session_blocking()?;
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for _ in 0..ground.scene.many(12) {
        ours.add(&run(&session, LOOP)?.stdout)?;
        let output = ground.plain.python(LOOP).output()?;
        ensure!(output.status.success(), "python3 failed: {}", String::from_utf8_lossy(&output.stderr));
        theirs.add(&String::from_utf8_lossy(&output.stdout))?;
    }
    let row = |what, ours: Vec<f64>, theirs: Vec<f64>| {
        let theirs = Sample::new(theirs).median;
        Row::new(what, "ms", &Sample::new(ours)).against("python3", Some(theirs))
    };
    Ok(vec![
        row("a loop of Python, time of the processor", ours.cpu, theirs.cpu)
            .promise(Promise::RatioAtMost(1.05)),
        row("  time on the wall", ours.wall, theirs.wall),
    ])
}

#[derive(Default)]
struct Times {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

impl Times {
    fn add(&mut self, printed: &str) -> anyhow::Result<()> {
        let mut numbers = printed.split_whitespace().map(str::parse::<f64>);
        let (wall, cpu) = numbers.next().zip(numbers.next()).context("no times")?;
        self.wall.push(wall? * 1e3);
        self.cpu.push(cpu? * 1e3);
        Ok(())
    }
}

fn command(ground: &Ground<'_>) -> anyhow::Result<Vec<Row>> {
    let session = ground.science().build_blocking()?.session_blocking()?;
    run(&session, "x = 1")?;
    session.settle_blocking();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ground.scene.many(60) + 1 {
        let (taken, outcome) = time(|| Ok(session.command_blocking("true")?))?;
        ensure!(outcome.exit_code == Some(0), "true failed: {outcome:?}");
        let mut bash = Command::new("bash");
        // Not what the user's own profile does.
        bash.args(["-lc", "true"]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
        let (spawned, _) = time(|| Ok(bash.output()?))?;
        if round > 0 {
            ours.push(milliseconds(taken));
            theirs.push(milliseconds(spawned));
        }
    }
    let (ours, theirs) = (Sample::new(ours), Sample::new(theirs).median);
    Ok(vec![
        Row::new("command true in a session", "ms", &ours).against("bash -lc true", Some(theirs)),
        Row::new("  more than as a plain process", "ms", ours.median - theirs).promise(Promise::AtMost(10.0)),
    ])
}
