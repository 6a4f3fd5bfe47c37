//! Writing packs.

use std::io::{Seek, Write};
use std::path::Path;

use crate::draft::Draft;
use crate::error::{At, Result};
use crate::hash::Hash;
use crate::pack::table::{PackTable, bytes_of};
use crate::pack::{PackReference, Writer, trailer};

pub(super) const HOT: [u8; 8] = *b"BJpackH\n";
/// Writes of this size run at full speed, and a few of them fit into the processor's cache.
const BUFFER: usize = 1 << 20;

/// Writes a pack in one pass.
pub(crate) struct PackWriter {
    draft: Draft,
    table: PackTable,
    buffer: Vec<u8>,
    preallocated: bool,
}

/// A pack that is written, but neither durable nor named yet.
pub(crate) struct NewPack {
    pub(crate) draft: Draft,
    pub(crate) reference: PackReference,
}

impl PackWriter {
    pub(crate) fn create(packs: &Path, writer: Writer, expected: u64) -> Result<Self> {
        let draft = Draft::create(packs)?;
        let preallocated = expected > BUFFER as u64;
        if preallocated {
            // A full disk is found at once, and the file lies in one piece. Not every file system can.
            let allocated =
                rustix::fs::fallocate(draft.file(), rustix::fs::FallocateFlags::KEEP_SIZE, 0, expected);
            if let Err(error @ (rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT)) = allocated {
                return Err(error).at("write", draft.path());
            }
        }
        let buffer = Vec::with_capacity(BUFFER.min(expected as usize + 4096));
        Ok(Self { draft, table: PackTable::new(writer), buffer, preallocated })
    }

    /// Adds blocks of memory, whose bytes `fill` puts into place; unless their hash is `unless`.
    ///
    /// Returns the hash, and the slot if they were added.
    pub(crate) fn extent(
        &mut self,
        mask: u16,
        unless: Option<Hash>,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<(Hash, Option<u32>)> {
        let start = self.room(bytes_of(mask))?;
        self.buffer.resize(start + bytes_of(mask), 0);
        fill(&mut self.buffer[start..])?;
        let hash = Hash::of_extent(mask, &self.buffer[start..]);
        if unless == Some(hash) {
            self.buffer.truncate(start);
            return Ok((hash, None));
        }
        self.table.push_extent(mask, hash);
        Ok((hash, Some(self.table.extents.len() as u32 - 1)))
    }

    /// Adds a chunk of a file, and returns its slot.
    pub(crate) fn chunk(&mut self, hash: Hash, bytes: &[u8]) -> Result<u32> {
        self.room(bytes.len())?;
        self.buffer.extend_from_slice(bytes);
        self.table.push_chunk(bytes.len() as u32, hash);
        Ok(self.table.chunks.len() as u32 - 1)
    }

    /// Nothing, if nothing was added.
    pub(crate) fn finish(mut self) -> Result<Option<NewPack>> {
        if self.table.slots() == 0 {
            return Ok(None);
        }
        let table = self.table.encode();
        self.buffer.extend_from_slice(&table);
        self.buffer.extend_from_slice(&trailer::encode(HOT, &table));
        self.flush()?;
        if self.preallocated {
            // Gives back what was allocated for bytes that turned out to be there already.
            let length = self.draft.file().stream_position().at("write", self.draft.path())?;
            self.draft.file().set_len(length).at("write", self.draft.path())?;
        }
        let reference =
            PackReference { id: Hash::of(&table), writer: self.table.writer, length: self.table.length };
        Ok(Some(NewPack { draft: self.draft, reference }))
    }

    fn room(&mut self, length: usize) -> Result<usize> {
        if self.buffer.len() + length > BUFFER {
            self.flush()?;
        }
        Ok(self.buffer.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.draft.file().write_all(&self.buffer).at("write", self.draft.path())?;
        self.buffer.clear();
        Ok(())
    }
}
