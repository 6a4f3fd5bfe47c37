//! What hosts do with a session's files, through any [`FileDoor`]: the same for directories of the host, for trees in
//! memory and for those of a jail.
//!
//! Paths are relative to the workspace; [`path::workspace_path`] makes them of what agents write. While any of these
//! runs, the guest may change whatever it likes: each is bounded in what it keeps in memory, reads and visits, and
//! says so where a bound was met.
//!
//! ```
//! use belljar_files::{DirDoor, operations};
//!
//! let directory = tempfile::tempdir()?;
//! let door = DirDoor::open(directory.path())?;
//! operations::write(&door, "src/main.py", &mut "print(1)\n".as_bytes())?;
//! operations::edit(&door, "src/main.py", "1", "2", false)?;
//!
//! let found = operations::glob(&door, "**/*.py", &Default::default())?;
//! assert_eq!(found.files[0].path, "src/main.py");
//! assert_eq!(operations::read_text(&door, "src/main.py", 1000)?, "print(2)\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod copy;
mod edit;
mod find;
mod grep;
mod many;
pub mod path;
mod pattern;
mod read;
mod remove;
mod usage;
mod walk;
mod write;

use std::hash::{BuildHasher, RandomState};

use belljar_engine::{FileDoor, FileEntry, FileError, FileErrorCode, FileOp, FileReply, FileStat};

pub use copy::{Copied, copy};
pub use edit::edit;
pub use find::{FindOptions, Found, FoundFile, glob};
pub use grep::{Grep, GrepOptions, Match, grep};
pub use many::{Downloaded, Uploaded, download, upload};
pub use pattern::Pattern;
pub use read::{Contents, Lines, read, read_lines, read_text};
pub use remove::remove;
pub use usage::{DiskUsage, usage};
pub use walk::{Step, Walked, walk};
pub use write::{append, write};

/// How the names of files begin that are being written.
const TEMPORARY: &str = ".belljar-";

/// What is at a path, links followed.
pub fn stat(door: &dyn FileDoor, path: &str) -> Result<FileStat, FileError> {
    stat_of(door, path, true)
}

/// What is at a path. A link is told as such.
pub fn stat_link(door: &dyn FileDoor, path: &str) -> Result<FileStat, FileError> {
    stat_of(door, path, false)
}

/// Whether anything is at a path, links followed.
pub fn exists(door: &dyn FileDoor, path: &str) -> Result<bool, FileError> {
    match stat(door, path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.code, FileErrorCode::FileNotFound | FileErrorCode::NotDirectory) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The entries of a directory, by name: at most [`MOST_LISTED`](belljar_engine::MOST_LISTED).
pub fn list(door: &dyn FileDoor, path: &str) -> Result<Vec<FileEntry>, FileError> {
    match door.file(FileOp::List { path: path.to_owned() })? {
        FileReply::List(entries) => Ok(entries),
        _ => Err(strange(path)),
    }
}

/// Where a link leads, as it says.
pub fn read_link(door: &dyn FileDoor, path: &str) -> Result<String, FileError> {
    let target = contents(door, path, FileOp::ReadLink { path: path.to_owned() })?;
    String::from_utf8(target).map_err(|_| FileError::new(FileErrorCode::InvalidText, path))
}

/// Makes a directory, and those above it. One that is there is no error.
pub fn make_directory(door: &dyn FileDoor, path: &str) -> Result<(), FileError> {
    done(door, FileOp::MakeDirectory { path: path.to_owned() })
}

/// Moves a file or a directory. A file that is there is replaced; directories above it are made.
pub fn rename(door: &dyn FileDoor, from: &str, to: &str) -> Result<(), FileError> {
    done(door, FileOp::Rename { from: from.to_owned(), to: to.to_owned() })
}

fn stat_of(door: &dyn FileDoor, path: &str, follow: bool) -> Result<FileStat, FileError> {
    match door.file(FileOp::Stat { path: path.to_owned(), follow })? {
        FileReply::Stat(stat) => Ok(stat),
        _ => Err(strange(path)),
    }
}

/// A part of a file.
fn part(door: &dyn FileDoor, path: &str, offset: u64, length: u64) -> Result<Vec<u8>, FileError> {
    let contents = contents(door, path, FileOp::Read { path: path.to_owned(), offset, length })?;
    if contents.len() as u64 > length { Err(strange(path)) } else { Ok(contents) }
}

fn contents(door: &dyn FileDoor, path: &str, operation: FileOp) -> Result<Vec<u8>, FileError> {
    match door.file(operation)? {
        FileReply::Contents(contents) => Ok(contents),
        _ => Err(strange(path)),
    }
}

fn done(door: &dyn FileDoor, operation: FileOp) -> Result<(), FileError> {
    door.file(operation).map(drop)
}

/// A door may lead to a guest, which may answer anything.
fn strange(path: &str) -> FileError {
    FileError::told(FileErrorCode::Failed, path, "the answer makes no sense")
}

/// A name that nobody can guess, and nobody else uses.
pub(crate) fn temporary_name() -> String {
    let random = || RandomState::new().hash_one(TEMPORARY);
    format!("{TEMPORARY}{:016x}{:016x}", random(), random())
}

/// Whether a name is like those of [`temporary_name`].
#[cfg(target_os = "linux")]
pub(crate) fn is_temporary(name: &[u8]) -> bool {
    name.starts_with(TEMPORARY.as_bytes())
}

/// A name in the directory of a path.
fn beside(path: &str, name: &str) -> String {
    crate::path::join(crate::path::split(path).0, name)
}
