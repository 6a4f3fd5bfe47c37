//! Everything in a workspace, in the order of its names.

use std::ops::ControlFlow;

use belljar_engine::{FileError, FileErrorCode, FileKind, FileStat};

use crate::error::{Result, TransferError};
use crate::files::Files;
use crate::globs::Globs;
use crate::names::{DEEPEST, OURS, join};
use crate::skipped::SkippedList;

/// What to pass by.
pub(crate) struct Walk<'w> {
    pub(crate) files: Files<'w>,
    pub(crate) globs: &'w Globs,
    /// Files, directories and links, at most.
    pub(crate) most: u64,
}

/// Something that was found.
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) stat: FileStat,
}

impl Walk<'_> {
    /// Calls `visit` for each directory, file and link; a directory comes before what is in it.
    pub(crate) fn each(
        &self,
        skipped: &mut SkippedList,
        visit: &mut dyn FnMut(Found, &mut SkippedList) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.directory("", 0, &mut 0, &mut |_| {}, skipped, visit).map(drop)
    }

    /// The same; names of our own, which aren't visited, are told to `ours`.
    pub(crate) fn each_and_ours(
        &self,
        ours: &mut dyn FnMut(&str),
        skipped: &mut SkippedList,
        visit: &mut dyn FnMut(Found, &mut SkippedList) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.directory("", 0, &mut 0, ours, skipped, visit).map(drop)
    }

    fn directory(
        &self,
        directory: &str,
        depth: usize,
        count: &mut u64,
        ours: &mut dyn FnMut(&str),
        skipped: &mut SkippedList,
        visit: &mut dyn FnMut(Found, &mut SkippedList) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let entries = match self.files.list(directory) {
            Ok(entries) => entries,
            // The guest may have removed it, or closed it.
            Err(error) if depth > 0 && is_of_one(&error) => {
                skipped.add(directory, error.message);
                return Ok(ControlFlow::Continue(()));
            }
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let path = join(directory, &entry.name);
            if entry.name.starts_with(OURS) {
                ours(&path);
                continue;
            }
            let is_directory = entry.stat.kind == FileKind::Directory;
            if !self.globs.wanted(&path, is_directory) {
                continue;
            }
            if entry.stat.read_only {
                skipped.add(&path, "it belongs to others, and is only shown here");
                continue;
            }
            if entry.stat.kind == FileKind::Other {
                skipped.add(&path, "it is neither a file, nor a directory, nor a link");
                continue;
            }
            if entry.name.contains(char::REPLACEMENT_CHARACTER)
                && !matches!(self.files.stat(&path), Ok(Some(_)))
            {
                skipped.add(&path, "its name isn't UTF-8");
                continue;
            }
            *count += 1;
            if *count > self.most {
                return Err(TransferError::TooMuch { what: "files", most: self.most, path });
            }
            if is_directory && depth + 1 >= DEEPEST {
                skipped.add(&path, "too many directories are inside each other");
                continue;
            }
            let deeper = is_directory.then(|| path.clone());
            if visit(Found { path, stat: entry.stat }, skipped)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if let Some(path) = deeper
                && self.directory(&path, depth + 1, count, ours, skipped, visit)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Whether an error is about one file, so that the others can still be moved.
pub(crate) fn is_of_one(error: &FileError) -> bool {
    use FileErrorCode as Code;
    matches!(
        error.code,
        Code::FileNotFound
            | Code::PermissionDenied
            | Code::IsDirectory
            | Code::NotDirectory
            | Code::InvalidPath
            | Code::AlreadyExists
            | Code::NotEmpty
            | Code::NotAFile
            | Code::TooLarge
            | Code::InvalidText
    )
}
