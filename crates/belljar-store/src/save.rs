//! Saving a guest: what can be shared is found, the rest is written into one new pack.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use belljar_engine::{SavedGuest, Tag};

use crate::draft::Draft;
use crate::error::{Result, StoreError};
use crate::gather::{self, Source};
use crate::hash::Hash;
use crate::layout::TenantDirectory;
use crate::pack::{MOST_CHUNK, NewPack, PackReference, PackWriter, Writer, bytes_of};
use crate::point::{self, Encoded, Tables};
use crate::session_id::SessionId;
use crate::shares::Shares;
use crate::table::{ChunkEntry, ChunkPlace, ChunkTag, ExtentEntry, MemoryTable};

/// A point that is written, but neither durable nor named yet.
pub(crate) struct Saved {
    pub(crate) pack: Option<NewPack>,
    pub(crate) point: Encoded,
    /// Taken when it is placed.
    pub(crate) point_draft: Option<Draft>,
    pub(crate) packs: Vec<PackReference>,
    /// How many bytes of memory and files the point leads to.
    pub(crate) bytes: u64,
    /// Whether packs were marked: their directory must be made durable.
    pub(crate) shares_with_others: bool,
    table: MemoryTable,
    chunks: Vec<ChunkPlace>,
}

impl Saved {
    /// Once the pack is durable: tells the guest's chunks where they are, and names its memory.
    pub(crate) fn publish(self, guest: &SavedGuest) -> Tag {
        let home = &self.table.home;
        for (chunk, place) in guest.chunks.iter().zip(self.chunks) {
            let tag = chunk.tag.get_or_init(|| Arc::new(ChunkTag::new(home.clone(), place.clone())));
            if let Some(tag) = tag.downcast_ref::<ChunkTag>() {
                tag.moved(home, place);
            }
        }
        Arc::new(self.table)
    }
}

/// Writes what isn't there yet. The caller keeps garbage from being collected until the point is named.
pub(crate) fn save(
    directory: &TenantDirectory,
    session: (&SessionId, &Path),
    writer: Writer,
    guest: &SavedGuest,
) -> Result<Saved> {
    let (id, session_path) = session;
    let unfit = |reason: String| StoreError::Unfit { session: id.clone(), reason };
    let sources = gather::extents(&guest.memory).map_err(unfit)?;
    if guest.chunks.iter().any(|chunk| chunk.bytes.len() > MOST_CHUNK as usize) {
        return Err(unfit("a chunk of its files has more than 64 KiB".to_owned()));
    }
    let packs_path = directory.packs();
    let home = &directory.path;

    let known = guest.memory.known.as_ref().and_then(|known| {
        let table = known.tag.downcast_ref::<MemoryTable>().filter(|table| table.home == *home)?;
        Some((table, &known.changed))
    });
    let places: Vec<Option<ChunkPlace>> =
        guest.chunks.iter().map(|chunk| chunk.tag.get()?.downcast_ref::<ChunkTag>()?.place(home)).collect();

    let mut shares = Shares::new(directory, writer);
    // Blocks that aren't the same any more can't be shared, whatever the engine says.
    let inherited = |source: &Source| {
        let (table, changed) = known?;
        let entry = table.find(source.number).filter(|entry| entry.mask == source.mask)?;
        (!changed.contains(&source.number)).then_some((table, entry))
    };
    // What changed may turn out to have the same bytes, so all of it counts as alive until it is known better.
    if let Some((table, _)) = known {
        for source in &sources {
            if let Some(entry) = table.find(source.number).filter(|entry| entry.mask == source.mask) {
                shares.count(&table.packs[usize::from(entry.pack)], bytes_of(entry.mask) as u64);
            }
        }
    }
    for (place, chunk) in places.iter().zip(&guest.chunks) {
        if let Some(place) = place {
            shares.count(&place.pack, chunk.bytes.len() as u64);
        }
    }
    let shares_with_others = shares.choose()?;

    let fresh: u64 = sources
        .iter()
        .filter(|source| {
            !inherited(source)
                .is_some_and(|(table, entry)| shares.has(table.packs[usize::from(entry.pack)].id))
        })
        .map(|source| bytes_of(source.mask) as u64)
        .sum();
    let mut pack = PackWriter::create(&packs_path, writer, fresh)?;
    let mut names = PackNames::default();
    let mut extents = Vec::with_capacity(sources.len());
    for source in &sources {
        let Source { number, mask, .. } = *source;
        if let Some((table, entry)) = inherited(source) {
            let reference = &table.packs[usize::from(entry.pack)];
            if shares.has(reference.id) {
                extents.push(ExtentEntry { pack: names.index(reference), ..*entry });
                continue;
            }
        }
        // What was written again, but with the same bytes as before, is shared too.
        let before = known.and_then(|(table, _)| {
            let entry = table.find(number).filter(|entry| entry.mask == mask)?;
            let reference = &table.packs[usize::from(entry.pack)];
            shares.has(reference.id).then_some((entry, reference))
        });
        let unless = before.map(|(entry, _)| entry.hash);
        let (hash, slot) =
            pack.extent(mask, unless, |bytes| gather::read(id, &guest.memory.runs, source, bytes))?;
        extents.push(match (slot, before) {
            (Some(slot), _) => ExtentEntry { number, mask, hash, pack: PackNames::NEW, slot },
            (None, Some((entry, reference))) => ExtentEntry { pack: names.index(reference), ..*entry },
            (None, None) => return Err(unfit("an extent was lost on the way".to_owned())),
        });
    }

    let mut written: HashMap<Hash, u32> = HashMap::new();
    let mut chunks = Vec::with_capacity(guest.chunks.len());
    for (place, chunk) in places.iter().zip(&guest.chunks) {
        let length = chunk.bytes.len() as u32;
        if let Some(place) = place.as_ref().filter(|place| shares.has(place.pack.id)) {
            let pack = names.index(&place.pack);
            chunks.push(ChunkEntry { hash: place.hash, length, pack, slot: place.slot });
            continue;
        }
        let hash = place.as_ref().map_or_else(|| Hash::of(&chunk.bytes), |place| place.hash);
        let slot = match written.get(&hash) {
            Some(slot) => *slot,
            None => {
                let slot = pack.chunk(hash, &chunk.bytes)?;
                written.insert(hash, slot);
                slot
            }
        };
        chunks.push(ChunkEntry { hash, length, pack: PackNames::NEW, slot });
    }

    let pack = pack.finish()?;
    let packs = names.finish(pack.as_ref().map(|pack| &pack.reference), &mut extents, &mut chunks);
    let bytes = extents.iter().map(|extent| bytes_of(extent.mask) as u64).sum::<u64>()
        + chunks.iter().map(|chunk| u64::from(chunk.length)).sum::<u64>();
    let tables = Tables { extents, chunks };
    let point =
        point::encode(&guest.environment, guest.memory.length, &packs, &tables, &guest.state, &guest.undo)
            .map_err(unfit)?;
    let point_draft = Draft::of(session_path, &point.bytes)?;
    let chunks = tables
        .chunks
        .iter()
        .map(|entry| ChunkPlace {
            pack: packs[usize::from(entry.pack)].clone(),
            slot: entry.slot,
            hash: entry.hash,
        })
        .collect();
    let table = MemoryTable { home: home.clone(), packs: packs.clone(), extents: tables.extents };
    Ok(Saved { pack, point, point_draft: Some(point_draft), packs, bytes, shares_with_others, table, chunks })
}

/// Numbers packs in the order in which they are first used; the new one comes last.
#[derive(Default)]
struct PackNames {
    packs: Vec<PackReference>,
    numbers: HashMap<Hash, u16>,
}

impl PackNames {
    /// Stands for the pack that has no name yet.
    const NEW: u16 = u16::MAX;

    fn index(&mut self, pack: &PackReference) -> u16 {
        *self.numbers.entry(pack.id).or_insert_with(|| {
            self.packs.push(pack.clone());
            // More packs than a point may have are refused when it is encoded.
            u16::try_from(self.packs.len() - 1).unwrap_or(Self::NEW - 1)
        })
    }

    fn finish(
        mut self,
        new: Option<&PackReference>,
        extents: &mut [ExtentEntry],
        chunks: &mut [ChunkEntry],
    ) -> Vec<PackReference> {
        if let Some(new) = new {
            let number = self.index(new);
            let numbers = extents.iter_mut().map(|extent| &mut extent.pack);
            for pack in numbers.chain(chunks.iter_mut().map(|chunk| &mut chunk.pack)) {
                if *pack == Self::NEW {
                    *pack = number;
                }
            }
        }
        self.packs
    }
}
