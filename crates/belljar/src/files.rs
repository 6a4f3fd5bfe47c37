//! A session's files from outside.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_engine::{ALIASES, FileDoor, FileEntry, FileError, FileStat};
use belljar_files::operations::{self, path::workspace_path};
pub use belljar_files::operations::{
    Copied, DiskUsage, Downloaded, FindOptions, Found, FoundFile, Grep, GrepOptions, Lines, Match, Uploaded,
};

use crate::Error;
use crate::file_watch::FileWatch;

/// Bytes of a file that is read whole, and of all files of one download.
const MOST_READ: u64 = 1 << 30;

/// Files that are counted.
const MOST_COUNTED: u64 = 10_000_000;

/// A session's files: read, written and searched by the host or on behalf of an agent.
///
/// Paths are relative to the workspace, or begin with where the session sees it (`/workspace/a`, `/session/a`). Errors
/// have [codes](crate::FileErrorCode) that agents know. Nothing that the session does leads out of its workspace: no
/// link, no `..`, no race; pipes and devices are never opened.
///
/// Files on disk, and those in memory of the native engine, can be used while a cell runs; others when it has ended.
/// Each function has a twin without async, which must not be called from async code.
///
/// ```no_run
/// # fn main() -> Result<(), belljar::Error> {
/// # let sandbox = belljar::Sandbox::builder().build_blocking()?;
/// let session = sandbox.session_blocking()?;
/// let files = session.files()?;
/// files.write_blocking("notes/today.md", b"buy milk\n")?;
/// files.edit_blocking("notes/today.md", "milk", "bread", false)?;
/// assert_eq!(files.read_text_blocking("notes/today.md")?, "buy bread\n");
/// assert_eq!(files.glob_blocking("**/*.md")?.files[0].path, "notes/today.md");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Files {
    door: Arc<dyn FileDoor>,
    /// Where the session sees its workspace.
    workspace: String,
    /// On the host, if they are on disk.
    directory: Option<PathBuf>,
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident, $blocking:ident(
        $($argument:ident: $kind:ty as $owned:ty),* $(; $($value:ident: $plain:ty),*)?
    ) -> $done:ty = |$files:ident| $body:expr;)*) => {
        impl Files {
            $(
                $(#[$doc])*
                pub async fn $name(&self, $($argument: $kind),* $(, $($value: $plain),*)?) -> Result<$done, Error> {
                    $(let $argument: $owned = $argument.to_owned();)*
                    self.in_background(move |files| files.$blocking($(&$argument),* $(, $($value),*)?)).await
                }

                #[doc = concat!("[`Files::", stringify!($name), "`] without async.")]
                pub fn $blocking(&self, $($argument: $kind),* $(, $($value: $plain),*)?) -> Result<$done, Error> {
                    let $files = self;
                    Ok($body?)
                }
            )*
        }
    };
}

operations! {
    /// The bytes of a file, up to 1 GiB.
    read, read_blocking(path: &str as String) -> Vec<u8>
        = |files| operations::read(files.door(), &files.at(path)?, MOST_READ);
    /// The text of a file in UTF-8, up to 1 GiB.
    read_text, read_text_blocking(path: &str as String) -> String
        = |files| operations::read_text(files.door(), &files.at(path)?, MOST_READ);
    /// So many lines of a text, from the one with this number on; the first is 1. Long lines are cut.
    read_lines, read_lines_blocking(path: &str as String; first: u64, count: u64) -> Lines
        = |files| operations::read_lines(files.door(), &files.at(path)?, first, count);
    /// Makes or replaces a file, at once: whoever reads it sees the old contents or the new ones. Directories above it
    /// are made.
    write, write_blocking(path: &str as String, contents: &[u8] as Vec<u8>) -> ()
        = |files| operations::write(files.door(), &files.at(path)?, &mut &*contents).map(drop);
    /// Adds to the end of a file, which is made if there is none.
    append, append_blocking(path: &str as String, contents: &[u8] as Vec<u8>) -> ()
        = |files| operations::append(files.door(), &files.at(path)?, contents);
    /// Replaces a piece of text, which must be there once; or all of them. Returns how many were.
    edit, edit_blocking(path: &str as String, old: &str as String, new: &str as String; all: bool) -> usize
        = |files| operations::edit(files.door(), &files.at(path)?, old, new, all);
    /// The entries of a directory, by name.
    list, list_blocking(path: &str as String) -> Vec<FileEntry>
        = |files| operations::list(files.door(), &files.at(path)?);
    /// What is there, links followed.
    stat, stat_blocking(path: &str as String) -> FileStat
        = |files| operations::stat(files.door(), &files.at(path)?);
    /// Whether something is there.
    exists, exists_blocking(path: &str as String) -> bool
        = |files| operations::exists(files.door(), &files.at(path)?);
    /// Files and directories whose paths are like a pattern: `**/*.py`, `data/{a,b}?.csv`.
    glob, glob_blocking(pattern: &str as String) -> Found
        = |files| operations::glob(files.door(), &files.pattern(pattern)?, &FindOptions::default());
    /// The same, with names that begin with a dot, or more of them.
    glob_with, glob_with_blocking(pattern: &str as String, options: &FindOptions as FindOptions) -> Found
        = |files| operations::glob(files.door(), &files.pattern(pattern)?, options);
    /// Lines that match a regular expression.
    grep, grep_blocking(pattern: &str as String, options: &GrepOptions as GrepOptions) -> Grep
        = |files| operations::grep(files.door(), pattern, &files.searched(options)?);
    /// Makes a directory, and those above it. One that is there is no error.
    make_directory, make_directory_blocking(path: &str as String) -> ()
        = |files| operations::make_directory(files.door(), &files.at(path)?);
    /// Moves a file or a directory. A file that is there is replaced.
    rename, rename_blocking(from: &str as String, to: &str as String) -> ()
        = |files| operations::rename(files.door(), &files.at(from)?, &files.at(to)?);
    /// Copies a file or a directory; links are copied as links.
    copy, copy_blocking(from: &str as String, to: &str as String) -> Copied
        = |files| operations::copy(files.door(), &files.at(from)?, &files.at(to)?);
    /// Removes a file or an empty directory; or a directory with all that is in it.
    remove, remove_blocking(path: &str as String; recursive: bool) -> ()
        = |files| operations::remove(files.door(), &files.at(path)?, recursive);
    /// Bytes and files below a path.
    usage, usage_blocking(path: &str as String) -> DiskUsage
        = |files| operations::usage(files.door(), &files.at(path)?, MOST_COUNTED);
    /// Writes many files. One that fails keeps none of the others back.
    upload, upload_blocking(contents: &[(String, Vec<u8>)] as Vec<(String, Vec<u8>)>) -> Vec<Uploaded>
        = |files| Ok::<_, FileError>(files.upload_each(contents));
    /// Reads many files, up to 1 GiB together. One that fails keeps none of the others back.
    download, download_blocking(paths: &[String] as Vec<String>) -> Vec<Downloaded>
        = |files| Ok::<_, FileError>(files.download_each(paths));
}

impl Files {
    pub(crate) fn new(door: Arc<dyn FileDoor>, workspace: String, directory: Option<PathBuf>) -> Self {
        Self { door, workspace, directory }
    }

    /// Where the files are on the host, if they are on disk.
    pub fn directory(&self) -> Option<&PathBuf> {
        self.directory.as_ref()
    }

    /// For those who copy whole workspaces.
    pub fn door(&self) -> &dyn FileDoor {
        self.door.as_ref()
    }

    /// Makes or replaces a file of any size, at once.
    pub fn write_from_blocking(&self, path: &str, contents: &mut dyn Read) -> Result<(), Error> {
        operations::write(self.door(), &self.at(path)?, contents)?;
        Ok(())
    }

    /// Hears of files that are made, changed or removed, by whomever, from now on. The kernel tells of files on disk;
    /// files in memory are looked at from time to time. Blocks for a moment.
    pub fn watch_blocking(&self) -> Result<FileWatch, Error> {
        FileWatch::new(&self.door, self.directory.as_deref())
    }

    /// [`Files::watch_blocking`] for async code.
    pub async fn watch(&self) -> Result<FileWatch, Error> {
        self.in_background(Self::watch_blocking).await
    }

    /// A path as the doors want it.
    fn at(&self, path: &str) -> Result<String, FileError> {
        workspace_path(path, &self.workspace, &ALIASES)
    }

    /// A pattern as the doors want it.
    fn pattern(&self, pattern: &str) -> Result<String, FileError> {
        if pattern.starts_with('/') { self.at(pattern) } else { Ok(pattern.to_owned()) }
    }

    fn searched(&self, options: &GrepOptions) -> Result<GrepOptions, FileError> {
        Ok(GrepOptions { path: self.at(&options.path)?, ..options.clone() })
    }

    fn upload_each(&self, contents: &[(String, Vec<u8>)]) -> Vec<Uploaded> {
        let one = |(path, contents): &(String, Vec<u8>)| {
            let done =
                self.at(path).and_then(|at| operations::write(self.door(), &at, &mut contents.as_slice()));
            Uploaded { path: path.clone(), error: done.err() }
        };
        contents.iter().map(one).collect()
    }

    fn download_each(&self, paths: &[String]) -> Vec<Downloaded> {
        let mut left = MOST_READ;
        let one = |path: &String| {
            let read = self.at(path).and_then(|at| operations::read(self.door(), &at, left));
            left -= read.as_ref().map_or(0, |contents| contents.len() as u64);
            let (contents, error) = match read {
                Ok(contents) => (Some(contents), None),
                Err(error) => (None, Some(error)),
            };
            Downloaded { path: path.clone(), contents, error }
        };
        paths.iter().map(one).collect()
    }

    async fn in_background<T: Send + 'static>(
        &self,
        body: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let files = self.clone();
        tokio::task::spawn_blocking(move || body(&files)).await.unwrap_or(Err(Error::Abandoned))
    }
}
