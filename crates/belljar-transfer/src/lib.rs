//! Workspaces on the move: archives, copies elsewhere that are kept up to date, and what older systems left behind.
//!
//! - [`export`] writes a workspace as a `.tar.zst`, [`import`] reads one, or a `.tar`, or a `.tar.gz`.
//! - [`push`] and [`pull`] make a [`Place`] like a workspace, or a workspace like a place, by copying what changed.
//!   A place is a directory, another workspace, or a prefix in an S3 bucket.
//! - [`migrate`] removes the copies of an environment's packages that older systems put into each workspace.
//!
//! A workspace is reached by a [`FileDoor`](belljar_engine::FileDoor) only, whatever keeps it, while its guest may be
//! running; neither what is in it, nor in an archive, nor in a bucket is trusted. What can't be moved is skipped and
//! reported; everything is done piece by piece, in bounded memory. Nothing here reads the environment of the process.
//!
//! ```
//! use belljar_engine::{FileDoor, FileOp, WriteHow};
//! use belljar_files::DirDoor;
//! use belljar_transfer::{ExportOptions, ImportOptions, Quiet, export, import};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (one, two) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! let (from, to) = (DirDoor::open(one.path())?, DirDoor::open(two.path())?);
//! from.file(FileOp::Write { path: "a.txt".into(), contents: b"hello".into(), how: WriteHow::Create })?;
//!
//! let mut archive = Vec::new();
//! export(&from, &mut archive, &ExportOptions::default(), &Quiet)?;
//! let imported = import(&to, archive.as_slice(), &ImportOptions::default(), &Quiet)?;
//! assert_eq!((imported.files, imported.bytes), (1, 5));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod error;
mod export;
mod files;
mod globs;
mod import;
mod members;
mod migrate;
mod names;
mod progress;
mod skipped;
mod sync;
mod walk;

pub use error::{Result, TransferError};
pub use export::{ExportOptions, Exported, export, export_to_path};
pub use globs::{DEFAULT_EXCLUDES, Globs};
pub use import::{ImportOptions, Imported, import};
pub use migrate::{Migrated, Migration, migrate};
pub use progress::{Progress, Quiet};
pub use skipped::{MOST_SKIPPED, Skipped, SkippedList};
pub use sync::{Action, Place, S3Credentials, S3Place, Step, SyncOptions, Synced, pull, push};
