//! Where contents are kept that can be put back: small ones in memory, others in a directory of Belljar's own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, openat, unlinkat};

use super::blocks;
use super::contents::{Body, Contents, Share};

/// Files of this size and less are kept in memory.
const SMALL: u64 = 64 << 10;
/// Bytes that one session keeps in memory.
const MOST_IN_MEMORY: u64 = 16 << 20;

/// One session's kept contents.
#[derive(Debug)]
pub(super) struct Vault {
    directory: Arc<VaultDirectory>,
    in_memory: Arc<AtomicU64>,
    /// Bytes that were copied into the directory.
    copied: Arc<AtomicU64>,
    most_file: u64,
    most_total: u64,
}

/// How much may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bounds {
    /// What the settings say.
    Settings,
    /// All.
    None,
}

/// A directory that is removed when nothing kept in it is needed any more. While it lives, it is locked.
#[derive(Debug)]
struct VaultDirectory {
    handle: OwnedFd,
    path: PathBuf,
    last: AtomicU64,
}

/// A file in it.
#[derive(Debug)]
pub(super) struct VaultFile {
    directory: Arc<VaultDirectory>,
    number: u64,
    share: Option<Share>,
}

impl Vault {
    /// Makes a place of its own in the vault, and clears away what sessions of dead processes left there.
    pub(super) fn open(vault: &Path, most_file: u64, most_total: u64) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(vault)?;
        clear(vault);
        let directory = Arc::new(VaultDirectory::make(vault)?);
        Ok(Self { directory, in_memory: Arc::default(), copied: Arc::default(), most_file, most_total })
    }

    /// Keeps what is in a file. None if there isn't room for it.
    pub(super) fn keep(&self, file: &File, size: u64, bounds: Bounds) -> io::Result<Option<Contents>> {
        let (most_file, left) = match bounds {
            Bounds::Settings => (self.most_file, self.most_total.saturating_sub(self.kept())),
            Bounds::None => (u64::MAX, u64::MAX),
        };
        if size <= SMALL.min(most_file).min(left)
            && let Some(share) = Share::take(&self.in_memory, size, MOST_IN_MEMORY)
        {
            let mut bytes = vec![0; size as usize];
            file.read_exact_at(&mut bytes, 0)?;
            return Ok(Some(Contents::new(size, Body::Memory { bytes: bytes.into(), _share: share })));
        }
        let (mut kept, copy) = self.directory.create()?;
        match blocks::copy(file, &copy, size, most_file.min(left)) {
            // What a moment needs is there as long as the moment, and not counted.
            Ok(copied) if bounds == Bounds::Settings => {
                kept.share = Share::take(&self.copied, copied, u64::MAX)
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(Some(Contents::new(size, Body::Vault(kept))))
    }

    /// Bytes that were copied to be kept.
    pub(super) fn kept(&self) -> u64 {
        self.in_memory.load(Ordering::Relaxed) + self.copied.load(Ordering::Relaxed)
    }

    /// Whether a file could be kept if others weren't.
    pub(super) fn could_keep(&self, bytes: u64) -> bool {
        bytes <= self.most_file && bytes <= self.most_total
    }
}

impl VaultDirectory {
    fn make(vault: &Path) -> io::Result<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = LAST.fetch_add(1, Ordering::Relaxed);
            let path = vault.join(format!("{}{number}", own_prefix()?));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                // Only by the strangest of chances.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            let handle = match File::open(&path) {
                Ok(handle) => handle,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            flock(&handle, FlockOperation::LockExclusive)?;
            // Somebody may have thought it a dead session's before it was locked.
            if fs::metadata(&path)
                .is_ok_and(|there| Some(there.ino()) == handle.metadata().ok().map(|own| own.ino()))
            {
                return Ok(Self { handle: handle.into(), path, last: AtomicU64::new(0) });
            }
        }
    }

    fn create(self: &Arc<Self>) -> io::Result<(VaultFile, File)> {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = format!("{number}");
        let file = File::from(openat(&self.handle, name, flags, Mode::from_raw_mode(0o600))?);
        Ok((VaultFile { directory: Arc::clone(self), number, share: None }, file))
    }
}

impl Drop for VaultDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl VaultFile {
    pub(super) fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = format!("{}", self.number);
        Ok(File::from(openat(self.directory.handle.as_fd(), name, flags, Mode::empty())?))
    }
}

impl Drop for VaultFile {
    fn drop(&mut self) {
        let name = format!("{}", self.number);
        let _ = unlinkat(&self.directory.handle, OsStr::new(&name), AtFlags::empty());
    }
}

/// How names begin that this process gives: those needn't be looked at, and there may be many.
fn own_prefix() -> io::Result<&'static str> {
    static PREFIX: OnceLock<String> = OnceLock::new();
    if let Some(prefix) = PREFIX.get() {
        return Ok(prefix);
    }
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(PREFIX.get_or_init(|| format!("{:016x}-", u64::from_ne_bytes(random))))
}

/// Removes what dead processes left: their locks are gone.
fn clear(vault: &Path) {
    let Ok(own) = own_prefix() else { return };
    let Ok(found) = fs::read_dir(vault) else { return };
    for found in found.flatten() {
        if found.file_name().as_encoded_bytes().starts_with(own.as_bytes()) {
            continue;
        }
        let path = found.path();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(handle) = rustix::fs::open(&path, flags, Mode::empty())
            && flock(&handle, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}
