//! What a memory starts from: the image, and over it the pages that a guest had when it was frozen.
//!
//! Grounds are immutable and shared. A guest that is frozen gets a new ground, which keeps the old one's runs
//! where they weren't written over; so checkpoints, forks and the guest itself share all that is the same.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use belljar_engine::{EXTENT, Known, PageRun, SavedMemory, Tag};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::pwritev;

use crate::memory::{Image, WASM_PAGE};
use crate::pages::HOST_PAGE;

/// Runs from this length on are mapped; shorter ones are copied, for a mapping costs more than they do.
const MAPPED: usize = 64 << 10;
/// No more are mapped than this, the longest first: a process has some 65,000 mappings for all.
const MOST_MAPPED: usize = 256;
/// A ground refers to no more files than about this: each takes a descriptor.
const MOST_FILES: usize = 12;

/// All that 32 bits can address.
const MOST_MEMORY: u64 = 4 << 30;
/// How many slices one system call takes.
const BATCH: usize = 512;

/// What a memory starts from.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) image: Arc<Image>,
    /// Sorted, apart from each other, in whole pages.
    runs: Vec<Run>,
    /// Size of the memory.
    length: usize,
    /// Runs from this length on are mapped.
    mapped: usize,
    /// What a keeper calls this very memory.
    stored: OnceLock<Tag>,
    /// An earlier one that a keeper has.
    known: Option<Known>,
}

/// Pages that aren't the image's.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) memory: Range<usize>,
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    /// Bytes of memory that the file takes; none if it is on a disk.
    resident: u64,
}

impl Run {
    /// The part of it that lies in `range`.
    fn within(&self, range: &Range<usize>) -> Option<Self> {
        let memory = self.memory.start.max(range.start)..self.memory.end.min(range.end);
        let skipped = memory.start.checked_sub(self.memory.start)?;
        (memory.start < memory.end).then(|| Self {
            memory,
            file: Arc::clone(&self.file),
            offset: self.offset + skipped as u64,
            resident: self.resident,
        })
    }

    /// Whether both have what `other` has from the same place of the same file.
    pub(crate) fn has_same_bytes(&self, other: &Self) -> bool {
        self.within(&other.memory).is_some_and(|part| part.is_same(other))
    }

    fn is_same(&self, other: &Self) -> bool {
        self.memory == other.memory && self.offset == other.offset && Arc::ptr_eq(&self.file, &other.file)
    }
}

impl Ground {
    /// The image alone.
    pub(crate) fn bare(image: Arc<Image>) -> Self {
        let length = image.length();
        Self::new(image, Vec::new(), length, None)
    }

    /// What a keeper gave back. Nothing of it is believed.
    pub(crate) fn from_saved(image: &Arc<Image>, saved: SavedMemory) -> Result<Self, String> {
        let SavedMemory { length, runs, known } = saved;
        let page = HOST_PAGE as u64;
        if length < image.length() as u64 || length > MOST_MEMORY || !length.is_multiple_of(WASM_PAGE as u64)
        {
            return Err(format!("it has {length} bytes of memory"));
        }
        let mut checked: Vec<Run> = Vec::with_capacity(runs.len());
        let mut sizes: HashMap<*const File, u64> = HashMap::new();
        for PageRun { start, length: size, file, offset } in runs {
            let end = start.checked_add(size).filter(|end| *end <= length);
            let whole = [start, size, offset].iter().all(|number| number.is_multiple_of(page)) && size > 0;
            let (Some(end), true) = (end, whole) else {
                return Err("its pages lie outside its memory".to_owned());
            };
            if checked.last().is_some_and(|last| last.memory.end as u64 > start) {
                return Err("its pages overlap".to_owned());
            }
            // A mapping beyond a file's end would be a fault in the host.
            let there = match sizes.get(&Arc::as_ptr(&file)) {
                Some(there) => *there,
                None => file.metadata().map_err(|error| error.to_string())?.len(),
            };
            sizes.insert(Arc::as_ptr(&file), there);
            if offset.checked_add(size).is_none_or(|end| end > there) {
                return Err("a file with its pages is too short".to_owned());
            }
            checked.push(Run { memory: start as usize..end as usize, file, offset, resident: 0 });
        }
        Ok(Self::new(Arc::clone(image), checked, length as usize, known))
    }

    fn new(image: Arc<Image>, runs: Vec<Run>, length: usize, known: Option<Known>) -> Self {
        let mut long: Vec<usize> =
            runs.iter().map(|run| run.memory.len()).filter(|long| *long >= MAPPED).collect();
        long.sort_unstable_by(|one, other| other.cmp(one));
        let mapped = long.get(MOST_MAPPED).map_or(MAPPED, |first_copied| first_copied + 1);
        Self { image, runs, length, mapped, stored: OnceLock::new(), known }
    }

    /// Whether a run of this ground is mapped into memories; else it is copied.
    pub(crate) fn is_mapped(&self, run: &Run) -> bool {
        run.memory.len() >= self.mapped
    }

    /// Bytes of memory that its files take, by file.
    pub(crate) fn resident(&self) -> HashMap<*const File, u64> {
        self.runs.iter().map(|run| (Arc::as_ptr(&run.file), run.resident)).collect()
    }

    /// Its share of the memory that its files take, if others stand on them too.
    pub(crate) fn resident_share(&self) -> u64 {
        let mut uses: HashMap<*const File, (u64, u64, u64)> = HashMap::new();
        for run in self.runs.iter().filter(|run| run.resident > 0) {
            let holders = Arc::strong_count(&run.file) as u64;
            let (runs, bytes, all) = uses.entry(Arc::as_ptr(&run.file)).or_default();
            (*runs, *bytes, *all) = (*runs + 1, *bytes + run.memory.len() as u64, holders);
        }
        uses.values().map(|(runs, bytes, holders)| bytes / (holders / runs).max(1)).sum()
    }

    /// For a keeper.
    pub(crate) fn save(&self) -> SavedMemory {
        let known = match self.stored.get() {
            Some(tag) => Some(Known { tag: Arc::clone(tag), changed: BTreeSet::new() }),
            None => self.known.clone(),
        };
        let runs = self.runs.iter().map(|run| PageRun {
            start: run.memory.start as u64,
            length: run.memory.len() as u64,
            file: Arc::clone(&run.file),
            offset: run.offset,
        });
        SavedMemory { length: self.length as u64, runs: runs.collect(), known }
    }

    /// A keeper has this memory now.
    pub(crate) fn set_stored(&self, tag: Tag) {
        // Who is second has the same bytes under another name.
        let _ = self.stored.set(tag);
    }

    /// Size of the memory.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Bytes that aren't the image's.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.memory.len() as u64).sum()
    }

    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The run that has this page.
    pub(crate) fn run_at(&self, address: usize) -> Option<&Run> {
        let after = self.runs.partition_point(|run| run.memory.end <= address);
        self.runs.get(after).filter(|run| run.memory.contains(&address))
    }

    /// Reads a page as it was.
    pub(crate) fn read_page(&self, address: usize, page: &mut [u8]) -> io::Result<()> {
        if let Some(run) = self.run_at(address) {
            return run.file.read_exact_at(page, run.offset + (address - run.memory.start) as u64);
        }
        if address < self.image.length() {
            return self.image.file().read_exact_at(page, address as u64);
        }
        page.fill(0);
        Ok(())
    }

    /// This ground, with what `memory` has in `ranges` over it. The bytes are copied out of the memory.
    pub(crate) fn with_pages(&self, memory: &[u8], ranges: &[Range<usize>]) -> io::Result<Self> {
        let placeholders = ranges.iter().map(|range| Run {
            memory: range.clone(),
            file: self.image.shared_file(),
            offset: range.start as u64,
            resident: 0,
        });
        let old = overlay(&self.runs, placeholders.collect());
        let moved = self.worn_out(&old);
        let fresh = merged(ranges, &moved);
        let fresh = if fresh.is_empty() { Vec::new() } else { freeze(memory, &fresh)? };
        let known = match self.stored.get() {
            Some(tag) => Some(Known { tag: Arc::clone(tag), changed: BTreeSet::new() }),
            None => self.known.clone(),
        };
        let known = known.map(|mut known| {
            let extent = EXTENT as usize;
            for range in ranges {
                known.changed.extend((range.start / extent) as u32..range.end.div_ceil(extent) as u32);
            }
            known
        });
        Ok(Self::new(Arc::clone(&self.image), overlay(&self.runs, fresh), memory.len(), known))
    }

    /// What is left of files in memory that are hardly used any more, or are too many: it is written anew, so
    /// that they go.
    fn worn_out(&self, left: &[Run]) -> Vec<Range<usize>> {
        let mut used: HashMap<*const File, (u64, u64)> = HashMap::new();
        for run in left.iter().filter(|run| run.resident > 0) {
            used.entry(Arc::as_ptr(&run.file)).or_insert((0, run.resident)).0 += run.memory.len() as u64;
        }
        let mut keep: Vec<(u64, *const File)> = used
            .into_iter()
            .filter(|(_, (used, all))| used * 2 >= *all)
            .map(|(file, (used, _))| (used, file))
            .collect();
        // The largest stay.
        keep.sort_unstable_by_key(|(used, _)| std::cmp::Reverse(*used));
        keep.truncate(MOST_FILES);
        let goes =
            |run: &&Run| run.resident > 0 && !keep.iter().any(|(_, file)| *file == Arc::as_ptr(&run.file));
        left.iter().filter(goes).map(|run| run.memory.clone()).collect()
    }

    /// This ground, for a memory of another size.
    pub(crate) fn with_length(&self, length: usize) -> Self {
        let runs: Vec<Run> = self.runs.iter().filter_map(|run| run.within(&(0..length))).collect();
        // What is cut off changed, as seen from what the keeper has.
        let known = self.save().known.map(|mut known| {
            let extent = EXTENT as usize;
            known.changed.extend((length / extent) as u32..self.length.div_ceil(extent) as u32);
            known
        });
        Self::new(Arc::clone(&self.image), runs, length, known)
    }

    /// Addresses of pages that may differ between two grounds over the same image.
    pub(crate) fn differing_pages(&self, other: &Self) -> BTreeSet<usize> {
        let same = |run: &&Run, others: &Self| {
            let found = others.run_at(run.memory.start);
            found.and_then(|found| found.within(&run.memory)).is_some_and(|found| found.is_same(run))
        };
        let pages = |run: &Run| run.memory.clone().step_by(HOST_PAGE);
        let ours = self.runs.iter().filter(|run| !same(run, other)).flat_map(pages);
        let theirs = other.runs.iter().filter(|run| !same(run, self)).flat_map(pages);
        ours.chain(theirs).collect()
    }
}

/// Two lists of ranges that are apart from each other, as one.
fn merged(one: &[Range<usize>], other: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = one.iter().chain(other).cloned().collect();
    all.sort_unstable_by_key(|range| range.start);
    all.dedup_by(|next, range| {
        let joins = next.start == range.end;
        if joins {
            range.end = next.end;
        }
        joins
    });
    all
}

/// Runs of `upper` over those of `lower`.
fn overlay(lower: &[Run], upper: Vec<Run>) -> Vec<Run> {
    let mut result = Vec::with_capacity(lower.len() + upper.len());
    for run in lower {
        let mut rest = run.memory.clone();
        let first = upper.partition_point(|over| over.memory.end <= rest.start);
        for over in upper[first..].iter().take_while(|over| over.memory.start < run.memory.end) {
            result.extend(run.within(&(rest.start..over.memory.start)));
            rest.start = over.memory.end;
        }
        result.extend(run.within(&rest));
    }
    result.extend(upper);
    result.sort_by_key(|run| run.memory.start);
    // Neighbours in the memory that are neighbours in a file are one mapping.
    result.dedup_by(|next, run| {
        let joins = Arc::ptr_eq(&next.file, &run.file)
            && next.memory.start == run.memory.end
            && next.offset == run.offset + run.memory.len() as u64;
        if joins {
            run.memory.end = next.memory.end;
        }
        joins
    });
    result
}

/// Copies ranges of a memory side by side into a file that lives in memory.
fn freeze(memory: &[u8], ranges: &[Range<usize>]) -> io::Result<Vec<Run>> {
    let descriptor = memfd_create("belljar-pages", MemfdFlags::CLOEXEC)?;
    let file = Arc::new(File::from(descriptor));
    let mut runs = Vec::with_capacity(ranges.len());
    let mut offset = 0;
    for range in ranges {
        runs.push(Run { memory: range.clone(), file: Arc::clone(&file), offset, resident: 0 });
        offset += range.len() as u64;
    }
    for run in &mut runs {
        run.resident = offset;
    }
    file.set_len(offset)?;
    for batch in runs.chunks(BATCH) {
        let slices: Vec<&[u8]> = batch.iter().map(|run| &memory[run.memory.clone()]).collect();
        write_all(&file, &slices, batch[0].offset)?;
    }
    Ok(runs)
}

fn write_all(file: &File, slices: &[&[u8]], mut offset: u64) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
    let mut rest = slices.as_mut_slice();
    while !rest.is_empty() {
        let written = pwritev(file.as_fd(), rest, offset)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += written as u64;
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    fn run(file: &Arc<File>, memory: Range<usize>, offset: u64) -> Run {
        Run { memory, file: Arc::clone(file), offset, resident: 0 }
    }

    fn shape(runs: &[Run], first: &Arc<File>) -> Vec<(usize, usize, u64, bool)> {
        let describe =
            |run: &Run| (run.memory.start, run.memory.end, run.offset, Arc::ptr_eq(&run.file, first));
        runs.iter().map(describe).collect()
    }

    #[test]
    fn upper_runs_hide_lower_ones() {
        let (low, high) = (tempfile(), tempfile());
        let lower = vec![run(&low, 0..40, 100), run(&low, 50..60, 200)];
        let upper = vec![run(&high, 10..20, 0), run(&high, 30..55, 10)];
        let result = overlay(&lower, upper);
        assert_eq!(
            shape(&result, &low),
            [
                (0, 10, 100, true),
                (10, 20, 0, false),
                (20, 30, 120, true),
                (30, 55, 10, false),
                (55, 60, 205, true)
            ]
        );
    }

    #[test]
    fn neighbours_become_one() {
        let file = tempfile();
        let result = overlay(&[run(&file, 0..10, 0)], vec![run(&file, 10..20, 10)]);
        assert_eq!(shape(&result, &file), [(0, 20, 0, true)]);
        let result = overlay(&[run(&file, 0..10, 0)], vec![run(&file, 10..20, 11)]);
        assert_eq!(result.len(), 2);
    }

    fn tempfile() -> Arc<File> {
        Arc::new(File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap()))
    }
}
