//! A session as one file, for other machines and years.
//!
//! ```text
//! magic, version | section… | end
//! section: kind, name, length of the payload, payload, hash of all that
//! ```
//!
//! The end has the hash of all hashes before it, so no section can be missing or in another place.

mod export;
mod import;

use crate::hash::Hash;

const MAGIC: [u8; 8] = *b"BJparcl\n";
const VERSION: u32 = 1;
const HEAD: usize = 1 + Hash::LENGTH + 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Record = 1,
    History = 2,
    Point = 3,
    /// In its cold form.
    Pack = 4,
    End = 5,
    /// What the caller wants to travel along.
    Attachment = 6,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Record, Self::History, Self::Point, Self::Pack, Self::End, Self::Attachment]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// What comes before a payload.
fn head(kind: Kind, name: Hash, length: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[0] = kind as u8;
    head[1..33].copy_from_slice(name.as_bytes());
    head[33..].copy_from_slice(&length.to_le_bytes());
    head
}

/// The hash of a section, from its head and the hash of its payload: the length is known last.
fn section_hash(head: &[u8; HEAD], payload: &[u8; 32]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    Hash::from_bytes(hasher.finalize().into())
}

/// Sections without a name have this one.
fn no_name() -> Hash {
    Hash::from_bytes([0; 32])
}
