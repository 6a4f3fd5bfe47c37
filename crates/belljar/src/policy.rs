//! What a session may use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use belljar_engine::{Clock, Entropy, GuestSpec, Limits, Mount, MountAccess, Rollback, Spill};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::EngineKind;
use crate::artifacts::ArtifactPolicy;
use crate::datasets::{DatasetPolicy, LOCAL};
use crate::session::SHELF;
use crate::workspace::{StorageKind, WorkspacePolicy};

/// What a session may use. Everything that isn't allowed here is refused.
///
/// | | default |
/// |---|---|
/// | `timeout` | 30 s of wall time for a cell |
/// | `memory` | 256 MiB for the interpreter, everything included; 4 GiB with the native engine |
/// | `output` | 1 MiB kept of each output stream of a cell |
/// | `file_bytes`, `file_count` | 64 MiB (native: 1 GiB) and 100,000 files in the session's own tree |
/// | `tool_calls`, `tool_timeout`, `tool_bytes` | 100,000 calls in a cell, 30 s and 4 MiB for each |
/// | `display_bytes` | 32 MiB of displays in a cell |
/// | `steps` | not counted; the wasm engine can |
/// | `cpus`, `processes` | one processor, 256 processes and threads; the native engine has them |
/// | `cpu_time` | no limit but the timeout; the native engine has one |
/// | `rollback` | after a hard stop |
/// | `undo` | the last 8 cells |
/// | `mounts` | none: no file of the host is seen |
/// | `env` | empty but for `HOME` and `PWD` |
/// | network | none; there is no way to allow it |
/// | `clock`, `entropy` | the host's |
/// | `inject_setup` | packages are on `sys.path` |
/// | `require` | no layer of isolation in particular |
/// | `spill` | what is larger than 50 MiB goes to disk while the session idles, with the native engine |
/// | `install` | code can't install packages |
/// | `workspace` | files in memory, seen at `/workspace` |
/// | `artifacts` | what cells leave under `artifacts/` is kept, where the sandbox has a place for it |
/// | `datasets` | none |
///
/// The numbers that depend on the engine are in [`Policy::for_engine`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Wall time of one cell; `None` is no limit.
    pub timeout: Option<Duration>,
    /// Bytes of memory of the interpreter.
    pub memory: u64,
    /// Bytes kept of each output stream of one cell.
    pub output: u64,
    /// Bytes of files in the session's own tree.
    pub file_bytes: u64,
    /// Files and directories in the session's own tree.
    pub file_count: u64,
    /// Tool calls in one cell.
    pub tool_calls: u64,
    /// Wall time of one tool call.
    pub tool_timeout: Duration,
    /// Bytes of JSON of one tool call's arguments, and of its result.
    pub tool_bytes: u64,
    /// Bytes of all displays of one cell.
    pub display_bytes: u64,
    /// A limit on the work of a cell that doesn't depend on the machine: the same code with the same input
    /// ends after the same step everywhere. Counting costs about a third of the speed.
    pub steps: Option<u64>,
    /// When a cell is taken back.
    pub rollback: Rollback,
    /// How many cells that ended well can still be taken back with `undo`; at most 64.
    pub undo: usize,
    /// Host directories that the session sees.
    pub mounts: Vec<Mount>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Where time comes from.
    pub clock: Clock,
    /// Where randomness comes from.
    pub entropy: Entropy,
    /// Whether the environment's packages are on `sys.path` from the start.
    pub inject_setup: bool,
    /// Processors that a session may keep busy, where the engine has threads.
    pub cpus: f64,
    /// Processes and threads at once, where the engine has them.
    pub processes: u64,
    /// Processor time of one cell, all its threads together; `None` is no limit. Only the native engine has it.
    pub cpu_time: Option<Duration>,
    /// Names of [layers](crate::Layer) of the engine's isolation without which nothing is started.
    pub require: BTreeSet<String>,
    /// What is moved from memory to disk while a session idles, where the engine does so.
    pub spill: Spill,
    /// Whether code may install packages into its session, where the engine can.
    pub install: bool,
    /// Where the session's files are, and what it sees beside them.
    pub workspace: WorkspacePolicy,
    /// What becomes of what cells leave under `artifacts/`.
    pub artifacts: ArtifactPolicy,
    /// Which datasets it has.
    pub datasets: DatasetPolicy,
}

/// Where the clock of a repeatable run stands: 2020-01-01, a time at which certificates and the like make
/// sense.
const REPEATABLE_CLOCK: Clock = Clock::Fixed(1_577_836_800_000_000_000);
/// Each may hold 2 MiB.
const MOST_UNDO: usize = 64;
/// What the interpreter needs before it has run anything.
const LEAST_MEMORY: u64 = 48 << 20;
/// More than any machine has.
const MOST_CPUS: f64 = 65_536.0;
/// Longer than anybody waits, and still a time that all clocks can tell.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

impl Default for Policy {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            timeout: limits.wall,
            memory: limits.memory,
            output: limits.output,
            file_bytes: limits.file_bytes,
            file_count: limits.file_count,
            tool_calls: limits.tool_calls,
            tool_timeout: limits.tool_time,
            tool_bytes: limits.tool_bytes,
            display_bytes: limits.display_bytes,
            steps: None,
            rollback: Rollback::OnKill,
            undo: 8,
            mounts: Vec::new(),
            env: BTreeMap::new(),
            clock: Clock::Host,
            entropy: Entropy::Host,
            inject_setup: true,
            cpus: limits.cpus,
            processes: limits.processes,
            cpu_time: limits.cpu_time,
            require: BTreeSet::new(),
            spill: Spill::default(),
            install: false,
            workspace: WorkspacePolicy::default(),
            artifacts: ArtifactPolicy::default(),
            datasets: DatasetPolicy::default(),
        }
    }
}

/// A policy that can't be kept.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The timeout is nothing, or longer than a clock can tell.
    #[error("a timeout of {0:?} makes no sense")]
    Timeout(Duration),
    /// The memory isn't enough for the interpreter, or more than it can use.
    #[error("the interpreter cannot run in {bytes} bytes of memory")]
    Memory {
        /// Bytes.
        bytes: u64,
        /// What runs it.
        engine: EngineKind,
    },
    /// The number of processors is nothing, or none.
    #[error("a session cannot have {0} processors")]
    Cpus(f64),
    /// A session without a process can't run.
    #[error("a session cannot have {0} processes")]
    Processes(u64),
    /// The engine doesn't count steps.
    #[error("the native engine does not count steps")]
    Steps,
    /// The engine doesn't limit processor time, or the time is nothing.
    #[error("the {engine} engine cannot limit processor time to {limit:?}")]
    CpuTime {
        /// The limit.
        limit: Duration,
        /// What runs the session.
        engine: EngineKind,
    },
    /// The environment variable can't be set.
    #[error("an environment variable cannot be called {0:?}")]
    Variable(String),
    /// There is nothing to run, or no shell could be given it.
    #[error("{0:?} is no command")]
    Command(String),
    /// A mount isn't at an absolute path, or is at one that Belljar needs.
    #[error("nothing can be mounted at {0:?}")]
    MountPoint(String),
    /// Not a size.
    #[error("{0:?} is not a size")]
    Size(String),
    /// A workspace can't be seen there.
    #[error("a workspace cannot be at {0:?}")]
    Workspace(String),
    /// A session has the workspace that it was made with.
    #[error("the session has its files {}, and keeps its workspace as it was made", words(*.0))]
    Kept(StorageKind),
    /// Skills can't be seen there.
    #[error("skills cannot be at {0:?} in a workspace")]
    Skills(String),
    /// Not the name of a user.
    #[error("{0:?} is not the name of a user")]
    User(String),
    /// Datasets are to be local, and it isn't said where.
    #[error("local datasets need a directory of the host")]
    NoDatasets,
    /// There is no such directory.
    #[error("there is no directory {} with datasets", .0.display())]
    DatasetDirectory(std::path::PathBuf),
}

impl PolicyError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Timeout(_) => "use more than 0 seconds, or no timeout at all".to_owned(),
            Self::Memory { engine: EngineKind::Wasm, .. } => {
                "use between 48 MiB and 4 GiB; the native engine can have more (`--engine native`)".to_owned()
            }
            Self::Memory { engine: EngineKind::Native, .. } => "use between 48 MiB and 1 TiB".to_owned(),
            Self::Cpus(_) => "use a number above 0, such as 0.5 or 2".to_owned(),
            Self::Processes(_) => "use at least 1".to_owned(),
            Self::Steps => "leave out the steps and limit `cpu_time` instead (`--cpu-time`), or use the wasm engine \
                            (`--engine wasm`)"
                .to_owned(),
            Self::CpuTime { engine: EngineKind::Wasm, .. } => {
                "limit its wall time (`--timeout`) or its steps (`--steps`), or use the native engine (`--engine \
                 native`)"
                    .to_owned()
            }
            Self::CpuTime { engine: EngineKind::Native, .. } => "use more than 0 seconds".to_owned(),
            Self::Variable(_) => "names have no '=' and no NUL, and are not empty".to_owned(),
            Self::Command(_) => "write a line for the shell, without NUL".to_owned(),
            Self::MountPoint(_) => {
                "use an absolute path such as /data/input; /python, /usr and / are the interpreter's own"
                    .to_owned()
            }
            Self::Size(_) => {
                "write bytes, or a number with KiB, MiB, GiB, TiB, KB, MB, GB or TB, e.g. 256MiB".to_owned()
            }
            Self::Workspace(_) => {
                "use an absolute path such as /workspace or /mnt/threads/{id}, and none of the system's".to_owned()
            }
            Self::Kept(_) => {
                "leave out --storage, --workspace-path, --skills, --user and --ticket; `belljar workspace export` and \
                 `import` move files to another session"
                    .to_owned()
            }
            Self::Skills(_) => "use a relative path such as .skills, without '..'".to_owned(),
            Self::NoDatasets => {
                "name it with --datasets DIR, DATASETS_HOST_RO or `datasets.directory`".to_owned()
            }
            Self::DatasetDirectory(_) => "make it, or name another one with --datasets".to_owned(),
            Self::User(_) => {
                "use up to 64 letters, digits, '.', '_' and '-', the first a letter or digit, and not `system`"
                    .to_owned()
            }
        })
    }
}

impl Policy {
    /// The defaults with an engine: real CPython with packages such as pandas needs more room.
    pub fn for_engine(engine: EngineKind) -> Self {
        match engine {
            EngineKind::Wasm => Self::default(),
            EngineKind::Native => Self { memory: 4 << 30, file_bytes: 1 << 30, ..Self::default() },
        }
    }

    /// Makes runs repeatable: randomness from a seed, and a clock that starts at 2020-01-01 and never waits.
    pub fn repeat(&mut self, seed: u64) {
        (self.clock, self.entropy) = (REPEATABLE_CLOCK, Entropy::Seeded(seed));
    }

    /// Checks the policy and makes the engine's spec of it.
    pub(crate) fn spec(&self, engine: EngineKind) -> Result<GuestSpec, PolicyError> {
        check_timeout(self.timeout)?;
        self.check_machine(engine)?;
        check_variables(&self.env)?;
        self.workspace.check()?;
        self.datasets.check()?;
        for mount in &self.mounts {
            let taken = ["/", "/python", "/usr", SHELF].contains(&mount.guest.trim_end_matches('/'))
                || mount.guest.trim_end_matches('/').is_empty()
                || ["/python", "/usr/share/zoneinfo", SHELF]
                    .iter()
                    .any(|own| Path::new(&mount.guest).starts_with(own));
            if !mount.guest.starts_with('/') || taken {
                return Err(PolicyError::MountPoint(mount.guest.clone()));
            }
        }
        Ok(GuestSpec {
            limits: Limits {
                wall: self.timeout,
                memory: self.memory,
                output: self.output,
                file_bytes: self.file_bytes,
                file_count: self.file_count,
                tool_calls: self.tool_calls,
                tool_time: self.tool_timeout,
                tool_bytes: self.tool_bytes,
                display_bytes: self.display_bytes,
                steps: self.steps,
                cpus: self.cpus,
                processes: self.processes,
                cpu_time: self.cpu_time,
                ..Limits::default()
            },
            mounts: self.mounts.iter().cloned().chain(self.local_datasets()).collect(),
            env: self.env.clone(),
            clock: self.clock,
            entropy: self.entropy,
            inject_setup: self.inject_setup,
            rollback: self.rollback,
            undo: if self.rollback == Rollback::Never { 0 } else { self.undo.min(MOST_UNDO) },
            require: self.require.clone(),
            spill: self.spill,
            install: self.install,
            workspace: self.workspace.path.clone(),
            ..GuestSpec::default()
        })
    }

    /// The host's own datasets, as a mount.
    fn local_datasets(&self) -> Option<Mount> {
        let host = self.datasets.directory.clone().filter(|_| self.datasets.access.is_local())?;
        let taken = self.mounts.iter().any(|mount| mount.guest.trim_end_matches('/') == LOCAL);
        (!taken).then(|| Mount { host, guest: LOCAL.to_owned(), access: MountAccess::ReadOnly })
    }

    /// What one engine can keep and the other can't. A limit that nobody enforces is refused.
    fn check_machine(&self, engine: EngineKind) -> Result<(), PolicyError> {
        let most = match engine {
            EngineKind::Wasm => 4 << 30,
            EngineKind::Native => 1 << 40,
        };
        if !(LEAST_MEMORY..=most).contains(&self.memory) {
            return Err(PolicyError::Memory { bytes: self.memory, engine });
        }
        if !(self.cpus > 0.0 && self.cpus <= MOST_CPUS) {
            return Err(PolicyError::Cpus(self.cpus));
        }
        if self.processes == 0 {
            return Err(PolicyError::Processes(0));
        }
        if engine == EngineKind::Native && self.steps.is_some() {
            return Err(PolicyError::Steps);
        }
        match self.cpu_time {
            Some(limit) if engine == EngineKind::Wasm || limit.is_zero() => {
                Err(PolicyError::CpuTime { limit, engine })
            }
            _ => Ok(()),
        }
    }
}

fn words(storage: StorageKind) -> &'static str {
    match storage {
        StorageKind::Memory => "in memory",
        StorageKind::Disk => "on disk",
    }
}

/// Refuses a time that is nothing, or longer than a clock can tell.
pub(crate) fn check_timeout(timeout: Option<Duration>) -> Result<(), PolicyError> {
    match timeout {
        Some(timeout) if timeout.is_zero() || timeout > LONGEST => Err(PolicyError::Timeout(timeout)),
        _ => Ok(()),
    }
}

/// Refuses environment variables that no process can have.
pub(crate) fn check_variables(env: &BTreeMap<String, String>) -> Result<(), PolicyError> {
    let wrong = |(name, value): &(&String, &String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    match env.iter().find(wrong) {
        Some((name, _)) => Err(PolicyError::Variable(name.clone())),
        None => Ok(()),
    }
}

/// Reads a size such as `256MiB`, `1.5GB` or `65536`.
pub fn parse_size(text: &str) -> Result<u64, PolicyError> {
    let wrong = || PolicyError::Size(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * factor as f64;
    if bytes.is_finite() && (0.0..1e18).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("256MiB"), Ok(256 << 20));
        assert_eq!(parse_size(" 1.5 GB "), Ok(1_500_000_000));
        assert_eq!(parse_size("64k"), Ok(65536));
        assert_eq!(parse_size("1TiB"), Ok(1 << 40));
        assert_eq!(parse_size("4096"), Ok(4096));
        for wrong in ["", "MiB", "1.2.3", "-5", "5XB", "1e99", "999999999999999GB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn impossible_policies_are_refused() {
        let none = Policy::default();
        assert!(Policy { timeout: Some(Duration::ZERO), ..none.clone() }.spec(EngineKind::Wasm).is_err());
        assert!(Policy { memory: 1 << 20, ..none.clone() }.spec(EngineKind::Wasm).is_err());
        assert!(Policy { memory: 5 << 30, ..none.clone() }.spec(EngineKind::Wasm).is_err());
        for guest in ["", "/", "data", "/python", "/python/"] {
            let mount = Mount {
                host: "/tmp".into(),
                guest: guest.to_owned(),
                access: belljar_engine::MountAccess::ReadOnly,
            };
            let policy = Policy { mounts: vec![mount], ..none.clone() };
            assert_eq!(policy.spec(EngineKind::Wasm), Err(PolicyError::MountPoint(guest.to_owned())));
        }
        let policy = Policy { env: [("A=B".to_owned(), String::new())].into(), ..none };
        assert!(policy.spec(EngineKind::Wasm).is_err());
    }

    #[test]
    fn engines_keep_different_promises() {
        let refused = |policy: &Policy, engine| policy.spec(engine).err();
        let native = Policy::for_engine(EngineKind::Native);
        assert_eq!((native.memory, native.file_bytes), (4 << 30, 1 << 30));
        assert_eq!(Policy::for_engine(EngineKind::Wasm), Policy::default());
        let large = Policy { memory: 64 << 30, ..Policy::default() };
        assert!(matches!(refused(&large, EngineKind::Wasm), Some(PolicyError::Memory { .. })));
        assert_eq!(refused(&large, EngineKind::Native), None);
        let steps = Policy { steps: Some(5), ..Policy::default() };
        assert_eq!(refused(&steps, EngineKind::Native), Some(PolicyError::Steps));
        assert!(PolicyError::Steps.hint().is_some_and(|hint| hint.contains("--cpu-time")));
        let time = Policy { cpu_time: Some(Duration::from_secs(1)), ..Policy::default() };
        assert_eq!(refused(&time, EngineKind::Native), None);
        let error = refused(&time, EngineKind::Wasm).expect("wasm has no such limit");
        assert!(error.hint().is_some_and(|hint| hint.contains("--engine native")), "{error}");
        for cpus in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let policy = Policy { cpus, ..Policy::default() };
            assert!(matches!(refused(&policy, EngineKind::Native), Some(PolicyError::Cpus(_))));
        }
        assert!(refused(&Policy { processes: 0, ..Policy::default() }, EngineKind::Native).is_some());
    }

    #[test]
    fn a_policy_of_an_earlier_version_can_be_read() {
        let mut recorded = serde_json::to_value(Policy::default()).expect("it is plain");
        let fields = recorded.as_object_mut().expect("an object");
        for new in [
            "cpus",
            "processes",
            "cpu_time",
            "require",
            "spill",
            "install",
            "workspace",
            "artifacts",
            "datasets",
        ] {
            assert!(fields.remove(new).is_some(), "{new}");
        }
        assert_eq!(serde_json::from_value::<Policy>(recorded).ok(), Some(Policy::default()));
    }
}
