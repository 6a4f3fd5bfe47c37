//! What it costs that cells' files are kept, linked to and read again, and that datasets are shared.

use std::fs;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use belljar::{
    ArtifactSettings, DatasetAccess, DatasetSource, LinkOptions, NewDataset, Outcome, Session, StorageKind,
};

use super::row::{Promise, Row};
use super::sample::{Sample, milliseconds, time};
use super::scene::{Scene, run};

/// Files that one cell leaves.
const MANY: usize = 1000;
/// Bytes of each.
const SMALL: usize = 10_000;
/// Megabytes of an artifact that is large.
const LARGE: usize = 1024;
/// Megabytes of an artifact that is there already.
const SAME: usize = 64;
/// Megabytes of a dataset, and sessions that have it.
const DATASET: usize = 500;
const SESSIONS: usize = 50;

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for storage in [StorageKind::Memory, StorageKind::Disk] {
        rows.extend(many(scene, storage)?);
    }
    rows.extend(large(scene)?);
    rows.extend(links(scene)?);
    rows.extend(datasets(scene)?);
    Ok(rows)
}

/// Runs a cell, and says how long it took beyond what it took in the guest, in seconds.
fn beyond(session: &Session, code: &str) -> anyhow::Result<(f64, Outcome)> {
    let (taken, outcome) = time(|| Ok(session.run_blocking(code)?))?;
    ensure!(outcome.is_success(), "a cell failed: {:?}", outcome.exception);
    ensure!(outcome.artifacts_refused.is_empty(), "not all was kept: {:?}", outcome.artifacts_refused);
    Ok(((taken.as_secs_f64() - outcome.usage.wall_ms / 1e3).max(1e-9), outcome))
}

fn many(scene: &Scene, storage: StorageKind) -> anyhow::Result<Vec<Row>> {
    let kind = if storage == StorageKind::Disk { "disk" } else { "memory" };
    let sandbox = scene.kept(kind).storage(storage).quota(1 << 30).build_blocking()?;
    let session = sandbox.session_blocking()?;
    run(&session, "import os")?;
    let count = scene.many(MANY);
    let code = format!(
        "for number in range({count}):\n    with open(f'artifacts/{{number}}', 'wb') as file: file.write(os.urandom({SMALL}))"
    );
    let kept = Sample::collect(scene.many(7), || {
        let (taken, outcome) = beyond(&session, &code)?;
        ensure!(outcome.artifacts.len() == count, "{} were kept", outcome.artifacts.len());
        session.settle_blocking();
        Ok(count as f64 / taken)
    })?;
    let what = format!("artifacts of {} KB kept, {count} of one cell, {kind}", SMALL / 1000);
    Ok(vec![Row::new(what, "/s", &kept).promise(Promise::AtLeast(2000.0))])
}

fn large(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let megabytes = scene.many(LARGE);
    let mut settings = ArtifactSettings::of_state(&scene.state("large"));
    (settings.limits.session_bytes, settings.limits.tenant_bytes) = (None, None);
    let builder = scene.kept("large").artifacts(settings);
    let sandbox = builder.storage(StorageKind::Disk).quota(8 << 30).build_blocking()?;
    let session = sandbox.session_with_blocking(|policy| policy.timeout = Some(Duration::from_secs(600)))?;
    let directory = session.directory().context("it is on disk")?;
    let (mut ours, mut theirs, mut peak) = (Vec::new(), Vec::new(), 0.0_f64);
    for round in 0..scene.many(3) {
        fill(&directory.join("large"), megabytes, round as u64)?;
        theirs.push(plain(&directory)?);
        let before = memory("VmRSS")?;
        fs::write("/proc/self/clear_refs", "5")?;
        let (taken, _) = beyond(&session, "import os\nos.rename('large', 'artifacts/large')")?;
        peak = peak.max(memory("VmHWM")? - before);
        ours.push(taken);
    }
    let speed = |seconds: &[f64]| {
        Sample::new(seconds.iter().map(|seconds| megabytes as f64 / seconds).collect()).median
    };
    let mut rows = vec![
        Row::new(format!("an artifact of {megabytes} MB, kept"), "MB/s", speed(&ours))
            .against("sha256sum and cp", Some(speed(&theirs)))
            .promise(Promise::RatioAtLeast(0.5)),
        Row::new("  memory for that", "MB", peak).promise(Promise::AtMost(64.0)),
    ];
    // The same contents again, beside what hashing alone takes.
    let same = scene.many(SAME);
    let mut more = Vec::new();
    for round in 0..scene.many(7) {
        fill(&directory.join("same"), same, 99)?;
        let (hashing, _) = time(|| {
            let contents = fs::File::open(directory.join("same"))?;
            Ok(black_box(belljar::hash_contents(contents)?))
        })?;
        run(&session, "open('artifacts/none', 'w').write('')")?;
        let (empty, _) = beyond(&session, "open('artifacts/none', 'w').write('')")?;
        let (taken, _) = beyond(&session, "import os\nos.rename('same', 'artifacts/same')")?;
        if round > 0 {
            more.push((taken - empty - hashing.as_secs_f64()) * 1e3);
        }
    }
    rows.push(
        Row::new(format!("a duplicate of {same} MB, beyond its hash"), "ms", &Sample::new(more))
            .promise(Promise::AtMost(1.0)),
    );
    Ok(rows)
}

/// Writes so many megabytes of noise that are the same for the same number.
fn fill(path: &Path, megabytes: usize, number: u64) -> anyhow::Result<()> {
    let mut file = fs::File::create(path)?;
    let mut block = vec![0_u8; 1 << 20];
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..megabytes {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    Ok(())
}

/// Seconds that `sha256sum` and `cp` take of the large file.
fn plain(directory: &Path) -> anyhow::Result<f64> {
    let copy = directory.parent().context("it is in a directory")?.join("copy");
    let (taken, done) = time(|| {
        let hashed = Command::new("sha256sum").arg(directory.join("large")).output()?;
        let copied = Command::new("cp").arg(directory.join("large")).arg(&copy).output()?;
        Ok(hashed.status.success() && copied.status.success())
    })?;
    ensure!(done, "sha256sum or cp failed");
    fs::remove_file(copy)?;
    Ok(taken.as_secs_f64())
}

/// A figure of this process, in megabytes.
fn memory(name: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).context("no such figure")?;
    let kilobytes = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    Ok(kilobytes.parse::<f64>()? / 1024.0)
}

fn links(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let sandbox = scene.kept("links").build_blocking()?;
    let outcome = sandbox.run_blocking("open('artifacts/a', 'w').write('a')")?;
    let artifacts = sandbox.artifacts()?;
    let made = outcome.artifacts.first().context("nothing was kept")?.clone();
    let sample = Sample::collect(scene.many(1001), || {
        let (taken, _) = time(|| {
            let link = artifacts.link_to(&made, &LinkOptions::default())?;
            Ok(black_box(artifacts.check_link(&link, None)?))
        })?;
        Ok(taken.as_secs_f64() * 1e6)
    })?;
    Ok(vec![Row::new("a signed link made and checked", "µs", &sample).promise(Promise::AtMost(20.0))])
}

fn datasets(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let megabytes = scene.many(DATASET);
    let sandbox = scene.kept("datasets").dataset_access(DatasetAccess::Api).build_blocking()?;
    let path = scene.directory().join("dataset.parquet");
    fill(&path, megabytes, 7)?;
    sandbox.datasets()?.add(NewDataset::new("bench", DatasetSource::File { path }))?;
    let first = sandbox.session_blocking()?;
    let (fetching, _) = time(|| Ok(first.stage_blocking("bench", None)?))?;
    let mut sessions = vec![first];
    let staged = Sample::collect(SESSIONS - 1, || {
        let session = sandbox.session_blocking()?;
        let (taken, _) = time(|| Ok(session.stage_blocking("bench", None)?))?;
        sessions.push(session);
        Ok(milliseconds(taken))
    })?;
    let size = format!("{}", megabytes << 20);
    for session in &sessions {
        let outcome = session.run_blocking("import os\nprint(os.path.getsize('data/bench.parquet'))")?;
        ensure!(outcome.stdout.trim() == size, "a session lacks the dataset: {outcome:?}");
    }
    // All that the state directory has, files with several names once.
    let mut seen = std::collections::BTreeMap::new();
    blocks(&scene.state("datasets"), &mut seen)?;
    let copies = seen.values().filter(|bytes| **bytes >= (megabytes as u64) << 20).count();
    Ok(vec![
        Row::new(format!("a dataset of {megabytes} MB staged the first time"), "ms", milliseconds(fetching)),
        Row::new("staged into a session when it is cached", "ms", &staged).promise(Promise::AtMost(2.0)),
        Row::new(format!("copies of it on disk, {} sessions", sessions.len()), "", copies as f64)
            .promise(Promise::AtMost(1.0)),
    ])
}

/// Bytes of the files below a directory, by inode.
fn blocks(directory: &Path, seen: &mut std::collections::BTreeMap<u64, u64>) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.path().symlink_metadata()?;
        if metadata.is_dir() {
            blocks(&entry.path(), seen)?;
        } else {
            seen.insert(metadata.ino(), metadata.len());
        }
    }
    Ok(())
}
