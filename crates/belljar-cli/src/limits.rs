//! The options that make a policy.

mod kept;

use std::path::{self, PathBuf};
use std::time::Duration;

use belljar::{Mount, MountAccess, Policy, Rollback, StorageKind, WorkspacePolicy, parse_size};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use self::kept::{ArtifactLimits, DatasetLimits};
pub(crate) use self::kept::{NamedDataset, mime, named_dataset};
use crate::size::Size;

#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArguments {
    /// Wall time; `none` is no limit [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = timeout)]
    timeout: Option<Timeout>,

    /// Memory of the interpreter, 48MiB to 4GiB, native to 1TiB [default: 256MiB, native 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,

    /// Output kept of each stream [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    output: Option<u64>,

    /// Files that the session may have, in all [default: 64MiB, native 1GiB]
    #[arg(long, value_name = "SIZE", visible_alias = "files", value_parser = size)]
    quota: Option<u64>,

    /// How many files and directories it may have [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    file_count: Option<u64>,

    /// End after so many steps, the same on every machine; a third slower, and not with the native engine
    #[arg(long, value_name = "N")]
    steps: Option<u64>,

    /// Make the run repeatable: randomness from this seed, and a clock that starts at 2020-01-01 and never
    /// waits
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Show a directory of the host at an absolute path; `:rw` makes it writable
    #[arg(long, value_name = "HOST:GUEST[:ro|:rw]", value_parser = mount)]
    mount: Vec<Mount>,

    /// Set an environment variable
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,

    /// Where its files are: in memory, or in a directory of the host that people can look into [default: memory]
    #[arg(long, value_name = "KIND", value_parser = storage_values())]
    storage: Option<StorageKind>,

    /// The directory with threads/ and skills/ [env: BELLJAR_WORKSPACE_ROOT] [default: workspaces/local in
    /// the state directory]
    #[arg(long, value_name = "DIR")]
    workspace_root: Option<PathBuf>,

    /// Where the session sees its workspace; {id} is the session's name [default: /workspace]
    #[arg(long, value_name = "PATH")]
    workspace_path: Option<String>,

    /// Where skills are seen in the workspace [default: .skills]
    #[arg(long, value_name = "PATH")]
    skills: Option<String>,

    /// Whose skills are seen
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Another thread on disk, seen read-only at .ticket
    #[arg(long, value_name = "THREAD")]
    ticket: Option<String>,

    /// When a cell is taken back, variables and files: after a hard stop, after every failure, or never
    /// [default: on-kill]
    #[arg(long, value_name = "WHEN", value_parser = rollback_values())]
    rollback: Option<Rollback>,

    /// How many cells that ended well can be taken back later [default: 8]
    #[arg(long, value_name = "N")]
    undo: Option<usize>,

    /// Processors that a native session may keep busy [default: 1]
    #[arg(long, value_name = "N", value_parser = processors)]
    cpus: Option<f64>,

    /// Processes and threads that a native session may have at once [default: 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    processes: Option<u64>,

    /// Processor time of a native cell, all its threads together; `none` is no limit [default: none]
    #[arg(long, value_name = "SECONDS", value_parser = timeout)]
    cpu_time: Option<Timeout>,

    /// Start nothing where this layer of the native engine's isolation is missing (see `belljar doctor`); can be
    /// repeated
    #[arg(long, value_name = "LAYER")]
    require: Vec<String>,

    /// Let code install packages into its native session
    #[arg(long)]
    allow_install: bool,

    /// While a native session idles, data frames that are larger go to disk [default: 50MiB]
    #[arg(long, value_name = "SIZE", env = "DF_BYTES", hide_env_values = true, value_parser = size)]
    spill_frames: Option<u64>,

    /// While a native session idles, arrays that are larger go to disk [default: 50MiB]
    #[arg(long, value_name = "SIZE", env = "NP_BYTES", hide_env_values = true, value_parser = size)]
    spill_arrays: Option<u64>,

    #[command(flatten)]
    artifacts: ArtifactLimits,

    #[command(flatten)]
    kept_datasets: DatasetLimits,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Timeout {
    Never,
    After(Duration),
}

impl LimitArguments {
    /// The environment variables of the command line.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        self.env.iter().cloned()
    }

    /// The datasets that are to be staged.
    pub(crate) fn datasets(&self) -> &[NamedDataset] {
        self.kept_datasets.named()
    }

    /// Whether the command line says where workspaces are.
    pub(crate) fn names_root(&self) -> bool {
        self.workspace_root.is_some()
    }

    /// Changes what was given on the command line, and nothing else.
    pub(crate) fn apply(&self, policy: &mut Policy) {
        policy.timeout = self.timeout.map_or(policy.timeout, Timeout::limit);
        policy.memory = self.memory.unwrap_or(policy.memory);
        policy.output = self.output.unwrap_or(policy.output);
        policy.file_bytes = self.quota.unwrap_or(policy.file_bytes);
        policy.file_count = self.file_count.unwrap_or(policy.file_count);
        policy.steps = self.steps.or(policy.steps);
        policy.rollback = self.rollback.unwrap_or(policy.rollback);
        policy.undo = self.undo.unwrap_or(policy.undo);
        policy.env.extend(self.env.iter().cloned());
        if let Some(seed) = self.seed {
            policy.repeat(seed);
        }
        policy.cpus = self.cpus.unwrap_or(policy.cpus);
        policy.processes = self.processes.unwrap_or(policy.processes);
        policy.cpu_time = self.cpu_time.map_or(policy.cpu_time, Timeout::limit);
        policy.require.extend(self.require.iter().cloned());
        policy.install |= self.allow_install;
        self.apply_workspace(&mut policy.workspace);
        self.artifacts.apply(&mut policy.artifacts);
        self.kept_datasets.apply(&mut policy.datasets);
        policy.spill.frame_bytes = self.spill_frames.unwrap_or(policy.spill.frame_bytes);
        policy.spill.array_bytes = self.spill_arrays.unwrap_or(policy.spill.array_bytes);
        // Of a session's own mounts those stay whose place isn't taken.
        policy.mounts.retain(|own| self.mount.iter().all(|mount| mount.guest != own.guest));
        for mount in &self.mount {
            // A session may be woken from another directory.
            let host = path::absolute(&mount.host).unwrap_or_else(|_| mount.host.clone());
            policy.mounts.push(Mount { host, ..mount.clone() });
        }
    }
}

impl LimitArguments {
    fn apply_workspace(&self, workspace: &mut WorkspacePolicy) {
        workspace.storage = self.storage.unwrap_or(workspace.storage);
        let named = std::env::var_os(WORKSPACE_ROOT).filter(|value| !value.is_empty()).map(PathBuf::from);
        // A session that is there has its files where it was made.
        let root = self.workspace_root.clone().or(workspace.root.take()).or(named);
        workspace.root = root.map(|root| path::absolute(&root).unwrap_or(root));
        workspace.path = self.workspace_path.clone().unwrap_or_else(|| workspace.path.clone());
        workspace.skills = self.skills.clone().or(workspace.skills.take());
        workspace.user = self.user.clone().or(workspace.user.take());
        workspace.ticket = self.ticket.clone().or(workspace.ticket.take());
    }
}

/// Where workspaces are, unless an option says so.
pub(crate) const WORKSPACE_ROOT: &str = "BELLJAR_WORKSPACE_ROOT";

impl Timeout {
    fn limit(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::After(limit) => Some(limit),
        }
    }
}

/// Names the limits of a policy in a few words.
pub(crate) fn describe(policy: &Policy) -> String {
    let time = match policy.timeout {
        Some(limit) => format!("{limit:?}"),
        None => "no time limit".to_owned(),
    };
    format!("{time}, {} memory, {} files, no network", Size(policy.memory), Size(policy.file_bytes))
}

fn timeout(text: &str) -> Result<Timeout, String> {
    if text == "none" {
        return Ok(Timeout::Never);
    }
    let seconds = text.strip_suffix('s').unwrap_or(text).parse().map_err(|_| "not a number of seconds")?;
    let limit = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if limit.is_zero() {
        return Err("it must be more than 0; `none` is no limit".to_owned());
    }
    Ok(Timeout::After(limit))
}

fn processors(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(count) if count > 0.0 && count <= 65_536.0 => Ok(count),
        _ => Err("not a number above 0, such as 0.5 or 2".to_owned()),
    }
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| match error.hint() {
        Some(hint) => format!("{error}: {hint}"),
        None => error.to_string(),
    })
}

fn storage_values() -> impl TypedValueParser<Value = StorageKind> {
    PossibleValuesParser::new(["memory", "disk"]).map(|word| match word.as_str() {
        "disk" => StorageKind::Disk,
        _ => StorageKind::Memory,
    })
}

fn rollback_values() -> impl TypedValueParser<Value = Rollback> {
    PossibleValuesParser::new(["on-kill", "on-error", "never"]).map(|word| match word.as_str() {
        "on-error" => Rollback::OnError,
        "never" => Rollback::Never,
        _ => Rollback::OnKill,
    })
}

fn mount(text: &str) -> Result<Mount, String> {
    let (paths, access) = match text.rsplit_once(':') {
        Some((paths, "rw")) => (paths, MountAccess::ReadWrite),
        Some((paths, "ro")) => (paths, MountAccess::ReadOnly),
        _ => (text, MountAccess::ReadOnly),
    };
    // From the right: a host's path may have a colon in it.
    match paths.rsplit_once(':') {
        Some((host, guest)) if !host.is_empty() && guest.starts_with('/') => {
            Ok(Mount { host: host.into(), guest: guest.to_owned(), access })
        }
        _ => Err("write HOST:GUEST, HOST:GUEST:ro or HOST:GUEST:rw, with an absolute GUEST".to_owned()),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts() {
        let read = |text| mount(text).map(|mount| (mount.host, mount.guest, mount.access));
        let expected = |host: &str, guest: &str, access| Ok((host.into(), guest.to_owned(), access));
        assert_eq!(read("a:/b"), expected("a", "/b", MountAccess::ReadOnly));
        assert_eq!(read("a:/b:ro"), expected("a", "/b", MountAccess::ReadOnly));
        assert_eq!(read("/x:y:/b:rw"), expected("/x:y", "/b", MountAccess::ReadWrite));
        for wrong in ["", "a", "a:", ":/b", "a:b", "a:/b:rx", "a:rw", ":rw", "::"] {
            assert!(mount(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn timeouts() {
        assert_eq!(timeout("2"), Ok(Timeout::After(Duration::from_secs(2))));
        assert_eq!(timeout("0.5s"), Ok(Timeout::After(Duration::from_millis(500))));
        assert_eq!(timeout("none"), Ok(Timeout::Never));
        for wrong in ["", "0", "-1", "nan", "inf", "1e300", "s", "1m"] {
            assert!(timeout(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_of_processors() {
        assert_eq!((processors("0.5"), processors("2")), (Ok(0.5), Ok(2.0)));
        for wrong in ["", "0", "-1", "nan", "inf", "two", "1e9"] {
            assert!(processors(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables() {
        assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(variable("A").is_err() && variable("=b").is_err());
    }
}
