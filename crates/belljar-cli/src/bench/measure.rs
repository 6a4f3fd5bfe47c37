//! What is measured of Belljar, and of plain Python beside it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use belljar::{EngineKind, Outcome, Policy, Rollback, Runtimes, Sandbox, SandboxBuilder, Tool};
use serde::Serialize;

use super::sample::{Sample, microseconds, milliseconds, time};

/// Programs of some ten milliseconds each; the peers run the same.
const PROGRAMS: [(&str, &str); 6] = [
    ("class_sort_regex", include_str!("../../../../benches/programs/class_sort_regex.py")),
    ("dict_str", include_str!("../../../../benches/programs/dict_str.py")),
    ("fib", include_str!("../../../../benches/programs/fib.py")),
    ("json_roundtrip", include_str!("../../../../benches/programs/json_roundtrip.py")),
    ("nbody", include_str!("../../../../benches/programs/nbody.py")),
    ("sum_loop", include_str!("../../../../benches/programs/sum_loop.py")),
];

/// Cells that run until they are stopped.
const ENDLESS: [(&str, &str); 8] = [
    ("endless loop", "while True: pass"),
    ("big power", "10**(10**7)"),
    ("regex backtracking", "import re; re.match('(a+)+$', 'a' * 40 + 'b')"),
    ("sorted", "sorted(range(10**7), key=lambda n: -n)"),
    ("sum in C", "sum(range(10**12))"),
    ("sleep", "import time; time.sleep(60)"),
    ("swallows everything", "while True:\n  try:\n    while True: pass\n  except BaseException: pass"),
    ("prints", "while True: print('x' * 100)"),
];

const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// Belljar's numbers, and the baseline's.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) fresh_ms: Sample,
    pub(super) fresh_warmed_ms: Sample,
    pub(super) cell_us: Sample,
    pub(super) cell_rested_us: Sample,
    pub(super) cell_without_rollback_us: Sample,
    pub(super) tool_us: Sample,
    pub(super) process_ms: Sample,
    pub(super) python_process_ms: Option<Sample>,
    pub(super) memory: Memory,
    pub(super) cpu_ms: BTreeMap<&'static str, Sample>,
    pub(super) python_cpu_ms: BTreeMap<&'static str, Sample>,
    pub(super) throughput: Throughput,
    pub(super) deadline_late_ms: BTreeMap<&'static str, Sample>,
    pub(super) rollback_ms: Sample,
}

/// Growth of PSS per live session, in 10⁶ bytes.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    pub(super) live: usize,
    pub(super) after_cell_mb: f64,
    pub(super) after_imports_mb: f64,
}

/// Fresh sessions with one cell each, per second.
#[derive(Debug, Serialize)]
pub(super) struct Throughput {
    pub(super) threads_1_per_s: f64,
    pub(super) threads_2_per_s: f64,
}

/// Measures everything; takes about a minute, a quarter of it if `quick`.
pub(super) fn all(runtimes: &Runtimes, engine: EngineKind, quick: bool) -> anyhow::Result<Measured> {
    let many = |count: usize| if quick { count.div_ceil(10) } else { count };
    let builder = || Sandbox::builder().runtimes(runtimes.clone()).engine(engine);
    let sandbox = builder().build_blocking()?;
    // Processes first: they are compared with Python's, and nothing else of ours runs yet.
    let (process_ms, python_process_ms) = processes(many(40), engine)?;
    Ok(Measured {
        fresh_ms: fresh(&sandbox, many(300))?,
        fresh_warmed_ms: fresh_warmed(builder(), many(200))?,
        cell_us: cells(&sandbox, many(3000), Duration::ZERO)?,
        cell_rested_us: cells(&sandbox, many(300), Duration::from_millis(2))?,
        cell_without_rollback_us: cells(&without_rollback(builder(), engine)?, many(3000), Duration::ZERO)?,
        tool_us: tools(builder(), many(40))?,
        process_ms,
        python_process_ms,
        memory: memory(&sandbox, many(200))?,
        throughput: throughput(&sandbox, Duration::from_secs(if quick { 1 } else { 4 }))?,
        deadline_late_ms: deadlines(builder(), many(10))?,
        rollback_ms: rollback(builder(), many(20))?,
        cpu_ms: programs(&sandbox, many(15).max(5))?,
        python_cpu_ms: python_programs(many(15).max(5))?,
    })
}

fn print_one(sandbox: &Sandbox) -> anyhow::Result<()> {
    let outcome = sandbox.run_blocking("print(1)")?;
    ensure!(outcome.stdout == "1\n", "print(1) printed {:?}", outcome.stdout);
    Ok(())
}

fn fresh(sandbox: &Sandbox, count: usize) -> anyhow::Result<Sample> {
    Sample::collect(count, || Ok(milliseconds(time(|| print_one(sandbox))?.0)))
}

fn fresh_warmed(builder: SandboxBuilder, count: usize) -> anyhow::Result<Sample> {
    let sandbox = builder.warm(4).build_blocking()?;
    Sample::collect(count, || {
        thread::sleep(Duration::from_millis(20));
        Ok(milliseconds(time(|| print_one(&sandbox))?.0))
    })
}

fn without_rollback(builder: SandboxBuilder, engine: EngineKind) -> anyhow::Result<Sandbox> {
    let policy = Policy { rollback: Rollback::Never, ..Policy::for_engine(engine) };
    Ok(builder.policy(policy).build_blocking()?)
}

fn cells(sandbox: &Sandbox, count: usize, rest: Duration) -> anyhow::Result<Sample> {
    let session = sandbox.session_blocking()?;
    expect_success(&session.run_blocking("x = 0")?)?;
    for _ in 0..20 {
        session.run_blocking("x += 1")?;
    }
    Sample::collect(count, || {
        if !rest.is_zero() {
            session.settle_blocking();
            thread::sleep(rest);
        }
        let (taken, outcome) = time(|| Ok(session.run_blocking("x += 1")?))?;
        expect_success(&outcome)?;
        Ok(microseconds(taken))
    })
}

/// As for the peers: (a cell with 200 calls − a cell with none) ÷ 200.
fn tools(builder: SandboxBuilder, count: usize) -> anyhow::Result<Sample> {
    const CALLS: f64 = 200.0;
    let identity = Tool::new("identity", "Returns its argument.", |arguments| {
        Ok(arguments.get("n", 0).cloned().unwrap_or_default())
    });
    let session = builder.tool(identity).build_blocking()?.session_blocking()?;
    let cell = |body: &str| {
        let code = format!("for n in range(200):\n    {body}");
        let (taken, outcome) = time(|| Ok(session.run_blocking(code)?))?;
        expect_success(&outcome)?;
        anyhow::Ok(microseconds(taken))
    };
    cell("tools.identity(n)")?;
    Sample::collect(count, || Ok((cell("tools.identity(n)")? - cell("pass")?).max(0.0) / CALLS))
}

fn processes(count: usize, engine: EngineKind) -> anyhow::Result<(Sample, Option<Sample>)> {
    let program = std::env::current_exe().context("finding the command itself")?;
    let start = |command: &Path, arguments: &[&str]| -> anyhow::Result<f64> {
        let (taken, output) =
            time(|| Ok(Command::new(command).args(arguments).stderr(Stdio::inherit()).output()?))?;
        ensure!(output.stdout == b"1\n", "{} printed {:?}", command.display(), output.stdout);
        Ok(milliseconds(taken))
    };
    let (python, engine) = (Path::new(SYSTEM_PYTHON), engine.to_string());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // One after the other, so that both meet the same noise.
    for _ in 0..count {
        ours.push(start(&program, &["run", "--engine", &engine, "-c", "print(1)"])?);
        if python.exists() {
            theirs.push(start(python, &["-c", "print(1)"])?);
        }
    }
    Ok((Sample::new(ours), (!theirs.is_empty()).then(|| Sample::new(theirs))))
}

fn memory(sandbox: &Sandbox, live: usize) -> anyhow::Result<Memory> {
    let before = proportional_set()?;
    let mut sessions = Vec::new();
    for _ in 0..live {
        let session = sandbox.session_blocking()?;
        expect_success(&session.run_blocking("x = 1\nprint(x)")?)?;
        sessions.push(session);
    }
    let per_session = |now: f64| (now - before) / live as f64 / 1e6;
    // What is kept to take a cell back is given up when a session has been idle.
    thread::sleep(Duration::from_millis(2500));
    let after_cell_mb = per_session(proportional_set()?);
    for session in &sessions {
        expect_success(&session.run_blocking("import json, re, datetime, collections, csv, sqlite3")?)?;
    }
    thread::sleep(Duration::from_millis(2500));
    Ok(Memory { live, after_cell_mb, after_imports_mb: per_session(proportional_set()?) })
}

/// PSS of this process, in bytes.
fn proportional_set() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").context("reading /proc/self/smaps_rollup")?;
    let line = text.lines().find(|line| line.starts_with("Pss:")).context("no Pss in smaps_rollup")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).context("no number after Pss")?.parse()?;
    Ok(kilobytes * 1024.0)
}

fn throughput(sandbox: &Sandbox, duration: Duration) -> anyhow::Result<Throughput> {
    let count = |threads: usize| -> anyhow::Result<f64> {
        let started = Instant::now();
        let counts = thread::scope(|scope| {
            let work = || {
                let mut count = 0_u32;
                while started.elapsed() < duration {
                    print_one(sandbox)?;
                    count += 1;
                }
                anyhow::Ok(count)
            };
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked"))))
                .sum::<anyhow::Result<u32>>()
        })?;
        Ok(f64::from(counts) / started.elapsed().as_secs_f64())
    };
    Ok(Throughput { threads_1_per_s: count(1)?, threads_2_per_s: count(2)? })
}

fn deadlines(builder: SandboxBuilder, count: usize) -> anyhow::Result<BTreeMap<&'static str, Sample>> {
    let timeout = Duration::from_millis(200);
    let session = builder.timeout(timeout).build_blocking()?.session_blocking()?;
    expect_success(&session.run_blocking("kept = 41")?)?;
    let mut late = BTreeMap::new();
    for (name, code) in ENDLESS {
        let sample = Sample::collect(count.max(2), || {
            session.settle_blocking();
            let (taken, _) = time(|| Ok(session.run_blocking(code)?))?;
            let kept = session.run_blocking("kept")?;
            ensure!(
                kept.value.is_some_and(|value| value.text == "41"),
                "{name}: the session lost its variable"
            );
            Ok(milliseconds(taken.saturating_sub(timeout)))
        })?;
        late.insert(name, sample);
    }
    Ok(late)
}

/// From the report of a hard stop to the result of the next cell.
fn rollback(builder: SandboxBuilder, count: usize) -> anyhow::Result<Sample> {
    let session = builder.timeout(Duration::from_millis(30)).build_blocking()?.session_blocking()?;
    expect_success(&session.run_blocking("kept = 41")?)?;
    Sample::collect(count, || {
        session.run_blocking("sum(range(10**12))")?;
        let (taken, outcome) = time(|| Ok(session.run_blocking("kept")?))?;
        expect_success(&outcome)?;
        Ok(milliseconds(taken))
    })
}

fn programs(sandbox: &Sandbox, count: usize) -> anyhow::Result<BTreeMap<&'static str, Sample>> {
    let mut samples = BTreeMap::new();
    for (name, source) in PROGRAMS {
        let session = sandbox.session_blocking()?;
        expect_success(&session.run_blocking(source)?)?;
        expect_success(&session.run_blocking("main()")?)?;
        let sample = Sample::collect(count, || {
            let outcome = session.run_blocking("main()")?;
            expect_success(&outcome)?;
            Ok(outcome.usage.cpu_ms)
        })?;
        samples.insert(name, sample);
    }
    Ok(samples)
}

/// The same programs in plain Python.
fn python_programs(count: usize) -> anyhow::Result<BTreeMap<&'static str, Sample>> {
    let mut samples = BTreeMap::new();
    if !Path::new(SYSTEM_PYTHON).exists() {
        return Ok(samples);
    }
    for (name, source) in PROGRAMS {
        let harness = format!(
            "{source}\nmain()\nfrom time import process_time as _now\nfor _ in range({count}):\n    _start = _now(); main(); print((_now() - _start) * 1e3)\n"
        );
        let output = Command::new(SYSTEM_PYTHON).arg("-c").arg(harness).stderr(Stdio::inherit()).output()?;
        let times =
            String::from_utf8(output.stdout)?.lines().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        ensure!(!times.is_empty(), "{SYSTEM_PYTHON} could not run {name}");
        samples.insert(name, Sample::new(times));
    }
    Ok(samples)
}

fn expect_success(outcome: &Outcome) -> anyhow::Result<()> {
    ensure!(outcome.is_success(), "a cell failed: {}", serde_json::to_string(outcome)?);
    Ok(())
}
