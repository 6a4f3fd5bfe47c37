//! How much is there.

use belljar_engine::{FileDoor, FileError, FileKind};
use serde::{Deserialize, Serialize};

use super::{Step, stat_link, walk};

/// What a tree has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUsage {
    /// Bytes of files, as long as they say they are: holes count.
    pub bytes: u64,
    /// Files, links and special files.
    pub files: u64,
    /// Directories, the first included.
    pub directories: u64,
    /// Whether that is all; there may be more than can be counted, or be looked into.
    pub complete: bool,
}

/// Counts what a path has, of at most this many entries. What is mounted there isn't counted.
pub fn usage(door: &dyn FileDoor, path: &str, most_entries: u64) -> Result<DiskUsage, FileError> {
    let first = stat_link(door, path)?;
    if first.kind != FileKind::Directory {
        let bytes = if first.kind == FileKind::File { first.size } else { 0 };
        return Ok(DiskUsage { bytes, files: 1, directories: 0, complete: true });
    }
    let mut usage = DiskUsage { directories: 1, complete: true, ..DiskUsage::default() };
    let walked = walk(door, path, &mut |_, stat| {
        if stat.read_only && !first.read_only {
            return Step::Past;
        }
        if usage.files + usage.directories > most_entries {
            usage.complete = false;
            return Step::Stop;
        }
        match stat.kind {
            FileKind::Directory => usage.directories += 1,
            FileKind::File => {
                usage.files += 1;
                usage.bytes = usage.bytes.saturating_add(stat.size);
            }
            FileKind::Link | FileKind::Other => usage.files += 1,
        }
        Step::Into
    })?;
    usage.complete &= !walked.cut && walked.skipped == 0;
    Ok(usage)
}
