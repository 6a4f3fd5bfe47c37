//! Many sessions with 50 MB of packages that they don't use.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use belljar::{Runtimes, Sandbox, SandboxBuilder, Session};

use super::super::row::{Promise, Row};
use super::super::scene::{Scene, expect, memory, run};
use super::builder;

/// Sessions that are kept.
const KEPT: usize = 500;
/// Sessions that are live, with packages and without, in turns.
const LIVE: usize = 250;
const TURNS: usize = 5;

/// 2 MB of modules and 48 MB of data.
const MODULES: usize = 200;
const MODULE_BYTES: usize = 10_000;
const DATA: usize = 12;
const DATA_BYTES: usize = 4_000_000;

pub(super) fn measure(scene: &Scene, ready: &Runtimes) -> anyhow::Result<Vec<Row>> {
    let packages = fifty_megabytes(&scene.directory().join("fifty-megabytes"))?;
    let plain = || builder(ready);
    let packaged = || builder(ready).site_packages(&packages);
    expect(
        &packaged().build_blocking()?.session_blocking()?,
        "import heavy.part_7; heavy.part_7.function_7(1)",
        "8",
    )?;
    let without = disk_per_session(scene, ready, "plain", plain())?;
    let with = disk_per_session(scene, ready, "packaged", packaged())?;
    let [live_without, live_with] = memory_per_session(scene, [plain(), packaged()])?;
    let what = format!("disk of a session, {} asleep with 50 MB of packages", scene.many(KEPT));
    Ok(vec![
        Row::new(what, "kB", with / 1e3).against("without packages", Some(without / 1e3)),
        // Nothing, but whether a session wrote a page more or less is chance.
        Row::new("  of packages", "kB", (with - without) / 1e3).promise(Promise::AtMost(0.1)),
        Row::new("memory of a live session, 50 MB of packages not imported", "MB", live_with)
            .against("without packages", Some(live_without))
            .promise(Promise::RatioAtMost(1.05)),
    ])
}

/// What each session adds to cache and state, after the first, in bytes.
fn disk_per_session(
    scene: &Scene,
    ready: &Runtimes,
    name: &str,
    builder: SandboxBuilder,
) -> anyhow::Result<f64> {
    let state = scene.state(name);
    let places: Vec<&Path> = ready.cache_dir.iter().map(PathBuf::as_path).chain([state.as_path()]).collect();
    let sandbox = builder.state_dir(&state).idle_hibernate(Duration::ZERO).build_blocking()?;
    let make = || {
        let session = sandbox.create_blocking(None)?;
        run(&session, "x = 1")?;
        session.settle_blocking();
        anyhow::Ok(session.hibernate_blocking()?)
    };
    // It puts the environment beside the sessions.
    make()?;
    let before = disk(&places)?;
    let count = scene.many(KEPT);
    for _ in 0..count {
        make()?;
    }
    Ok((disk(&places)? as f64 - before as f64) / count as f64)
}

/// Bytes that all files below some directories have on the disk, those with several names once.
fn disk(places: &[&Path]) -> anyhow::Result<u64> {
    let mut files = BTreeMap::new();
    let mut places: Vec<PathBuf> = places.iter().map(|place| place.to_path_buf()).collect();
    while let Some(place) = places.pop() {
        let about = fs::symlink_metadata(&place)?;
        if about.is_dir() {
            for entry in fs::read_dir(&place)? {
                places.push(entry?.path());
            }
        } else {
            files.insert((about.dev(), about.ino()), about.blocks() * 512);
        }
    }
    Ok(files.values().sum())
}

/// PSS of a session after a cell, in 10⁶ bytes.
fn memory_per_session<const N: usize>(
    scene: &Scene,
    builders: [SandboxBuilder; N],
) -> anyhow::Result<[f64; N]> {
    let sandboxes =
        builders.into_iter().map(SandboxBuilder::build_blocking).collect::<Result<Vec<_>, _>>()?;
    let live = |sandbox: &Sandbox| -> anyhow::Result<Session> {
        let session = sandbox.session_blocking()?;
        run(&session, "x = 1\nprint(x)")?;
        Ok(session)
    };
    let mut sessions = sandboxes.iter().map(live).collect::<anyhow::Result<Vec<_>>>()?;
    let mut grown = [0.0; N];
    let count = scene.many(LIVE / TURNS);
    let mut before = settled()?;
    for _ in 0..TURNS {
        for (sandbox, grown) in sandboxes.iter().zip(&mut grown) {
            for _ in 0..count {
                sessions.push(live(sandbox)?);
            }
            let now = settled()?;
            *grown += (now - before) / (count * TURNS) as f64;
            before = now;
        }
    }
    Ok(grown)
}

/// What is kept to take a cell back is given up when a session has been idle.
fn settled() -> anyhow::Result<f64> {
    thread::sleep(Duration::from_millis(2500));
    memory("Pss")
}

/// A `site-packages` of 50 MB.
fn fifty_megabytes(directory: &Path) -> anyhow::Result<PathBuf> {
    let package = directory.join("heavy");
    fs::create_dir_all(&package)?;
    fs::write(package.join("__init__.py"), "")?;
    for module in 0..MODULES {
        let mut text = String::new();
        let mut function = 0;
        while text.len() < MODULE_BYTES {
            writeln!(
                text,
                "def function_{function}(value):\n    \"\"\"Adds {function} in module {module}.\"\"\"\n    \
                 return value + {function}\n\n"
            )?;
            function += 1;
        }
        fs::write(package.join(format!("part_{module}.py")), text)?;
    }
    // Any numbers that don't compress.
    let mut seed = 1_u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    for file in 0..DATA {
        let bytes: Vec<u8> = (0..DATA_BYTES).map(|_| next()).collect();
        fs::write(package.join(format!("data_{file}.bin")), bytes)?;
    }
    Ok(directory.to_owned())
}
