//! An environment with a package that it did not have, up to the first answer that needs it.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use belljar::SandboxBuilder;

use super::super::peers::Peers;
use super::super::row::{Promise, Row};
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::{Scene, run};
use super::larder::{INTERPRETER, Larder, RESOLVED, WHEELS};
use super::{TABLE, TABULATE, USE, builder, print};

/// Makes the wheel again that the package came in.
const PACK: &str = r#"
import pathlib, zipfile
site = pathlib.Path("/data/site-packages")
with zipfile.ZipFile("/tmp/wheel", "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as wheel:
    for path in sorted(site.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            wheel.write(path, path.relative_to(site))
"#;

pub(super) fn measure(scene: &Scene, larder: &Larder, peers: &Peers) -> anyhow::Result<Vec<Row>> {
    let wheel = wheel(scene)?;
    // Every sample has a cache of its own, so that the environment is new to it.
    let sample = |kinds: &[&[&str]], add: &dyn Fn(SandboxBuilder) -> anyhow::Result<SandboxBuilder>| {
        Sample::collect(scene.many(12), || {
            let cache = larder.cache(&kinds.concat())?;
            let (taken, _) = time(|| {
                let sandbox = add(builder(&cache))?.build_blocking()?;
                print(&sandbox, USE, TABLE)
            })?;
            Ok(milliseconds(taken))
        })
    };
    let required = |builder: SandboxBuilder| Ok(builder.package(TABULATE)?);
    let local = |builder: SandboxBuilder| Ok(builder.wheel(&wheel));
    // Nobody else has this set-up: the image can't be there.
    let imported = |builder: SandboxBuilder| Ok(builder.wheel(&wheel).preload("tabulate").setup("# bench"));
    let eryx = peers.number("eryx", "package_ms/first_result/median");
    let unpacked = sample(&[INTERPRETER, WHEELS, RESOLVED], &required)?;
    let asked = sample(&[INTERPRETER, WHEELS], &required)?;
    let never_unpacked = sample(&[INTERPRETER], &local)?;
    let preloaded = sample(&[INTERPRETER], &imported)?;
    Ok(vec![
        Row::new("adding tabulate, unpacked before, to the first result", "ms", &unpacked)
            .promise(Promise::AtMost(2000.0)),
        Row::new("  resolved anew with uv, which may ask the index", "ms", &asked),
        Row::new("adding tabulate from a wheel, never unpacked", "ms", &never_unpacked)
            .promise(Promise::AtMost(2000.0)),
        // Fifteen times as fast.
        Row::new("  imported ahead of time too, ÷ eryx's SandboxFactory", "ms", &preloaded)
            .against("eryx", eryx)
            .promise(Promise::RatioAtMost(0.066)),
    ])
}

/// The package as a wheel of this machine.
fn wheel(scene: &Scene) -> anyhow::Result<PathBuf> {
    let session = scene.builder().package(TABULATE)?.build_blocking()?.session_blocking()?;
    run(&session, PACK)?;
    let (name, version) = TABULATE.split_once("==").context("no version")?;
    let path = scene.directory().join(format!("{name}-{version}-py3-none-any.whl"));
    fs::write(&path, session.read_file_blocking("/tmp/wheel")?)?;
    Ok(path)
}
