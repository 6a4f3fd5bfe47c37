//! A guest at one moment, in a form that can be kept.

use std::any::Any;
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::{Arc, OnceLock};

/// What memory is kept in: a run begins and ends at multiples of this, whatever the host's pages are.
pub const BLOCK: u64 = 4 << 10;

/// The unit of change: [`Known::changed`] counts these. Whoever keeps memory checks and shares it by these.
pub const EXTENT: u64 = 64 << 10;

/// Whatever a keeper wants to find again: engines carry it along and never look inside.
pub type Tag = Arc<dyn Any + Send + Sync>;

/// A guest at one moment: an engine hands it to a keeper, and gets it back in another process or year.
///
/// Nothing here is trusted on the way back: keepers check bytes, engines check sense.
#[derive(Clone, Debug)]
pub struct SavedGuest {
    /// Names what the guest was made from. It can be restored over the same environment only.
    pub environment: String,
    /// The engine's own part, which only it can read.
    pub state: Vec<u8>,
    /// What the engine keeps to take cells back with; without it the guest is whole, but nothing can be undone.
    pub undo: Vec<u8>,
    /// The memory.
    pub memory: SavedMemory,
    /// Contents of files; `state` and `undo` name them by their place in this list.
    pub chunks: Vec<SavedChunk>,
}

/// A memory, as what differs from the environment's image.
#[derive(Clone, Debug)]
pub struct SavedMemory {
    /// Its size in bytes.
    pub length: u64,
    /// What differs: sorted, apart from each other, all numbers multiples of [`BLOCK`], within `length`.
    pub runs: Vec<PageRun>,
    /// What the keeper knows of it already.
    pub known: Option<Known>,
}

/// Consecutive bytes of a memory, and the file that has them.
#[derive(Clone, Debug)]
pub struct PageRun {
    /// Where they are in the memory.
    pub start: u64,
    /// How many.
    pub length: u64,
    /// The file, which never changes.
    pub file: Arc<File>,
    /// Where they are in it.
    pub offset: u64,
}

/// An earlier state of a memory that the keeper has, and what is different now.
#[derive(Clone)]
pub struct Known {
    /// The keeper's name for the earlier state.
    pub tag: Tag,
    /// Extents (by number: address divided by [`EXTENT`]) whose runs aren't the same any more.
    pub changed: BTreeSet<u32>,
}

/// Up to [`EXTENT`] bytes of a file's contents.
#[derive(Clone)]
pub struct SavedChunk {
    /// The bytes.
    pub bytes: Arc<Vec<u8>>,
    /// Where the keeper has them, once it has; the same cell for all that share the bytes.
    pub tag: Arc<OnceLock<Tag>>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Known").field("changed", &self.changed.len()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SavedChunk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SavedChunk({} bytes)", self.bytes.len())
    }
}
