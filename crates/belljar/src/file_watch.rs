//! Hears of changes in a session's files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_engine::{FileDoor, FileError, FileKind, FileStat};
use belljar_files::Watch;
use belljar_files::operations::{Step, walk};
pub use belljar_files::{FileEvent, FileEventKind};

use crate::Error;
use crate::workspace::open_directory;

/// How often files are looked at that nobody tells of.
const PERIOD: Duration = Duration::from_millis(250);
/// Files that are looked at, where nobody tells of them.
const MOST_LOOKED_AT: usize = 100_000;

/// Hears of files that are made, changed or removed, by whomever. Made by [`Files::watch`](crate::Files::watch).
pub struct FileWatch {
    source: Arc<Mutex<Source>>,
}

enum Source {
    /// The kernel tells.
    Told(Watch),
    /// Somebody must look.
    Looked { door: Arc<dyn FileDoor>, known: BTreeMap<String, FileStat> },
}

impl FileWatch {
    pub(crate) fn new(door: &Arc<dyn FileDoor>, directory: Option<&Path>) -> Result<Self, Error> {
        let source = match directory {
            Some(directory) => {
                let failed = |source| Error::Workspace { path: directory.to_owned(), source };
                let opened = open_directory(directory).map_err(failed)?;
                Source::Told(Watch::listening(std::os::fd::AsFd::as_fd(&opened)).map_err(failed)?)
            }
            None => Source::Looked { door: Arc::clone(door), known: look(door.as_ref())? },
        };
        Ok(Self { source: Arc::new(Mutex::new(source)) })
    }

    /// Waits for changes, and returns those since the last call; none when the time is over. What was made and removed
    /// in between isn't told. A path that is empty says that so much happened that all should be looked at again.
    pub async fn next(&mut self, timeout: Duration) -> Result<Vec<FileEvent>, Error> {
        let source = Arc::clone(&self.source);
        let wait = move || source.lock().unwrap_or_else(PoisonError::into_inner).next(timeout);
        tokio::task::spawn_blocking(wait).await.unwrap_or(Err(Error::Abandoned))
    }

    /// [`FileWatch::next`] without async.
    pub fn next_blocking(&mut self, timeout: Duration) -> Result<Vec<FileEvent>, Error> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).next(timeout)
    }
}

impl Source {
    fn next(&mut self, timeout: Duration) -> Result<Vec<FileEvent>, Error> {
        match self {
            Self::Told(watch) => Ok(watch.changes(timeout)),
            Self::Looked { door, known } => {
                let deadline = Instant::now() + timeout;
                loop {
                    let now = look(door.as_ref())?;
                    let events = differences(known, &now);
                    *known = now;
                    let left = deadline.saturating_duration_since(Instant::now());
                    if !events.is_empty() || left.is_zero() {
                        return Ok(events);
                    }
                    std::thread::sleep(PERIOD.min(left));
                }
            }
        }
    }
}

fn look(door: &dyn FileDoor) -> Result<BTreeMap<String, FileStat>, FileError> {
    let mut found = BTreeMap::new();
    walk(door, "", &mut |path, stat| {
        if found.len() >= MOST_LOOKED_AT {
            return Step::Stop;
        }
        found.insert(path.to_owned(), *stat);
        Step::Into
    })?;
    Ok(found)
}

fn differences(before: &BTreeMap<String, FileStat>, now: &BTreeMap<String, FileStat>) -> Vec<FileEvent> {
    let event = |path: &String, kind| FileEvent { path: path.clone(), kind };
    // A directory changes with what is in it, which is told itself.
    let is_other = |stat: &FileStat, former: &FileStat| {
        stat.kind != former.kind || (stat.kind != FileKind::Directory && stat != former)
    };
    let changed = now.iter().filter_map(|(path, stat)| match before.get(path) {
        None => Some(event(path, FileEventKind::Created)),
        Some(former) if is_other(stat, former) => Some(event(path, FileEventKind::Modified)),
        Some(_) => None,
    });
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    changed.chain(gone.map(|path| event(path, FileEventKind::Deleted))).collect()
}
