//! Memory of all processes below this one: the jail, the preloaded interpreter, sessions and their shadows.

use std::fs;

use anyhow::Context;

/// What some processes hold, in 10⁶ bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// Each page that several have is divided among them.
    pub(super) proportional: f64,
    /// What the kernel needs to find the pages, which no other number has.
    pub(super) tables: f64,
}

impl Held {
    pub(super) fn all(self) -> f64 {
        self.proportional + self.tables
    }
}

/// What all processes below this one hold.
pub(super) fn held() -> anyhow::Result<Held> {
    let mut held = Held::default();
    for pid in below(std::process::id())? {
        // One that is just ending has none.
        let Ok(rollup) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { continue };
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        held.proportional += megabytes(&rollup, "Pss:").unwrap_or_default();
        held.tables += megabytes(&status, "VmPTE:").unwrap_or_default();
    }
    Ok(held)
}

/// Resident memory of the preloaded interpreter, in 10⁶ bytes.
pub(super) fn preloaded() -> anyhow::Result<f64> {
    // Sessions are its children, and have the same command.
    for pid in below(std::process::id())? {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains("belljar_native/__main__.py") {
            let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
            return megabytes(&status, "VmRSS:").context("no VmRSS");
        }
    }
    anyhow::bail!("no preloaded interpreter was found")
}

/// Processes below one, parents first.
fn below(pid: u32) -> anyhow::Result<Vec<u32>> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks {
            let children = fs::read_to_string(task?.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found.remove(0);
    Ok(found)
}

fn megabytes(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1024.0 / 1e6)
}
