//! Removing trees, while somebody may be adding to them.

use belljar_engine::{FileDoor, FileEntry, FileError, FileErrorCode, FileKind, FileOp};

use super::{done, list, stat_link, temporary_name};
use crate::path::{NAME_LIMIT, PATH_LIMIT, join};

/// How often a directory that isn't empty after all is looked at again.
const MOST_ROUNDS: u32 = 1000;

/// Bytes of a path below what is removed. Each operation goes through all of its names.
const MOST_BELOW: usize = 1024;
/// Directories in each other; there may be somebody who makes more of them all the time.
const MOST_LEVELS: usize = 200_000;

/// Removes a file, a link, or an empty directory; with `recursive` a directory with all that is in it.
///
/// Links aren't followed. What can't be removed is passed over, and told at the end.
pub fn remove(door: &dyn FileDoor, path: &str, recursive: bool) -> Result<(), FileError> {
    let removed = done(door, FileOp::Remove { path: path.to_owned() });
    match removed {
        Err(error) if error.code == FileErrorCode::NotEmpty && recursive => remove_tree(door, path),
        Err(error) if error.code == FileErrorCode::NotEmpty => {
            let message = "the directory is not empty; remove it with all that is in it (recursive)";
            Err(FileError { message: message.to_owned(), ..error })
        }
        removed => removed,
    }
}

/// A directory that is being emptied.
struct Level {
    path: String,
    /// Directories in it that are still there.
    directories: std::vec::IntoIter<String>,
    /// Whether anything in it went away in this round.
    progress: bool,
}

fn remove_tree(door: &dyn FileDoor, path: &str) -> Result<(), FileError> {
    if stat_link(door, path)?.kind != FileKind::Directory {
        return done(door, FileOp::Remove { path: path.to_owned() });
    }
    let mut failed = None;
    let mut rounds = 0;
    let mut levels = vec![empty(door, path.to_owned(), &mut failed)?];
    while levels.len() < MOST_LEVELS
        && let Some(level) = levels.last_mut()
    {
        if let Some(name) = level.directories.next() {
            let mut below = join(&level.path, &name);
            let too_long = below.len() + 1 + NAME_LIMIT > PATH_LIMIT;
            if too_long || below.len() - path.len() > MOST_BELOW {
                // What is in it couldn't be named, or slowly. So it comes up, in what is removed anyway.
                let up = join(path, &temporary_name());
                if done(door, FileOp::Rename { from: below.clone(), to: up.clone() }).is_ok() {
                    below = up;
                    level.progress = true;
                }
            }
            match empty(door, below, &mut failed) {
                Ok(below) => levels.push(below),
                Err(error) => keep_first(&mut failed, nameless(error)),
            }
            continue;
        }
        let (directory, progress) = (std::mem::take(&mut level.path), level.progress);
        levels.pop();
        match done(door, FileOp::Remove { path: directory.clone() }) {
            Ok(()) => {
                if let Some(above) = levels.last_mut() {
                    above.progress = true;
                }
            }
            Err(error) if error.code == FileErrorCode::NotEmpty && progress && rounds < MOST_ROUNDS => {
                rounds += 1;
                match empty(door, directory, &mut failed) {
                    Ok(again) => levels.push(again),
                    Err(error) => keep_first(&mut failed, error),
                }
            }
            Err(error) => keep_first(&mut failed, error),
        }
    }
    match stat_link(door, path) {
        Err(error) if error.code == FileErrorCode::FileNotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(failed.unwrap_or_else(|| FileError::new(FileErrorCode::NotEmpty, path))),
    }
}

/// Removes everything from a directory but directories.
fn empty(door: &dyn FileDoor, path: String, failed: &mut Option<FileError>) -> Result<Level, FileError> {
    let mut progress = false;
    let mut directories = Vec::new();
    for FileEntry { name, stat } in list(door, &path)? {
        if stat.kind == FileKind::Directory {
            directories.push(name);
            continue;
        }
        match done(door, FileOp::Remove { path: join(&path, &name) }) {
            Ok(()) => progress = true,
            Err(error) => keep_first(failed, nameless(error)),
        }
    }
    Ok(Level { path, directories: directories.into_iter(), progress })
}

/// What is listed and yet not there may have a name that no path can have.
fn nameless(error: FileError) -> FileError {
    if error.code != FileErrorCode::FileNotFound || !error.path.contains('\u{fffd}') {
        return error;
    }
    let message = "its name isn't UTF-8, so only the session's own code can remove it";
    FileError::told(FileErrorCode::InvalidPath, error.path, message)
}

/// What went first is told. That something has gone already is no failure.
fn keep_first(failed: &mut Option<FileError>, error: FileError) {
    if failed.is_none() && error.code != FileErrorCode::FileNotFound {
        *failed = Some(error);
    }
}
