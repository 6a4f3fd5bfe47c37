//! Reading packs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{At, Result, StoreError};
use crate::hash::Hash;
use crate::pack::cold::{self, StoredSlot};
use crate::pack::table::{PackTable, bytes_of};
use crate::pack::{cold_path, hot_path, trailer, write};

/// An open pack, whose table was verified.
pub(crate) struct Pack {
    pub(crate) id: Hash,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<File>,
    pub(crate) table: PackTable,
    /// Where the slots are, if they are compressed.
    pub(super) stored: Option<Vec<StoredSlot>>,
}

impl Pack {
    /// Opens the hot form if it is there, else the cold one.
    pub(crate) fn open(packs: &Path, id: Hash) -> Result<Self> {
        // A pack may be cooled between the two looks, and the cold one may be replaced by a hot one that a
        // session writes again; neither happens twice in a row.
        for _ in 0..3 {
            let path = hot_path(packs, id);
            match File::open(&path) {
                Ok(file) => return Self::hot(file, path, id),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).at("open", &path),
            }
            let path = cold_path(packs, id);
            match File::open(&path) {
                Ok(file) => return Self::cold(file, path, Some(id)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).at("open", &path),
            }
        }
        Err(StoreError::damaged(&hot_path(packs, id), "it isn't there, neither hot nor cold"))
    }

    pub(crate) fn hot(file: File, path: PathBuf, id: Hash) -> Result<Self> {
        let (section, hash, start) = trailer::read(&file, &path, write::HOT)?;
        let (table, rest) =
            PackTable::decode(&section).map_err(|reason| StoreError::damaged(&path, reason))?;
        if !rest.is_empty() || start != table.length {
            return Err(StoreError::damaged(&path, "its length isn't what its table says"));
        }
        if hash != id {
            return Err(StoreError::damaged(&path, format!("it is another pack, {hash}")));
        }
        Ok(Self { id, path, file: file.into(), table, stored: None })
    }

    /// Without an expected name, whatever the table says it is.
    pub(crate) fn cold(file: File, path: PathBuf, id: Option<Hash>) -> Result<Self> {
        let (section, _, start) = trailer::read(&file, &path, cold::COLD)?;
        let (table, stored) =
            cold::decode(&section, start).map_err(|reason| StoreError::damaged(&path, reason))?;
        let actual = Hash::of(&table.encode());
        if id.is_some_and(|id| id != actual) {
            return Err(StoreError::damaged(&path, format!("it is another pack, {actual}")));
        }
        Ok(Self { id: actual, path, file: file.into(), table, stored: Some(stored) })
    }

    pub(crate) fn is_hot(&self) -> bool {
        self.stored.is_none()
    }

    /// Where an extent's blocks can be mapped from, if the pack is hot.
    pub(crate) fn mapped(&self, slot: u32) -> Option<u64> {
        if self.is_hot() { self.table.extents.get(slot as usize).map(|extent| extent.offset) } else { None }
    }

    /// The number of a chunk among all slots.
    pub(crate) fn chunk_slot(&self, chunk: u32) -> usize {
        self.table.extents.len() + chunk as usize
    }

    /// Reads and verifies everything.
    pub(crate) fn verify(&self) -> Result<()> {
        let mut reader = SlotReader::new();
        (0..self.table.slots()).try_for_each(|slot| reader.read(self, slot).map(drop))
    }
}

/// Reads slots, one after the other, and verifies each.
pub(crate) struct SlotReader {
    bytes: Vec<u8>,
    compressed: Vec<u8>,
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
}

impl SlotReader {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::new(), compressed: Vec::new(), decompressor: None }
    }

    /// The bytes of a slot, which are those that were written.
    pub(crate) fn read(&mut self, pack: &Pack, slot: usize) -> Result<&[u8]> {
        let damaged = |reason: String| StoreError::damaged(&pack.path, reason);
        let Some((offset, length)) = pack.table.place(slot) else {
            return Err(damaged(format!("it has no slot {slot}")));
        };
        debug_assert!(length <= bytes_of(u16::MAX));
        self.bytes.resize(length, 0);
        match &pack.stored {
            None => pack.file.read_exact_at(&mut self.bytes, offset).at("read", &pack.path)?,
            Some(stored) => {
                let stored = stored[slot];
                if stored.raw {
                    pack.file.read_exact_at(&mut self.bytes, stored.offset).at("read", &pack.path)?;
                } else {
                    self.compressed.resize(stored.length as usize, 0);
                    pack.file.read_exact_at(&mut self.compressed, stored.offset).at("read", &pack.path)?;
                    if cold::checksum(&self.compressed) != stored.checksum {
                        return Err(damaged(format!("the checksum of slot {slot} is wrong")));
                    }
                    self.decompress(&pack.path, slot)?;
                }
            }
        }
        if !pack.table.holds(slot, &self.bytes) {
            return Err(damaged(format!("the checksum of slot {slot} is wrong")));
        }
        Ok(&self.bytes)
    }

    fn decompress(&mut self, path: &Path, slot: usize) -> Result<()> {
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(zstd::bulk::Decompressor::new().at("read", path)?),
        };
        match decompressor.decompress_to_buffer(&self.compressed, &mut self.bytes[..]) {
            Ok(length) if length == self.bytes.len() => Ok(()),
            Ok(_) => Err(StoreError::damaged(path, format!("slot {slot} is shorter than its table says"))),
            Err(_) => Err(StoreError::damaged(path, format!("slot {slot} can't be decompressed"))),
        }
    }
}
