//! How a cell ended, for people and programs.

use std::fmt;
use std::time::Duration;

use belljar_engine::{CapturedStream, CellReport, MimeBundle, State};
pub use belljar_engine::{Status, TraceFrame};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::artifacts::{Artifact, DatasetUse, Refused};

/// The version of [`Outcome`]'s JSON. It grows when a field is removed or changes its meaning; new fields
/// don't raise it.
pub const OUTCOME_VERSION: u32 = 1;

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`OUTCOME_VERSION`].
    pub version: u32,
    /// How it ended.
    pub status: Status,
    /// Standard output. What was printed before an error is there.
    pub stdout: String,
    /// Standard error. Tracebacks aren't in it; they are in `exception`.
    pub stderr: String,
    /// What `stdout` lacks, if it was too long.
    pub stdout_cut: Option<Cut>,
    /// What `stderr` lacks, if it was too long.
    pub stderr_cut: Option<Cut>,
    /// The value of the last expression.
    pub value: Option<Value>,
    /// What was displayed.
    pub displays: Vec<Value>,
    /// The exception that ended it.
    pub exception: Option<Exception>,
    /// What was passed to `sys.exit`.
    pub exit_code: Option<i32>,
    /// In words, why it was stopped.
    pub reason: Option<String>,
    /// Guest paths of files that it made.
    pub files_created: Vec<String>,
    /// Guest paths of files that it changed.
    pub files_modified: Vec<String>,
    /// Guest paths of files that it removed.
    pub files_deleted: Vec<String>,
    /// There were more than these lists hold.
    pub files_truncated: bool,
    /// What it left under `artifacts/`, as far as it was kept.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// What it left there and wasn't kept; it is still in the workspace.
    #[serde(default)]
    pub artifacts_refused: Vec<Refused>,
    /// The datasets that it could read.
    #[serde(default)]
    pub datasets: Vec<DatasetUse>,
    /// What it used.
    pub usage: Usage,
    /// The session afterwards.
    pub session: SessionState,
    /// What else there is to know, in words: variables that could not be kept, say.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What is missing from an output stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Bytes that were written.
    pub total_bytes: u64,
    /// Bytes of these that are missing.
    pub cut_bytes: u64,
    /// Guest path of a file with the whole stream, as far as there was room.
    pub rest: Option<String>,
}

/// A value in several forms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// As text: Python's `repr`.
    pub text: String,
    /// By MIME type; binary forms are base64.
    pub data: MimeBundle,
}

/// A Python exception.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exception {
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

/// What a cell used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Milliseconds on the clock.
    pub wall_ms: f64,
    /// Milliseconds on the processor.
    pub cpu_ms: f64,
    /// Bytes of the interpreter's memory.
    pub memory_bytes: u64,
    /// Bytes of the session's own files.
    pub file_bytes: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Steps, where they are counted.
    pub steps: Option<u64>,
}

/// The session after a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionState {
    /// Its id.
    pub id: String,
    /// The number of the cell, from 1.
    pub cell: u32,
    /// What became of variables and files.
    pub state: State,
}

impl Outcome {
    pub(crate) fn new(report: CellReport, id: String, cell: u32) -> Self {
        let (stdout, stdout_cut) = stream(report.stdout);
        let (stderr, stderr_cut) = stream(report.stderr);
        Self {
            version: OUTCOME_VERSION,
            status: report.status,
            stdout,
            stderr,
            stdout_cut,
            stderr_cut,
            value: report.value.map(Value::from),
            displays: report.displays.into_iter().map(Value::from).collect(),
            exception: report.exception.map(|raised| Exception {
                kind: raised.kind,
                message: raised.message,
                traceback: raised.traceback,
                frames: raised.frames,
            }),
            exit_code: report.exit_code,
            reason: report.reason,
            files_created: report.changes.created,
            files_modified: report.changes.modified,
            files_deleted: report.changes.deleted,
            files_truncated: report.changes.truncated,
            artifacts: Vec::new(),
            artifacts_refused: Vec::new(),
            datasets: Vec::new(),
            usage: Usage::from(report.usage),
            session: SessionState { id, cell, state: report.state },
            notes: report.notes,
        }
    }

    /// Whether the cell ran to its end, or left with `sys.exit(0)`.
    pub fn is_success(&self) -> bool {
        match self.status {
            Status::Ok => true,
            Status::Exited => self.exit_code.unwrap_or(0) == 0,
            _ => false,
        }
    }

    /// The status that a command which ran this cell exits with: 0 ok, 1 an exception, 124 timeout, 130
    /// interrupted, 137 out of memory, disk full or killed, n for `sys.exit(n)`.
    pub fn exit_status(&self) -> u8 {
        match self.status {
            Status::Ok => 0,
            Status::Error => 1,
            Status::Timeout => 124,
            Status::Interrupted => 130,
            Status::DiskFull if self.exception.is_some() => 1,
            Status::OutOfMemory | Status::Killed | Status::DiskFull => 137,
            Status::Exited => (self.exit_code.unwrap_or(0) & 0xff) as u8,
        }
    }
}

/// Standard output, as `print` of the outcome in any language should show.
impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.stdout)
    }
}

impl From<MimeBundle> for Value {
    fn from(data: MimeBundle) -> Self {
        Self { text: data.text().to_owned(), data }
    }
}

impl From<belljar_engine::Usage> for Usage {
    fn from(usage: belljar_engine::Usage) -> Self {
        Self {
            wall_ms: milliseconds(usage.wall),
            cpu_ms: milliseconds(usage.cpu),
            memory_bytes: usage.memory,
            file_bytes: usage.file_bytes,
            tool_calls: usage.tool_calls,
            steps: usage.steps,
        }
    }
}

pub(crate) fn stream(captured: CapturedStream) -> (String, Option<Cut>) {
    let CapturedStream { text, total_bytes, cut_bytes, rest } = captured;
    (text, (cut_bytes > 0).then_some(Cut { total_bytes, cut_bytes, rest }))
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// The JSON schema of [`Outcome`], for those who read it from another language.
pub fn outcome_schema() -> serde_json::Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Outcome",
        "description": "How a cell ended. Readers ignore fields they do not know.",
        "type": "object",
        "required": ["version", "status", "stdout", "stderr", "value", "displays", "exception", "exit_code",
                     "reason", "files_created", "files_modified", "files_deleted", "usage", "session"],
        "properties": {
            "version": { "const": OUTCOME_VERSION },
            "status": { "enum": ["ok", "error", "timeout", "out_of_memory", "interrupted", "exited", "killed", "disk_full"] },
            "stdout": text(),
            "stderr": text(),
            "stdout_cut": nullable(json!({ "$ref": "#/$defs/cut" })),
            "stderr_cut": nullable(json!({ "$ref": "#/$defs/cut" })),
            "value": nullable(json!({ "$ref": "#/$defs/value" })),
            "displays": { "type": "array", "items": { "$ref": "#/$defs/value" } },
            "exception": nullable(json!({ "$ref": "#/$defs/exception" })),
            "exit_code": nullable(json!({ "type": "integer" })),
            "reason": nullable(text()),
            "files_created": texts(),
            "files_modified": texts(),
            "files_deleted": texts(),
            "files_truncated": { "type": "boolean" },
            "artifacts": { "type": "array", "items": { "$ref": "#/$defs/artifact" } },
            "artifacts_refused": { "type": "array", "items": { "$ref": "#/$defs/refused" } },
            "datasets": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "version", "sha256"],
                    "properties": { "name": text(), "version": text(), "sha256": text() },
                },
            },
            "usage": usage(),
            "session": {
                "type": "object",
                "required": ["id", "cell", "state"],
                "properties": {
                    "id": text(),
                    "cell": count(),
                    "state": { "enum": ["kept", "rolled_back", "lost"] },
                },
            },
            "notes": texts(),
        },
        "$defs": {
            "cut": cut(),
            "artifact": artifact(),
            "refused": refused(),
            "value": {
                "type": "object",
                "required": ["text", "data"],
                "properties": { "text": text(), "data": { "type": "object" } },
            },
            "exception": {
                "type": "object",
                "required": ["type", "message", "traceback", "frames"],
                "properties": {
                    "type": text(),
                    "message": text(),
                    "traceback": text(),
                    "frames": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["file", "line", "function", "source"],
                            "properties": { "file": text(), "line": count(), "function": text(), "source": text() },
                        },
                    },
                },
            },
        },
    })
}

/// The JSON schema of [`CommandOutcome`](crate::CommandOutcome).
pub fn command_outcome_schema() -> serde_json::Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "CommandOutcome",
        "description": "How a shell command ended. Readers ignore fields they do not know.",
        "type": "object",
        "required": ["version", "status", "exit_code", "reason", "stdout", "stderr", "files_created",
                     "files_modified", "files_deleted", "usage", "session", "notes"],
        "properties": {
            "version": { "const": OUTCOME_VERSION },
            "status": { "enum": ["ok", "error", "timeout", "out_of_memory", "interrupted", "exited", "killed", "disk_full"] },
            "exit_code": nullable(json!({ "type": "integer" })),
            "reason": nullable(text()),
            "stdout": text(),
            "stderr": text(),
            "stdout_cut": nullable(json!({ "$ref": "#/$defs/cut" })),
            "stderr_cut": nullable(json!({ "$ref": "#/$defs/cut" })),
            "files_created": texts(),
            "files_modified": texts(),
            "files_deleted": texts(),
            "files_truncated": { "type": "boolean" },
            "artifacts": { "type": "array", "items": { "$ref": "#/$defs/artifact" } },
            "artifacts_refused": { "type": "array", "items": { "$ref": "#/$defs/refused" } },
            "usage": usage(),
            "session": text(),
            "notes": texts(),
        },
        "$defs": { "cut": cut(), "artifact": artifact(), "refused": refused() },
    })
}

fn text() -> serde_json::Value {
    json!({ "type": "string" })
}

fn texts() -> serde_json::Value {
    json!({ "type": "array", "items": text() })
}

fn count() -> serde_json::Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn nullable(schema: serde_json::Value) -> serde_json::Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn cut() -> serde_json::Value {
    json!({
        "type": "object",
        "required": ["total_bytes", "cut_bytes", "rest"],
        "properties": { "total_bytes": count(), "cut_bytes": count(), "rest": nullable(text()) },
    })
}

fn artifact() -> serde_json::Value {
    json!({
        "type": "object",
        "required": ["id", "name", "size", "mime", "sha256", "created_at", "url", "session", "cell"],
        "properties": {
            "id": text(),
            "name": text(),
            "size": count(),
            "mime": text(),
            "sha256": text(),
            "created_at": text(),
            "url": nullable(text()),
            "session": text(),
            "cell": count(),
            "tool_call": nullable(text()),
            "parents": texts(),
            "pinned": { "type": "boolean" },
            "taken_back": { "type": "boolean" },
        },
    })
}

fn refused() -> serde_json::Value {
    json!({
        "type": "object",
        "required": ["name", "size", "why", "reason"],
        "properties": {
            "name": text(),
            "size": count(),
            "why": { "enum": ["too_large", "too_many", "mime", "hook", "session_quota", "tenant_quota", "store_quota",
                              "not_a_file", "name", "failed"] },
            "reason": text(),
        },
    })
}

fn usage() -> serde_json::Value {
    json!({
        "type": "object",
        "required": ["wall_ms", "cpu_ms", "memory_bytes", "file_bytes", "tool_calls", "steps"],
        "properties": {
            "wall_ms": { "type": "number", "minimum": 0 },
            "cpu_ms": { "type": "number", "minimum": 0 },
            "memory_bytes": count(),
            "file_bytes": count(),
            "tool_calls": count(),
            "steps": nullable(count()),
        },
    })
}
