//! What workspaces cost: making threads, listing them, telling what a cell changed, reading and writing files, moving
//! them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use belljar::{EngineKind, SandboxBuilder, Session, SessionId, StorageKind, Workspaces};

use super::row::{Promise, Row};
use super::sample::{Sample, milliseconds, time};
use super::scene::{Scene, run};

/// Threads in a root.
const THREADS: usize = 10_000;
/// Files that a cell writes.
const WRITTEN: usize = 1000;
/// Files in a workspace that is large.
const LARGE: usize = 50_000;
/// Small files that are read.
const SMALL: usize = 10_000;
/// Bytes of a file that is large.
const BYTES: usize = 100 << 20;
/// Bytes that are exported.
const EXPORTED: usize = 1 << 30;

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let mut rows = threads(scene)?;
    for storage in [StorageKind::Disk, StorageKind::Memory] {
        rows.extend(changes(scene, storage)?);
    }
    rows.extend(throughput(scene)?);
    rows.extend(export(scene)?);
    Ok(rows)
}

fn sandbox(scene: &Scene, name: &str, storage: StorageKind) -> SandboxBuilder {
    scene.builder().workspace_root(scene.directory().join(name)).storage(storage).quota(4 << 30)
}

fn threads(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let workspaces = Workspaces::open(scene.directory().join("many"));
    let mut made = Vec::new();
    for number in 0..scene.many(THREADS) {
        let id = SessionId::parse(&format!("thread-{number:05}"))?;
        made.push(milliseconds(time(|| Ok(workspaces.create(&id)?))?.0));
    }
    let count = made.len();
    let listing = Sample::collect(scene.many(11), || {
        let (taken, threads) = time(|| Ok(workspaces.threads()?))?;
        ensure!(threads.len() == count, "not all threads are listed");
        Ok(milliseconds(taken))
    })?;
    Ok(vec![
        Row::new("make a thread's workspace", "ms", &Sample::new(made)).promise(Promise::AtMost(1.0)),
        Row::new(format!("list {count} threads"), "ms", &listing).promise(Promise::AtMost(100.0)),
    ])
}

/// What it costs that changes are told: the time of a cell beyond what it takes by its own clock would hide the engine's
/// part, so it is compared with the same cell in a session without changes to tell.
fn changes(scene: &Scene, storage: StorageKind) -> anyhow::Result<Vec<Row>> {
    let kind = if storage == StorageKind::Disk { "disk" } else { "memory" };
    let sandbox = sandbox(scene, &format!("changes-{kind}"), storage).build_blocking()?;
    let many = scene.many(WRITTEN);
    let session = sandbox.session_blocking()?;
    run(&session, "import os, time")?;
    // The cell says how long its own work took.
    let write = format!(
        "started = time.perf_counter()\nfor number in range({many}):\n    with open(f'{{prefix}}{{number}}', 'w') as file: file.write('small')\nprint(time.perf_counter() - started)"
    );
    let mut round = 0;
    let written = Sample::collect(scene.many(11), || {
        round += 1;
        session.run_blocking(format!("prefix = 'round-{round}-'"))?;
        session.settle_blocking();
        let empty = milliseconds(time(|| Ok(session.run_blocking("pass")?))?.0);
        let (taken, outcome) = time(|| Ok(session.run_blocking(write.as_str())?))?;
        ensure!(outcome.files_created.len() == many, "{} files were told", outcome.files_created.len());
        let inside: f64 = outcome.stdout.trim().parse().context("the cell's own time")?;
        Ok(milliseconds(taken) - inside * 1e3 - empty)
    })?;
    let small = touch(scene, &sandbox.session_blocking()?)?;
    let large = sandbox.session_blocking()?;
    let fill = format!(
        "import os\nfor d in range(500):\n    os.makedirs(f'd{{d}}', exist_ok=True)\n    for n in range({}):\n        with open(f'd{{d}}/{{n}}', 'w') as file: file.write('x')",
        scene.many(LARGE) / 500
    );
    large.run_blocking(fill)?;
    large.settle_blocking();
    let touched = touch(scene, &large)?;
    Ok(vec![
        Row::new(format!("telling that a cell wrote {many} files, {kind}"), "ms", &written)
            .promise(Promise::AtMost(10.0)),
        Row::new(format!("a cell that touches one file of {}, {kind}", scene.many(LARGE)), "ms", touched)
            .against("of one", Some(small)),
        Row::new("  more", "ms", touched - small).promise(Promise::AtMost(5.0)),
    ])
}

/// A cell that changes one file.
fn touch(scene: &Scene, session: &Session) -> anyhow::Result<f64> {
    let sample = Sample::collect(scene.many(31), || {
        let (taken, outcome) = time(|| Ok(session.run_blocking("open('one', 'w').write('x')")?))?;
        ensure!(outcome.is_success(), "a cell failed");
        session.settle_blocking();
        Ok(milliseconds(taken))
    })?;
    Ok(sample.median)
}

const WRITE: &str =
    "block = bytes(1 << 20)\nwith open('large', 'wb') as file:\n    for _ in range(COUNT): file.write(block)";
const READ: &str = "with open('large', 'rb') as file:\n    while file.read(1 << 20): pass";
const OPEN: &str = "for number in range(COUNT):\n    with open(f'small/{number}') as file: file.read()";
const MAKE: &str = "import os\nos.makedirs('small', exist_ok=True)\nfor number in range(COUNT):\n    with open(f'small/{number}', 'w') as file: file.write('small')";

/// The same programs behind the glass and by plain Python, on the same directory, in turns.
fn throughput(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let sandbox = sandbox(scene, "throughput", StorageKind::Disk).build_blocking()?;
    let session = sandbox.session_blocking()?;
    let directory = session.directory().context("it is on disk")?;
    let megabytes = scene.many(BYTES >> 20);
    let files = scene.many(SMALL);
    run(&session, &MAKE.replace("COUNT", &files.to_string()))?;
    let programs = [
        (format!("write {megabytes} MB"), WRITE.replace("COUNT", &megabytes.to_string()), 3.0),
        (format!("read {megabytes} MB"), READ.to_owned(), 3.0),
        (format!("open, read and close {files} small files"), OPEN.replace("COUNT", &files.to_string()), 6.0),
    ];
    let mut rows = Vec::new();
    for (what, program, most) in programs {
        let timed = format!(
            "import time\nstarted = time.perf_counter()\n{program}\nprint(time.perf_counter() - started)"
        );
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..scene.many(9) {
            let outcome = session.run_blocking(timed.as_str())?;
            ensure!(outcome.is_success(), "a cell failed: {:?}", outcome.exception);
            ours.push(outcome.stdout.trim().parse::<f64>()? * 1e3);
            session.settle_blocking();
            theirs.push(plain(&directory, &timed)? * 1e3);
        }
        let engine = if scene.engine() == EngineKind::Native { "native" } else { "wasm" };
        rows.push(
            Row::new(format!("{what}, {engine}, on disk"), "ms", &Sample::new(ours))
                .against("plain Python", Some(Sample::new(theirs).median))
                .promise(Promise::RatioAtMost(most)),
        );
    }
    Ok(rows)
}

fn plain(directory: &Path, program: &str) -> anyhow::Result<f64> {
    let mut python = Command::new("python3")
        .args(["-I", "-"])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("python3")?;
    python.stdin.take().context("its input")?.write_all(program.as_bytes())?;
    let output = python.wait_with_output()?;
    ensure!(output.status.success(), "plain Python failed");
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

/// A process of its own, so that its memory is known.
fn export(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let root = scene.directory().join("export");
    let thread = root.join("threads/large");
    fs::create_dir_all(&thread)?;
    let megabytes = scene.many(EXPORTED >> 20);
    let mut block = vec![0_u8; 1 << 20];
    for part in 0..8 {
        let mut file = fs::File::create(thread.join(format!("part-{part}")))?;
        for number in 0..megabytes / 8 {
            // Neither all the same nor all chance.
            for (place, byte) in block.iter_mut().enumerate() {
                *byte = (place.wrapping_mul(31).wrapping_add(number * 7 + part) >> 3) as u8;
            }
            file.write_all(&block)?;
        }
    }
    let archive = scene.directory().join("export.tar.zst");
    let program = std::env::current_exe()?;
    let (taken, output) = time(|| {
        let mut command = Command::new("/usr/bin/env");
        command.args(["python3", "-I", "-c", PEAK]).arg(program);
        command.args(["workspace", "export", "--session", "large", "--workspace-root"]).arg(&root);
        command.arg("--state-dir").arg(scene.directory().join("export-state")).arg(&archive);
        Ok(command.output()?)
    })?;
    ensure!(output.status.success(), "the export failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stderr);
    let peak: f64 = text.lines().last().unwrap_or_default().trim().parse().context("its memory")?;
    Ok(vec![
        Row::new(format!("memory of an export of {megabytes} MB"), "MB", peak / 1024.0)
            .promise(Promise::AtMost(64.0)),
        Row::new("  speed", "MB/s", megabytes as f64 / taken.as_secs_f64()),
    ])
}

/// Runs a program, and writes how many KiB of memory it had at most.
const PEAK: &str = "import resource, subprocess, sys\ncode = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)\nprint(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)\nsys.exit(code)";
