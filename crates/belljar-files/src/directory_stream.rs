use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::FileType;
use crate::tree::Entry;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// The name, without its path.
    pub name: String,
    /// What it leads to, symbolic links not followed.
    pub file_type: FileType,
}

/// The names of a directory as they were when it was read, sorted, without `.` and `..`.
///
/// A value of its own: it can be kept, cloned and serialised. Of an in-memory directory it shares the
/// names with the tree; of a mounted one it holds them, and names that aren't UTF-8 are left out,
/// since the guest couldn't say them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirectoryStream(Names);

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Names {
    Shared {
        #[serde(deserialize_with = "crate::cautious::map")]
        entries: OrdMap<Arc<str>, Entry>,
        after: Option<Arc<str>>,
    },
    Held {
        entries: Arc<[DirectoryEntry]>,
        next: usize,
    },
}

impl DirectoryStream {
    pub(crate) fn shared(entries: OrdMap<Arc<str>, Entry>) -> Self {
        Self(Names::Shared { entries, after: None })
    }

    pub(crate) fn held(mut entries: Vec<DirectoryEntry>) -> Self {
        entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        Self(Names::Held { entries: entries.into(), next: 0 })
    }
}

impl Iterator for DirectoryStream {
    type Item = DirectoryEntry;

    fn next(&mut self) -> Option<DirectoryEntry> {
        match &mut self.0 {
            Names::Shared { entries, after } => {
                let start = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let (name, entry) = entries.range::<_, str>((start, Bound::Unbounded)).next()?;
                let found = DirectoryEntry { name: name.to_string(), file_type: entry.file_type };
                *after = Some(name.clone());
                Some(found)
            }
            Names::Held { entries, next } => {
                let entry = entries.get(*next)?.clone();
                *next += 1;
                Some(entry)
            }
        }
    }
}
