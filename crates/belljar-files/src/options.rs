use serde::{Deserialize, Serialize};

/// Whether a mounted directory may be changed by the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Every change is refused with [`Errno::ReadOnly`](crate::Errno::ReadOnly).
    ReadOnly,
    /// Changes go to the host's directory. They are outside clones, and so outside rollback.
    ReadWrite,
}

/// How to open a path. The default opens nothing for nothing and follows symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Bytes may be read.
    pub read: bool,
    /// Bytes may be written.
    pub write: bool,
    /// Make a regular file when there is none.
    pub create: bool,
    /// With `create`: fail when there is something already, even a dangling symbolic link.
    pub exclusive: bool,
    /// Empty the file; needs `write`.
    pub truncate: bool,
    /// Fail unless it is a directory.
    pub directory: bool,
    /// Follow a symbolic link in the last place; otherwise it answers [`Errno::Loop`](crate::Errno::Loop).
    pub follow_symlinks: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read: false,
            write: false,
            create: false,
            exclusive: false,
            truncate: false,
            directory: false,
            follow_symlinks: true,
        }
    }
}

impl OpenOptions {
    /// To read an existing file or directory.
    pub fn reading() -> Self {
        Self { read: true, ..Self::default() }
    }

    /// To write a file afresh, made if there is none.
    pub fn writing() -> Self {
        Self { write: true, create: true, truncate: true, ..Self::default() }
    }

    pub(crate) fn mutates(&self) -> bool {
        self.write || self.create || self.truncate
    }
}

/// What an open handle allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandleAccess {
    /// Bytes may be read.
    pub read: bool,
    /// Bytes may be written.
    pub write: bool,
    /// It is a directory.
    pub directory: bool,
}
