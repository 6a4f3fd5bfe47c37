//! What happens when a file that guests' memories are views of is damaged while they are.
//!
//! A page beyond the end of a shortened file, or on a broken disk, can't be read: whoever touches it gets
//! `SIGBUS`, which would end the process. Here the page is replaced by zeros and the memory it belongs to is
//! marked as torn; whoever runs the guest then finds that it is lost, and nobody else is.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::pages::HOST_PAGE;

/// How many memories are watched; those beyond it are not, which only matters if a file is damaged.
const MOST: usize = 32_768;

/// A memory. All is atomic, for a signal handler looks at it.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
    torn: AtomicBool,
}

static PLACES: [Place; MOST] =
    [const { Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0), torn: AtomicBool::new(false) } };
        MOST];
/// No place from here on was ever taken.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Watches over a memory as long as it lives.
#[derive(Debug)]
pub(crate) struct Watch {
    place: Option<usize>,
}

impl Watch {
    /// Begins to watch over the address space of a memory.
    pub(crate) fn over(start: usize, length: usize) -> Self {
        install();
        let free = |place: &Place| {
            place.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let place = PLACES.iter().position(free);
        if let Some(index) = place {
            PLACES[index].torn.store(false, Ordering::Relaxed);
            PLACES[index].end.store(start + length, Ordering::Release);
            USED.fetch_max(index + 1, Ordering::AcqRel);
        }
        Self { place }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(index) = self.place {
            PLACES[index].end.store(0, Ordering::Release);
            PLACES[index].start.store(0, Ordering::Release);
        }
    }
}

/// Whether a page of the memory that begins there was lost.
pub(crate) fn is_torn(start: usize) -> bool {
    let used = &PLACES[..USED.load(Ordering::Acquire)];
    used.iter()
        .any(|place| place.torn.load(Ordering::Relaxed) && place.start.load(Ordering::Relaxed) == start)
}

/// Whether any memory was torn; nearly always not, and then nobody needs to search.
pub(crate) fn is_any_torn() -> bool {
    ANY.load(Ordering::Relaxed)
}

static ANY: AtomicBool = AtomicBool::new(false);
static FORMER: OnceLock<libc::sigaction> = OnceLock::new();

fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // SAFETY: all zeros is a `sigaction` without flags and with an empty mask.
        let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        ours.sa_sigaction = handle as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        let mut former = MaybeUninit::zeroed();
        // SAFETY: both point to a `sigaction`; the handler only does what a signal handler may.
        let done = unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, former.as_mut_ptr()) };
        if done == 0 {
            // SAFETY: the call filled it.
            let _ = FORMER.set(unsafe { former.assume_init() });
        }
    });
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`, and for this signal it has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let used = &PLACES[..USED.load(Ordering::Acquire)];
    let found = used.iter().find(|place| {
        let (start, end) = (place.start.load(Ordering::Acquire), place.end.load(Ordering::Acquire));
        start != 0 && (start..end).contains(&address)
    });
    let page = address & !(HOST_PAGE - 1);
    // SAFETY: the page lies in a memory of ours, whose contents are lost in any case; the call is a bare
    // system call, which is safe in a signal handler.
    let replaced = found.is_some()
        && unsafe {
            libc::mmap(
                page as *mut libc::c_void,
                HOST_PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            ) != libc::MAP_FAILED
        };
    match found {
        Some(place) if replaced => {
            place.torn.store(true, Ordering::Relaxed);
            ANY.store(true, Ordering::Relaxed);
        }
        _ => pass_on(signal, info, context),
    }
}

/// It wasn't ours: as if we weren't there.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let former = FORMER.get();
    match former.map(|former| (former.sa_sigaction, former.sa_flags)) {
        Some((handler, flags)) if handler != libc::SIG_DFL && handler != libc::SIG_IGN => {
            if flags & libc::SA_SIGINFO != 0 {
                // SAFETY: the flag says that it is a function of this type.
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    unsafe { std::mem::transmute(handler) };
                handler(signal, info, context);
            } else {
                // SAFETY: without the flag it is a function of this type.
                let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
                handler(signal);
            }
        }
        _ => {
            // SAFETY: puts the default back: the access is repeated, and ends the process as it would have.
            unsafe {
                let mut default: libc::sigaction = MaybeUninit::zeroed().assume_init();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, ptr::null_mut());
            }
        }
    }
}
