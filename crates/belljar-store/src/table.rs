//! Where the parts of a saved guest are.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::hash::Hash;
use crate::pack::PackReference;

/// Some blocks of one extent of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExtentEntry {
    /// Which extent: its address divided by 64 KiB.
    pub(crate) number: u32,
    /// Which of its blocks differ from the image.
    pub(crate) mask: u16,
    pub(crate) hash: Hash,
    /// Which of the packs has them.
    pub(crate) pack: u16,
    /// In which slot.
    pub(crate) slot: u32,
}

/// One chunk of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChunkEntry {
    pub(crate) hash: Hash,
    pub(crate) length: u32,
    pub(crate) pack: u16,
    /// Counted among the chunks of the pack.
    pub(crate) slot: u32,
}

/// The memory of a point that was saved or loaded: what the next one can share with it.
///
/// Engines carry it as the tag of [`belljar_engine::Known`].
#[derive(Debug)]
pub(crate) struct MemoryTable {
    /// Which tenant's packs these are; another's are never shared.
    pub(crate) home: Arc<Path>,
    pub(crate) packs: Vec<PackReference>,
    /// By number.
    pub(crate) extents: Vec<ExtentEntry>,
}

impl MemoryTable {
    pub(crate) fn find(&self, number: u32) -> Option<&ExtentEntry> {
        self.extents.binary_search_by_key(&number, |extent| extent.number).ok().map(|at| &self.extents[at])
    }
}

/// Where the bytes of a [`belljar_engine::SavedChunk`] are: its tag.
#[derive(Debug)]
pub(crate) struct ChunkTag {
    home: Arc<Path>,
    /// Changes when the chunk has to be written again.
    place: Mutex<ChunkPlace>,
}

#[derive(Clone, Debug)]
pub(crate) struct ChunkPlace {
    pub(crate) pack: PackReference,
    pub(crate) slot: u32,
    pub(crate) hash: Hash,
}

impl ChunkTag {
    pub(crate) fn new(home: Arc<Path>, place: ChunkPlace) -> Self {
        Self { home, place: place.into() }
    }

    /// Where the bytes are, if it is among this tenant's packs.
    pub(crate) fn place(&self, home: &Path) -> Option<ChunkPlace> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        (*self.home == *home).then(|| place.clone())
    }

    pub(crate) fn moved(&self, home: &Path, to: ChunkPlace) {
        if *self.home == *home {
            *self.place.lock().unwrap_or_else(PoisonError::into_inner) = to;
        }
    }
}
