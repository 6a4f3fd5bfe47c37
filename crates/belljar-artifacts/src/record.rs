//! Where artifacts come from: cells, each of which names the one before it by its hash.

use serde::{Deserialize, Serialize};

use crate::Artifact;

/// Names a record by what is in it: SHA-256 of its JSON, in 64 hexadecimal digits.
pub type RecordId = String;

/// What a session was made from. Values of environment variables and secrets aren't in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The engine's name.
    pub engine: String,
    /// The environment's hash.
    pub environment: String,
    /// The environment's lock file, if it has packages.
    #[serde(default)]
    pub lock: Option<String>,
    /// What the session was allowed, as JSON of its policy.
    pub policy: serde_json::Value,
    /// Where its randomness comes from, if that can be repeated.
    #[serde(default)]
    pub seed: Option<u64>,
    /// It began with files that nobody recorded: in a directory that was there before, say.
    #[serde(default)]
    pub foreign_files: bool,
}

/// What happened in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// A cell of Python.
    #[default]
    Cell,
    /// A shell command.
    Command,
    /// The host wrote, moved or removed a file; `code` names it.
    HostFile,
}

/// One thing that happened in a session, and what was before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// [`RecordId`] of what was before it in effect: cells that were taken back aren't in the chain. Of a session's
    /// first, nothing; of a fork's first, what was last in its parent.
    pub previous: Option<RecordId>,
    /// [`RecordId`] of the session's [`Origin`].
    pub origin: RecordId,
    /// The session.
    pub session: String,
    /// What it was.
    #[serde(default)]
    pub kind: RecordKind,
    /// The number of the cell.
    pub number: u32,
    /// The code. Secrets are redacted.
    pub code: String,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How it ended: `ok`, `error`, …
    pub status: String,
    /// The datasets that the session could read.
    #[serde(default)]
    pub datasets: Vec<DatasetUse>,
    /// Tools that were called; what they answered isn't recorded.
    #[serde(default)]
    pub tool_calls: u64,
    /// Something of the code was redacted, so that it can't be run again as it is.
    #[serde(default)]
    pub redacted: bool,
}

/// A dataset that a cell could read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetUse {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Of its contents.
    pub sha256: String,
}

/// All that is known of where an artifact comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The artifact.
    pub artifact: Artifact,
    /// What the session was made from.
    pub origin: Origin,
    /// The cells in effect, the oldest first; the last one made it.
    pub cells: Vec<CellRecord>,
    /// What is missing of that, in words.
    pub missing: Vec<String>,
}
