//! What a guest's memory held before the running cell, so that the cell can be taken back.
//!
//! A shadow is a sparse copy: only pages that differ from the image are in it. Where the kernel
//! tracks writes, each cell costs the copying of the pages that it wrote; elsewhere all private pages are
//! compared.

use std::io;
use std::ops::Range;
use std::ptr;
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::pages::{self, HOST_PAGE, Span, WriteTracker};

/// A copy of a memory's private pages, and the means to bring it up to date.
#[derive(Debug)]
pub(crate) struct Shadow {
    copy: SparseCopy,
    tracker: Option<WriteTracker>,
    /// Size of the guest's memory when the copy was made.
    length: usize,
}

impl Shadow {
    /// Copies the private pages of `memory`. `reserved` is how large the memory may become.
    pub(crate) fn new(memory: &[u8], reserved: usize, track: bool) -> io::Result<Self> {
        let span = Span { base: memory.as_ptr() as usize, length: reserved };
        let tracker = if track { WriteTracker::new(span).ok() } else { None };
        let mut shadow = Self { copy: SparseCopy::new(reserved)?, tracker, length: memory.len() };
        for range in pages::private(Span { length: memory.len(), ..span })? {
            shadow.copy.store(memory, range);
        }
        Ok(shadow)
    }

    /// Makes the copy equal to `memory` again.
    pub(crate) fn update(&mut self, memory: &[u8]) -> io::Result<()> {
        self.length = memory.len();
        match &self.tracker {
            Some(tracker) => {
                for range in tracker.take(memory.len())? {
                    self.copy.store(memory, range);
                }
            }
            None => {
                let span = Span { base: memory.as_ptr() as usize, length: memory.len() };
                for range in pages::private(span)? {
                    self.copy.store_changed(memory, range);
                }
            }
        }
        Ok(())
    }

    /// Size of the memory that was copied.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Bytes that the copy holds.
    pub(crate) fn bytes(&self) -> usize {
        self.copy.pages * HOST_PAGE
    }

    /// Writes the copy into a memory that equals the image elsewhere and is at least as large.
    pub(crate) fn restore(&self, memory: &mut [u8]) {
        for range in self.copy.ranges() {
            let end = range.end.min(memory.len());
            if range.start < end {
                memory[range.start..end].copy_from_slice(self.copy.slice(range.start..end));
            }
        }
    }
}

/// Whether the kernel tracks writes here.
pub(crate) fn tracking_works() -> bool {
    let probe = vec![0_u8; 2 * HOST_PAGE];
    let base = (probe.as_ptr() as usize).next_multiple_of(HOST_PAGE);
    WriteTracker::new(Span { base, length: HOST_PAGE }).is_ok()
}

/// Address space as large as a memory, of which only the stored pages are backed.
#[derive(Debug)]
struct SparseCopy {
    base: *mut u8,
    reserved: usize,
    /// One bit for each page that was stored.
    stored: Vec<u64>,
    pages: usize,
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
        Ok(Self { base: base.cast(), reserved, stored: Vec::new(), pages: 0 })
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

    fn store_changed(&mut self, memory: &[u8], range: Range<usize>) {
        for start in range.step_by(HOST_PAGE) {
            let page = start..(start + HOST_PAGE).min(memory.len());
            if !self.has(start / HOST_PAGE) || self.slice(page.clone()) != &memory[page.clone()] {
                self.store(memory, page);
            }
        }
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
            self.pages += 1;
        }
    }

    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
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
