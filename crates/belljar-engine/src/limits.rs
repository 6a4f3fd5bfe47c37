//! What a guest may use.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits an engine enforces on one guest. A session's policy is turned into these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall time of one cell. At its end the interpreter is interrupted.
    pub wall: Option<Duration>,
    /// How long an interrupted cell may take to give way before it is stopped hard.
    pub grace: Duration,
    /// Memory of the interpreter, everything included.
    pub memory: u64,
    /// Bytes kept of each output stream of one cell.
    pub output: u64,
    /// Bytes of files the guest may hold in its own tree.
    pub file_bytes: u64,
    /// Files and directories the guest may hold in its own tree.
    pub file_count: u64,
    /// Tool calls in one cell.
    pub tool_calls: u64,
    /// Wall time of one tool call.
    pub tool_time: Duration,
    /// Bytes of one tool call's arguments, and of its result.
    pub tool_bytes: u64,
    /// Bytes of all displays of one cell.
    pub display_bytes: u64,
    /// A deterministic bound on the work of one cell, in engine steps, where the engine has them.
    pub steps: Option<u64>,
    /// Processors that the guest may keep busy, where the engine has threads.
    pub cpus: f64,
    /// Processes and threads at once, where the engine has them.
    pub processes: u64,
    /// Processor time of one cell, all its threads together.
    pub cpu_time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Some(Duration::from_secs(30)),
            grace: Duration::from_millis(20),
            memory: 256 << 20,
            output: 1 << 20,
            file_bytes: 64 << 20,
            file_count: 100_000,
            tool_calls: 100_000,
            tool_time: Duration::from_secs(30),
            tool_bytes: 4 << 20,
            display_bytes: 32 << 20,
            steps: None,
            cpus: 1.0,
            processes: 256,
            cpu_time: None,
        }
    }
}
