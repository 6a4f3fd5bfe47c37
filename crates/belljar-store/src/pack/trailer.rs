//! The end of a pack, from which it is read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{At, Result, StoreError};
use crate::hash::Hash;

const VERSION: u32 = 1;
pub(crate) const LENGTH: usize = 8 + 4 + 4 + 8 + Hash::LENGTH;
/// Tables are a thousandth of what they describe; nothing that a pack can hold has a larger one.
const MOST_SECTION: u64 = 256 << 20;

/// Says what comes before it: a section of some length with some hash.
pub(crate) fn encode(magic: [u8; 8], section: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LENGTH);
    bytes.extend(magic);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend((section.len() as u64).to_le_bytes());
    bytes.extend(Hash::of(section).as_bytes());
    bytes
}

/// Reads and verifies the section before the trailer; returns it, its hash and where it begins.
pub(crate) fn read(file: &File, path: &Path, magic: [u8; 8]) -> Result<(Vec<u8>, Hash, u64)> {
    let damaged = |reason: &str| Err(StoreError::damaged(path, reason));
    let metadata = file.metadata().at("read", path)?;
    if !metadata.is_file() {
        return damaged("it isn't a file");
    }
    let Some(end) = metadata.len().checked_sub(LENGTH as u64) else {
        return damaged("it is too short to be a pack");
    };
    let mut trailer = [0; LENGTH];
    file.read_exact_at(&mut trailer, end).at("read", path)?;
    let word = |at: usize| [trailer[at], trailer[at + 1], trailer[at + 2], trailer[at + 3]];
    if trailer[..8] != magic {
        return damaged("it doesn't end like a pack: it is cut short, appended to, or something else");
    }
    let version = u32::from_le_bytes(word(8));
    if version > VERSION {
        return Err(StoreError::Future { path: path.to_owned(), version });
    }
    if version != VERSION || word(12) != [0; 4] {
        return damaged("its trailer makes no sense");
    }
    let length = u64::from(u32::from_le_bytes(word(16))) | u64::from(u32::from_le_bytes(word(20))) << 32;
    let Some(start) = end.checked_sub(length).filter(|_| length <= MOST_SECTION) else {
        return damaged("its trailer names a longer table than there is");
    };
    let mut section = vec![0; length as usize];
    file.read_exact_at(&mut section, start).at("read", path)?;
    let hash = Hash::of(&section);
    if hash.as_bytes()[..] != trailer[24..] {
        return damaged("the checksum of its table is wrong");
    }
    Ok((section, hash, start))
}
