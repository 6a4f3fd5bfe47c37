//! A place that is made like a workspace, or a workspace that is made like a place: what changed is copied.

mod bucket;
mod doors;
mod download;
mod inventory;
mod manifest;
mod upload;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use belljar_engine::FileDoor;
use belljar_files::DirDoor;

pub use bucket::{S3Credentials, S3Place};

use crate::error::{Result, TransferError};
use crate::files::Files;
use crate::globs::Globs;
use crate::progress::Progress;
use crate::skipped::SkippedList;
use bucket::Bucket;

/// Where a workspace is kept as well.
pub enum Place<'p> {
    /// Another workspace.
    Door(&'p dyn FileDoor),
    /// A directory of the host. Its path is trusted; it is made when something is pushed there.
    Directory(PathBuf),
    /// A prefix in a bucket.
    S3(S3Place),
}

/// How to synchronise.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// What is wanted. What isn't stays as it is on both sides.
    pub globs: Globs,
    /// What is gone at the source is removed at the destination.
    pub delete: bool,
    /// Nothing is changed; [`Synced::actions`] says what would be.
    pub dry_run: bool,
    /// Contents are compared even if size and time are the same.
    pub checksum: bool,
    /// Links that lead out are copied as well.
    pub links_out: bool,
    /// Bytes that are copied, at most.
    pub most_bytes: u64,
    /// Files, directories and links on each side, at most.
    pub most_files: u64,
}

impl Default for SyncOptions {
    /// All but [`DEFAULT_EXCLUDES`](crate::DEFAULT_EXCLUDES), nothing removed, no links that lead out, 64 GB, a million
    /// files.
    fn default() -> Self {
        Self {
            globs: Globs::usual(),
            delete: false,
            dry_run: false,
            checksum: false,
            links_out: false,
            most_bytes: 64 << 30,
            most_files: 1_000_000,
        }
    }
}

/// What was done, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Where.
    pub path: String,
    /// What.
    pub step: Step,
    /// Bytes that are copied.
    pub bytes: u64,
}

/// What is done with one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// A file is copied.
    Copy,
    /// A link is made.
    Link,
    /// A directory is made.
    Directory,
    /// The contents are the same; only the time, or whether it is executable, is set.
    Touch,
    /// It is removed.
    Remove,
}

/// What was synchronised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// What was done, or in a dry run would be, in this order.
    pub actions: Vec<Action>,
    /// Files that were copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files, links and directories that were removed.
    pub removed: u64,
    /// Files, links and directories that were the same already.
    pub unchanged: u64,
    /// What couldn't be copied or removed.
    pub skipped: SkippedList,
}

/// Makes a place like a workspace.
///
/// Each file appears there whole, so that after an interruption both sides can be used, and the next run goes on.
///
/// # Errors
/// If a side can't be read, the destination is full, or there is more than the options allow.
pub fn push(
    workspace: &dyn FileDoor,
    place: &Place<'_>,
    options: &SyncOptions,
    progress: &dyn Progress,
) -> Result<Synced> {
    let from = Files::new(workspace);
    match place {
        Place::Door(door) => Run::new(options, progress).between(from, Files::new(*door)),
        Place::Directory(path) => {
            if !path.exists() && options.dry_run {
                return Run::new(options, progress).between(from, Files::new(&Nothing));
            }
            let host = |source| TransferError::Host { action: "make", path: path.clone(), source };
            std::fs::create_dir_all(path).map_err(host)?;
            Run::new(options, progress).between(from, Files::new(&directory(path)?))
        }
        Place::S3(place) => Run::new(options, progress).upload(from, &Bucket::open(place)?),
    }
}

/// Makes a workspace like a place.
///
/// # Errors
/// As [`push`].
pub fn pull(
    workspace: &dyn FileDoor,
    place: &Place<'_>,
    options: &SyncOptions,
    progress: &dyn Progress,
) -> Result<Synced> {
    let to = Files::new(workspace);
    match place {
        Place::Door(door) => Run::new(options, progress).between(Files::new(*door), to),
        Place::Directory(path) => Run::new(options, progress).between(Files::new(&directory(path)?), to),
        Place::S3(place) => Run::new(options, progress).download(&Bucket::open(place)?, to),
    }
}

fn directory(path: &Path) -> Result<DirDoor> {
    let host = |source| TransferError::Host { action: "open", path: path.to_owned(), source };
    DirDoor::open(path).map_err(host)
}

/// A directory that isn't there yet.
struct Nothing;

impl FileDoor for Nothing {
    fn file(
        &self,
        operation: belljar_engine::FileOp,
    ) -> Result<belljar_engine::FileReply, belljar_engine::FileError> {
        use belljar_engine::{FileError, FileErrorCode, FileOp, FileReply};
        match operation {
            FileOp::List { path } if path.is_empty() => Ok(FileReply::List(Vec::new())),
            _ => Err(FileError::new(FileErrorCode::FileNotFound, "")),
        }
    }
}

/// One synchronisation.
struct Run<'r> {
    options: &'r SyncOptions,
    progress: &'r dyn Progress,
    synced: Synced,
    /// Directories that made room for something else, with what was in them.
    cleared: BTreeSet<String>,
    /// Paths that are directories since this run began.
    replaced: BTreeSet<String>,
}

impl<'r> Run<'r> {
    fn new(options: &'r SyncOptions, progress: &'r dyn Progress) -> Self {
        Self {
            options,
            progress,
            synced: Synced::default(),
            cleared: BTreeSet::new(),
            replaced: BTreeSet::new(),
        }
    }

    fn act(&mut self, path: &str, step: Step, bytes: u64) {
        self.synced.actions.push(Action { path: path.to_owned(), step, bytes });
        match step {
            Step::Copy => {
                self.synced.files += 1;
                self.synced.bytes += bytes;
            }
            Step::Remove => self.synced.removed += 1,
            Step::Link | Step::Directory | Step::Touch => {}
        }
    }

    /// Says where it is, and ends if that is wanted.
    fn advance(&self, path: &str) -> Result<()> {
        if self.progress.stop() {
            return Err(TransferError::Stopped);
        }
        self.progress.advance(path, self.synced.files, self.synced.bytes);
        Ok(())
    }

    /// Whether so many more bytes may be copied.
    fn allow(&self, path: &str, bytes: u64) -> Result<()> {
        if bytes > self.options.most_bytes.saturating_sub(self.synced.bytes) {
            let path = crate::skipped::printable(path);
            return Err(TransferError::TooMuch { what: "bytes", most: self.options.most_bytes, path });
        }
        Ok(())
    }
}
