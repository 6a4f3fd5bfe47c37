//! Loading a guest: hot memory is pointed at, everything else is read and verified.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use belljar_engine::{BLOCK, EXTENT, Known, PageRun, SavedChunk, SavedGuest, SavedMemory, Tag};
use rustix::fs::MemfdFlags;

use crate::error::{At, Result, StoreError};
use crate::hash::Hash;
use crate::layout::TenantDirectory;
use crate::pack::{Pack, SlotReader, bytes_of};
use crate::point::{Point, PointFile};
use crate::table::{ChunkEntry, ChunkPlace, ChunkTag, ExtentEntry, MemoryTable};
use crate::unverified::Unverified;

/// Below this a second thread costs more than it saves.
const WORTH_TWO_THREADS: u64 = 4 << 20;

/// A guest as it was saved.
#[derive(Debug)]
pub struct Loaded {
    /// The guest. Its memory refers to files of the store, which stay readable while it has them.
    pub guest: SavedGuest,
    /// What hasn't been read yet.
    pub unverified: Unverified,
}

pub(crate) fn load(directory: &TenantDirectory, session: &Path, name: Hash) -> Result<Loaded> {
    let path = session.join(crate::layout::point_file(name));
    let Point { summary, tables, state, undo } = PointFile::open(session, name)?.load()?;
    let packs_path = directory.packs();
    let packs =
        summary.packs.iter().map(|pack| Pack::open(&packs_path, pack.id)).collect::<Result<Vec<_>>>()?;
    check_places(&path, &packs, &tables.extents, &tables.chunks)?;

    let chunks = read_chunks(&packs, &tables.chunks)?
        .into_iter()
        .zip(&tables.chunks)
        .map(|(bytes, entry)| {
            let pack = summary.packs[usize::from(entry.pack)].clone();
            let place = ChunkPlace { pack, slot: entry.slot, hash: entry.hash };
            let tag: Tag = Arc::new(ChunkTag::new(directory.path.clone(), place));
            SavedChunk { bytes, tag: Arc::new(OnceLock::from(tag)) }
        })
        .collect();

    let warmed = warm(&path, &packs, &tables.extents)?;
    let runs = runs(&packs, &tables.extents, &warmed);
    let table =
        MemoryTable { home: directory.path.clone(), packs: summary.packs, extents: tables.extents.clone() };
    let known = Known { tag: Arc::new(table), changed: Default::default() };
    let memory = SavedMemory { length: summary.memory, runs, known: Some(known) };
    let guest = SavedGuest { environment: summary.environment, state, undo, memory, chunks };
    Ok(Loaded { guest, unverified: Unverified::new(packs, &tables.extents) })
}

/// Reads everything that a point names, and keeps nothing.
pub(crate) fn verify(directory: &TenantDirectory, session: &Path, name: Hash) -> Result<()> {
    let path = session.join(crate::layout::point_file(name));
    let point = PointFile::open(session, name)?.load()?;
    let packs_path = directory.packs();
    let packs = point.summary.packs.iter().map(|pack| Pack::open(&packs_path, pack.id));
    check_places(&path, &packs.collect::<Result<Vec<_>>>()?, &point.tables.extents, &point.tables.chunks)
}

/// Point and packs must agree on what is in each slot.
pub(crate) fn check_places(
    path: &Path,
    packs: &[Pack],
    extents: &[ExtentEntry],
    chunks: &[ChunkEntry],
) -> Result<()> {
    for extent in extents {
        let pack = &packs[usize::from(extent.pack)];
        let slot = pack.table.extents.get(extent.slot as usize);
        if slot.is_none_or(|slot| slot.mask != extent.mask || slot.hash != extent.hash) {
            let reason = format!("extent {} isn't in pack {}", extent.number, pack.id);
            return Err(StoreError::damaged(path, reason));
        }
    }
    for (number, chunk) in chunks.iter().enumerate() {
        let pack = &packs[usize::from(chunk.pack)];
        let slot = pack.table.chunks.get(chunk.slot as usize);
        if slot.is_none_or(|slot| slot.length != chunk.length || slot.hash != chunk.hash) {
            return Err(StoreError::damaged(path, format!("chunk {number} isn't in pack {}", pack.id)));
        }
    }
    Ok(())
}

/// Chunks that share a slot share their bytes: a small file can't ask for more memory than its packs have.
fn read_chunks(packs: &[Pack], chunks: &[ChunkEntry]) -> Result<Vec<Arc<Vec<u8>>>> {
    let mut reader = SlotReader::new();
    let mut seen: HashMap<(u16, u32), Arc<Vec<u8>>> = HashMap::new();
    let mut all = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let key = (chunk.pack, chunk.slot);
        if let Some(bytes) = seen.get(&key) {
            all.push(bytes.clone());
            continue;
        }
        let pack = &packs[usize::from(chunk.pack)];
        let bytes = Arc::new(reader.read(pack, pack.chunk_slot(chunk.slot))?.to_vec());
        seen.insert(key, bytes.clone());
        all.push(bytes);
    }
    Ok(all)
}

/// Memory from cold packs, in a file that lives in memory; and where each extent is in it.
struct Warmed {
    file: Arc<File>,
    /// One for each cold extent, in their order.
    offsets: Vec<u64>,
}

fn warm(path: &Path, packs: &[Pack], extents: &[ExtentEntry]) -> Result<Option<Warmed>> {
    let mut jobs = Vec::new();
    let mut length = 0;
    for extent in extents {
        let pack = &packs[usize::from(extent.pack)];
        if !pack.is_hot() {
            jobs.push((pack, extent.slot as usize, length));
            length += bytes_of(extent.mask) as u64;
        }
    }
    if jobs.is_empty() {
        return Ok(None);
    }
    let file = File::from(
        rustix::fs::memfd_create("belljar-memory", MemfdFlags::CLOEXEC).at("make memory for", path)?,
    );
    file.set_len(length).at("make memory for", path)?;
    let work = |jobs: &[(&Pack, usize, u64)]| -> Result<()> {
        let mut reader = SlotReader::new();
        for (pack, slot, offset) in jobs {
            let bytes = reader.read(pack, *slot)?;
            file.write_all_at(bytes, *offset).at("make memory for", path)?;
        }
        Ok(())
    };
    if length < WORTH_TWO_THREADS {
        work(&jobs)?;
    } else {
        let (first, second) = jobs.split_at(jobs.len() / 2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| work(second));
            let this = work(first);
            // A panic over there would be a defect; it is passed on rather than hidden.
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            this.and(other)
        })?;
    }
    let offsets = jobs.iter().map(|(_, _, offset)| *offset).collect();
    Ok(Some(Warmed { file: Arc::new(file), offsets }))
}

/// Neighbours in memory that are neighbours in a file become one run.
fn runs(packs: &[Pack], extents: &[ExtentEntry], warmed: &Option<Warmed>) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    let mut cold_offsets = warmed.iter().flat_map(|warmed| &warmed.offsets);
    for extent in extents {
        let pack = &packs[usize::from(extent.pack)];
        let (file, mut offset) = match (pack.mapped(extent.slot), warmed) {
            (Some(offset), _) => (&pack.file, offset),
            (None, Some(warmed)) => (&warmed.file, cold_offsets.next().copied().unwrap_or(0)),
            // Every extent is in a hot pack or among the warmed ones.
            (None, None) => continue,
        };
        let mut mask = u32::from(extent.mask);
        let mut start = u64::from(extent.number) * EXTENT;
        while mask != 0 {
            start += u64::from(mask.trailing_zeros()) * BLOCK;
            mask >>= mask.trailing_zeros();
            let blocks = mask.trailing_ones();
            let length = u64::from(blocks) * BLOCK;
            match runs.last_mut() {
                Some(run)
                    if run.start + run.length == start
                        && run.offset + run.length == offset
                        && Arc::ptr_eq(&run.file, file) =>
                {
                    run.length += length;
                }
                _ => runs.push(PageRun { start, length, file: file.clone(), offset }),
            }
            mask >>= blocks;
            start += length;
            offset += length;
        }
    }
    runs
}
