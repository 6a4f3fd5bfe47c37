//! Writing files of any size.

use std::io::{self, Read};

use belljar_engine::{FileDoor, FileError, FileErrorCode, FileKind, FileOp, FileStat, MOST_IN_ONE, WriteHow};

use super::{beside, done, stat_link, temporary_name};

/// Writes a file, and makes the directories above it; says how many bytes it has. Whoever reads it sees the old
/// contents or the new ones. (Only where the path is a link and the contents are larger than one operation, they
/// come in pieces.) Where it fails, nothing changed.
pub fn write(door: &dyn FileDoor, path: &str, contents: &mut dyn Read) -> Result<u64, FileError> {
    let first = piece(path, contents)?;
    if (first.len() as u64) < MOST_IN_ONE {
        return put(door, path, first, WriteHow::Replace);
    }
    let old = match stat_link(door, path) {
        Ok(old) => Some(old),
        Err(error) if error.code == FileErrorCode::FileNotFound => None,
        Err(error) => return Err(error),
    };
    match old.map(|old| old.kind) {
        Some(FileKind::Directory) => Err(FileError::new(FileErrorCode::IsDirectory, path)),
        Some(FileKind::Other) => Err(FileError::new(FileErrorCode::NotAFile, path)),
        Some(FileKind::Link) => {
            let written = put(door, path, first, WriteHow::Replace)?;
            Ok(written + put_rest(door, path, contents)?)
        }
        Some(FileKind::File) | None => write_beside(door, path, old, first, contents),
    }
}

/// Adds to the end of a file, which is made if it isn't there.
pub fn append(door: &dyn FileDoor, path: &str, contents: &[u8]) -> Result<(), FileError> {
    // An empty one makes the file, too.
    let mut pieces = contents.chunks(MOST_IN_ONE as usize);
    put(door, path, pieces.next().unwrap_or_default().to_vec(), WriteHow::Append)?;
    for piece in pieces {
        put(door, path, piece.to_vec(), WriteHow::Append)?;
    }
    Ok(())
}

/// Writes under another name in the same directory, and renames at the end.
fn write_beside(
    door: &dyn FileDoor,
    path: &str,
    old: Option<FileStat>,
    first: Vec<u8>,
    rest: &mut dyn Read,
) -> Result<u64, FileError> {
    let temporary = beside(path, &temporary_name());
    let mut written = || -> Result<u64, FileError> {
        let mut written = put(door, &temporary, first.clone(), WriteHow::Create)?;
        written += put_rest(door, &temporary, rest)?;
        if old.is_some_and(|old| old.executable) {
            let executable = Some(true);
            done(door, FileOp::Set { path: temporary.clone(), executable, modified_ns: None })?;
        }
        done(door, FileOp::Rename { from: temporary.clone(), to: path.to_owned() })?;
        Ok(written)
    };
    written().map_err(|error| {
        let _ = done(door, FileOp::Remove { path: temporary.clone() });
        // The name that it was written by means nothing to the caller.
        FileError { path: path.to_owned(), ..error }
    })
}

fn put_rest(door: &dyn FileDoor, path: &str, rest: &mut dyn Read) -> Result<u64, FileError> {
    let mut written = 0;
    loop {
        let next = piece(path, rest)?;
        let last = (next.len() as u64) < MOST_IN_ONE;
        if !next.is_empty() {
            written += put(door, path, next, WriteHow::Append)?;
        }
        if last {
            return Ok(written);
        }
    }
}

fn put(door: &dyn FileDoor, path: &str, contents: Vec<u8>, how: WriteHow) -> Result<u64, FileError> {
    let length = contents.len() as u64;
    done(door, FileOp::Write { path: path.to_owned(), contents, how })?;
    Ok(length)
}

/// As much as fits into one operation; less at the end only.
fn piece(path: &str, from: &mut dyn Read) -> Result<Vec<u8>, FileError> {
    let mut piece = Vec::new();
    let read = from.take(MOST_IN_ONE).read_to_end(&mut piece);
    read.map_err(|error: io::Error| {
        let code =
            error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>()).map(|inner| inner.code);
        FileError::told(
            code.unwrap_or(FileErrorCode::Failed),
            path,
            format!("what to write could not be read: {error}"),
        )
    })?;
    Ok(piece)
}
