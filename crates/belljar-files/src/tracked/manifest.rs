//! A moment as bytes: a version, a checksum, and what was where.

use std::io;

use serde::{Deserialize, Serialize};

use super::blocks::Digest;
use super::entry::{Kind, Stamp};
use super::ground::split;
use crate::watch::{DEEPEST, LONGEST};

const VERSION: &[u8; 16] = b"belljar tree 01\n";
const CHECKSUM: usize = 32;
/// Bytes of a name.
const LONGEST_NAME: usize = 255;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedEntry {
    pub(super) path: Vec<u8>,
    pub(super) mode: u32,
    pub(super) modified: (i64, u32),
    pub(super) kind: SavedKind,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SavedKind {
    Directory,
    File { size: u64, digest: Digest },
    Link(Vec<u8>),
}

pub(super) fn write(entries: &[SavedEntry]) -> io::Result<Vec<u8>> {
    let body = postcard::to_stdvec(entries).map_err(io::Error::other)?;
    Ok([&VERSION[..], blake3::hash(&body).as_bytes(), &body].concat())
}

/// Reads a manifest. Nothing of it is believed.
pub(super) fn read(manifest: &[u8]) -> io::Result<Vec<SavedEntry>> {
    let rest =
        manifest.strip_prefix(VERSION).ok_or_else(|| wrong("it is not a tree that this version knows"))?;
    let (checksum, body) = rest.split_at_checked(CHECKSUM).ok_or_else(|| wrong("it is too short"))?;
    if blake3::hash(body).as_bytes() != checksum {
        return Err(wrong("its checksum is another"));
    }
    let (entries, rest): (Vec<SavedEntry>, _) =
        postcard::take_from_bytes(body).map_err(|_| wrong("it makes no sense"))?;
    if !rest.is_empty() {
        return Err(wrong("there is more than a tree"));
    }
    check(&entries)?;
    Ok(entries)
}

/// The digests that a manifest refers to.
pub(super) fn digests(manifest: &[u8]) -> io::Result<Vec<Digest>> {
    let digests = read(manifest)?.into_iter().filter_map(|entry| match entry.kind {
        SavedKind::File { digest, .. } => Some(digest),
        _ => None,
    });
    Ok(digests.collect())
}

/// Each path is sound, comes after its directory, and only once.
fn check(entries: &[SavedEntry]) -> io::Result<()> {
    let mut directories = std::collections::HashSet::from([&b""[..]]);
    let mut last: Option<&[u8]> = None;
    for entry in entries {
        let (parent, name) = split(&entry.path);
        let sound = !name.is_empty() && name != b"." && name != b".." && !name.contains(&0);
        let short = name.len() <= LONGEST_NAME && entry.path.len() <= LONGEST;
        let shallow = entry.path.iter().filter(|byte| **byte == b'/').count() <= DEEPEST;
        let ordered = last.is_none_or(|last| last < &entry.path[..]);
        if !sound || !short || !shallow || !ordered || !directories.contains(parent) {
            return Err(wrong("a path makes no sense"));
        }
        last = Some(&entry.path);
        match &entry.kind {
            SavedKind::Directory => drop(directories.insert(&entry.path)),
            SavedKind::Link(target) if target.is_empty() || target.contains(&0) || target.len() > LONGEST => {
                return Err(wrong("a link makes no sense"));
            }
            SavedKind::File { size, .. } if i64::try_from(*size).is_err() => {
                return Err(wrong("a size makes no sense"));
            }
            _ => {}
        }
    }
    Ok(())
}

impl SavedEntry {
    /// What is known of it, without anything of the disk that it was on.
    pub(super) fn stamp(&self, kind: &Kind) -> Stamp {
        let (bits, size) = match (kind, &self.kind) {
            (Kind::Directory, _) => (0o040_000, 0),
            (Kind::Link(target), _) => (0o120_000, target.len() as u64),
            (_, SavedKind::File { size, .. }) => (0o100_000, *size),
            _ => (0, 0),
        };
        let modified = (self.modified.0, self.modified.1.min(999_999_999));
        let mode = (self.mode & 0o777) | bits;
        Stamp { inode: 0, size, blocks: size.div_ceil(512), links: 1, mode, changed: (0, 0), modified }
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the saved files can't be read: {what}"))
}
