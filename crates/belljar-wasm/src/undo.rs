//! The cells that can still be taken back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use belljar_files::Chunk;
use serde::{Deserialize, Serialize};

use crate::delta::{Delta, older_page};
use crate::ground::Ground;
use crate::host::Machine;
use crate::pages::HOST_PAGE;

/// What one cell may change, in memory and in files, and still be taken back.
pub(crate) const ROOM: usize = 2 << 20;

/// The last cells, and the way back before each.
#[derive(Clone, Debug, Default)]
pub(crate) struct UndoLog {
    /// The newest is last.
    records: VecDeque<Arc<Record>>,
    /// Older ones that were kept on disk, until somebody asks for them.
    kept: Option<Arc<Kept>>,
    /// Why there are none before the oldest.
    gap: Option<Gap>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Gap {
    cell: u32,
}

#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    chunks: Vec<Chunk>,
}

/// The state before a cell.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) cell: u32,
    pub(crate) way: Way,
}

/// How to get there.
#[derive(Debug)]
pub(crate) enum Way {
    /// It was as booted.
    Fresh { seed: [u8; 16] },
    /// It was on the ground.
    Ground(Stand),
    /// By changing pages back.
    Pages { stand: Stand, delta: Delta },
}

/// A guest but for the pages of its memory that aren't the ground's.
#[derive(Clone, Debug)]
pub(crate) struct Stand {
    /// What the pages that a [`Delta`] leaves to the ground were.
    pub(crate) ground: Arc<Ground>,
    pub(crate) length: usize,
    pub(crate) globals: Vec<i32>,
    pub(crate) machine: Box<Machine>,
    /// It must be told of its surroundings before its next cell.
    pub(crate) attach: Option<Attach>,
}

/// What a guest that goes on elsewhere must be told before its next cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Attach {
    /// Where its randomness starts anew.
    pub(crate) seed: Option<[u8; 16]>,
}

impl UndoLog {
    /// One that was kept on disk.
    pub(crate) fn kept(bytes: Vec<u8>, chunks: Vec<Chunk>) -> Self {
        let kept = (!bytes.is_empty()).then(|| Arc::new(Kept { bytes, chunks }));
        Self { kept, ..Self::default() }
    }

    /// Remembers a cell, and forgets those beyond `depth`.
    pub(crate) fn push(&mut self, record: Record, depth: usize) {
        self.records.push_back(Arc::new(record));
        while self.records.len() > depth {
            self.records.pop_front();
            self.kept = None;
        }
    }

    /// Forgets cells whose former state holds too much memory that the guest itself doesn't any more.
    pub(crate) fn trim(&mut self, now: &Ground) {
        let held = now.resident();
        let heavy = self.records.iter().rposition(|record| {
            let (Way::Ground(stand) | Way::Pages { stand, .. }) = &record.way else { return false };
            let alone = stand.ground.resident().into_iter().filter(|(file, _)| !held.contains_key(file));
            alone.map(|(_, bytes)| bytes).sum::<u64>() > ROOM as u64
        });
        if let Some(index) = heavy {
            let gap = self.records.get(index).map(|record| Gap { cell: record.cell });
            self.records.drain(..=index);
            self.kept = None;
            self.gap = gap;
        }
    }

    /// A cell changed too much: neither it nor those before it can be taken back.
    pub(crate) fn interrupt(&mut self, cell: u32) {
        *self = Self { gap: Some(Gap { cell }), ..Self::default() };
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Reads what was kept on disk. What can't be read is given up: the guest itself is whole.
    fn unpack(&mut self, current: &Arc<Ground>, depth: usize) {
        let Some(kept) = self.kept.take() else { return };
        // The state that what was kept leads back from.
        let ground = match self.records.front().map(|record| &record.way) {
            Some(Way::Ground(stand) | Way::Pages { stand, .. }) => Arc::clone(&stand.ground),
            Some(Way::Fresh { .. }) => return,
            None => Arc::clone(current),
        };
        match read(&kept, &ground) {
            Ok((older, gap)) => {
                self.gap = gap;
                let room = depth.saturating_sub(self.records.len());
                let skipped = older.len().saturating_sub(room);
                for record in older.into_iter().skip(skipped).rev() {
                    self.records.push_front(Arc::new(record));
                }
            }
            Err(error) => tracing::warn!(%error, "what was kept for undo cannot be read"),
        }
    }

    /// Numbers of the cells that can be taken back, the last one first.
    pub(crate) fn cells(&mut self, current: &Arc<Ground>, depth: usize) -> Vec<u32> {
        self.unpack(current, depth);
        self.records.iter().rev().map(|record| record.cell).collect()
    }

    /// The last so many, the newest first; they aren't in the log any more. Or why there aren't so many.
    pub(crate) fn take(
        &mut self,
        count: usize,
        current: &Arc<Ground>,
        depth: usize,
    ) -> Result<Vec<Arc<Record>>, String> {
        self.unpack(current, depth);
        let available = self.records.len();
        if count > available {
            let cells =
                |count: usize| if count == 1 { "1 cell".to_owned() } else { format!("{count} cells") };
            let why = match self.gap {
                Some(Gap { cell }) => {
                    format!("; cell {cell} changed more than the {} MiB that are kept of a cell", ROOM >> 20)
                }
                None => String::new(),
            };
            return Err(format!("{} cannot be taken back, but only {available}{why}", cells(count)));
        }
        Ok(self.records.drain(available - count..).rev().collect())
    }

    /// In a form that can be kept, as seen from `now`. To be called where chunks go apart.
    pub(crate) fn save(&mut self, now: &Arc<Ground>, depth: usize) -> io::Result<Vec<u8>> {
        self.unpack(now, depth);
        let mut newer = Newer { now, pages: BTreeMap::new() };
        let mut records = Vec::new();
        let mut gap = self.gap;
        let mut bytes = 0;
        for record in self.records.iter().rev() {
            let saved = newer.step_back(record)?;
            let saved =
                saved.map(|saved| postcard::to_stdvec(&saved)).transpose().map_err(io::Error::other)?;
            bytes += saved.as_ref().map_or(0, Vec::len);
            match saved {
                Some(saved) if bytes <= MOST_SAVED => records.push(saved),
                _ => {
                    gap = Some(Gap { cell: record.cell });
                    break;
                }
            }
        }
        records.reverse();
        if records.is_empty() && gap.is_none() {
            return Ok(Vec::new());
        }
        postcard::to_stdvec(&Saved { version: VERSION, gap, records }).map_err(io::Error::other)
    }
}

const VERSION: u32 = 1;

/// What is kept on disk of all cells.
const MOST_SAVED: usize = 8 << 20;
/// A session with more files keeps no cells on disk: each would have a list of all of them.
const MOST_FILES: u64 = 5000;
/// Pages that a cell may have touched to be kept on disk.
const MOST_PAGES: usize = 16_384;

#[derive(Serialize, Deserialize)]
struct Saved {
    version: u32,
    gap: Option<Gap>,
    /// Each a [`SavedRecord`].
    records: Vec<Vec<u8>>,
}

#[derive(Serialize)]
struct SavedRecord<'a> {
    cell: u32,
    fresh: Option<[u8; 16]>,
    pages: Option<SavedPages<'a>>,
}

#[derive(Serialize)]
struct SavedPages<'a> {
    length: u64,
    globals: &'a [i32],
    machine: Machine,
    attach: &'a Option<Attach>,
    delta: Delta,
}

#[derive(Deserialize)]
struct LoadedRecord {
    cell: u32,
    fresh: Option<[u8; 16]>,
    pages: Option<LoadedPages>,
}

#[derive(Deserialize)]
struct LoadedPages {
    length: u64,
    globals: Vec<i32>,
    machine: Machine,
    attach: Option<Attach>,
    delta: Delta,
}

fn read(kept: &Kept, ground: &Arc<Ground>) -> Result<(Vec<Record>, Option<Gap>), String> {
    let loaded: Saved = postcard::from_bytes(&kept.bytes).map_err(|error| error.to_string())?;
    if loaded.version != VERSION {
        return Err(format!("it is of version {}", loaded.version));
    }
    let mut records = Vec::new();
    for record in loaded.records {
        let decode = || postcard::from_bytes::<LoadedRecord>(&record);
        let record = belljar_files::with_chunks_from(kept.chunks.clone(), decode);
        let LoadedRecord { cell, fresh, pages } = record.map_err(|error| error.to_string())?;
        let way = match (fresh, pages) {
            (Some(seed), None) => Way::Fresh { seed },
            (None, Some(LoadedPages { length, globals, machine, attach, delta })) => {
                let length = usize::try_from(length).map_err(|error| error.to_string())?;
                let fits = length >= ground.image.length()
                    && length <= 4 << 30
                    && length.is_multiple_of(crate::memory::WASM_PAGE);
                if !fits || !delta.is_sound(length) || !machine.files.is_sound() {
                    return Err("its parts do not fit together".to_owned());
                }
                let machine = Box::new(machine.started());
                let stand = Stand { ground: Arc::clone(ground), length, globals, machine, attach };
                Way::Pages { stand, delta }
            }
            _ => return Err("a record is of no known kind".to_owned()),
        };
        records.push(Record { cell, way });
    }
    Ok((records, loaded.gap))
}

/// The memory after the cell that is looked at, while we walk back from now.
struct Newer<'a> {
    now: &'a Arc<Ground>,
    pages: BTreeMap<usize, Vec<u8>>,
}

impl Newer<'_> {
    /// Goes back before a cell. `None` if that is too much to be kept.
    fn step_back<'r>(&mut self, record: &'r Record) -> io::Result<Option<SavedRecord<'r>>> {
        let (stand, delta) = match &record.way {
            Way::Fresh { seed } => {
                return Ok(Some(SavedRecord { cell: record.cell, fresh: Some(*seed), pages: None }));
            }
            Way::Ground(stand) => (stand, None),
            Way::Pages { stand, delta } => (stand, Some(delta)),
        };
        if stand.machine.files.usage().files > MOST_FILES {
            return Ok(None);
        }
        let mut lean = Delta::with_room(ROOM);
        match delta {
            Some(delta) => {
                for (address, lines) in delta.pages().filter(|(address, _)| *address < stand.length) {
                    self.replace(address, &mut lean, |page| older_page(lines, &stand.ground, address, page))?;
                    if lean.is_full() || self.pages.len() > MOST_PAGES {
                        return Ok(None);
                    }
                }
            }
            None => {
                let touched: BTreeSet<usize> = self.pages.keys().copied().collect();
                let pages = stand.ground.differing_pages(self.now);
                for address in pages.union(&touched).copied().filter(|address| *address < stand.length) {
                    self.replace(address, &mut lean, |page| stand.ground.read_page(address, page))?;
                    if lean.is_full() || self.pages.len() > MOST_PAGES {
                        return Ok(None);
                    }
                }
            }
        }
        let pages = SavedPages {
            length: stand.length as u64,
            globals: &stand.globals,
            machine: stand.machine.stopped(),
            attach: &stand.attach,
            delta: lean,
        };
        Ok(Some(SavedRecord { cell: record.cell, fresh: None, pages: Some(pages) }))
    }

    /// Replaces a page by an older one, and notes the difference.
    fn replace(
        &mut self,
        address: usize,
        delta: &mut Delta,
        older: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let newer = match self.pages.remove(&address) {
            Some(page) => page,
            None => {
                let mut page = vec![0; HOST_PAGE];
                if address < self.now.length() {
                    self.now.read_page(address, &mut page)?;
                }
                page
            }
        };
        let mut page = newer.clone();
        older(&mut page)?;
        // What is noted is the older page, where it differs.
        delta.exchange(address, &mut page.clone(), &newer);
        self.pages.insert(address, page);
        Ok(())
    }
}
