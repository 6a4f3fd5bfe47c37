//! Visiting everything below a directory.

use belljar_engine::{FileDoor, FileEntry, FileError, FileKind, FileStat};
use serde::{Deserialize, Serialize};

use super::list;
use crate::path::{PATH_LIMIT, join};

/// Entries that are visited.
const MOST_VISITED: u64 = 5_000_000;
/// Entries that are kept until they are visited.
const MOST_KEPT: usize = 2_000_000;

/// What to do after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Go on; into it, if it is a directory.
    Into,
    /// Go on; not into it.
    Past,
    /// Stop.
    Stop,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walked {
    /// Entries that were visited.
    pub visited: u64,
    /// Directories that were gone, closed, or too deep to be visited.
    pub skipped: u64,
    /// Whether there was more than can be visited.
    pub cut: bool,
}

/// Visits what is below a directory, each directory before its entries, by name. Links aren't followed, so it ends.
/// What vanishes meanwhile is skipped.
pub fn walk(
    door: &dyn FileDoor,
    path: &str,
    visit: &mut dyn FnMut(&str, &FileStat) -> Step,
) -> Result<Walked, FileError> {
    let mut walked = Walked::default();
    let first = list(door, path)?;
    let mut kept = first.len();
    // Each directory with the entries that are left of it: no path is kept for an entry.
    let mut levels = vec![(path.to_owned(), first.into_iter())];
    while let Some((directory, entries)) = levels.last_mut() {
        let Some(FileEntry { name, stat }) = entries.next() else {
            levels.pop();
            continue;
        };
        kept -= 1;
        if walked.visited == MOST_VISITED {
            walked.cut = true;
            break;
        }
        let below = join(directory, &name);
        if below.len() > PATH_LIMIT {
            walked.skipped += 1;
            continue;
        }
        walked.visited += 1;
        match visit(&below, &stat) {
            Step::Stop => break,
            Step::Into if stat.kind == FileKind::Directory => match list(door, &below) {
                Ok(entries) if kept + entries.len() > MOST_KEPT => walked.cut = true,
                Ok(entries) => {
                    kept += entries.len();
                    levels.push((below, entries.into_iter()));
                }
                Err(_) => walked.skipped += 1,
            },
            Step::Into | Step::Past => {}
        }
    }
    Ok(walked)
}
