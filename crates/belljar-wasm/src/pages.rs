//! Which pages of a memory differ from its image, and which were written since the last look.
//!
//! `PAGEMAP_SCAN` (Linux 6.7) answers both at once, the second together with userfaultfd's
//! asynchronous write protection. Older kernels tell private pages in `/proc/self/pagemap`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// The host's page. Snapshots don't depend on it; looking at the page table does.
pub(crate) const HOST_PAGE: usize = 4096;

const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610_u32 as libc::Ioctl;
const SCAN_CHECK_ASYNC: u64 = 2;
const IS_WRITTEN: u64 = 1 << 1;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;

const UFFDIO_API: libc::Ioctl = 0xc018_aa3f_u32 as libc::Ioctl;
const UFFDIO_REGISTER: libc::Ioctl = 0xc020_aa00_u32 as libc::Ioctl;
const UFFDIO_WRITEPROTECT: libc::Ioctl = 0xc018_aa06_u32 as libc::Ioctl;
const WRITEPROTECT_MODE_WP: u64 = 1;
const UFFD_USER_MODE_ONLY: libc::c_long = 1;
const UFFD_API: u64 = 0xaa;
const FEATURE_WP: u64 = 1;
const FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 2;

/// The kernel's `struct pm_scan_arg`.
#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any: u64,
    return_mask: u64,
}

/// The kernel's `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// A span of this process's address space: where a guest's memory lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) base: usize,
    pub(crate) length: usize,
}

/// How a guest's own pages are found. Each works where the one before it doesn't.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageSource {
    /// The kernel tells private pages, and tracks writes.
    Tracked,
    /// The kernel tells private pages (Linux 6.7).
    Scanned,
    /// By reading the page table, which every kernel shows.
    PageTable,
    /// The kernel tells nothing: every page that was ever accessible counts.
    All,
}

impl PageSource {
    /// The best that works here, and is no better than `best`.
    pub(crate) fn probe(best: Self) -> Self {
        let [tracked, scanned, table] = *WORKING.get_or_init(|| {
            let probe = vec![1_u8; 2 * HOST_PAGE];
            let base = (probe.as_ptr() as usize).next_multiple_of(HOST_PAGE);
            let span = Span { base, length: HOST_PAGE };
            [
                WriteTracker::new(span, HOST_PAGE).is_ok(),
                scan_private(span).is_ok(),
                private_by_pagemap(span).is_ok(),
            ]
        });
        let ways = [(Self::Tracked, tracked), (Self::Scanned, scanned), (Self::PageTable, table)];
        let from = ways.iter().position(|(way, _)| *way == best).unwrap_or(ways.len());
        ways[from..].iter().find(|(_, works)| *works).map_or(Self::All, |(way, _)| *way)
    }

    /// Byte ranges, relative to the span, of pages that are the guest's own: written since the ground was
    /// mapped. There may be more than that, never less.
    pub(crate) fn private(self, span: Span) -> io::Result<Vec<Range<usize>>> {
        match self {
            Self::Tracked | Self::Scanned => scan_private(span),
            Self::PageTable => private_by_pagemap(span),
            #[expect(clippy::single_range_in_vec_init, reason = "one range is what is meant")]
            Self::All => Ok(vec![0..span.length]),
        }
    }
}

static WORKING: OnceLock<[bool; 3]> = OnceLock::new();

fn scan_private(span: Span) -> io::Result<Vec<Range<usize>>> {
    let arguments = ScanArguments {
        category_inverted: IS_FILE | IS_ZERO,
        category_mask: IS_FILE | IS_ZERO,
        category_any: IS_PRESENT | IS_SWAPPED,
        return_mask: IS_FILE,
        ..ScanArguments::new(span, 0)
    };
    scan(span, arguments)
}

/// Tells which pages were written since the last look.
#[derive(Debug)]
pub(crate) struct WriteTracker {
    userfault: OwnedFd,
    span: Span,
}

impl WriteTracker {
    /// Begins to track the first `length` bytes of the span, or says why that can't be done here.
    pub(crate) fn new(span: Span, length: usize) -> io::Result<Self> {
        let flags = libc::c_long::from(libc::O_CLOEXEC | libc::O_NONBLOCK) | UFFD_USER_MODE_ONLY;
        // SAFETY: the call takes flags and returns a descriptor.
        let descriptor = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor.
        let userfault = unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) };
        let features = FEATURE_WP | FEATURE_WP_HUGETLBFS_SHMEM | FEATURE_WP_UNPOPULATED | FEATURE_WP_ASYNC;
        let mut api = [UFFD_API, features, 0];
        ioctl(&userfault, UFFDIO_API, &mut api)?;
        let mut register = [span.base as u64, span.length as u64, REGISTER_MODE_WP, 0];
        ioctl(&userfault, UFFDIO_REGISTER, &mut register)?;
        let tracker = Self { userfault, span };
        tracker.protect(0..length)?;
        // The kernel may lack the look-up although it has the tracking.
        tracker.written(HOST_PAGE)?;
        Ok(tracker)
    }

    /// Tracks pages from now on; they don't count as written any more.
    pub(crate) fn protect(&self, range: Range<usize>) -> io::Result<()> {
        let mut arguments = [(self.span.base + range.start) as u64, range.len() as u64, WRITEPROTECT_MODE_WP];
        ioctl(&self.userfault, UFFDIO_WRITEPROTECT, &mut arguments)
    }

    /// Byte ranges among the first `length` bytes that were written since they were last protected.
    pub(crate) fn written(&self, length: usize) -> io::Result<Vec<Range<usize>>> {
        let span = Span { length: length.min(self.span.length), ..self.span };
        let arguments = ScanArguments {
            category_mask: IS_WRITTEN,
            return_mask: IS_WRITTEN,
            ..ScanArguments::new(span, SCAN_CHECK_ASYNC)
        };
        scan(span, arguments)
    }
}

impl ScanArguments {
    fn new(span: Span, flags: u64) -> Self {
        Self {
            size: size_of::<Self>() as u64,
            flags,
            start: span.base as u64,
            end: (span.base + span.length) as u64,
            walk_end: 0,
            regions: 0,
            regions_length: 0,
            max_pages: 0,
            category_inverted: 0,
            category_mask: 0,
            category_any: 0,
            return_mask: 0,
        }
    }
}

fn scan(span: Span, mut arguments: ScanArguments) -> io::Result<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let mut regions = [Region::default(); 512];
    let end = arguments.end;
    while arguments.start < end {
        arguments.regions = regions.as_mut_ptr() as u64;
        arguments.regions_length = regions.len() as u64;
        // SAFETY: the argument is the structure that the request wants, and the regions it points
        // to outlive the call.
        let count = unsafe { libc::ioctl(pagemap()?.as_raw_fd(), PAGEMAP_SCAN, &raw mut arguments) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        found.extend(
            regions[..count as usize]
                .iter()
                .map(|region| region.start as usize - span.base..region.end as usize - span.base),
        );
        if arguments.walk_end <= arguments.start {
            break;
        }
        arguments.start = arguments.walk_end;
    }
    Ok(found)
}

fn private_by_pagemap(span: Span) -> io::Result<Vec<Range<usize>>> {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const FILE_OR_SHARED: u64 = 1 << 61;
    let mut entries = vec![0; span.length / HOST_PAGE * 8];
    pagemap()?.read_exact_at(&mut entries, (span.base / HOST_PAGE * 8) as u64)?;
    let mut found: Vec<Range<usize>> = Vec::new();
    for (index, entry) in entries.as_chunks::<8>().0.iter().enumerate() {
        let entry = u64::from_le_bytes(*entry);
        if entry & (PRESENT | SWAPPED) == 0 || entry & FILE_OR_SHARED != 0 {
            continue;
        }
        let start = index * HOST_PAGE;
        match found.last_mut() {
            Some(last) if last.end == start => last.end += HOST_PAGE,
            _ => found.push(start..start + HOST_PAGE),
        }
    }
    Ok(found)
}

fn pagemap() -> io::Result<&'static File> {
    static PAGEMAP: OnceLock<Option<File>> = OnceLock::new();
    PAGEMAP
        .get_or_init(|| File::open("/proc/self/pagemap").ok())
        .as_ref()
        .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "/proc/self/pagemap cannot be read"))
}

fn ioctl<const N: usize>(
    descriptor: &OwnedFd,
    request: libc::Ioctl,
    argument: &mut [u64; N],
) -> io::Result<()> {
    // SAFETY: the argument is an array as large as the structure that the request wants.
    let result = unsafe { libc::ioctl(descriptor.as_raw_fd(), request, argument.as_mut_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
