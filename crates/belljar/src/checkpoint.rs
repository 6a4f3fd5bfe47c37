//! A session at one moment, to go back to or to fork from.

use std::fmt;
use std::sync::Arc;

use belljar_engine::Snapshot;
use belljar_files::Moment;
use belljar_store::CheckpointRecord;
use serde::{Deserialize, Serialize};

/// What is known of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its number in the session, from 1.
    pub number: u32,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// The number of the last cell before it; 0 if there was none.
    pub cell: u32,
    /// The beginning of that cell's code.
    pub code: Option<String>,
    /// Bytes of memory and files that it keeps, whether or not others share them.
    pub bytes: u64,
}

/// Names a checkpoint of a session: by number, by name, or the latest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// The one that was made last.
    #[default]
    Latest,
    /// By number.
    Number(u32),
    /// By name.
    Name(String),
}

impl fmt::Display for Which {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => formatter.write_str("latest"),
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Name(name) => formatter.write_str(name),
        }
    }
}

impl From<u32> for Which {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}

/// Digits are a number, `latest` is the latest, all else is a name.
impl From<&str> for Which {
    fn from(text: &str) -> Self {
        if text == "latest" {
            return Self::Latest;
        }
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Number)
    }
}

impl From<&Checkpoint> for Which {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self::Number(checkpoint.number)
    }
}

impl Which {
    /// The one that it names.
    pub(crate) fn find<'a>(
        &self,
        mut all: impl DoubleEndedIterator<Item = &'a Checkpoint>,
    ) -> Option<&'a Checkpoint> {
        match self {
            Self::Latest => all.next_back(),
            Self::Number(number) => all.find(|checkpoint| checkpoint.number == *number),
            Self::Name(name) => all.find(|checkpoint| checkpoint.name.as_deref() == Some(name)),
        }
    }
}

/// A checkpoint of a session that isn't registered: it lives as long as the session.
pub(crate) struct HeldCheckpoint {
    pub(crate) about: Checkpoint,
    pub(crate) snapshot: Arc<dyn Snapshot>,
    /// The files, if they are on disk.
    pub(crate) files: Option<Moment>,
}

impl From<&CheckpointRecord> for Checkpoint {
    fn from(record: &CheckpointRecord) -> Self {
        Self {
            number: record.number,
            name: record.name.clone(),
            created_ms: record.created,
            cell: record.cell,
            code: record.code_excerpt.clone(),
            bytes: record.bytes,
        }
    }
}
