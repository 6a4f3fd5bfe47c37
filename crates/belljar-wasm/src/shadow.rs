//! What a guest's memory held before the running cell, so that the cell can be taken back.
//!
//! A shadow is a sparse copy: only pages that differ from the image are in it. After each cell those pages are
//! copied that the cell wrote. The kernel knows them where it can track writes; elsewhere all private pages
//! are compared.
//!
//! A tracked page costs a fault when it is first written, which is more than copying it. So pages that cell
//! after cell writes are *hot*: they are left untracked and always copied.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::ptr;
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::delta::Delta;
use crate::pages::{HOST_PAGE, PageSource, Span, WriteTracker};

/// How many cells must write a page before it is hot.
const HEATING: u8 = 2;
/// After how many cells that left it as it was a hot page is tracked again; each time that proves wrong, four
/// times as many.
const COOLING: u16 = 16;

/// A copy of a memory's private pages, and the means to bring it up to date.
#[derive(Debug)]
pub(crate) struct Shadow {
    copy: SparseCopy,
    tracking: Option<Tracking>,
    /// Size of the guest's memory when the copy was made.
    length: usize,
    source: PageSource,
}

/// What the kernel tracks, and what it needn't.
#[derive(Debug)]
struct Tracking {
    writes: WriteTracker,
    /// Pages that were written, by their offsets.
    heat: BTreeMap<usize, Heat>,
}

#[derive(Clone, Copy, Debug)]
struct Heat {
    /// Cells that wrote the page.
    writes: u8,
    /// Cells since then that left it as it was, and how many of them there may be.
    rests: u16,
    patience: u16,
}

impl Default for Heat {
    fn default() -> Self {
        Self { writes: 0, rests: 0, patience: COOLING }
    }
}

impl Heat {
    /// After a cell; says whether the page is to be tracked.
    fn is_cold_after(&mut self, changed: bool) -> bool {
        if self.writes < HEATING {
            self.writes += 1;
            return true;
        }
        self.rests = if changed { 0 } else { self.rests + 1 };
        if self.rests >= self.patience {
            // Some are written cell after cell, with what they hold already.
            *self = Self { writes: HEATING - 1, rests: 0, patience: self.patience.saturating_mul(4) };
            return true;
        }
        false
    }
}

impl Shadow {
    /// Copies the private pages of `memory`. `reserved` is how large the memory may become.
    pub(crate) fn new(memory: &[u8], reserved: usize, source: PageSource) -> io::Result<Self> {
        let reserved = reserved.max(memory.len());
        let copy = SparseCopy::new(reserved)?;
        let mut shadow = Self { copy, tracking: None, length: memory.len(), source };
        let span = Span { base: memory.as_ptr() as usize, length: memory.len() };
        for range in source.private(span)? {
            shadow.copy.store(memory, range);
        }
        if source == PageSource::Tracked {
            // After the pages were listed: those that are only tracked would look private.
            let writes = WriteTracker::new(Span { length: reserved, ..span }, memory.len()).ok();
            shadow.tracking = writes.map(|writes| Tracking { writes, heat: BTreeMap::new() });
        }
        Ok(shadow)
    }

    /// Makes the copy equal to `memory` again, and notes what it had before.
    pub(crate) fn update(&mut self, memory: &[u8], delta: &mut Delta) -> io::Result<()> {
        let span = Span { base: memory.as_ptr() as usize, length: memory.len() };
        let Some(tracking) = &mut self.tracking else {
            for range in self.source.private(span)? {
                for start in range.step_by(HOST_PAGE) {
                    self.copy.exchange(memory, start, delta);
                }
            }
            self.length = memory.len();
            return Ok(());
        };
        tracking.update(&mut self.copy, memory, self.length, delta)?;
        if memory.len() > self.length {
            // What the memory grew by isn't tracked yet. Before the cell it wasn't there: nothing to note.
            let grown = Span { base: span.base + self.length, length: memory.len() - self.length };
            for range in self.source.private(grown)? {
                self.copy.store(memory, range.start + self.length..range.end + self.length);
            }
            tracking.writes.protect(self.length..memory.len())?;
        }
        self.length = memory.len();
        Ok(())
    }

    /// Byte ranges of the memory that are in the copy: all that differs from the ground.
    pub(crate) fn ranges(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for page in self.copy.pages().filter(|page| page.start < self.length) {
            match ranges.last_mut() {
                Some(last) if last.end == page.start => last.end = page.end,
                _ => ranges.push(page),
            }
        }
        ranges
    }

    /// Size of the memory that was copied.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Bytes that the copy holds.
    pub(crate) fn bytes(&self) -> usize {
        self.copy.stored_pages * HOST_PAGE
    }

    /// Writes the copy into a memory that equals the image elsewhere and is at least as large.
    pub(crate) fn restore(&self, memory: &mut [u8]) {
        for range in self.copy.pages() {
            let end = range.end.min(memory.len());
            if range.start < end {
                memory[range.start..end].copy_from_slice(self.copy.slice(range.start..end));
            }
        }
    }
}

impl Tracking {
    /// Stores what was written among the first `length` bytes, and tracks it again unless it is hot.
    fn update(
        &mut self,
        copy: &mut SparseCopy,
        memory: &[u8],
        length: usize,
        delta: &mut Delta,
    ) -> io::Result<()> {
        let mut cold: Option<Range<usize>> = None;
        for range in self.writes.written(length)? {
            for start in range.step_by(HOST_PAGE) {
                let page = start..(start + HOST_PAGE).min(length);
                let changed = copy.exchange(memory, start, delta);
                if !self.heat.entry(start).or_default().is_cold_after(changed) {
                    continue;
                }
                match &mut cold {
                    Some(run) if run.end == page.start => run.end = page.end,
                    _ => {
                        if let Some(run) = cold.replace(page) {
                            self.writes.protect(run)?;
                        }
                    }
                }
            }
        }
        cold.map_or(Ok(()), |run| self.writes.protect(run))
    }
}

/// Address space as large as a memory, of which only the stored pages are backed.
#[derive(Debug)]
struct SparseCopy {
    base: *mut u8,
    reserved: usize,
    /// One bit for each page that was stored.
    stored: Vec<u64>,
    stored_pages: usize,
}

// SAFETY: the mapping belongs to the value alone; nothing in it is tied to a thread.
unsafe impl Send for SparseCopy {}

impl SparseCopy {
    fn new(reserved: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                reserved,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        Ok(Self { base: base.cast(), reserved, stored: Vec::new(), stored_pages: 0 })
    }

    fn slice(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.reserved, "range is inside the copy");
        // SAFETY: the range lies inside our mapping (checked above), which is readable.
        unsafe { slice::from_raw_parts(self.base.add(range.start), range.len()) }
    }

    fn slice_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.reserved, "range is inside the copy");
        // SAFETY: the range lies inside our mapping (checked above), which is writable and
        // borrowed by `self`.
        unsafe { slice::from_raw_parts_mut(self.base.add(range.start), range.len()) }
    }

    fn store(&mut self, memory: &[u8], range: Range<usize>) {
        let range = range.start..range.end.min(memory.len());
        self.slice_mut(range.clone()).copy_from_slice(&memory[range.clone()]);
        for page in range.start / HOST_PAGE..range.end.div_ceil(HOST_PAGE) {
            self.mark(page);
        }
    }

    /// Stores a page, and notes what was stored of it before. Says whether it is different.
    fn exchange(&mut self, memory: &[u8], start: usize, delta: &mut Delta) -> bool {
        let page = start..(start + HOST_PAGE).min(memory.len());
        if !self.has(start / HOST_PAGE) {
            delta.was_ground(start);
            self.store(memory, page);
            return true;
        }
        let old = self.slice_mut(page.clone());
        delta.exchange(start, old, &memory[page])
    }

    fn has(&self, page: usize) -> bool {
        self.stored.get(page / 64).is_some_and(|word| word & 1 << (page % 64) != 0)
    }

    fn mark(&mut self, page: usize) {
        if page / 64 >= self.stored.len() {
            self.stored.resize(page / 64 + 1, 0);
        }
        let word = &mut self.stored[page / 64];
        if *word & 1 << (page % 64) == 0 {
            *word |= 1 << (page % 64);
            self.stored_pages += 1;
        }
    }

    fn pages(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.stored.len() * 64)
            .filter(|&page| self.has(page))
            .map(|page| page * HOST_PAGE..(page + 1) * HOST_PAGE)
    }
}

impl Drop for SparseCopy {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody can reach it any more.
        let _ = unsafe { munmap(self.base.cast(), self.reserved) };
    }
}
