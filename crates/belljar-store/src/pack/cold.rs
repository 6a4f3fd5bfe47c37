//! The cold form of packs.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::draft::{Draft, sync_directory};
use crate::error::{At, Result};
use crate::hash::Hash;
use crate::pack::read::{Pack, SlotReader};
use crate::pack::table::PackTable;
use crate::pack::{cold_path, hot_path, trailer};

pub(super) const COLD: [u8; 8] = *b"BJpackC\n";
const LEVEL: i32 = 1;
/// Set in the stored length of a slot that didn't shrink.
const RAW: u32 = 1 << 31;
const CHECKSUM: usize = 8;
const ENTRY: usize = 4 + CHECKSUM;

/// Where a slot is in a cold pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredSlot {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) raw: bool,
    /// Of the compressed bytes: what is damaged never reaches the decompressor. Zero if raw.
    pub(super) checksum: [u8; CHECKSUM],
}

/// The first bytes of their hash.
pub(super) fn checksum(compressed: &[u8]) -> [u8; CHECKSUM] {
    let mut checksum = [0; CHECKSUM];
    checksum.copy_from_slice(&Hash::of(compressed).as_bytes()[..CHECKSUM]);
    checksum
}

/// Replaces the hot form of a pack by the cold one; returns by how many bytes it shrank.
///
/// The caller keeps garbage from being collected.
pub(crate) fn cool(packs: &Path, id: Hash) -> Result<i64> {
    let hot = hot_path(packs, id);
    let pack = Pack::hot(File::open(&hot).at("open", &hot)?, hot.clone(), id)?;
    let before = pack.file.metadata().at("read", &hot)?.len();
    let draft = Draft::create(packs)?;
    let mut output = io::BufWriter::with_capacity(1 << 20, draft.file());
    write_cold(&pack, &mut output, draft.path())?;
    output.flush().at("write", draft.path())?;
    drop(output);
    let after = draft.file().metadata().at("read", draft.path())?.len();
    draft.sync()?;
    draft.place(&cold_path(packs, id))?.keep();
    // The cold form must be there for good before the hot one goes.
    sync_directory(packs)?;
    std::fs::remove_file(&hot).at("remove", &hot)?;
    Ok(before as i64 - after as i64)
}

/// Writes the cold form of a pack, verifying every slot on the way.
pub(crate) fn write_cold(pack: &Pack, output: &mut impl Write, path: &Path) -> Result<()> {
    let mut reader = SlotReader::new();
    let mut compressor = zstd::bulk::Compressor::new(LEVEL).at("write", path)?;
    let table = pack.table.encode();
    let mut section = Vec::with_capacity(table.len() + ENTRY * pack.table.slots());
    section.extend_from_slice(&table);
    let mut compressed = Vec::new();
    for slot in 0..pack.table.slots() {
        let bytes = reader.read(pack, slot)?;
        compressed.clear();
        compressed.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        compressor.compress_to_buffer(bytes, &mut compressed).at("write", path)?;
        if compressed.len() < bytes.len() {
            output.write_all(&compressed).at("write", path)?;
            section.extend((compressed.len() as u32).to_le_bytes());
            section.extend(checksum(&compressed));
        } else {
            output.write_all(bytes).at("write", path)?;
            section.extend((bytes.len() as u32 | RAW).to_le_bytes());
            section.extend([0; CHECKSUM]);
        }
    }
    output.write_all(&section).at("write", path)?;
    output.write_all(&trailer::encode(COLD, &section)).at("write", path)
}

/// Reads and verifies a whole cold pack that came from elsewhere; returns its name.
pub(crate) fn check_cold(file: File, path: &Path) -> Result<Hash> {
    let pack = Pack::cold(file, path.to_owned(), None)?;
    pack.verify()?;
    Ok(pack.id)
}

/// Reads the section of a cold pack that begins at `end`: the table, and how each slot is stored.
pub(super) fn decode(section: &[u8], end: u64) -> Result<(PackTable, Vec<StoredSlot>), &'static str> {
    let (table, rest) = PackTable::decode(section)?;
    if rest.len() != ENTRY * table.slots() {
        return Err("its table counts other slots than it has");
    }
    let mut offset = 0;
    let mut stored = Vec::with_capacity(table.slots());
    for (slot, entry) in rest.chunks_exact(ENTRY).enumerate() {
        let word = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let mut checksum = [0; CHECKSUM];
        checksum.copy_from_slice(&entry[4..]);
        let (length, raw) = (word & !RAW, word & RAW != 0);
        let (_, whole) = table.place(slot).ok_or("its table counts other slots than it has")?;
        let sound = if raw { length as usize == whole } else { (length as usize) < whole };
        if !sound {
            return Err("its table has a slot of an impossible length");
        }
        stored.push(StoredSlot { offset, length, raw, checksum });
        offset += u64::from(length);
    }
    if offset != end {
        return Err("its length isn't what its table says");
    }
    Ok((table, stored))
}
