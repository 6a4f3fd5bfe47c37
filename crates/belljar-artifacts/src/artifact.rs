//! What is told of an artifact.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names an artifact: `art_` and 26 characters of `0-9a-z`, the first ten of which are the time. Later ones sort
/// later.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArtifactId(pub(crate) String);

impl ArtifactId {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A file that came out of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its id.
    pub id: ArtifactId,
    /// Its path below `artifacts/`, or a made-up name for what was displayed.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What its first bytes say that it is; where they say nothing, what its name says.
    pub mime: String,
    /// Of its contents, in 64 hexadecimal digits.
    pub sha256: String,
    /// When it was kept, as RFC 3339 in UTC with milliseconds.
    pub created_at: String,
    /// A signed link, if there are keys to sign with.
    #[serde(default)]
    pub url: Option<String>,
    /// The session.
    pub session: String,
    /// The number of its cell.
    pub cell: u32,
    /// What the agent's framework calls the tool call that ran the cell.
    #[serde(default)]
    pub tool_call: Option<String>,
    /// Artifacts that the cell had read.
    #[serde(default)]
    pub parents: Vec<ArtifactId>,
    /// Kept until it is removed by name.
    #[serde(default)]
    pub pinned: bool,
    /// Its cell was taken back later.
    #[serde(default)]
    pub taken_back: bool,
}

/// A file that wasn't kept. It is still in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Its path below `artifacts/`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What kind of reason there is.
    pub why: Refusal,
    /// The reason in words.
    pub reason: String,
}

/// Why a file wasn't kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// It is larger than one may be.
    TooLarge,
    /// There are more of one cell than there may be.
    TooMany,
    /// Files of its kind don't leave.
    Mime,
    /// The host's hook said no.
    Hook,
    /// The session has no room for it.
    SessionQuota,
    /// The tenant has no room for it.
    TenantQuota,
    /// The store has no room for it.
    StoreQuota,
    /// It isn't a file: a link, a pipe.
    NotAFile,
    /// It can't be called that.
    Name,
    /// It could not be read, or not be written.
    Failed,
}
