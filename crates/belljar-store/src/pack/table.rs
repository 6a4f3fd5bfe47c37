//! What is in a pack.

use crate::hash::Hash;
use crate::pack::Writer;

/// The unit of memory.
pub(crate) const BLOCK: usize = belljar_engine::BLOCK as usize;
/// The longest chunk of a file.
pub(crate) const MOST_CHUNK: u32 = belljar_engine::EXTENT as u32;
/// A memory of 4 GiB has so many extents.
const MOST_EXTENTS: usize = 1 << 16;
const MOST_CHUNKS: usize = 1 << 22;
const HEAD: usize = 16 + 4 + 4;
const EXTENT_ENTRY: usize = 2 + Hash::LENGTH;
const CHUNK_ENTRY: usize = 4 + Hash::LENGTH;

/// How many bytes the blocks of a mask have.
pub(crate) fn bytes_of(mask: u16) -> usize {
    mask.count_ones() as usize * BLOCK
}

/// Some blocks of an extent of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentSlot {
    pub(crate) mask: u16,
    pub(crate) hash: Hash,
    /// Where they are in the hot form; not stored, since slots have no gaps.
    pub(crate) offset: u64,
}

/// A chunk of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkSlot {
    pub(crate) length: u32,
    pub(crate) hash: Hash,
    pub(crate) offset: u64,
}

/// All slots of a pack, in their order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PackTable {
    pub(crate) writer: Writer,
    pub(crate) extents: Vec<ExtentSlot>,
    pub(crate) chunks: Vec<ChunkSlot>,
    /// How many bytes all slots have.
    pub(crate) length: u64,
}

impl PackTable {
    pub(crate) fn new(writer: Writer) -> Self {
        Self { writer, extents: Vec::new(), chunks: Vec::new(), length: 0 }
    }

    pub(crate) fn push_extent(&mut self, mask: u16, hash: Hash) {
        debug_assert!(self.chunks.is_empty(), "extents come first");
        self.extents.push(ExtentSlot { mask, hash, offset: self.length });
        self.length += bytes_of(mask) as u64;
    }

    pub(crate) fn push_chunk(&mut self, length: u32, hash: Hash) {
        self.chunks.push(ChunkSlot { length, hash, offset: self.length });
        self.length += u64::from(length);
    }

    /// How many slots there are: extents, then chunks.
    pub(crate) fn slots(&self) -> usize {
        self.extents.len() + self.chunks.len()
    }

    /// Where a slot is in the hot form, and how long it is.
    pub(crate) fn place(&self, slot: usize) -> Option<(u64, usize)> {
        if let Some(extent) = self.extents.get(slot) {
            return Some((extent.offset, bytes_of(extent.mask)));
        }
        self.chunks.get(slot - self.extents.len()).map(|chunk| (chunk.offset, chunk.length as usize))
    }

    /// Whether these are the bytes that a slot had when it was written.
    pub(crate) fn holds(&self, slot: usize, bytes: &[u8]) -> bool {
        if let Some(extent) = self.extents.get(slot) {
            return Hash::of_extent(extent.mask, bytes) == extent.hash;
        }
        self.chunks.get(slot - self.extents.len()).is_some_and(|chunk| Hash::of(bytes) == chunk.hash)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(HEAD + self.extents.len() * EXTENT_ENTRY + self.chunks.len() * CHUNK_ENTRY);
        bytes.extend(self.writer);
        bytes.extend((self.extents.len() as u32).to_le_bytes());
        bytes.extend((self.chunks.len() as u32).to_le_bytes());
        for extent in &self.extents {
            bytes.extend(extent.mask.to_le_bytes());
            bytes.extend(extent.hash.as_bytes());
        }
        for chunk in &self.chunks {
            bytes.extend(chunk.length.to_le_bytes());
            bytes.extend(chunk.hash.as_bytes());
        }
        bytes
    }

    /// Reads a table from the front of `bytes`, and returns it with what is behind it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        const CUT: &str = "its table is cut short";
        let (writer, rest) = bytes.split_first_chunk::<16>().ok_or(CUT)?;
        let (extents, rest) = rest.split_first_chunk::<4>().ok_or(CUT)?;
        let (chunks, rest) = rest.split_first_chunk::<4>().ok_or(CUT)?;
        let (extents, chunks) = (u32::from_le_bytes(*extents) as usize, u32::from_le_bytes(*chunks) as usize);
        if extents > MOST_EXTENTS || chunks > MOST_CHUNKS {
            return Err("its table counts more slots than a pack can have");
        }
        let (extent_entries, rest) = rest.split_at_checked(extents * EXTENT_ENTRY).ok_or(CUT)?;
        let (chunk_entries, rest) = rest.split_at_checked(chunks * CHUNK_ENTRY).ok_or(CUT)?;
        let mut table = Self::new(*writer);
        table.extents.reserve_exact(extents);
        table.chunks.reserve_exact(chunks);
        for entry in extent_entries.chunks_exact(EXTENT_ENTRY) {
            let mask = u16::from_le_bytes([entry[0], entry[1]]);
            if mask == 0 {
                return Err("its table has an extent without blocks");
            }
            table.push_extent(mask, hash(&entry[2..])?);
        }
        for entry in chunk_entries.chunks_exact(CHUNK_ENTRY) {
            let length = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            if length > MOST_CHUNK {
                return Err("its table has a chunk of more than 64 KiB");
            }
            table.push_chunk(length, hash(&entry[4..])?);
        }
        Ok((table, rest))
    }
}

fn hash(bytes: &[u8]) -> Result<Hash, &'static str> {
    bytes.try_into().map(Hash::from_bytes).map_err(|_| "its table is cut short")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut table = PackTable::new([7; 16]);
        table.push_extent(0b101, Hash::of(b"a"));
        table.push_extent(0xffff, Hash::of(b"b"));
        table.push_chunk(5, Hash::of(b"c"));
        table.push_chunk(0, Hash::of(b""));
        let bytes = table.encode();
        let (again, rest) = PackTable::decode(&bytes).unwrap();
        assert_eq!((again, rest.len()), (table, 0));
        for length in 0..bytes.len() {
            assert!(PackTable::decode(&bytes[..length]).is_err());
        }
    }
}
