//! What a guest was loaded from without being read.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::pack::{Pack, SlotReader, bytes_of};
use crate::table::ExtentEntry;

/// Memory that is mapped from hot packs: nobody has compared it with its checksums yet.
///
/// Whoever saves the guest again vouches for its memory, so verify it before; another thread may do it.
#[derive(Clone)]
pub struct Unverified {
    packs: Arc<[Pack]>,
    extents: Arc<[(u16, u32)]>,
    bytes: u64,
}

impl Unverified {
    pub(crate) fn new(packs: Vec<Pack>, extents: &[ExtentEntry]) -> Self {
        let hot = |extent: &&ExtentEntry| packs[usize::from(extent.pack)].is_hot();
        let bytes = extents.iter().filter(hot).map(|extent| bytes_of(extent.mask) as u64).sum();
        let extents = extents.iter().filter(hot).map(|extent| (extent.pack, extent.slot)).collect();
        Self { packs: packs.into(), extents, bytes }
    }

    /// Reads and checks it.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::Damaged`] names the first pack whose bytes aren't those that were written.
    pub fn verify(&self) -> Result<()> {
        let mut reader = SlotReader::new();
        let mut seen = HashSet::new();
        for (pack, slot) in self.extents.iter() {
            if seen.insert((*pack, *slot)) {
                reader.read(&self.packs[usize::from(*pack)], *slot as usize)?;
            }
        }
        Ok(())
    }

    /// Whether there is nothing to verify.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// How many bytes there are to verify.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl fmt::Debug for Unverified {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Unverified({} bytes)", self.bytes)
    }
}
