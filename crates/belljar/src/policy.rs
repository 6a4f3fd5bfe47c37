//! What a session may use.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use belljar_engine::{Clock, Entropy, GuestSpec, Limits, Mount, Rollback};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a session may use. Everything that isn't allowed here is refused.
///
/// | | default |
/// |---|---|
/// | `timeout` | 30 s of wall time for a cell |
/// | `memory` | 256 MiB for the interpreter, everything included |
/// | `output` | 1 MiB kept of each output stream of a cell |
/// | `file_bytes`, `file_count` | 64 MiB and 100,000 files in the session's own tree |
/// | `tool_calls`, `tool_timeout`, `tool_bytes` | 100,000 calls in a cell, 30 s and 4 MiB for each |
/// | `display_bytes` | 32 MiB of displays in a cell |
/// | `steps` | not counted |
/// | `rollback` | after a hard stop |
/// | `undo` | the last 8 cells |
/// | `mounts` | none: no file of the host is seen |
/// | `env` | empty but for `HOME` and `PWD` |
/// | network | none; there is no way to allow it |
/// | `clock`, `entropy` | the host's |
/// | `inject_setup` | packages are on `sys.path` |
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
}

/// Where the clock of a repeatable run stands: 2020-01-01, a time at which certificates and the like make
/// sense.
const REPEATABLE_CLOCK: Clock = Clock::Fixed(1_577_836_800_000_000_000);
/// Each may hold 2 MiB.
const MOST_UNDO: usize = 64;

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
        }
    }
}

/// A policy that can't be kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The timeout is nothing, or longer than a clock can tell.
    #[error("a timeout of {0:?} makes no sense")]
    Timeout(Duration),
    /// The memory isn't enough for the interpreter, or more than it can use.
    #[error("the interpreter cannot run in {0} bytes of memory")]
    Memory(u64),
    /// The environment variable can't be set.
    #[error("an environment variable cannot be called {0:?}")]
    Variable(String),
    /// A mount isn't at an absolute path, or is at one that Belljar needs.
    #[error("nothing can be mounted at {0:?}")]
    MountPoint(String),
    /// Not a size.
    #[error("{0:?} is not a size")]
    Size(String),
}

impl PolicyError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Timeout(_) => "use more than 0 seconds, or no timeout at all".to_owned(),
            Self::Memory(_) => "use between 48 MiB and 4 GiB".to_owned(),
            Self::Variable(_) => "names have no '=' and no NUL, and are not empty".to_owned(),
            Self::MountPoint(_) => {
                "use an absolute path such as /data/input; /python, /usr and / are the interpreter's own"
                    .to_owned()
            }
            Self::Size(_) => {
                "write bytes, or a number with KiB, MiB, GiB, KB, MB or GB, e.g. 256MiB".to_owned()
            }
        })
    }
}

impl Policy {
    /// Makes runs repeatable: randomness from a seed, and a clock that starts at 2020-01-01 and never waits.
    pub fn repeat(&mut self, seed: u64) {
        (self.clock, self.entropy) = (REPEATABLE_CLOCK, Entropy::Seeded(seed));
    }

    /// Checks the policy and makes the engine's spec of it.
    pub(crate) fn spec(&self) -> Result<GuestSpec, PolicyError> {
        if let Some(timeout) = self.timeout
            && (timeout.is_zero() || timeout > Duration::from_secs(366 * 86_400))
        {
            return Err(PolicyError::Timeout(timeout));
        }
        if !(48 << 20..=4 << 30).contains(&self.memory) {
            return Err(PolicyError::Memory(self.memory));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(PolicyError::Variable(name.clone()));
            }
        }
        for mount in &self.mounts {
            let taken = ["/", "/python", "/usr"].contains(&mount.guest.trim_end_matches('/'))
                || mount.guest.trim_end_matches('/').is_empty()
                || ["/python", "/usr/share/zoneinfo"]
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
                ..Limits::default()
            },
            mounts: self.mounts.clone(),
            env: self.env.clone(),
            clock: self.clock,
            entropy: self.entropy,
            inject_setup: self.inject_setup,
            rollback: self.rollback,
            undo: if self.rollback == Rollback::Never { 0 } else { self.undo.min(MOST_UNDO) },
            ..GuestSpec::default()
        })
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
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
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
        assert_eq!(parse_size("4096"), Ok(4096));
        for wrong in ["", "MiB", "1.2.3", "-5", "5XB", "1e99", "999999999999999GB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn impossible_policies_are_refused() {
        let none = Policy::default();
        assert!(Policy { timeout: Some(Duration::ZERO), ..none.clone() }.spec().is_err());
        assert!(Policy { memory: 1 << 20, ..none.clone() }.spec().is_err());
        assert!(Policy { memory: 5 << 30, ..none.clone() }.spec().is_err());
        for guest in ["", "/", "data", "/python", "/python/"] {
            let mount = Mount {
                host: "/tmp".into(),
                guest: guest.to_owned(),
                access: belljar_engine::MountAccess::ReadOnly,
            };
            let policy = Policy { mounts: vec![mount], ..none.clone() };
            assert_eq!(policy.spec(), Err(PolicyError::MountPoint(guest.to_owned())));
        }
        let policy = Policy { env: [("A=B".to_owned(), String::new())].into(), ..none };
        assert!(policy.spec().is_err());
    }
}
