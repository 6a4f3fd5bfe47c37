//! Other sandboxes, run by `benches/peers/peers.py`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::Value;

use super::Name;

/// What the script printed, if it was run.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Peers(Option<Value>);

impl Peers {
    /// Installs the peers where they are missing and measures what is compared with them. Its progress goes to
    /// standard error.
    pub(super) fn run(script: &Path, quick: bool, names: &[Name]) -> anyhow::Result<Self> {
        let call = |arguments: &[&str]| {
            let mut command = Command::new("python3");
            command.arg(script).args(arguments).stderr(Stdio::inherit());
            command.output().with_context(|| format!("running python3 {}", script.display()))
        };
        let installed = call(&["install"])?;
        ensure!(installed.status.success(), "the other sandboxes could not be installed");
        let mut arguments = vec!["run", "--json"];
        if quick {
            arguments.push("--quick");
        }
        let (who, what) = wanted(names);
        arguments.extend(["--only", who, "--measure", &what]);
        let measured = call(&arguments)?;
        ensure!(measured.status.success(), "the other sandboxes could not be measured");
        let value = serde_json::from_slice(&measured.stdout).context("reading what the script printed")?;
        Ok(Self(Some(value)))
    }

    /// Reads what the script printed earlier.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        let value = serde_json::from_slice(&text).with_context(|| format!("reading {}", file.display()))?;
        Ok(Self(Some(value)))
    }

    /// A number of a peer, if it was measured.
    pub(super) fn number(&self, peer: &str, path: &str) -> Option<f64> {
        self.0.as_ref()?.pointer(&format!("/peers/{peer}/{path}"))?.as_f64()
    }
}

/// Which peers, and what is measured of them.
fn wanted(names: &[Name]) -> (&'static str, String) {
    let basics = "fresh,fresh_warmed,cell,tool,process,memory,cpu,throughput,snapshot";
    let (who, what) = match names {
        names if names.contains(&Name::Basics) => ("eryx,monty,llm", Some(basics)),
        [Name::Packages] => ("eryx", None),
        _ => ("eryx,monty", Some("cell,snapshot")),
    };
    let package = names.contains(&Name::Packages).then_some("package");
    (who, what.into_iter().chain(package).collect::<Vec<_>>().join(","))
}
