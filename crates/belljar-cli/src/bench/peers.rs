//! Other sandboxes, run by `benches/peers/peers.py`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

/// Installs the peers where they are missing and measures them. Its progress goes to standard error.
pub(super) fn run(script: &Path, quick: bool) -> anyhow::Result<Value> {
    let call = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.arg(script).args(arguments).stderr(Stdio::inherit());
        command.output().with_context(|| format!("running python3 {}", script.display()))
    };
    let installed = call(&["install"])?;
    ensure!(installed.status.success(), "the other sandboxes could not be installed");
    let measured = call(if quick { &["run", "--json", "--quick"] } else { &["run", "--json"] })?;
    ensure!(measured.status.success(), "the other sandboxes could not be measured");
    serde_json::from_slice(&measured.stdout).context("reading what the script printed")
}

/// Reads what the script printed earlier.
pub(super) fn read(file: &Path) -> anyhow::Result<Value> {
    let text = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("reading {}", file.display()))
}
