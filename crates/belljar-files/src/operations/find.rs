//! Finding files by a pattern.

use std::time::{Duration, Instant};

use belljar_engine::{FileDoor, FileError, FileErrorCode, FileStat};
use serde::{Deserialize, Serialize};

use super::{Pattern, Step, walk};

/// How files are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FindOptions {
    /// Whether `*` matches names that begin with a dot.
    pub hidden: bool,
    /// How many are found at most.
    pub most: usize,
    /// Seconds after which it is enough.
    pub most_seconds: u64,
}

impl Default for FindOptions {
    /// No hidden ones, at most 10,000, for 30 seconds.
    fn default() -> Self {
        Self { hidden: false, most: 10_000, most_seconds: 30 }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Files and directories that match, each directory before its entries.
    pub files: Vec<FoundFile>,
    /// Whether that is all.
    pub complete: bool,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFile {
    /// Its path.
    pub path: String,
    /// What is known of it.
    pub stat: FileStat,
}

/// Finds what matches a [`Pattern`]. Only directories that can have matches are looked into.
pub fn glob(door: &dyn FileDoor, pattern: &str, options: &FindOptions) -> Result<Found, FileError> {
    let pattern = Pattern::new(pattern)?;
    let (begun, most_time) = (Instant::now(), Duration::from_secs(options.most_seconds));
    let mut found = Found { files: Vec::new(), complete: true };
    let mut visited = 0u64;
    let walked = walk(door, &pattern.base(), &mut |path, stat| {
        visited += 1;
        if visited.is_multiple_of(256) && begun.elapsed() > most_time {
            found.complete = false;
            return Step::Stop;
        }
        if pattern.matches(path, options.hidden) {
            if found.files.len() >= options.most {
                found.complete = false;
                return Step::Stop;
            }
            found.files.push(FoundFile { path: path.to_owned(), stat: *stat });
        }
        if pattern.leads_into(path, options.hidden) { Step::Into } else { Step::Past }
    });
    match walked {
        Ok(walked) => found.complete &= !walked.cut && walked.skipped == 0,
        Err(error) if matches!(error.code, FileErrorCode::FileNotFound | FileErrorCode::NotDirectory) => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}
