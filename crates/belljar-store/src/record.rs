//! What is known about a session: `session.json`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::{At, Result, StoreError};
use crate::hash::Hash;
use crate::pack::Writer;
use crate::session_id::{SessionId, Tenant};

pub(crate) const FILE: &str = "session.json";
const VERSION: u32 = 1;
const LONGEST: u64 = 64 << 20;
const OPENING: &str = "{\"format\": \"belljar session\", \"version\": ";
const CHECKSUM: &str = ", \"checksum\": \"";
const SESSION: &str = "\",\n\"session\": ";
const CLOSING: &str = "\n}\n";

/// A session, as the registry knows it. Times are in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionRecord {
    /// Its name.
    pub id: SessionId,
    /// Whose it is.
    pub tenant: Tenant,
    /// When it was made.
    pub created: u64,
    /// When it was last used. It never goes back, even if the clock does.
    pub last_used: u64,
    /// What it was made from.
    pub environment: String,
    /// What it may use; the store doesn't look inside.
    pub policy: serde_json::Value,
    /// What it was forked from.
    pub parent: Option<Parent>,
    /// Whatever its owner wants to remember.
    pub labels: BTreeMap<String, String>,
    /// How many cells it has run.
    pub cells: u32,
    /// How much memory differs from its environment's.
    pub memory_bytes: u64,
    /// How much its files have.
    pub file_bytes: u64,
    /// How much all that it saved has on disk, before compression; what it shares with forks is counted in each.
    pub stored_bytes: u64,
    /// Its checkpoints, by number.
    pub checkpoints: Vec<CheckpointRecord>,
    /// The token of the last owner that wrote this.
    pub token: u64,
    /// The number of the next checkpoint; numbers aren't used again.
    pub(crate) next_checkpoint: u32,
    /// The point that the session goes on from.
    pub(crate) head: Option<Hash>,
    #[serde(with = "writer")]
    pub(crate) writer: Writer,
    /// How much it left in packs that others may need too, since garbage was last collected.
    pub(crate) garbage: u64,
}

/// What a session was forked from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The session.
    pub session: SessionId,
    /// The checkpoint, unless it was the state at the time.
    pub checkpoint: Option<u32>,
    /// How many cells the parent had run.
    pub cell: u32,
}

/// A checkpoint of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckpointRecord {
    /// Its number; the first is 1.
    pub number: u32,
    /// Its name, if it was given one; unique in the session.
    pub name: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
    /// The number of the cell that led to it.
    pub cell: u32,
    /// The beginning of that cell's code.
    pub code_excerpt: Option<String>,
    /// How many bytes of memory and files it leads to.
    pub bytes: u64,
    /// How large the session was.
    pub facts: Facts,
    /// What its owner knows the files by that are kept elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    pub(crate) point: Hash,
}

/// What its owner says about a state of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// How many cells it has run.
    pub cells: u32,
    /// How much memory differs from its environment's.
    pub memory_bytes: u64,
    /// How much its files have.
    pub file_bytes: u64,
}

impl SessionRecord {
    /// Whether there is a state to go on from.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// The checkpoint with this number.
    #[must_use]
    pub fn checkpoint(&self, number: u32) -> Option<&CheckpointRecord> {
        self.checkpoints.iter().find(|checkpoint| checkpoint.number == number)
    }

    pub(crate) fn points(&self) -> impl Iterator<Item = Hash> {
        self.head.into_iter().chain(self.checkpoints.iter().map(|checkpoint| checkpoint.point))
    }

    pub(crate) fn set_facts(&mut self, facts: Facts) {
        self.cells = facts.cells;
        self.memory_bytes = facts.memory_bytes;
        self.file_bytes = facts.file_bytes;
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts { cells: self.cells, memory_bytes: self.memory_bytes, file_bytes: self.file_bytes }
    }

    /// Now, or later if the clock went back.
    pub(crate) fn touch(&mut self) {
        self.last_used = self.last_used.max(clock::now_ms());
    }

    /// A JSON object, whose checksum is that of everything behind the first line.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let record = serde_json::to_string_pretty(self).expect("records have nothing that JSON can't say");
        let rest = format!("{}{record}{CLOSING}", &SESSION[3..]);
        format!("{OPENING}{VERSION}{CHECKSUM}{}{}{rest}", Hash::of(rest.as_bytes()), &SESSION[..3])
            .into_bytes()
    }

    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let damaged = |reason: &str| StoreError::damaged(path, reason);
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it isn't text"))?;
        let rest = text.strip_prefix(OPENING).ok_or_else(|| damaged("it isn't the record of a session"))?;
        let (version, rest) =
            rest.split_once(CHECKSUM).ok_or_else(|| damaged("it isn't the record of a session"))?;
        match version.parse::<u32>() {
            Ok(VERSION) => {}
            Ok(version) if version > VERSION => {
                return Err(StoreError::Future { path: path.to_owned(), version });
            }
            _ => return Err(damaged("its version makes no sense")),
        }
        let (checksum, rest) =
            rest.split_once(&SESSION[..3]).ok_or_else(|| damaged("it isn't the record of a session"))?;
        if Hash::parse(checksum) != Some(Hash::of(rest.as_bytes())) {
            return Err(damaged("its checksum is wrong"));
        }
        let record = rest
            .strip_prefix(&SESSION[3..])
            .and_then(|rest| rest.strip_suffix(CLOSING))
            .ok_or_else(|| damaged("it isn't the record of a session"))?;
        serde_json::from_str(record).map_err(|error| damaged(&format!("it makes no sense: {error}")))
    }

    /// Reads the record of a session from its directory.
    pub(crate) fn read(session: &Path, id: &SessionId, tenant: &Tenant) -> Result<Self> {
        let path = session.join(FILE);
        let bytes = match read_bounded(&path, LONGEST) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(if session.is_dir() {
                    StoreError::damaged(&path, "it isn't there")
                } else {
                    StoreError::NotFound { session: id.clone(), path: session.to_owned() }
                });
            }
            result => result?,
        };
        let record = Self::decode(&bytes, &path)?;
        if record.id != *id || record.tenant != *tenant {
            let reason = format!("it belongs to session {} of tenant {}", record.id, record.tenant);
            return Err(StoreError::damaged(&path, reason));
        }
        Ok(record)
    }
}

/// Reads a file that has no business being longer than this.
pub(crate) fn read_bounded(path: &Path, longest: u64) -> Result<Vec<u8>> {
    use io::Read;
    let mut bytes = Vec::with_capacity(4096);
    let file = fs::File::open(path).at("open", path)?;
    file.take(longest + 1).read_to_end(&mut bytes).at("read", path)?;
    if bytes.len() as u64 > longest {
        return Err(StoreError::damaged(path, "it is longer than such a file can be"));
    }
    Ok(bytes)
}

/// A writer is 32 hexadecimal digits.
mod writer {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(writer: &[u8; 16], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", u128::from_le_bytes(*writer)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 16], D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u128::from_str_radix(&text, 16).map_err(serde::de::Error::custom)?;
        Ok(number.to_le_bytes())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let mut record = crate::NewSession::default().into_record(&Tenant::local());
        record.touch();
        assert!(record.last_used >= record.created);
        // As if the clock had been a century ahead when it was last used.
        let ahead = clock::now_ms() + 100 * 365 * 24 * 3600 * 1000;
        record.last_used = ahead;
        record.touch();
        assert_eq!(record.last_used, ahead);
        let again = SessionRecord::decode(&record.encode(), Path::new("session.json")).unwrap();
        assert_eq!(again, record);
    }
}
