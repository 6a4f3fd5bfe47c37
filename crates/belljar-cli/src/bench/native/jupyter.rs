//! A kernel of Jupyter's, run by `benches/peers/jupyter_worker.py`, beside a session.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use belljar::Session;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::row::{Promise, Row};
use super::super::sample::{Sample, microseconds, time};
use super::super::scene::{expect, run};
use super::start::first_result;
use super::{FIRST, Ground};

const CELL: &str = "1+1";
const REST: Duration = Duration::from_millis(20);
/// Cells between two turns: with a rest before each, and without.
const TURNS: [(usize, Duration); 2] = [(25, REST), (50, Duration::ZERO)];

/// The worker.
pub(super) struct Jupyter {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct Started {
    first_ms: f64,
    ready_ms: f64,
}

#[derive(Deserialize)]
struct Cells {
    us: Vec<f64>,
}

impl Jupyter {
    pub(super) fn start(python: &Path, worker: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(python);
        command.arg("-B").arg(worker).stdin(Stdio::piped()).stdout(Stdio::piped());
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PYTHON") {
                command.env_remove(name);
            }
        }
        let mut child = command.spawn().with_context(|| format!("starting {}", python.display()))?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, orders, answers })
    }

    fn ask<T: DeserializeOwned>(&mut self, order: &Value) -> anyhow::Result<T> {
        let orders = self.orders.as_mut().context("the worker is gone")?;
        writeln!(orders, "{order}")?;
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "Jupyter's worker ended");
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Jupyter {
    fn drop(&mut self) {
        // It ends its kernel when it is told nothing more.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

pub(super) fn measure(ground: &mut Ground<'_>) -> anyhow::Result<Vec<Row>> {
    let sandbox = ground.science().build_blocking()?;
    first_result(&sandbox)?;
    let (mut ours, mut theirs, mut ready) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ground.scene.many(8) + 1 {
        let order = json!({ "do": "start", "code": FIRST });
        let started = ground.jupyter.as_mut().map(|jupyter| jupyter.ask::<Started>(&order)).transpose()?;
        let (taken, _) = first_result(&sandbox)?;
        if round > 0 {
            ours.push(taken);
            theirs.extend(started.as_ref().map(|started| started.first_ms));
            ready.extend(started.map(|started| started.ready_ms));
        }
    }
    let session = sandbox.session_blocking()?;
    cells(&session, 20, Duration::ZERO)?;
    let (mut our_cells, mut their_cells) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for turn in 0..ground.scene.many(10) + 1 {
        for (kind, (count, rest)) in TURNS.into_iter().enumerate() {
            let order = json!({ "do": "cells", "code": CELL, "count": count, "rest": rest.as_secs_f64() });
            let answer = ground.jupyter.as_mut().map(|jupyter| jupyter.ask::<Cells>(&order)).transpose()?;
            let taken = cells(&session, count, rest)?;
            if turn > 0 {
                our_cells[kind].extend(taken);
                their_cells[kind].extend(answer.map(|answer| answer.us).unwrap_or_default());
            }
        }
    }
    let median = |values: Vec<f64>| (!values.is_empty()).then(|| Sample::new(values).median);
    let [rested, back_to_back] = our_cells.map(Sample::new);
    let [their_rested, their_back_to_back] = their_cells.map(median);
    let ours = Sample::new(ours);
    Ok(vec![
        Row::new("session ready + first result of pandas, in turns with Jupyter", "ms", &ours)
            .against("Jupyter, the same", median(theirs))
            .promise(Promise::Faster(10.0)),
        Row::new("  ÷ Jupyter's kernel, ready", "ms", &ours).against("Jupyter, ready", median(ready)),
        Row::new("cell 1+1, 20 ms after the one before", "µs", &rested)
            .against("Jupyter", their_rested)
            .promise(Promise::Faster(10.0)),
        Row::new("  back to back, settling included", "µs", &back_to_back)
            .against("Jupyter", their_back_to_back)
            .promise(Promise::Faster(10.0)),
    ])
}

/// Microseconds of cells. What is done after a cell is done in the rest, as in async code.
fn cells(session: &Session, count: usize, rest: Duration) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..count {
        if !rest.is_zero() {
            session.settle_blocking();
            thread::sleep(rest);
        }
        times.push(microseconds(time(|| run(session, CELL))?.0));
    }
    expect(session, CELL, "2")?;
    Ok(times)
}
