//! What a bucket can't say of its objects, kept in one more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::names::{OURS, fault};

/// Its name, below the prefix.
pub(crate) const NAME: &str = ".belljar-sync.json";
/// Bytes that it may have.
pub(crate) const LARGEST: u64 = 256 << 20;
const VERSION: u32 = 1;

/// What is known of a prefix. It isn't believed where the listing says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    version: u32,
    pub(crate) entries: BTreeMap<String, Entry>,
}

/// What is known of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    pub(crate) size: u64,
    pub(crate) modified_ns: i64,
    pub(crate) executable: bool,
    /// Of the contents, in hexadecimal; of a link, of where it leads.
    pub(crate) blake3: String,
    /// Of the object that this was said of.
    pub(crate) etag: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EntryKind {
    File,
    /// An object whose contents are where it leads.
    Link,
    /// There is no object.
    Directory,
}

impl Default for Manifest {
    fn default() -> Self {
        Self { version: VERSION, entries: BTreeMap::new() }
    }
}

impl Manifest {
    pub(crate) fn of(entries: BTreeMap<String, Entry>) -> Self {
        Self { version: VERSION, entries }
    }

    /// Reads it; what makes no sense is left out.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut manifest: Self = serde_json::from_slice(bytes).ok()?;
        if manifest.version != VERSION {
            return None;
        }
        manifest.entries.retain(|path, _| fault(path).is_none() && !path.starts_with(OURS));
        Some(manifest)
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_left_out() {
        let mut manifest = Manifest::default();
        let entry = Entry {
            kind: EntryKind::File,
            size: 1,
            modified_ns: -1,
            executable: true,
            blake3: "x".into(),
            etag: "y".into(),
        };
        for path in ["a/b", "../x", "/etc/passwd", ".belljar-sync.json"] {
            manifest.entries.insert(path.to_owned(), entry.clone());
        }
        let read = Manifest::read(&manifest.write()).expect("it was written here");
        assert_eq!(read.entries.keys().collect::<Vec<_>>(), ["a/b"]);
        assert_eq!(read.entries["a/b"], entry);
        for bytes in [&b""[..], b"{}", b"[]", br#"{"version":2,"entries":{}}"#, b"\xff"] {
            assert_eq!(Manifest::read(bytes), None);
        }
    }
}
