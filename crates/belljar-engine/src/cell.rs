//! One run of code, and how it ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{CapturedStream, MimeBundle};

/// Code to run in a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Its number in the session, from 1.
    pub number: u32,
    /// The file name that tracebacks show; `<cell N>` where there is none.
    pub file: Option<String>,
    /// The source. Any bytes: what isn't Python is a `SyntaxError`.
    pub code: Vec<u8>,
}

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It ran to its end.
    Ok,
    /// It raised an exception.
    Error,
    /// It ran out of time or steps.
    Timeout,
    /// It ran out of memory.
    OutOfMemory,
    /// It was interrupted from outside.
    Interrupted,
    /// It called `sys.exit` or the like.
    Exited,
    /// It broke the interpreter and was stopped.
    Killed,
    /// It filled its workspace: it was stopped, or it failed because nothing more could be written.
    DiskFull,
}

/// What became of the session's variables and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// They are as the cell left them.
    Kept,
    /// They are as they were before the cell. Read-write mounts are not taken back.
    RolledBack,
    /// They are gone: the next cell runs in a fresh interpreter.
    Lost,
}

/// What the engine tells of a cell at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellReport {
    /// How it ended.
    pub status: Status,
    /// The value of its last expression.
    pub value: Option<MimeBundle>,
    /// The exception that ended it.
    pub exception: Option<ExceptionReport>,
    /// What it passed to `sys.exit`.
    pub exit_code: Option<i32>,
    /// In words, why the engine stopped it.
    pub reason: Option<String>,
    /// Standard output.
    pub stdout: CapturedStream,
    /// Standard error.
    pub stderr: CapturedStream,
    /// What it displayed.
    pub displays: Vec<MimeBundle>,
    /// Files that it changed.
    pub changes: Changes,
    /// What it used.
    pub usage: Usage,
    /// What became of the variables and files.
    pub state: State,
    /// What else the user should know, in words: variables that could not be kept, say.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A Python exception.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExceptionReport {
    /// Its type, e.g. `ValueError`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its message.
    pub message: String,
    /// The traceback as Python prints it, the user's own lines only.
    pub traceback: String,
    /// The same lines as data, outermost first.
    pub frames: Vec<TraceFrame>,
}

/// One line of a traceback.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceFrame {
    /// The file, e.g. `<cell 3>`.
    pub file: String,
    /// The line in it.
    pub line: u32,
    /// The function it is in.
    pub function: String,
    /// The source of the line.
    #[serde(default)]
    pub source: String,
}

/// Files that a cell changed, by guest path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Made by it.
    pub created: Vec<String>,
    /// There before, and changed.
    pub modified: Vec<String>,
    /// Gone.
    pub deleted: Vec<String>,
    /// There were more than are listed.
    pub truncated: bool,
}

/// What a cell used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Time on the clock.
    pub wall: Duration,
    /// Time on the processor.
    pub cpu: Duration,
    /// Size of the interpreter's memory at the end, in bytes. It only grows.
    pub memory: u64,
    /// Bytes of the guest's own files.
    pub file_bytes: u64,
    /// Engine steps, where they are counted.
    pub steps: Option<u64>,
    /// Tool calls.
    pub tool_calls: u64,
}

/// What a cell tells while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Written to standard output.
    Stdout(Vec<u8>),
    /// Written to standard error.
    Stderr(Vec<u8>),
    /// Displayed.
    Display(MimeBundle),
}
