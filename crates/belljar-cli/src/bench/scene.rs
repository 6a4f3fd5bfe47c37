//! Where sessions are measured: sandboxes, and a directory that is gone afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use belljar::{EngineKind, Outcome, Policy, Runtimes, Sandbox, SandboxBuilder, Session, default_state_dir};

use super::sample::{milliseconds, time};

/// What every benchmark of sessions needs.
pub(super) struct Scene {
    runtimes: Runtimes,
    engine: EngineKind,
    quick: bool,
    directory: PathBuf,
}

impl Scene {
    /// Makes a directory below `parent`; by default on the disk of the user's data.
    pub(super) fn new(
        runtimes: Runtimes,
        engine: EngineKind,
        quick: bool,
        parent: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let parent = match parent {
            Some(parent) => parent.to_owned(),
            None => user_data()?,
        };
        let parent = fs::canonicalize(&parent).with_context(|| format!("finding {}", parent.display()))?;
        let directory = parent.join(format!(".belljar-bench-{}", process::id()));
        fs::create_dir(&directory)
            .with_context(|| format!("making {}; --scratch names another place", directory.display()))?;
        Ok(Self { runtimes, engine, quick, directory })
    }

    /// So many samples, or a tenth of them.
    pub(super) fn many(&self, count: usize) -> usize {
        if self.quick { count.div_ceil(10).max(3) } else { count }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn runtimes(&self) -> &Runtimes {
        &self.runtimes
    }

    /// Where sessions are kept and what is below it.
    pub(super) fn describe(&self) -> String {
        let directory = self.directory.display();
        match file_system(&self.directory) {
            Some(found) => format!("{directory} (removed), on {found}"),
            None => format!("{directory} (removed)"),
        }
    }

    /// For sessions that live in memory.
    pub(super) fn builder(&self) -> SandboxBuilder {
        Sandbox::builder().runtimes(self.runtimes.clone()).engine(self.engine)
    }

    /// What its sessions may use.
    pub(super) fn policy(&self) -> Policy {
        Policy::for_engine(self.engine)
    }

    pub(super) fn engine(&self) -> EngineKind {
        self.engine
    }

    /// For sessions that are kept, in a state directory of this name.
    pub(super) fn kept(&self, name: &str) -> SandboxBuilder {
        self.builder().state_dir(self.state(name))
    }

    pub(super) fn state(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The command itself, with the same interpreter.
    pub(super) fn command(&self) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("finding the command itself")?);
        if let Some(cache) = &self.runtimes.cache_dir {
            command.env("BELLJAR_CACHE_DIR", cache);
        }
        Ok(command)
    }

    /// `belljar run`, with the same engine.
    pub(super) fn run_command(&self) -> anyhow::Result<Command> {
        let mut command = self.command()?;
        command.args(["run", "--engine", &self.engine.to_string()]);
        Ok(command)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Nothing to do about it.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The nearest directory above the user's sessions that is there.
fn user_data() -> anyhow::Result<PathBuf> {
    let state = default_state_dir().context("there is no data directory; --scratch names a place")?;
    let found = state.ancestors().skip(1).find(|directory| directory.is_dir());
    Ok(found.context("there is no data directory; --scratch names a place")?.to_owned())
}

/// The mount that a directory is on: `ext4 /dev/vda`.
fn file_system(directory: &Path) -> Option<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mounts = table.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?;
        let mut after = after.split(' ');
        let kind = format!("{} {}", after.next()?, after.next()?);
        directory.starts_with(point).then_some((point.len(), kind))
    });
    mounts.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// Runs a cell that must succeed.
pub(super) fn run(session: &Session, code: &str) -> anyhow::Result<Outcome> {
    let outcome = session.run_blocking(code)?;
    ensure!(outcome.is_success(), "a cell failed: {}", serde_json::to_string(&outcome)?);
    Ok(outcome)
}

/// Makes the last cell's effects final, and says how long that takes.
pub(super) fn settle(session: &Session) -> Duration {
    let started = Instant::now();
    session.settle_blocking();
    started.elapsed()
}

/// Runs an expression whose value must be this.
pub(super) fn expect(session: &Session, code: &str, value: &str) -> anyhow::Result<()> {
    let outcome = run(session, code)?;
    let text = outcome.value.map(|value| value.text).unwrap_or_default();
    ensure!(text == value, "{code} is {text}, not {value}");
    Ok(())
}

/// Runs a program that must print this, and returns its time in milliseconds.
pub(super) fn process(command: &mut Command, printed: Option<&str>) -> anyhow::Result<f64> {
    let (taken, output) = time(|| Ok(command.output()?))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && printed.is_none_or(|printed| text == printed),
        "{command:?} printed {text:?}, {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(milliseconds(taken))
}

/// A number of `/proc/self/smaps_rollup` (`Rss`, `Pss`), in 10⁶ bytes.
pub(super) fn memory(name: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").context("reading /proc/self/smaps_rollup")?;
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)).context("no such number")?;
    Ok(kilobytes.parse::<f64>()? * 1024.0 / 1e6)
}

/// All memory of this process, in 10⁶ bytes: what is mapped, and what lies in memory files whether it is mapped or
/// not. Frozen pages are there, and no number of the kernel's counts those that nobody has touched since.
pub(super) fn whole_memory() -> anyhow::Result<f64> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        let Ok(target) = fs::read_link(&path) else { continue };
        if target.to_string_lossy().starts_with("/memfd:") {
            let about = fs::metadata(&path)?;
            files.insert((about.dev(), about.ino()), about.blocks() * 512);
        }
    }
    let in_files = files.values().sum::<u64>() as f64 / 1e6;
    Ok(memory("Pss")? - memory("Pss_Shmem")? + in_files)
}
