//! Copying files and trees.

use belljar_engine::{FileDoor, FileError, FileErrorCode, FileKind, FileOp, FileStat};
use serde::{Deserialize, Serialize};

use super::{Contents, Step, done, make_directory, read_link, stat_link, walk, write};
use crate::path::join;

/// Bytes that are copied at once, holes included: they don't stay holes.
const MOST_BYTES: u64 = 64 << 30;
/// Bytes of paths that are kept while a tree is copied.
const MOST_PATHS: usize = 64 << 20;

/// Failures that are told.
const MOST_ERRORS: usize = 100;

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// Files and links.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// How many were passed over: pipes and the like, and what vanished or can't be read.
    pub skipped: u64,
    /// Why, for the first 100 of them.
    pub errors: Vec<FileError>,
}

impl Copied {
    fn skip(&mut self, count: u64, error: FileError) {
        self.skipped += count;
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(error);
        }
    }
}

/// Copies a file, a link (as a link) or a tree to a path, which isn't below it. What is there is replaced file by
/// file.
pub fn copy(door: &dyn FileDoor, from: &str, to: &str) -> Result<Copied, FileError> {
    let first = stat_link(door, from)?;
    let inside =
        from.is_empty() || to.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if inside {
        let message = "it cannot be copied into itself";
        return Err(FileError::told(FileErrorCode::InvalidPath, to, message));
    }
    let mut copied = Copied::default();
    if first.kind != FileKind::Directory {
        copy_one(door, from, to, &first, &mut copied)?;
        return Ok(copied);
    }
    // All names first: nothing that is copied is found again by the walk, whatever links there are.
    let (entries, bytes) = entries(door, from, &mut copied)?;
    if bytes > MOST_BYTES {
        let message = format!("it has {bytes} bytes, of at most {MOST_BYTES} that can be copied at once");
        return Err(FileError::told(FileErrorCode::TooLarge, from, message));
    }
    make_directory(door, to)?;
    copied.directories = 1;
    for (below, stat) in entries {
        let one = copy_one(door, &join(from, &below), &join(to, &below), &stat, &mut copied);
        match one {
            Ok(()) => {}
            // There is no room for the rest either.
            Err(error) if error.code == FileErrorCode::DiskFull => return Err(error),
            Err(error) => copied.skip(1, error),
        }
    }
    Ok(copied)
}

type Entries = Vec<(String, FileStat)>;

/// What is below a directory, by its path in it, and how many bytes that is.
fn entries(door: &dyn FileDoor, from: &str, copied: &mut Copied) -> Result<(Entries, u64), FileError> {
    let mut entries = Vec::new();
    let (mut paths, mut bytes) = (0, 0u64);
    let walked = walk(door, from, &mut |path, stat| {
        let below = &path[from.len() + 1..];
        paths += below.len() + size_of::<(String, FileStat)>();
        if paths > MOST_PATHS {
            return Step::Stop;
        }
        if stat.kind == FileKind::File {
            bytes = bytes.saturating_add(stat.size);
        }
        entries.push((below.to_owned(), *stat));
        Step::Into
    })?;
    if paths > MOST_PATHS || walked.cut {
        let message = "there are too many files in it to be copied at once";
        return Err(FileError::told(FileErrorCode::TooLarge, from, message));
    }
    if walked.skipped > 0 {
        let message = format!("{} directories could not be read, or are too deep", walked.skipped);
        copied.skip(walked.skipped, FileError::told(FileErrorCode::PermissionDenied, from, message));
    }
    Ok((entries, bytes))
}

fn copy_one(
    door: &dyn FileDoor,
    from: &str,
    to: &str,
    stat: &FileStat,
    copied: &mut Copied,
) -> Result<(), FileError> {
    match stat.kind {
        FileKind::Directory => {
            make_directory(door, to)?;
            copied.directories += 1;
        }
        FileKind::Link => {
            let target = read_link(door, from)?;
            // A link can't replace anything.
            if stat_link(door, to).is_ok_and(|old| old.kind != FileKind::Directory) {
                done(door, FileOp::Remove { path: to.to_owned() })?;
            }
            done(door, FileOp::MakeLink { path: to.to_owned(), target })?;
            copied.files += 1;
        }
        FileKind::File => {
            if stat.size > MOST_BYTES {
                return Err(FileError::new(FileErrorCode::TooLarge, from));
            }
            copied.bytes += write(door, to, &mut Contents::of_length(door, from, stat.size))?;
            copied.files += 1;
            // Where a link leads has a mode of its own.
            if stat.executable && stat_link(door, to).is_ok_and(|new| new.kind == FileKind::File) {
                let executable = Some(true);
                done(door, FileOp::Set { path: to.to_owned(), executable, modified_ns: None })?;
            }
        }
        FileKind::Other => return Err(FileError::new(FileErrorCode::NotAFile, from)),
    }
    Ok(())
}
