//! A guest's linear memory: a private copy-on-write view of an image.
//!
//! wasmtime asks a [`MemoryCreator`] for the memory while it instantiates and passes nothing of ours
//! along, so the image to use is left in a thread-local for the time of the call ([`with_image`]).

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

/// wasm's page: what memories grow by.
pub(crate) const WASM_PAGE: usize = 64 << 10;

/// Initial contents that many memories share.
#[derive(Debug)]
pub(crate) struct Image {
    file: File,
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
        Ok(Self { file, length, hot })
    }
}

thread_local! {
    static IMAGE: RefCell<Option<Arc<Image>>> = const { RefCell::new(None) };
}

/// Memories made by this thread inside `body` start as `image`.
pub(crate) fn with_image<T>(image: &Arc<Image>, body: impl FnOnce() -> T) -> T {
    IMAGE.set(Some(Arc::clone(image)));
    let result = body();
    IMAGE.set(None);
    result
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
        if let Some(image) = IMAGE.with_borrow(Clone::clone) {
            memory.map_image(&image).map_err(|error| error.to_string())?;
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
        Ok(Self { base: base.cast(), size: 0, capacity, total })
    }

    fn map_image(&mut self, image: &Image) -> io::Result<()> {
        if image.length > self.capacity {
            return Err(io::Error::other("the memory image is larger than the reservation"));
        }
        // SAFETY: the range lies inside our own reservation (checked above), which nobody reads yet.
        unsafe {
            mmap(
                self.base.cast(),
                image.length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
                image.file.as_fd(),
                0,
            )
        }?;
        self.size = image.length;
        for range in &image.hot {
            // SAFETY: `hot` lies inside the image (checked when it was opened), mapped above.
            // Populating only makes private copies of pages; a kernel without it refuses, harmlessly.
            let _ = unsafe {
                madvise(self.base.add(range.start).cast(), range.len(), Advice::LinuxPopulateWrite)
            };
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
        // SAFETY: the mapping is ours and nobody can reach it any more.
        let _ = unsafe { munmap(self.base.cast(), self.total) };
    }
}
