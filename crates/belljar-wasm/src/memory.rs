//! A guest's linear memory: a private copy-on-write view of a [`Ground`].
//!
//! wasmtime asks a [`MemoryCreator`] for the memory while it instantiates and passes nothing of ours
//! along, so the ground to use is left in a thread-local for the time of the call ([`with_ground`]).

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
use std::ptr;
use std::slice;
use std::sync::Arc;

use rustix::io::preadv;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

use crate::bus::Watch;
use crate::ground::{Ground, Run};

/// This process, to system calls that want a descriptor of one (Linux 6.14).
const PIDFD_SELF: libc::c_int = -10_000;

/// wasm's page: what memories grow by.
pub(crate) const WASM_PAGE: usize = 64 << 10;

/// Initial contents that many memories share.
#[derive(Debug)]
pub(crate) struct Image {
    file: Arc<File>,
    length: usize,
    /// Byte ranges that every guest writes in its first cell: copied when the memory is made,
    /// in one go, instead of by a fault each.
    pub(crate) hot: Vec<Range<usize>>,
}

impl Image {
    /// Opens an image. Its length must be a whole number of wasm pages.
    pub(crate) fn open(path: &Path, hot: Vec<Range<usize>>) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if length == 0 || !length.is_multiple_of(WASM_PAGE) || hot.iter().any(|range| range.end > length) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the memory image has a wrong size"));
        }
        Ok(Self { file: Arc::new(file), length, hot })
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn shared_file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

thread_local! {
    static GROUND: RefCell<Option<Arc<Ground>>> = const { RefCell::new(None) };
}

/// Memories made by this thread inside `body` start as `ground`.
pub(crate) fn with_ground<T>(ground: &Arc<Ground>, body: impl FnOnce() -> T) -> T {
    GROUND.set(Some(Arc::clone(ground)));
    let result = body();
    GROUND.set(None);
    result
}

/// Makes a run of a live memory a view of the file that has a copy of it, so that its own pages are given
/// back. Nothing changes for who reads it.
pub(crate) fn share(memory: &mut [u8], run: &Run) -> io::Result<()> {
    let target = &mut memory[run.memory.clone()];
    // SAFETY: the range is borrowed mutably, so nobody looks at it meanwhile; it stays readable and writable,
    // and the file has the same bytes, so that nothing changes for whoever looks later.
    unsafe { map(target.as_mut_ptr(), target.len(), &run.file, run.offset) }
}

/// Maps a file privately over `length` bytes at `base`.
///
/// # Safety
/// The range must be a mapping of ours that nobody looks at during the call.
unsafe fn map(base: *mut u8, length: usize, file: &File, offset: u64) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        mmap(
            base.cast(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
            file.as_fd(),
            offset,
        )
    }?;
    Ok(())
}

/// Makes guests' memories.
#[derive(Debug)]
pub(crate) struct Creator;

// SAFETY: `new_memory` returns a reservation of the size and with the guard that it was asked for;
// see `Reservation`.
unsafe impl MemoryCreator for Creator {
    fn new_memory(
        &self,
        _type: MemoryType,
        minimum: usize,
        _maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let capacity = reserved.ok_or("the engine must reserve its memories")?;
        let mut memory = Reservation::new(capacity, guard).map_err(|error| error.to_string())?;
        if let Some(ground) = GROUND.with_borrow(Clone::clone) {
            memory.lay(&ground).map_err(|error| error.to_string())?;
        }
        if minimum > memory.size {
            memory.grow_to(minimum).map_err(|error| error.to_string())?;
        }
        Ok(Box::new(memory))
    }
}

/// Address space for one memory: `capacity` bytes that may become accessible from the front on,
/// then a guard that never does.
struct Reservation {
    base: *mut u8,
    size: usize,
    capacity: usize,
    total: usize,
    /// Until the mapping goes.
    watch: Option<Watch>,
}

// SAFETY: the mapping belongs to the value alone; nothing in it is tied to a thread.
unsafe impl Send for Reservation {}
// SAFETY: through a shared reference only the numbers are read.
unsafe impl Sync for Reservation {}

impl Reservation {
    fn new(capacity: usize, guard: usize) -> io::Result<Self> {
        let total = capacity
            .checked_add(guard)
            .ok_or_else(|| io::Error::other("the memory reservation is too large"))?;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                total,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let watch = Watch::over(base as usize, capacity);
        Ok(Self { base: base.cast(), size: 0, capacity, total, watch: Some(watch) })
    }

    fn lay(&mut self, ground: &Ground) -> io::Result<()> {
        let image = &ground.image;
        if image.length > self.capacity || ground.length() > self.capacity {
            return Err(io::Error::other("the memory image is larger than the reservation"));
        }
        // SAFETY: the range lies inside our own reservation (checked above), which nobody reads yet.
        unsafe { map(self.base, image.length, &image.file, 0) }?;
        self.size = image.length;
        // A guest that ran before brings these pages along.
        let hot = if ground.runs().is_empty() { image.hot.as_slice() } else { &[] };
        self.populate(hot.iter().cloned());
        if ground.length() > self.size {
            self.grow_to(ground.length()).map_err(io::Error::other)?;
        }
        self.lay_runs(ground)
    }

    /// Makes private copies of pages ahead of time, at once instead of by a fault each. They must be accessible.
    fn populate(&self, ranges: impl Iterator<Item = Range<usize>>) {
        let ranges = ranges.map(|range| {
            assert!(range.start <= range.end && range.end <= self.size, "the range is accessible");
            // SAFETY: the offset is inside our reservation (checked above).
            libc::iovec { iov_base: unsafe { self.base.add(range.start) }.cast(), iov_len: range.len() }
        });
        let ranges: Vec<libc::iovec> = ranges.collect();
        for ranges in ranges.chunks(512) {
            // SAFETY: the ranges are ours (checked above) and nothing changes in them.
            let done = unsafe {
                libc::syscall(
                    libc::SYS_process_madvise,
                    PIDFD_SELF,
                    ranges.as_ptr(),
                    ranges.len(),
                    libc::MADV_POPULATE_WRITE,
                    0,
                )
            };
            if done >= 0 {
                continue;
            }
            // Before Linux 6.15 it takes a call each; before 5.14 it can't be done, which only costs time.
            for range in ranges {
                // SAFETY: as above.
                let _ = unsafe { madvise(range.iov_base, range.iov_len, Advice::LinuxPopulateWrite) };
            }
        }
    }

    /// Long runs are mapped, short ones copied.
    fn lay_runs(&mut self, ground: &Ground) -> io::Result<()> {
        let (long, short): (Vec<&Run>, Vec<&Run>) =
            ground.runs().iter().partition(|run| ground.is_mapped(run));
        self.populate(short.iter().map(|run| run.memory.clone()));
        for run in long {
            // SAFETY: runs lie inside the ground's length (checked when it was made), which is accessible by
            // now, in our own reservation, which nobody reads yet.
            unsafe { map(self.base.add(run.memory.start), run.memory.len(), &run.file, run.offset) }?;
        }
        let mut rest = short.as_slice();
        while let [first, ..] = rest {
            // Those that follow each other in one file are read by one call.
            let mut next = first.offset;
            let together = rest.iter().take(512).take_while(|run| {
                let follows = Arc::ptr_eq(&run.file, &first.file) && run.offset == next;
                next = run.offset + run.memory.len() as u64;
                follows
            });
            let count = together.count();
            self.read(&rest[..count])?;
            rest = &rest[count..];
        }
        Ok(())
    }

    fn read(&mut self, runs: &[&Run]) -> io::Result<()> {
        let [first, ..] = runs else { return Ok(()) };
        let slices = runs.iter().map(|run| {
            // SAFETY: runs lie inside the accessible part of our reservation and apart from each other, so
            // each slice is the only one to its bytes.
            IoSliceMut::new(unsafe {
                slice::from_raw_parts_mut(self.base.add(run.memory.start), run.memory.len())
            })
        });
        let mut slices: Vec<IoSliceMut<'_>> = slices.collect();
        let mut rest = slices.as_mut_slice();
        let mut offset = first.offset;
        while !rest.is_empty() {
            let read = preadv(first.file.as_fd(), rest, offset)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            offset += read as u64;
            IoSliceMut::advance_slices(&mut rest, read);
        }
        Ok(())
    }
}

// SAFETY: `as_ptr` stays the same for the value's life, `byte_size` bytes from it are readable and
// writable, and the rest up to `total` is inaccessible.
unsafe impl LinearMemory for Reservation {
    fn byte_size(&self) -> usize {
        self.size
    }

    fn byte_capacity(&self) -> usize {
        self.capacity
    }

    fn grow_to(&mut self, new_size: usize) -> wasmtime::Result<()> {
        if new_size > self.capacity || new_size < self.size {
            return Err(wasmtime::Error::msg("memory cannot grow to that size"));
        }
        // SAFETY: the range lies inside our own reservation, beyond what was accessible so far.
        unsafe {
            mprotect(
                self.base.add(self.size).cast(),
                new_size - self.size,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
        }
        .map_err(io::Error::from)?;
        self.size = new_size;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // First: afterwards the addresses may be somebody else's.
        self.watch = None;
        // SAFETY: the mapping is ours and nobody can reach it any more.
        let _ = unsafe { munmap(self.base.cast(), self.total) };
    }
}
