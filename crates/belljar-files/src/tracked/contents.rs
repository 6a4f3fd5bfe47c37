//! What was in a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::blocks::{self, Digest};
use super::objects::Object;
use super::vault::VaultFile;

/// Contents of a file at one moment. They stay the same, and where they are is given back with them.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) size: u64,
    pub(super) body: Body,
    digest: OnceLock<Digest>,
}

#[derive(Debug)]
pub(super) enum Body {
    Memory { bytes: Box<[u8]>, _share: Share },
    Vault(VaultFile),
    Object(Object),
}

/// Bytes that are counted as long as they are kept.
#[derive(Debug)]
pub(super) struct Share {
    counter: Arc<AtomicU64>,
    bytes: u64,
}

impl Share {
    /// Counts bytes, unless there would be too many.
    pub(super) fn take(counter: &Arc<AtomicU64>, bytes: u64, most: u64) -> Option<Self> {
        let fits = |now: u64| now.checked_add(bytes).filter(|sum| *sum <= most);
        counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Self { counter: Arc::clone(counter), bytes })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Contents {
    pub(super) fn new(size: u64, body: Body) -> Self {
        let digest = match &body {
            Body::Object(object) => OnceLock::from(object.digest()),
            _ => OnceLock::new(),
        };
        Self { size, body, digest }
    }

    /// Writes them into a new file. Contents that came from outside are checked before they count.
    pub(super) fn write(&self, file: &File) -> io::Result<()> {
        match &self.body {
            Body::Memory { bytes, .. } => file.write_all_at(bytes, 0),
            Body::Vault(kept) => blocks::copy(&kept.open()?, file, self.size, u64::MAX).map(drop),
            Body::Object(object) => {
                let digest = blocks::copy_checked(&object.open()?, file, self.size)?;
                match digest == object.digest() {
                    true => Ok(()),
                    false => Err(io::Error::new(io::ErrorKind::InvalidData, "the object is damaged")),
                }
            }
        }
    }

    /// Whether a file has these contents.
    pub(super) fn is_in(&self, file: &File) -> io::Result<bool> {
        if file.metadata()?.len() != self.size {
            return Ok(false);
        }
        match &self.body {
            Body::Memory { bytes, .. } => {
                let mut there = vec![0; bytes.len()];
                file.read_exact_at(&mut there, 0)?;
                Ok(there[..] == bytes[..])
            }
            Body::Vault(kept) => blocks::are_same(&kept.open()?, file, self.size),
            Body::Object(object) => Ok(blocks::digest(file, self.size)? == object.digest()),
        }
    }

    /// What names them among objects.
    pub(super) fn digest(&self) -> io::Result<Digest> {
        if let Some(digest) = self.digest.get() {
            return Ok(*digest);
        }
        let digest = match &self.body {
            Body::Memory { bytes, .. } => blocks::digest_bytes(bytes),
            Body::Vault(kept) => blocks::digest(&kept.open()?, self.size)?,
            Body::Object(object) => object.digest(),
        };
        Ok(*self.digest.get_or_init(|| digest))
    }
}
