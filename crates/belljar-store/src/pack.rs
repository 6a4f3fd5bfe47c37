//! Packs: immutable files of memory and contents, which points refer to.
//!
//! A pack begins with its slots, one after the other and without gaps: first blocks of memory, extent by extent, then
//! chunks of files. Its table, which says how long each slot is and what its hash is, comes behind them, and a trailer
//! ends the file. The hash of the table is the name of the pack. *Hot*, a pack is raw, and memory can be mapped from
//! it; *cold*, each slot is compressed. Name and table are the same in both forms, so that points don't care.

mod cold;
mod read;
mod table;
mod trailer;
mod write;

use std::path::{Path, PathBuf};

pub(crate) use cold::{check_cold, cool, write_cold};
pub(crate) use read::{Pack, SlotReader};
pub(crate) use table::{MOST_CHUNK, bytes_of};
pub(crate) use write::{NewPack, PackWriter};

use crate::hash::Hash;

/// Who wrote a pack: a random number that a session gets when it is made.
pub(crate) type Writer = [u8; 16];

/// What a point says about a pack.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PackReference {
    pub(crate) id: Hash,
    /// Only this session, its forks and imports can refer to the pack.
    pub(crate) writer: Writer,
    /// How many bytes all its slots have.
    pub(crate) length: u64,
}

pub(crate) fn hot_path(packs: &Path, id: Hash) -> PathBuf {
    packs.join(format!("{id}.hot"))
}

pub(crate) fn cold_path(packs: &Path, id: Hash) -> PathBuf {
    packs.join(format!("{id}.cold"))
}

/// The pack that a file's name names, and whether it is the hot form.
pub(crate) fn pack_name(file: &str) -> Option<(Hash, bool)> {
    let (id, form) = file.split_once('.')?;
    match form {
        "hot" => Some((Hash::parse(id)?, true)),
        "cold" => Some((Hash::parse(id)?, false)),
        _ => None,
    }
}

/// Whether a pack is there, in either form.
pub(crate) fn exists(packs: &Path, id: Hash) -> bool {
    // Hot first: a pack that is cooled between the two looks is seen by the second.
    let there = |path: PathBuf| rustix::fs::access(&path, rustix::fs::Access::EXISTS).is_ok();
    there(hot_path(packs, id)) || there(cold_path(packs, id))
}

/// Removes both forms, and says how many bytes that freed.
pub(crate) fn remove(packs: &Path, id: Hash) -> u64 {
    [hot_path(packs, id), cold_path(packs, id)]
        .iter()
        .filter_map(|path| {
            let length = std::fs::metadata(path).ok()?.len();
            std::fs::remove_file(path).ok().map(|()| length)
        })
        .sum()
}
