//! Which packs a new point goes on sharing, and which it leaves.

use std::collections::HashMap;

use crate::error::Result;
use crate::hash::Hash;
use crate::layout::TenantDirectory;
use crate::pack::{self, PackReference, Writer};
use crate::sharing;

const MIB: u64 = 1 << 20;
/// More packs than this are merged, the smallest first.
const MOST_PACKS: usize = 16;
/// How many are left then: merging down to the limit would merge again with the next commit.
const FEWER_PACKS: usize = 8;
/// A pack of which this much is alive isn't worth writing again just to have fewer packs.
const LARGE: u64 = 16 * MIB;
const HUGE: u64 = 64 * MIB;

/// Counts how much of each pack is alive, then decides.
///
/// What isn't shared is written into the new pack: its bytes are in the guest, so leaving a pack never reads it.
pub(crate) struct Shares<'a> {
    directory: &'a TenantDirectory,
    writer: Writer,
    alive: HashMap<Hash, Alive>,
}

struct Alive {
    bytes: u64,
    of: u64,
    /// Whether the session that saves wrote it itself.
    own: bool,
    shared: bool,
}

impl<'a> Shares<'a> {
    pub(crate) fn new(directory: &'a TenantDirectory, writer: Writer) -> Self {
        Self { directory, writer, alive: HashMap::new() }
    }

    pub(crate) fn count(&mut self, pack: &PackReference, bytes: u64) {
        let own = pack.writer == self.writer;
        let alive =
            self.alive.entry(pack.id).or_insert(Alive { bytes: 0, of: pack.length, own, shared: true });
        alive.bytes += bytes;
    }

    /// Leaves packs that were collected meanwhile, that are mostly dead, or that are too many.
    ///
    /// Returns whether packs of others are among the rest: their directory must be made durable.
    pub(crate) fn choose(&mut self) -> Result<bool> {
        for alive in self.alive.values_mut() {
            alive.shared = !mostly_dead(alive.bytes, alive.of);
        }
        self.merge();
        let of_others: Vec<Hash> =
            self.alive.iter().filter(|(_, alive)| alive.shared && !alive.own).map(|(id, _)| *id).collect();
        let there = sharing::mark(self.directory, &of_others)?;
        let packs = self.directory.packs();
        for (id, alive) in &mut self.alive {
            alive.shared &= if alive.own { pack::exists(&packs, *id) } else { there.contains(id) };
        }
        Ok(!there.is_empty())
    }

    pub(crate) fn has(&self, pack: Hash) -> bool {
        self.alive.get(&pack).is_some_and(|alive| alive.shared)
    }

    fn merge(&mut self) {
        let mut shared: Vec<(u64, Hash)> = self
            .alive
            .iter()
            .filter(|(_, alive)| alive.shared)
            .map(|(id, alive)| (alive.bytes, *id))
            .collect();
        // One place is for the new pack.
        if shared.len() < MOST_PACKS {
            return;
        }
        shared.sort_unstable();
        let leave = shared.len() - FEWER_PACKS;
        for (_, id) in shared.into_iter().take(leave).take_while(|(bytes, _)| *bytes < LARGE) {
            if let Some(alive) = self.alive.get_mut(&id) {
                alive.shared = false;
            }
        }
    }
}

/// The more there is to write again, the more space that must free.
fn mostly_dead(bytes: u64, of: u64) -> bool {
    match bytes {
        ..LARGE => bytes < of / 2,
        LARGE..HUGE => bytes < of / 4,
        _ => bytes < of / 8,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    fn reference(number: u32, length: u64) -> PackReference {
        PackReference { id: Hash::of(&number.to_le_bytes()), writer: [0; 16], length }
    }

    fn directory(root: &std::path::Path) -> TenantDirectory {
        let layout = crate::layout::Layout::open(root.to_owned()).unwrap();
        layout.establish_tenant(&crate::Tenant::local()).unwrap()
    }

    #[test]
    fn many_small_packs_are_merged_and_large_ones_stay() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory(root.path());
        let mut shares = Shares::new(&directory, [0; 16]);
        for number in 0..20 {
            let length = if number < 12 { MIB } else { 100 * MIB };
            let reference = reference(number, length);
            std::fs::write(pack::cold_path(&directory.packs(), reference.id), b"").unwrap();
            shares.count(&reference, length);
        }
        shares.choose().unwrap();
        let kept: Vec<u32> = (0..20).filter(|number| shares.has(reference(*number, 0).id)).collect();
        assert_eq!(kept, (12..20).collect::<Vec<_>>());
    }

    #[test]
    fn dead_and_missing_packs_are_left() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory(root.path());
        let mut shares = Shares::new(&directory, [0; 16]);
        for (number, alive) in [(0, 49), (1, 51), (2, 100)] {
            let reference = reference(number, 100);
            if number < 2 {
                std::fs::write(pack::hot_path(&directory.packs(), reference.id), b"").unwrap();
            }
            shares.count(&reference, alive);
        }
        shares.choose().unwrap();
        assert_eq!(
            (0..3).map(|number| shares.has(reference(number, 0).id)).collect::<Vec<_>>(),
            [false, true, false]
        );
    }
}
