//! The process's one source of events: an ordinary user may have only 128 of them, so all trees share it.

use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Events, and bytes of names in them, that wait for a tree that nobody asks about.
const MOST_WAITING: usize = 32_768;
const MOST_WAITING_BYTES: usize = 2 << 20;
/// What the kernel puts before the name of an event.
const HEADER: usize = 16;

pub(super) struct Hub {
    source: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Who watches a directory, by watch descriptor: one directory may be in several trees.
    members: HashMap<i32, Vec<u64>>,
    boxes: HashMap<u64, Inbox>,
    last: u64,
}

#[derive(Default)]
struct Inbox {
    events: VecDeque<Event>,
    bytes: usize,
    lost: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) watch: i32,
    pub(super) flags: ReadFlags,
    /// Empty if it is about the directory itself.
    pub(super) name: Vec<u8>,
}

impl Hub {
    /// The one of this process, if the kernel gives it one.
    pub(super) fn shared() -> Option<&'static Self> {
        static HUB: OnceLock<Hub> = OnceLock::new();
        if HUB.get().is_none()
            && let Ok(source) = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
        {
            let _ = HUB.set(Self { source, state: Mutex::default() });
        }
        HUB.get()
    }

    pub(super) fn join(&self) -> u64 {
        let mut state = self.lock();
        state.last += 1;
        let number = state.last;
        state.boxes.insert(number, Inbox::default());
        number
    }

    pub(super) fn part(&self, number: u64) {
        self.lock().boxes.remove(&number);
    }

    /// Watches a directory. Nobody reads events meanwhile, so none gets lost before it is known whose they are.
    pub(super) fn add(&self, number: u64, directory: BorrowedFd<'_>) -> rustix::io::Result<i32> {
        let mut state = self.lock();
        let flags = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::MOVE
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR;
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let watch = inotify::add_watch(&self.source, path, flags)?;
        let members = state.members.entry(watch).or_default();
        if !members.contains(&number) {
            members.push(number);
        }
        Ok(watch)
    }

    /// Ends watches of one tree.
    pub(super) fn leave(&self, number: u64, watches: &[i32]) {
        let mut state = self.lock();
        for watch in watches {
            let Some(members) = state.members.get_mut(watch) else { continue };
            members.retain(|member| *member != number);
            if members.is_empty() {
                state.members.remove(watch);
                // The directory may be gone already, and its watch with it.
                let _ = inotify::remove_watch(&self.source, *watch);
            }
        }
    }

    /// What has happened in a tree so far; none if some of it got lost.
    pub(super) fn collect(&self, number: u64) -> Option<VecDeque<Event>> {
        let mut state = self.lock();
        self.read(&mut state);
        let inbox = std::mem::take(state.boxes.get_mut(&number)?);
        (!inbox.lost).then_some(inbox.events)
    }

    /// Whether something waits for a tree.
    pub(super) fn has(&self, number: u64) -> bool {
        let mut state = self.lock();
        self.read(&mut state);
        state.boxes.get(&number).is_some_and(|inbox| inbox.lost || !inbox.events.is_empty())
    }

    /// Waits until something happens in any tree.
    pub(super) fn wait(&self, timeout: Duration) {
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::new(&self.source, PollFlags::IN)], Some(&timeout));
    }

    /// Reads all that is there at the beginning: whoever makes events all the time can't keep it here.
    fn read(&self, state: &mut State) {
        let Ok(there) = rustix::io::ioctl_fionread(&self.source) else { return };
        let mut buffer = vec![MaybeUninit::uninit(); (there as usize).clamp(0, 64 << 10) + 4096];
        let mut reader = Reader::new(&self.source, &mut buffer);
        let mut seen = 0;
        while seen < there || !reader.is_buffer_empty() {
            let event = match reader.next() {
                Ok(event) => event,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
            };
            let name = event.file_name().map_or(&b""[..], |name| name.to_bytes());
            let padded = if name.is_empty() { 0 } else { (name.len() + 1).next_multiple_of(HEADER) };
            seen += (HEADER + padded) as u64;
            state.deliver(event.wd(), event.events(), name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn deliver(&mut self, watch: i32, flags: ReadFlags, name: &[u8]) {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.boxes.values_mut().for_each(Inbox::lose);
            return;
        }
        for number in self.members.get(&watch).map_or(&[][..], Vec::as_slice) {
            if let Some(inbox) = self.boxes.get_mut(number) {
                inbox.push(watch, flags, name);
            }
        }
        if flags.contains(ReadFlags::IGNORED) {
            self.members.remove(&watch);
        }
    }
}

impl Inbox {
    fn push(&mut self, watch: i32, flags: ReadFlags, name: &[u8]) {
        if self.lost {
            return;
        }
        if self.events.len() >= MOST_WAITING || self.bytes + name.len() > MOST_WAITING_BYTES {
            self.lose();
            return;
        }
        let event = Event { watch, flags, name: name.to_vec() };
        if self.events.back() != Some(&event) {
            self.bytes += event.name.len();
            self.events.push_back(event);
        }
    }

    fn lose(&mut self) {
        *self = Self { lost: true, ..Self::default() };
    }
}
