//! Where artifacts come from: cells, each of which names the one before it by its hash.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Artifact;
use crate::hash;

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

impl Origin {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> RecordId {
        hash::of(canonical(self).as_bytes())
    }
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

impl CellRecord {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> RecordId {
        hash::of(canonical(self).as_bytes())
    }
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
    /// What its file is called in `data/`.
    #[serde(default)]
    pub file: String,
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

/// JSON that is the same wherever it is written: without spaces, the members of each object in the order of their
/// names.
pub(crate) fn canonical(record: &impl Serialize) -> String {
    let mut text = String::new();
    // Records have names for members and no numbers that JSON can't hold, so that this can't fail.
    write(&serde_json::to_value(record).unwrap_or_default(), &mut text);
    text
}

/// Other crates may have told `serde_json` to keep members in the order in which they came.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (place, (name, value)) in members.into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write(&Value::String(name.clone()), text);
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for (place, value) in values.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write(value, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_named_by_all_that_is_in_it() {
        let record = CellRecord { code: "print('\0 \u{1f980}')".into(), number: 3, ..CellRecord::default() };
        let same: CellRecord = serde_json::from_str(&canonical(&record)).unwrap();
        assert_eq!((&same, same.id()), (&record, record.id()));
        assert_eq!(record.id().len(), 64);
        let others = [
            CellRecord { previous: Some(record.id()), ..record.clone() },
            CellRecord { number: 4, ..record.clone() },
            CellRecord { redacted: true, ..record.clone() },
        ];
        for other in others {
            assert_ne!(other.id(), record.id());
        }
    }

    #[test]
    fn names_do_not_depend_on_the_order_of_members() {
        let value: Value = serde_json::from_str(r#"{"b": [1, {"y": null, "x": "\n"}], "a": 1.5}"#).unwrap();
        assert_eq!(canonical(&value), r#"{"a":1.5,"b":[1,{"x":"\n","y":null}]}"#);
        // What was written once must have this name for ever.
        assert_eq!(hash::of(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
