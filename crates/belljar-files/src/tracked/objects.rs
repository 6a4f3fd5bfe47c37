//! Contents by their digests, shared between all that was saved.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::blocks::Digest;
use super::contents::Contents;
use super::ground::names;
use super::manifest;

/// A directory of contents that moments were saved into.
#[derive(Clone, Debug)]
pub struct Objects {
    directory: Arc<OwnedFd>,
}

/// Keeps what was saved from being collected before it is known where it belongs to.
#[derive(Debug)]
pub struct Hold {
    _lock: OwnedFd,
}

/// Contents in it.
#[derive(Debug)]
pub(super) struct Object {
    directory: Arc<OwnedFd>,
    digest: Digest,
}

impl Objects {
    /// Opens a directory of objects, made if it is missing.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { directory: Arc::new(rustix::fs::open(directory, flags, Mode::empty())?) })
    }

    /// While it is held, nothing is collected: from before a moment is saved until its manifest is where
    /// [`collect`](Self::collect) will be told of it.
    pub fn hold(&self) -> io::Result<Hold> {
        self.lock(FlockOperation::LockShared)
    }

    /// Removes what none of the manifests refers to, and returns how many bytes that were. The manifests are asked for when
    /// nobody saves any more. One that can't be read is an error, and nothing is removed.
    pub fn collect(&self, manifests: impl Iterator<Item = Vec<u8>>) -> io::Result<u64> {
        let _lock = self.lock(FlockOperation::LockExclusive)?;
        let mut needed = HashSet::new();
        for manifest in manifests {
            needed.extend(manifest::digests(&manifest)?);
        }
        let mut removed = 0;
        for shelf in names(&self.directory)? {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(opened) = openat(&*self.directory, &shelf, flags, Mode::empty()) else { continue };
            for name in names(&opened)? {
                let text = [shelf.to_bytes(), name.to_bytes()].concat();
                // What isn't named like an object was left by somebody who died while saving.
                if read_name(&text).is_some_and(|digest| needed.contains(&digest)) {
                    continue;
                }
                let bytes = statat(&opened, &name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(0, |stat| (stat.st_blocks as u64).saturating_mul(512));
                unlinkat(&opened, &name, AtFlags::empty())?;
                removed += bytes;
            }
        }
        Ok(removed)
    }

    /// Where contents with a digest would be.
    pub(super) fn object(&self, digest: Digest) -> Object {
        Object { directory: Arc::clone(&self.directory), digest }
    }

    /// The objects that aren't what their names say.
    pub fn damaged(&self) -> io::Result<Vec<String>> {
        let mut damaged = Vec::new();
        for shelf in names(&self.directory)? {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(opened) = openat(&*self.directory, &shelf, flags, Mode::empty()) else { continue };
            for name in names(&opened)? {
                let text = [shelf.to_bytes(), name.to_bytes()].concat();
                let Some(digest) = read_name(&text) else { continue };
                let whole = self.object(digest).open().and_then(|file| {
                    let mut hasher = blake3::Hasher::new();
                    io::copy(&mut &file, &mut hasher)?;
                    Ok(*hasher.finalize().as_bytes() == digest)
                });
                if !whole.unwrap_or(false) {
                    damaged.push(String::from_utf8_lossy(&text).into_owned());
                }
            }
        }
        Ok(damaged)
    }

    /// Whether contents are there, and undamaged: read once by each process.
    fn has(&self, digest: Digest, contents: &Contents) -> bool {
        static READ: Mutex<BTreeSet<(u64, u64, Digest)>> = Mutex::new(BTreeSet::new());
        let Ok(stat) = rustix::fs::fstat(&*self.directory) else { return false };
        let key = (stat.st_dev, stat.st_ino, digest);
        let Ok(there) = self.object(digest).open() else { return false };
        if !there.metadata().is_ok_and(|there| there.len() == contents.size) {
            return false;
        }
        let read = || READ.lock().unwrap_or_else(PoisonError::into_inner);
        let known = read().contains(&key);
        let whole = known || contents.is_in(&there).unwrap_or(false);
        if whole {
            read().insert(key);
        }
        whole
    }

    /// Keeps contents. When this returns, they are on the disk.
    pub(super) fn save(&self, contents: &Contents) -> io::Result<Digest> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let digest = contents.digest()?;
        if self.has(digest, contents) {
            return Ok(digest);
        }
        let (shelf, name) = name(&digest);
        match mkdirat(&*self.directory, &shelf, Mode::from_raw_mode(0o700)) {
            Ok(()) => rustix::fs::fsync(&*self.directory)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let shelf = openat(&*self.directory, &shelf, flags, Mode::empty())?;
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("new-{}-{number}", std::process::id());
        let _ = unlinkat(&shelf, &temporary, AtFlags::empty());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&shelf, &temporary, flags, Mode::from_raw_mode(0o600))?);
        let written = contents.write(&file).and_then(|()| {
            file.sync_all()?;
            renameat(&shelf, &temporary, &shelf, &name)?;
            Ok(rustix::fs::fsync(&shelf)?)
        });
        if written.is_err() {
            let _ = unlinkat(&shelf, &temporary, AtFlags::empty());
        }
        written.map(|()| digest)
    }

    fn lock(&self, how: FlockOperation) -> io::Result<Hold> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = openat(&*self.directory, "lock", flags, Mode::from_raw_mode(0o600))?;
        flock(&lock, how)?;
        Ok(Hold { _lock: lock })
    }
}

impl Object {
    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    pub(super) fn open(&self) -> io::Result<File> {
        let (shelf, name) = name(&self.digest);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&*self.directory, format!("{shelf}/{name}"), flags, Mode::empty())?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "an object is not a file")),
        }
    }
}

/// The directory and the name of an object.
fn name(digest: &Digest) -> (String, String) {
    let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    (text[..2].to_owned(), text[2..].to_owned())
}

fn read_name(text: &[u8]) -> Option<Digest> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 64 && text.is_ascii())?;
    let mut digest = Digest::default();
    for (place, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(digest)
}
