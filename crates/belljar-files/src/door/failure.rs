//! What went wrong below a door, until the path is known that it is told with.

use belljar_engine::{FileError, FileErrorCode};
use rustix::io::Errno;

/// Why an operation failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// By a system call.
    System(Errno),
    /// At another path than the one that is asked for.
    At(Box<FileError>),
    /// By a rule of ours.
    Rule(FileErrorCode, Option<&'static str>),
}

impl Failure {
    pub(super) fn told(code: FileErrorCode, message: &'static str) -> Self {
        Self::Rule(code, Some(message))
    }

    /// As the caller learns of it.
    pub(super) fn at(self, path: &str) -> FileError {
        match self {
            Self::At(error) => *error,
            Self::Rule(code, None) => FileError::new(code, path),
            Self::Rule(code, Some(message)) => FileError::told(code, path, message),
            Self::System(errno) => {
                let code = code(errno);
                match (code, message(errno)) {
                    (_, Some(message)) => FileError::told(code, path, message),
                    (FileErrorCode::Failed, None) => {
                        FileError::told(code, path, std::io::Error::from(errno).to_string())
                    }
                    (_, None) => FileError::new(code, path),
                }
            }
        }
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl From<FileErrorCode> for Failure {
    fn from(code: FileErrorCode) -> Self {
        Self::Rule(code, None)
    }
}

fn code(errno: Errno) -> FileErrorCode {
    match errno {
        Errno::NOENT => FileErrorCode::FileNotFound,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::BUSY | Errno::TXTBSY => {
            FileErrorCode::PermissionDenied
        }
        Errno::ISDIR => FileErrorCode::IsDirectory,
        Errno::NOTDIR => FileErrorCode::NotDirectory,
        Errno::LOOP | Errno::XDEV | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
            FileErrorCode::InvalidPath
        }
        Errno::EXIST => FileErrorCode::AlreadyExists,
        Errno::NOTEMPTY => FileErrorCode::NotEmpty,
        Errno::NXIO | Errno::NODEV => FileErrorCode::NotAFile,
        Errno::FBIG | Errno::OVERFLOW => FileErrorCode::TooLarge,
        Errno::NOSPC | Errno::DQUOT | Errno::MLINK => FileErrorCode::DiskFull,
        _ => FileErrorCode::Failed,
    }
}

fn message(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::LOOP => Some("the links in it lead in a circle, or change all the time"),
        Errno::XDEV => Some("it leads out of the workspace, or into another file system"),
        Errno::NAMETOOLONG => Some("the path, or a name in it, is too long"),
        Errno::NOSYS => {
            Some("this kernel has no openat2, which files are opened by; Linux 5.6 is the first with it")
        }
        Errno::AGAIN => Some("another process holds it with a lease; try again"),
        _ => None,
    }
}
