//! What was touched in a directory tree, as the kernel tells it.
//!
//! Whoever changes the tree is hostile and may be at it right now. A directory is opened below the root by the kernel, no
//! link followed, and watched through its descriptor; only then is it listed, so that nothing falls in between. Where
//! events are lost, or would need more memory than is given, the answer is that everything may have changed.

mod hub;
mod places;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::fs::inotify::ReadFlags;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use rustix::io::Errno;

use hub::{Event, Hub};
use places::Places;

/// Directories in directories that are looked at.
pub(crate) const DEEPEST: usize = 128;
/// Bytes of a path that the kernel takes.
pub(crate) const LONGEST: usize = 4095;
/// Directories of one tree that are watched; more would use up what all trees of a user share.
const MOST_DIRECTORIES: usize = 32_768;
/// Names that are looked at in one walk.
const MOST_WALKED: usize = 4_000_000;
/// Paths, and bytes of them, that are told one by one.
const MOST_TOUCHED: usize = 65_536;
const MOST_TOUCHED_BYTES: usize = 8 << 20;
/// Names that are remembered for listeners.
const MOST_KNOWN: usize = 200_000;
/// A tree that couldn't be watched is tried again after this time.
const AGAIN: Duration = Duration::from_secs(30);
/// How long a tree that can't be watched is said to be unchanged.
const UNSEEN: Duration = Duration::from_secs(1);
/// What comes so shortly after a first change is told with it.
const SETTLE: Duration = Duration::from_millis(10);
/// Somebody else may have read the event that is waited for.
const SLICE: Duration = Duration::from_millis(25);

/// Tells what was touched in a directory and all below it.
///
/// A file that is changed through a mapping after it was closed isn't told: the kernel doesn't say so.
#[derive(Debug)]
pub struct Watch {
    root: OwnedFd,
    /// Its number in the hub; none without one.
    number: Option<u64>,
    places: Places,
    touched: BTreeMap<Vec<u8>, First>,
    touched_bytes: usize,
    everything: bool,
    /// What is in the tree, for listeners.
    known: Option<BTreeSet<Vec<u8>>>,
    /// Where directories are makes no sense.
    confused: bool,
    /// The tree isn't watched, since then.
    blind: Option<Instant>,
}

/// What was touched since the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Too much, or not known.
    Everything,
    /// These paths, relative to the root: created, written, moved, removed, or with other attributes. What was a directory
    /// stands for everything that was in it, since another may be in its place; of a new one, all that is in it is listed.
    Paths(BTreeSet<Vec<u8>>),
}

/// One change, as people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEvent {
    /// The path, relative to the root. Empty: so much happened that all of the tree should be looked at again.
    pub path: String,
    /// What happened.
    pub kind: FileEventKind,
}

/// What happened to a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEventKind {
    /// It is new, or something was moved there.
    Created,
    /// Its contents or attributes are others.
    Modified,
    /// It is gone; if it was a directory, with all that was in it.
    Deleted,
}

/// What was heard first of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// It wasn't there.
    Created,
    /// It was there, or it may have been.
    Other,
}

/// A directory that is to be watched and listed.
struct Visit {
    parent: Option<i32>,
    name: Vec<u8>,
    path: Vec<u8>,
    depth: usize,
}

impl Watch {
    /// Watches a directory and all below it. If the kernel has no more watches to give, the watch is there and says that
    /// everything may have changed.
    pub fn new(root: BorrowedFd<'_>) -> io::Result<Self> {
        Self::start(root, None)
    }

    /// Watches for [`changes`](Self::changes): it remembers which names there are, to tell what is new.
    pub fn listening(root: BorrowedFd<'_>) -> io::Result<Self> {
        Self::start(root, Some(BTreeSet::new()))
    }

    fn start(root: BorrowedFd<'_>, known: Option<BTreeSet<Vec<u8>>>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(root, ".", flags, Mode::empty())?;
        let number = Hub::shared().map(Hub::join);
        let mut watch = Self {
            root,
            number,
            places: Places::default(),
            touched: BTreeMap::new(),
            touched_bytes: 0,
            everything: false,
            known,
            confused: false,
            blind: None,
        };
        watch.look_again();
        watch.everything = watch.blind.is_some();
        Ok(watch)
    }

    /// What was touched since the last call.
    pub fn take(&mut self) -> Touched {
        self.gather();
        self.touched_bytes = 0;
        let touched = std::mem::take(&mut self.touched);
        if std::mem::take(&mut self.everything) || self.blind.is_some() {
            return Touched::Everything;
        }
        Touched::Paths(touched.into_keys().collect())
    }

    /// Waits for changes, and returns those since the last call; none when the time is over. What was made and removed
    /// in between isn't told.
    pub fn changes(&mut self, timeout: Duration) -> Vec<FileEvent> {
        let deadline = Instant::now() + timeout;
        if self.blind.is_some() {
            // There is nothing to wait for, and whoever asks again and again would only be told the same.
            std::thread::sleep(timeout.min(UNSEEN));
        }
        loop {
            let events = self.events();
            let left = deadline.saturating_duration_since(Instant::now());
            if !events.is_empty() || left.is_zero() {
                return events;
            }
            let (Some(hub), Some(number)) = (Hub::shared(), self.number) else { return events };
            hub.wait(left.min(SLICE));
            if hub.has(number) {
                std::thread::sleep(SETTLE.min(deadline.saturating_duration_since(Instant::now())));
            }
        }
    }

    fn events(&mut self) -> Vec<FileEvent> {
        self.gather();
        self.touched_bytes = 0;
        let touched = std::mem::take(&mut self.touched);
        if std::mem::take(&mut self.everything) || self.blind.is_some() {
            return vec![FileEvent { path: String::new(), kind: FileEventKind::Modified }];
        }
        let mut events = BTreeMap::new();
        for (path, first) in touched {
            let there = self.is_there(&path);
            for inside in self.known_below(&path) {
                if !self.is_there(&inside) {
                    if let Some(known) = &mut self.known {
                        known.remove(&inside);
                    }
                    events.insert(inside, FileEventKind::Deleted);
                }
            }
            let known = match &mut self.known {
                Some(known) if there => Some(!known.insert(path.clone())),
                Some(known) => Some(known.remove(&path)),
                None => None,
            };
            let kind = match (known.unwrap_or(first == First::Other), there) {
                (false, true) => FileEventKind::Created,
                (true, true) => FileEventKind::Modified,
                (true, false) => FileEventKind::Deleted,
                (false, false) => continue,
            };
            events.insert(path, kind);
        }
        if self.known.as_ref().is_some_and(|known| known.len() > MOST_KNOWN) {
            self.known = None;
        }
        let text = |path: Vec<u8>| String::from_utf8_lossy(&path).into_owned();
        events.into_iter().map(|(path, kind)| FileEvent { path: text(path), kind }).collect()
    }

    fn known_below(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let Some(known) = &self.known else { return Vec::new() };
        let below = [path, b"/"].concat();
        known.range(below.clone()..).take_while(|path| path.starts_with(&below)).cloned().collect()
    }

    fn is_there(&self, path: &[u8]) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat2(&self.root, OsStr::from_bytes(path), flags, Mode::empty(), below()).is_ok()
    }

    /// Takes in what the kernel has told so far.
    fn gather(&mut self) {
        let (Some(hub), Some(number)) = (Hub::shared(), self.number) else {
            self.everything = true;
            return;
        };
        if self.blind.is_some_and(|since| since.elapsed() < AGAIN) {
            return;
        }
        let Some(events) = hub.collect(number).filter(|_| self.blind.is_none()) else {
            self.look_again();
            return;
        };
        let mut found = BTreeSet::new();
        for event in events {
            self.event(event, &mut found);
        }
        let visits = found.into_iter().filter_map(|(parent, name): (i32, Vec<u8>)| {
            let (path, depth) = self.places.path(parent).filter(|(_, depth)| *depth < DEEPEST)?;
            Some(Visit { parent: Some(parent), path: join(&path, &name), name, depth: depth + 1 })
        });
        let visits: VecDeque<Visit> = visits.collect();
        self.walk(visits, true);
        if std::mem::take(&mut self.confused) {
            self.look_again();
            // Directories may have been moved about again meanwhile; the next time will show.
            self.confused = false;
        }
    }

    fn event(&mut self, event: Event, found: &mut BTreeSet<(i32, Vec<u8>)>) {
        if event.flags.contains(ReadFlags::UNMOUNT) {
            self.everything = true;
        }
        if event.flags.contains(ReadFlags::IGNORED) {
            // The kernel has let go of it; the root's end is the end of all.
            self.everything |= self.places.root() == Some(event.watch);
            self.leave(event.watch);
            return;
        }
        // From a directory that was here before, or about itself, which its parent tells too.
        if event.name.is_empty() || !self.places.has(event.watch) {
            return;
        }
        let Some((path, _)) = self.places.path(event.watch) else {
            self.confused = true;
            return;
        };
        let created = event.flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        let first = if created { First::Created } else { First::Other };
        self.touch(join(&path, &event.name), first);
        if !event.flags.contains(ReadFlags::ISDIR) {
            return;
        }
        let known = self.places.child(event.watch, &event.name);
        if event.flags.intersects(ReadFlags::ATTRIB) && known.is_some() {
            return;
        }
        if let Some(known) = known {
            self.leave(known);
        }
        // Also where one is said to be gone: when two are exchanged, that is said last of what has come there.
        found.insert((event.watch, event.name));
    }

    /// Watches the whole tree anew: what was known of it may be wrong.
    fn look_again(&mut self) {
        let Some(number) = self.number else { return self.give_up() };
        self.everything = true;
        self.touched.clear();
        self.touched_bytes = 0;
        self.blind = None;
        if let Some(known) = &mut self.known {
            known.clear();
        }
        let before = std::mem::take(&mut self.places);
        let top = Visit { parent: None, name: Vec::new(), path: Vec::new(), depth: 0 };
        self.walk(VecDeque::from([top]), false);
        let gone: Vec<i32> = before.all().filter(|watch| !self.places.has(*watch)).collect();
        if let Some(hub) = Hub::shared() {
            hub.leave(number, &gone);
        }
    }

    /// Watches directories and all below them, and touches what is in them.
    fn walk(&mut self, mut visits: VecDeque<Visit>, touch: bool) {
        let (Some(hub), Some(number)) = (Hub::shared(), self.number) else { return self.give_up() };
        let mut visited = HashMap::new();
        let mut walked = 0;
        while let Some(visit) = visits.pop_front() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let path = if visit.path.is_empty() { b"." } else { &visit.path[..] };
            let opened = openat2(&self.root, OsStr::from_bytes(path), flags, Mode::empty(), below());
            let watched = opened.and_then(|directory| Ok((hub.add(number, directory.as_fd())?, directory)));
            let (watch, directory) = match watched {
                Ok(watched) => watched,
                // Gone since, replaced, or closed.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::ACCESS) => continue,
                Err(_) => return self.give_up(),
            };
            let (fits, replaced) = self.places.put(watch, visit.parent, &visit.name);
            self.confused |= !fits;
            if let Some(replaced) = replaced {
                self.leave(replaced);
            }
            if self.places.count() > MOST_DIRECTORIES {
                return self.give_up();
            }
            // One that was moved since it was listed is listed again: what is in it has other paths.
            if visited.insert(watch, visit.path.clone()).is_some_and(|former| former == visit.path) {
                continue;
            }
            let Ok(listing) = Dir::read_from(&directory) else { continue };
            for found in listing {
                let Ok(found) = found else { break };
                let name = found.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                walked += 1;
                if walked > MOST_WALKED {
                    return self.give_up();
                }
                let path = join(&visit.path, name.to_bytes());
                let is_directory = match found.file_type() {
                    FileType::Unknown => statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
                        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
                    known => known == FileType::Directory,
                };
                if is_directory && visit.depth < DEEPEST && path.len() <= LONGEST {
                    let (name, path) = (name.to_bytes().to_vec(), path.clone());
                    visits.push_back(Visit { parent: Some(watch), name, path, depth: visit.depth + 1 });
                }
                match (&mut self.known, touch) {
                    (_, true) => self.touch(path, First::Created),
                    (Some(known), false) if known.len() <= MOST_KNOWN => drop(known.insert(path)),
                    _ => {}
                }
            }
        }
    }

    fn touch(&mut self, path: Vec<u8>, first: First) {
        if self.everything || path.len() > LONGEST {
            return;
        }
        let length = path.len();
        if let std::collections::btree_map::Entry::Vacant(place) = self.touched.entry(path) {
            place.insert(first);
            self.touched_bytes += length;
        }
        if self.touched.len() > MOST_TOUCHED || self.touched_bytes > MOST_TOUCHED_BYTES {
            self.touched.clear();
            self.everything = true;
        }
    }

    /// Stops watching a directory and all that is known below it.
    fn leave(&mut self, watch: i32) {
        let gone = self.places.remove(watch);
        if let (Some(hub), Some(number)) = (Hub::shared(), self.number) {
            hub.leave(number, &gone);
        }
    }

    /// Watches nothing for a while, and leaves the watches to others.
    fn give_up(&mut self) {
        self.everything = true;
        self.touched.clear();
        self.blind = Some(Instant::now());
        let all: Vec<i32> = self.places.all().collect();
        self.places = Places::default();
        if let (Some(hub), Some(number)) = (Hub::shared(), self.number) {
            hub.leave(number, &all);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let (Some(hub), Some(number)) = (Hub::shared(), self.number) {
            let all: Vec<i32> = self.places.all().collect();
            hub.leave(number, &all);
            hub.part(number);
        }
    }
}

/// How paths below a root are resolved.
pub(crate) fn below() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV
}

pub(crate) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}
