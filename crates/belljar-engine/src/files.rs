//! What hosts do with a session's files: small operations, as messages.
//!
//! Whatever is more than one of them (finding, searching, editing, copying, archives) is made of them, so that it is
//! written once for directories of the host, for trees in memory, and for those of a jail.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Bytes of contents in one operation, at most.
pub const MOST_IN_ONE: u64 = 8 << 20;
/// Entries of one directory that are listed at most.
pub const MOST_LISTED: usize = 1_000_000;

/// A way to a session's files.
pub trait FileDoor: Send + Sync {
    /// Does one operation. Blocks, but never for long: nothing that isn't a file or a directory is opened.
    fn file(&self, operation: FileOp) -> Result<FileReply, FileError>;
}

/// One operation on a session's files.
///
/// Paths are relative to the workspace, in UTF-8, without `.`, `..`, empty names and NUL; an empty path is the
/// workspace itself. Links are followed inside the workspace only; the last name of a path isn't followed where
/// the operation is about a name (`stat` without `follow`, `remove`, `rename`, `read_link`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileOp {
    /// What is there. Answered by [`FileReply::Stat`].
    Stat {
        /// The path.
        path: String,
        /// Whether a link is followed.
        follow: bool,
    },
    /// The entries of a directory, by name. Answered by [`FileReply::List`].
    List {
        /// The path.
        path: String,
    },
    /// A part of a file; less at its end. Answered by [`FileReply::Contents`].
    Read {
        /// The path.
        path: String,
        /// Where to begin.
        offset: u64,
        /// Bytes, at most [`MOST_IN_ONE`].
        length: u64,
    },
    /// Writes a file, of at most [`MOST_IN_ONE`] bytes at once.
    Write {
        /// The path. The directories above it are made.
        path: String,
        /// The bytes.
        contents: Vec<u8>,
        /// What becomes of what is there.
        how: WriteHow,
    },
    /// Makes a directory, and those above it. One that is there is no error.
    MakeDirectory {
        /// The path.
        path: String,
    },
    /// Makes a symbolic link. What it leads to isn't looked at.
    MakeLink {
        /// The path. The directories above it are made.
        path: String,
        /// Where it leads.
        target: String,
    },
    /// Where a symbolic link leads. Answered by [`FileReply::Contents`].
    ReadLink {
        /// The path.
        path: String,
    },
    /// Gives something another name. A file that is there is replaced; the directories above are made.
    Rename {
        /// The path.
        from: String,
        /// The new one.
        to: String,
    },
    /// Removes a file, a link, something special, or an empty directory.
    Remove {
        /// The path.
        path: String,
    },
    /// Changes what isn't contents. `None` stays.
    Set {
        /// The path. A link isn't followed.
        path: String,
        /// Whether it can be executed.
        executable: Option<bool>,
        /// When it was changed, in nanoseconds since 1970.
        modified_ns: Option<i64>,
    },
}

impl FileOp {
    /// Whether it changes anything.
    pub fn changes(&self) -> bool {
        !matches!(self, Self::Stat { .. } | Self::List { .. } | Self::Read { .. } | Self::ReadLink { .. })
    }
}

/// What becomes of a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteHow {
    /// It is replaced at once: whoever reads it sees the old contents or the new ones. Its mode stays.
    Replace,
    /// It is an error.
    Create,
    /// The bytes are added to it.
    Append,
}

/// The answer to a [`FileOp`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileReply {
    /// It is done.
    Done,
    /// What is there.
    Stat(FileStat),
    /// Entries, sorted by name.
    List(Vec<FileEntry>),
    /// Bytes.
    Contents(Vec<u8>),
}

/// What something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket, a device.
    Other,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// Bytes; a file with holes may need less.
    pub size: u64,
    /// When it was changed, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Whether its owner may execute it.
    pub executable: bool,
    /// Whether nothing can be changed there: it belongs to others.
    pub read_only: bool,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name. What isn't UTF-8 is listed with replacement characters, and can't be opened.
    pub name: String,
    /// What is known of it.
    pub stat: FileStat,
}

/// Why an operation on files failed. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{path}: {message}")]
pub struct FileError {
    /// For programs.
    pub code: FileErrorCode,
    /// The path, as it was given.
    pub path: String,
    /// For people.
    pub message: String,
}

/// Why an operation on files failed, in the words that agents know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileErrorCode {
    /// There is nothing.
    FileNotFound,
    /// It belongs to others, or is closed to its owner.
    PermissionDenied,
    /// A file was expected.
    IsDirectory,
    /// A directory was expected.
    NotDirectory,
    /// The path makes no sense, or leads out of the workspace.
    InvalidPath,
    /// Something is there.
    AlreadyExists,
    /// The directory has entries.
    NotEmpty,
    /// It is a pipe, a socket or a device, which are never opened.
    NotAFile,
    /// It is larger than can be handled at once.
    TooLarge,
    /// The quota, or the disk, is full.
    DiskFull,
    /// The text to replace isn't there, or is there more than once.
    NoMatch,
    /// The text isn't UTF-8, or a pattern isn't one.
    InvalidText,
    /// Something else, which the message tells.
    Failed,
}

impl FileErrorCode {
    /// As agents read it: `file_not_found`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileNotFound => "file_not_found",
            Self::PermissionDenied => "permission_denied",
            Self::IsDirectory => "is_directory",
            Self::NotDirectory => "not_directory",
            Self::InvalidPath => "invalid_path",
            Self::AlreadyExists => "already_exists",
            Self::NotEmpty => "not_empty",
            Self::NotAFile => "not_a_file",
            Self::TooLarge => "too_large",
            Self::DiskFull => "disk_full",
            Self::NoMatch => "no_match",
            Self::InvalidText => "invalid_text",
            Self::Failed => "failed",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::FileNotFound => "there is no such file or directory",
            Self::PermissionDenied => "it cannot be changed or read",
            Self::IsDirectory => "it is a directory",
            Self::NotDirectory => "it is not a directory",
            Self::InvalidPath => "it is not a path in the workspace",
            Self::AlreadyExists => "there is something already",
            Self::NotEmpty => "the directory is not empty",
            Self::NotAFile => "it is neither a file nor a directory",
            Self::TooLarge => "it is too large",
            Self::DiskFull => "there is no room for it",
            Self::NoMatch => "the text is not there",
            Self::InvalidText => "it is not text in UTF-8",
            Self::Failed => "it failed",
        }
    }
}

impl fmt::Display for FileErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FileError {
    /// With the usual words.
    pub fn new(code: FileErrorCode, path: impl Into<String>) -> Self {
        Self { code, path: path.into(), message: code.words().to_owned() }
    }

    /// With words of its own.
    pub fn told(code: FileErrorCode, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, path: path.into(), message: message.into() }
    }
}
