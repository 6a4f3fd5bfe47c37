//! What packages cost: making environments, starting from them, sharing them.
//!
//! Nothing of it is left in the user's cache but the packages themselves: everything else is made in caches that are
//! gone afterwards (`larder`).

mod adding;
mod larder;
mod preload;
mod process;
mod sharing;
mod start;

use anyhow::ensure;
use belljar::{Runtimes, Sandbox, SandboxBuilder};

use self::larder::Larder;
use super::peers::Peers;
use super::row::Row;
use super::scene::Scene;

/// `benches/peers/peer_environments.py` holds the same.
const TABULATE: &str = "tabulate==0.10.0";
const USE: &str = "from tabulate import tabulate; print(tabulate([[1, 2]]))";
const TABLE: &str = "-  -\n1  2\n-  -\n";

const MODULES: [&str; 2] = ["tabulate", "jinja2"];
const IMPORT: &str = "import tabulate, jinja2";

pub(super) fn measure(scene: &Scene, peers: &Peers) -> anyhow::Result<Vec<Row>> {
    // Fetched and compiled once, by the user's own cache.
    both(scene.builder())?.build_blocking()?;
    scene.builder().package(TABULATE)?.build_blocking()?;
    let larder = Larder::new(scene);
    let ready = larder.cache(&[larder::INTERPRETER, larder::PACKAGES].concat())?;
    let mut rows = start::measure(scene, &ready)?;
    rows.extend(process::measure(scene)?);
    rows.extend(adding::measure(scene, &larder, peers)?);
    rows.extend(sharing::measure(scene, &ready)?);
    rows.extend(preload::measure(scene, &ready)?);
    Ok(rows)
}

fn builder(runtimes: &Runtimes) -> SandboxBuilder {
    Sandbox::builder().runtimes(runtimes.clone())
}

fn both(builder: SandboxBuilder) -> anyhow::Result<SandboxBuilder> {
    Ok(builder.package(TABULATE)?.package("jinja2")?)
}

fn preloaded(builder: SandboxBuilder) -> SandboxBuilder {
    MODULES.into_iter().fold(builder, SandboxBuilder::preload)
}

/// Runs code in a session of its own that must print this.
fn print(sandbox: &Sandbox, code: &str, printed: &str) -> anyhow::Result<()> {
    let outcome = sandbox.run_blocking(code)?;
    ensure!(
        outcome.is_success() && outcome.stdout == printed,
        "a cell failed: {}",
        serde_json::to_string(&outcome)?
    );
    Ok(())
}
