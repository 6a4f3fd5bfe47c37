use std::io;

use serde::{Deserialize, Serialize};

/// What a file operation answers when it fails: the words of POSIX, without its numbers, so that each
/// engine can translate them to its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Errno {
    /// `EACCES`
    #[error("permission denied")]
    Access,
    /// `EAGAIN`
    #[error("try again")]
    Again,
    /// `EBADF`
    #[error("bad file descriptor")]
    BadDescriptor,
    /// `EBUSY`
    #[error("resource busy")]
    Busy,
    /// `EEXIST`
    #[error("file exists")]
    Exist,
    /// `EINVAL`
    #[error("invalid argument")]
    Invalid,
    /// `EIO`
    #[error("input/output error")]
    Io,
    /// `EISDIR`
    #[error("is a directory")]
    IsDirectory,
    /// `ELOOP`
    #[error("too many levels of symbolic links")]
    Loop,
    /// `ENAMETOOLONG`
    #[error("file name too long")]
    NameTooLong,
    /// `ENOENT`
    #[error("no such file or directory")]
    NoEntry,
    /// `ENOTDIR`
    #[error("not a directory")]
    NotDirectory,
    /// `ENOTEMPTY`
    #[error("directory not empty")]
    NotEmpty,
    /// `ENOSPC`: also what an exhausted [`Quota`](crate::Quota) answers.
    #[error("no space left")]
    NoSpace,
    /// `ENOTSUP`
    #[error("not supported")]
    NotSupported,
    /// `EPERM`: also what a path that leads out of a mount answers.
    #[error("operation not permitted")]
    NotPermitted,
    /// `EROFS`
    #[error("read-only file system")]
    ReadOnly,
    /// `EXDEV`
    #[error("cross-device link")]
    CrossDevice,
    /// `EFBIG`
    #[error("file too large")]
    TooLarge,
    /// `EMFILE`
    #[error("too many open files")]
    TooManyOpen,
    /// `EMLINK`
    #[error("too many links")]
    TooManyLinks,
    /// `EILSEQ`
    #[error("illegal byte sequence")]
    IllegalByteSequence,
    /// `EOVERFLOW`
    #[error("value too large")]
    Overflow,
    /// `EINTR`
    #[error("interrupted")]
    Interrupted,
}

/// The result of a file operation.
pub type Result<T> = std::result::Result<T, Errno>;

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Self {
        use rustix::io::Errno as Host;
        match error {
            Host::ACCESS => Self::Access,
            Host::AGAIN => Self::Again,
            Host::BADF => Self::BadDescriptor,
            Host::BUSY | Host::TXTBSY => Self::Busy,
            Host::EXIST => Self::Exist,
            Host::INVAL => Self::Invalid,
            Host::ISDIR => Self::IsDirectory,
            Host::LOOP => Self::Loop,
            Host::NAMETOOLONG => Self::NameTooLong,
            Host::NOENT => Self::NoEntry,
            Host::NOTDIR => Self::NotDirectory,
            Host::NOTEMPTY => Self::NotEmpty,
            Host::NOSPC | Host::DQUOT => Self::NoSpace,
            // `ENXIO` and `ENODEV` come from sockets, FIFOs and devices, which aren't served.
            Host::NOTSUP | Host::NOSYS | Host::NXIO | Host::NODEV => Self::NotSupported,
            Host::PERM => Self::NotPermitted,
            Host::ROFS => Self::ReadOnly,
            Host::XDEV => Self::CrossDevice,
            Host::FBIG => Self::TooLarge,
            Host::MFILE | Host::NFILE => Self::TooManyOpen,
            Host::MLINK => Self::TooManyLinks,
            Host::ILSEQ => Self::IllegalByteSequence,
            Host::OVERFLOW => Self::Overflow,
            Host::INTR => Self::Interrupted,
            _ => Self::Io,
        }
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        if let Some(host) = rustix::io::Errno::from_io_error(&error) {
            return host.into();
        }
        // Errors that cap-std makes itself have no number; a refused escape is `PermissionDenied`.
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted,
            io::ErrorKind::NotFound => Self::NoEntry,
            io::ErrorKind::AlreadyExists => Self::Exist,
            io::ErrorKind::NotADirectory => Self::NotDirectory,
            io::ErrorKind::InvalidInput => Self::Invalid,
            io::ErrorKind::InvalidData => Self::IllegalByteSequence,
            io::ErrorKind::Unsupported => Self::NotSupported,
            io::ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::Io,
        }
    }
}
