//! Commands that run beside the interpreter, where an engine has processes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{CapturedStream, Changes, Status, Usage};

/// A shell command to run in a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// What `bash -lc` is given.
    pub line: String,
    /// Environment variables, beyond the guest's.
    pub env: BTreeMap<String, String>,
    /// Where it runs; by default the workspace.
    pub directory: Option<String>,
    /// What it reads from standard input.
    pub stdin: Vec<u8>,
    /// How long it may take; by default as long as a cell.
    pub timeout: Option<Duration>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandReport {
    /// In what way: `Ok` for an exit status of 0, `Error` for another.
    pub status: Status,
    /// Its exit status; 128 and the signal's number if a signal ended it, as in a shell.
    pub exit_code: Option<i32>,
    /// In words, why it was stopped.
    pub reason: Option<String>,
    /// Standard output.
    pub stdout: CapturedStream,
    /// Standard error.
    pub stderr: CapturedStream,
    /// Files that it changed.
    pub changes: Changes,
    /// What it used.
    pub usage: Usage,
    /// What else the user should know.
    pub notes: Vec<String>,
}

/// A command that runs in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Its number in the session.
    pub id: u32,
    /// What `bash -lc` was given.
    pub line: String,
    /// Its exit status; `None` while it runs.
    pub exit_code: Option<i32>,
    /// Bytes that it wrote to standard output.
    pub stdout_bytes: u64,
    /// Bytes that it wrote to standard error.
    pub stderr_bytes: u64,
}

/// What a background command wrote since it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessOutput {
    /// To standard output.
    pub stdout: Vec<u8>,
    /// To standard error.
    pub stderr: Vec<u8>,
    /// Bytes of both that are lost, because nobody asked in time.
    pub lost_bytes: u64,
}
