//! Putting a session of 64 MB to sleep, and waking it: in this process, and in a new one.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use belljar::{EngineKind, Runtimes, Sandbox, Session};

use super::super::row::{Promise, Row};
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::{Scene, expect, process, run};
use super::{BIG, BIG_BYTES, FILL_BIG, fill, speed};
use crate::console;

/// As many bytes that compress to a half.
const FILL_TEXT: &str = "for n in range(64): big[n << 20:(n + 1) << 20] = os.urandom(1 << 19).hex().encode()";
const ANSWER: (&str, &str) = ("len(big)", "67108864");

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let sandbox = scene.kept("sleep").build_blocking()?;
    let session = sandbox.create_blocking(Some("big"))?;
    fill(&session, BIG, FILL_BIG)?;
    let mut rows = hibernate(scene, &session)?;
    rows.extend(wake(scene, &session)?);
    rows.extend(in_new_processes(scene)?);
    rows.push(cold(scene, &sandbox, &session, "incompressible", FILL_BIG)?);
    rows.push(cold(scene, &sandbox, &session, "hexadecimal text", FILL_TEXT)?);
    session.close_blocking()?;
    Ok(rows)
}

fn hibernate(scene: &Scene, session: &Session) -> anyhow::Result<Vec<Row>> {
    let mut bytes = vec![0; BIG_BYTES];
    let (mut asleep, mut written) = (Vec::new(), Vec::new());
    for _ in 0..scene.many(12) {
        run(session, FILL_BIG)?;
        session.settle_blocking();
        let (taken, was_awake) = time(|| Ok(session.hibernate_blocking()?))?;
        ensure!(was_awake, "the session slept already");
        asleep.push(speed(BIG_BYTES, milliseconds(taken)));
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        written.push(speed(BIG_BYTES, write(&scene.directory().join("written"), &bytes)?));
    }
    let written = Sample::new(written);
    Ok(vec![
        Row::new("hibernate 64 MB, incompressible, ÷ write + fdatasync", "MB/s", &Sample::new(asleep))
            .against("write", Some(written.median))
            .promise(Promise::EitherAtLeast { value: 300.0, ratio: 0.5 }),
    ])
}

/// Milliseconds to write a file durably.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<f64> {
    let mut file = File::create(path)?;
    let (taken, ()) = time(|| {
        for part in bytes.chunks(1 << 20) {
            file.write_all(part)?;
        }
        Ok(file.sync_data()?)
    })?;
    fs::remove_file(path)?;
    Ok(milliseconds(taken))
}

/// In this process, that knows the session; and putting it to sleep again after a cell that wrote little.
fn wake(scene: &Scene, session: &Session) -> anyhow::Result<Vec<Row>> {
    let (mut waking, mut answers, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scene.many(30) {
        session.hibernate_blocking()?;
        let (woken, ()) = time(|| Ok(session.wake_blocking()?))?;
        let (answered, ()) = time(|| expect(session, ANSWER.0, ANSWER.1))?;
        waking.push(milliseconds(woken));
        answers.push(milliseconds(woken + answered));
        session.settle_blocking();
        again.push(milliseconds(time(|| Ok(session.hibernate_blocking()?))?.0));
    }
    Ok(vec![
        Row::new("hot wake of 64 MB, same process", "ms", &Sample::new(waking)),
        Row::new("  to the first result", "ms", &Sample::new(answers)),
        Row::new("  hibernate again after that small cell", "ms", &Sample::new(again)),
    ])
}

/// In a process that wakes it and ends: what it says itself, and what is seen from outside.
fn in_new_processes(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let state = scene.state("sleep");
    let (mut inside, mut with_sandbox, mut outside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scene.many(30) {
        let mut command = scene.command()?;
        command.args(["bench", "--engine", &scene.engine().to_string(), "--wake", "big", "--scratch"]);
        let output = command.arg(&state).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut times = text.split_whitespace().map(str::parse::<f64>);
        let mut next = || times.next().with_context(|| format!("{command:?}: {output:?}"));
        inside.push(next()??);
        with_sandbox.push(next()??);
        let mut command = scene.command()?;
        command.args(["run", "--session", "big", "-c", "print(1)", "--state-dir"]).arg(&state);
        outside.push(process(&mut command, Some("1\n"))?);
    }
    Ok(vec![
        Row::new("hot wake of 64 MB in a new process, to the first result", "ms", &Sample::new(inside))
            .promise(Promise::AtMost(5.0)),
        Row::new("  loading the interpreter included", "ms", &Sample::new(with_sandbox)),
        Row::new("  belljar run --session, start to exit, kept again", "ms", &Sample::new(outside)),
    ])
}

/// What the new process does: prints two times, from opening the session to its first result, and from before the
/// sandbox was made.
pub(in crate::bench) fn wake_once(
    runtimes: Runtimes,
    engine: EngineKind,
    state: &Path,
    name: &str,
) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let sandbox = Sandbox::builder().runtimes(runtimes).engine(engine).state_dir(state).build_blocking()?;
    let opened = Instant::now();
    let session = sandbox.open_blocking(name)?;
    expect(&session, ANSWER.0, ANSWER.1)?;
    let (inside, whole) = (opened.elapsed(), started.elapsed());
    session.hibernate_blocking()?;
    console::print_line(&format!("{} {}", milliseconds(inside), milliseconds(whole)));
    Ok(ExitCode::SUCCESS)
}

fn cold(scene: &Scene, sandbox: &Sandbox, session: &Session, what: &str, fill: &str) -> anyhow::Result<Row> {
    let registry = sandbox.registry()?;
    let sample = Sample::collect(scene.many(8), || {
        run(session, fill)?;
        session.hibernate_blocking()?;
        let cooled = registry.cool(Duration::ZERO)?;
        ensure!(cooled.packs > 0, "nothing was compressed");
        let (taken, ()) = time(|| {
            session.wake_blocking()?;
            expect(session, ANSWER.0, ANSWER.1)
        })?;
        Ok(speed(BIG_BYTES, milliseconds(taken)))
    })?;
    Ok(Row::new(format!("cold wake of 64 MB, {what}, to the first result"), "MB/s", &sample)
        .promise(Promise::AtLeast(500.0)))
}
