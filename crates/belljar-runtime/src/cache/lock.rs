use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::error::CacheError;
use crate::progress::Progress;

/// The sole right to make or remove an entry. The kernel frees it when the holder dies, however it dies.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for it.
    pub(super) fn take(path: &Path, progress: &dyn Progress) -> Result<Self, CacheError> {
        if let Some(lock) = Self::try_take(path)? {
            return Ok(lock);
        }
        progress.begin("waiting for another process that makes the same", Duration::from_secs(30));
        let file = open(path)?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(CacheError::io(path, error.into())),
            }
        }
        progress.end();
        Ok(Self { _file: file })
    }

    /// `None` if another holds it.
    pub(super) fn try_take(path: &Path) -> Result<Option<Self>, CacheError> {
        let file = open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(CacheError::io(path, io::Error::from(error))),
        }
    }
}

fn open(path: &Path) -> Result<File, CacheError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    options.open(path).map_err(|error| CacheError::io(path, error))
}
