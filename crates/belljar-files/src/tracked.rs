//! A workspace on the disk whose cells can be taken back.
//!
//! A watch tells what was touched, so a cell costs what it touches and not what is there. Of each path the index has a
//! stamp and, for files, the contents as they were when they were last kept; a cell is remembered as what was at the paths
//! that it changed. Contents are kept after a cell's answer was given, so that the next one can be taken back.
//!
//! What isn't seen: a file that is changed through a mapping after it was closed, or by another name or descriptor whose
//! name came and went between two looks. [`Tracked::moment`] looks at everything and finds both.

mod blocks;
mod clone;
mod contents;
mod entry;
mod ground;
mod index;
mod manifest;
mod moment;
mod objects;
mod vault;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

pub use clone::{Cloned, clone_tree};
pub use moment::Moment;
pub use objects::{Hold, Objects};

use entry::{Entry, Kind, Stamp};
use ground::{Ground, Look, look_at, names, split};
use index::Index;
use vault::{Bounds, Vault};

use crate::watch::{DEEPEST, LONGEST, Touched, Watch, join};

/// Directories whose contents belong to package managers: neither listed nor taken back.
const INSTALLED: [&[u8]; 2] = [b".venv", b"node_modules"];
/// Names in a list of changes, and bytes of them.
const MOST_CHANGES: usize = 10_000;
const MOST_CHANGES_BYTES: usize = 2 << 20;
/// Names in a list of what failed.
const MOST_FAILED: usize = 1_000;
/// Paths that are known of.
const MOST_ENTRIES: usize = 500_000;

/// Directories that are moved back in one go. Others are made anew.
const MOST_MOVES: usize = 256;

/// How a workspace is tracked.
#[derive(Clone, Debug)]
pub struct TrackedSettings {
    /// Paths that are hidden by mounts: never looked at, never put back.
    pub ignored: Vec<String>,
    /// How many cells can be undone.
    pub undo: usize,
    /// Larger files aren't kept, unless the file system can share their blocks.
    pub most_file: u64,
    /// Bytes that are kept in all, likewise.
    pub most_total: u64,
    /// Whether anything is kept. If not, only changes and usage are told.
    pub keep: bool,
}

/// What a cell did to files: net, by path relative to the workspace, sorted. Not directories, and nothing in `.venv` and
/// `node_modules`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeChanges {
    /// New since then.
    pub created: Vec<String>,
    /// There before and after, and written in between.
    pub modified: Vec<String>,
    /// Gone since then.
    pub deleted: Vec<String>,
    /// There was more than the lists hold.
    pub truncated: bool,
}

/// What a tree takes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeUsage {
    /// Bytes on the disk: holes don't count, and neither does what the file system needs for itself.
    pub bytes: u64,
    /// Files, directories, links and all else that has a name.
    pub files: u64,
    /// Whether that is all: nothing is deeper or longer than can be looked at, or closed to its owner.
    pub complete: bool,
}

/// What was put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Paths that are as they were again.
    pub put: usize,
    /// Paths that could not be put back, up to 1,000.
    pub failed: Vec<String>,
    /// How many there were in all.
    pub failed_count: usize,
}

/// What was at paths before something changed them.
type Delta = BTreeMap<Vec<u8>, Option<Entry>>;

/// A directory whose changes are known and can be taken back.
#[derive(Debug)]
pub struct Tracked {
    ground: Ground,
    watch: Watch,
    settings: TrackedSettings,
    ignored: Vec<Vec<u8>>,
    vault: Vault,
    index: Index,
    /// Files whose contents are to be kept.
    wanting: BTreeSet<Vec<u8>>,
    /// What the cell changed that is running, or has just run.
    cell: Option<Delta>,
    undo: VecDeque<(u32, Delta)>,
    /// The last cell that can't be undone any more.
    forgotten: Option<u32>,
    /// There is more than is known of.
    truncated: bool,
    /// Directories that nobody can look into: too deep, or closed to their owner.
    unseen: HashSet<Vec<u8>>,
    is_root: bool,
}

impl Tracked {
    /// Tracks a directory. `vault` is a directory of Belljar's own on the same file system, made if it is missing, where
    /// contents are kept; what sessions of dead processes left there is removed.
    pub fn open(directory: OwnedFd, vault: &Path, settings: TrackedSettings) -> io::Result<Self> {
        let ground = Ground::new(directory)?;
        let vault = Vault::open(vault, settings.most_file, settings.most_total)?;
        let trimmed = settings.ignored.iter().map(|path| path.trim_matches('/').as_bytes().to_vec());
        let mut tracked = Self {
            watch: Watch::new(ground.root())?,
            ignored: trimmed.filter(|path| !path.is_empty()).collect(),
            ground,
            settings,
            vault,
            index: Index::default(),
            wanting: BTreeSet::new(),
            cell: None,
            undo: VecDeque::new(),
            forgotten: None,
            truncated: false,
            unseen: HashSet::new(),
            is_root: rustix::process::geteuid().is_root(),
        };
        tracked.look_everywhere();
        Ok(tracked)
    }

    /// Before a cell: takes in what others changed, which becomes part of the state before the cell.
    pub fn begin(&mut self) -> io::Result<()> {
        self.cell = None;
        self.refresh();
        self.keep_contents();
        self.cell = Some(Delta::new());
        Ok(())
    }

    /// After a cell: what it changed.
    pub fn finish(&mut self) -> io::Result<TreeChanges> {
        self.refresh();
        let mut changes = Listing::default();
        changes.0.truncated = self.truncated;
        for (path, before) in self.cell.iter().flatten() {
            let before = before.as_ref().filter(|entry| !entry.is_directory());
            let now = self.index.get(path).filter(|entry| !entry.is_directory());
            match (before, now) {
                (None, Some(_)) => changes.add(path, |changes| &mut changes.created),
                (Some(_), None) => changes.add(path, |changes| &mut changes.deleted),
                (Some(before), Some(now)) if self.is_modified(path, before, now) => {
                    changes.add(path, |changes| &mut changes.modified);
                }
                _ => {}
            }
        }
        Ok(changes.0)
    }

    /// After a cell's answer was given: keeps what is needed to take back the next one, and remembers this one. What can't
    /// be kept is told when it can't be put back.
    pub fn keep(&mut self, cell: u32) {
        let Some(delta) = self.cell.take().filter(|_| self.settings.keep) else { return };
        self.undo.push_back((cell, delta));
        while self.undo.len() > self.settings.undo {
            self.forget_one();
        }
        self.keep_contents();
    }

    /// Puts everything back as it was at [`begin`](Self::begin).
    pub fn roll_back(&mut self) -> io::Result<PutBack> {
        self.refresh();
        self.open_closed();
        let delta = self.cell.take().unwrap_or_default();
        let done = self.put_back(delta);
        if self.truncated {
            // What there was too much of may be gone.
            self.look_everywhere();
        }
        Ok(done)
    }

    /// Takes back a cell and all later ones. What others changed in between stays, unless a cell had changed it too.
    pub fn undo_to(&mut self, first: u32) -> io::Result<PutBack> {
        if self.forgotten.is_some_and(|forgotten| forgotten >= first) {
            let what = format!("cell {first} can't be undone any more");
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        self.refresh();
        self.open_closed();
        let mut wanted = self.cell.take().unwrap_or_default();
        while let Some((_, delta)) = self.undo.pop_back_if(|(cell, _)| *cell >= first) {
            wanted.extend(delta);
        }
        Ok(self.put_back(wanted))
    }

    /// The cells that can be undone.
    pub fn undoable(&self) -> impl Iterator<Item = u32> {
        self.undo.iter().map(|(cell, _)| *cell)
    }

    /// What the tree takes up, as far as is known.
    pub fn usage(&self) -> TreeUsage {
        let seen = !self.unseen.iter().any(|path| self.index.get(path).is_some());
        TreeUsage { complete: seen && !self.truncated, ..self.index.usage() }
    }

    /// Whether nobody can look at all that may be in a directory.
    fn is_unseen(&self, path: &[u8], entry: &Entry) -> bool {
        const LONGEST_NAME: usize = 256;
        let depth = path.iter().filter(|byte| **byte == b'/').count();
        let closed = !self.is_root && entry.stamp.mode & 0o500 != 0o500;
        entry.is_directory() && (closed || depth >= DEEPEST || path.len() + LONGEST_NAME > LONGEST)
    }

    /// What the tree takes up now. It looks only at what was touched.
    pub fn poll(&mut self) -> io::Result<TreeUsage> {
        self.refresh();
        Ok(self.usage())
    }

    /// Everything as it is now, with all contents, but for `.venv` and `node_modules`. It looks at each path, whether it was
    /// touched or not. A file or directory that can't be read is an error: the moment wouldn't be whole.
    pub fn moment(&mut self) -> io::Result<Moment> {
        self.refresh();
        if let Some(closed) = self.look_everywhere().into_iter().min() {
            let what = format!("{} can't be looked into", String::from_utf8_lossy(&closed));
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        if !self.usage().complete {
            let what = "there are directories that are too deep to be kept";
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, what));
        }
        let mut entries = BTreeMap::new();
        let mut missing = Vec::new();
        for (path, entry) in self.index.iter() {
            if is_installed(path) || is_installed_directory(path) || matches!(entry.kind, Kind::Other) {
                continue;
            }
            if matches!(entry.kind, Kind::File(None)) {
                missing.push(path.clone());
            }
            entries.insert(path.clone(), entry.clone());
        }
        for path in missing {
            let Some(stamp) = entries.get(&path).map(|entry| entry.stamp) else { continue };
            match self.read(&path, &stamp, Bounds::None) {
                Ok(Some((stamp, contents))) => {
                    self.wanting.remove(&path);
                    let entry = Entry { stamp, kind: Kind::File(Some(contents)), recent: stamp.is_recent() };
                    self.index.insert(path.clone(), entry.clone(), false);
                    entries.insert(path, entry);
                }
                Ok(None) => {
                    let what = format!("{} changes while it is read", String::from_utf8_lossy(&path));
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => drop(entries.remove(&path)),
                Err(error) => {
                    let what = format!("{} can't be read: {error}", String::from_utf8_lossy(&path));
                    return Err(io::Error::new(error.kind(), what));
                }
            }
        }
        Ok(Moment::new(entries))
    }

    /// Makes everything what it was at a moment, but for `.venv` and `node_modules`. Cells before it can't be undone
    /// afterwards.
    pub fn restore(&mut self, moment: &Moment) -> io::Result<PutBack> {
        self.cell = Some(Delta::new());
        self.refresh();
        self.look_everywhere();
        self.open_closed();
        self.cell = None;
        while !self.undo.is_empty() {
            self.forget_one();
        }
        let ours = |path: &[u8]| {
            !is_installed(path) && !is_installed_directory(path) && !is_ignored(&self.ignored, path)
        };
        let mut wanted = Delta::new();
        for (path, entry) in moment.entries().iter().filter(|(path, _)| ours(path)) {
            if !self.index.get(path).is_some_and(|now| is_unchanged(entry, now)) {
                wanted.insert(path.clone(), Some(entry.clone()));
            }
        }
        for (path, entry) in self.index.iter().filter(|(path, _)| ours(path)) {
            // Pipes and the like aren't kept: where they may be, they stay.
            let (above, _) = split(path);
            let stays = matches!(entry.kind, Kind::Other)
                && (above.is_empty() || moment.entries().get(above).is_some_and(Entry::is_directory));
            if !stays && !moment.entries().contains_key(path) {
                wanted.insert(path.clone(), None);
            }
        }
        Ok(self.put_back(wanted))
    }

    fn forget_one(&mut self) {
        if let Some((cell, _)) = self.undo.pop_front() {
            self.forgotten = Some(self.forgotten.map_or(cell, |forgotten| forgotten.max(cell)));
        }
    }
}

/// Looking.
impl Tracked {
    /// Takes in what was touched.
    fn refresh(&mut self) {
        let Touched::Paths(mut paths) = self.watch.take() else {
            self.look_everywhere();
            return;
        };
        if paths.is_empty() {
            return;
        }
        let mut more: Vec<Vec<u8>> = Vec::new();
        let mut covered: Option<&[u8]> = None;
        for path in &paths {
            // Another directory may be in its place; or one that came back when it had just been found gone.
            let inside = covered.is_some_and(|above| is_below(above, path));
            let known = more.len();
            if !inside {
                more.extend(self.index.below(path).map(|(path, _)| path.clone()));
            }
            if more.len() > known {
                covered = Some(path);
            }
        }
        paths.extend(more);
        paths.extend(self.index.linked().iter().cloned());
        let mut inodes = HashSet::new();
        self.look_at(&paths, &mut inodes);
        if !inodes.is_empty() {
            let others = self.index.iter().filter(|(path, entry)| {
                inodes.contains(&entry.stamp.inode) && !paths.contains(*path) && !is_installed(path)
            });
            let others = others.map(|(path, _)| path.clone()).collect();
            self.look_at(&others, &mut HashSet::new());
        }
    }

    /// Looks at paths. Files that have new names are added to `inodes`.
    fn look_at(&mut self, paths: &BTreeSet<Vec<u8>>, inodes: &mut HashSet<u64>) {
        let mut last: Option<(&[u8], rustix::io::Result<OwnedFd>)> = None;
        for path in paths {
            if is_ignored(&self.ignored, path) || path.iter().filter(|byte| **byte == b'/').count() > DEEPEST
            {
                continue;
            }
            let (above, name) = split(path);
            if last.as_ref().is_none_or(|(known, _)| *known != above) {
                last = Some((above, self.ground.parent(path).map(|(parent, _)| parent)));
            }
            let found = match &last {
                Some((_, Ok(parent))) => look_at(parent, OsStr::from_bytes(name)),
                Some((_, Err(rustix::io::Errno::ACCESS))) => Look::Closed,
                _ => Look::Nothing,
            };
            if let Look::There(entry) = &found
                && entry.stamp.links > 1
                && !entry.is_directory()
                && self
                    .index
                    .get(path)
                    .is_none_or(|before| before.stamp.links == 1 || before.stamp.inode != entry.stamp.inode)
            {
                inodes.insert(entry.stamp.inode);
            }
            self.set(path, found);
        }
    }

    /// Looks at everything, and returns the directories that it couldn't look into. What was known to be there still is.
    fn look_everywhere(&mut self) -> HashSet<Vec<u8>> {
        let mut seen = HashSet::new();
        let mut closed = Vec::new();
        self.truncated = false;
        self.look_below(Vec::new(), &mut seen, &mut closed);
        let closed: HashSet<Vec<u8>> = closed.into_iter().collect();
        let hidden = |path: &[u8]| !closed.is_empty() && above(path).any(|above| closed.contains(above));
        let gone = self.index.iter().map(|(path, _)| path);
        let gone = gone.filter(|path| !seen.contains(*path) && !hidden(path));
        let gone: Vec<Vec<u8>> = gone.cloned().collect();
        for path in gone {
            self.set(&path, Look::Nothing);
        }
        closed
    }

    /// Looks at everything in a directory.
    fn look_below(&mut self, top: Vec<u8>, seen: &mut HashSet<Vec<u8>>, closed: &mut Vec<Vec<u8>>) {
        let depth = top.iter().filter(|byte| **byte == b'/').count() + usize::from(!top.is_empty());
        let mut waiting = vec![(top, depth)];
        while let Some((path, depth)) = waiting.pop() {
            let listed = self.ground.directory(&path).map_err(io::Error::from);
            let (directory, names) = match listed.and_then(|opened| Ok((names(&opened)?, opened))) {
                Ok((names, directory)) => (directory, names),
                Err(error) => {
                    if error.kind() != io::ErrorKind::NotFound {
                        closed.push(path);
                    }
                    continue;
                }
            };
            for name in names {
                let inside = join(&path, name.to_bytes());
                if is_ignored(&self.ignored, &inside) {
                    continue;
                }
                if inside.len() > LONGEST {
                    self.truncated = true;
                    continue;
                }
                let found = look_at(&directory, OsStr::from_bytes(name.to_bytes()));
                if let Look::There(entry) = &found
                    && entry.is_directory()
                {
                    match depth < DEEPEST {
                        true => waiting.push((inside.clone(), depth + 1)),
                        false => self.truncated = true,
                    }
                }
                self.set(&inside, found);
                seen.insert(inside);
            }
        }
    }

    /// Takes in what is at a path.
    fn set(&mut self, path: &[u8], found: Look) {
        match &found {
            Look::There(entry) if self.is_unseen(path, entry) => drop(self.unseen.insert(path.to_vec())),
            Look::There(_) | Look::Nothing => drop(self.unseen.remove(path)),
            Look::Closed => {}
        }
        let installed = is_installed(path);
        let before = self.index.get(path);
        let before = match (found, before) {
            (Look::Closed, _) | (Look::Nothing, None) => return,
            (Look::Nothing, Some(_)) => {
                self.wanting.remove(path);
                self.index.remove(path)
            }
            (Look::There(_), None) if self.index.count() >= MOST_ENTRIES => {
                self.truncated = true;
                return;
            }
            (Look::There(mut now), before) => {
                if let Some(before) = before
                    && before.stamp.is_same(&now.stamp)
                    && !(before.recent && matches!(before.kind, Kind::File(_)) && !installed)
                {
                    now.kind = before.kind.clone();
                    now.recent = before.recent;
                    self.index.insert(path.to_vec(), now, installed);
                    return;
                }
                if matches!(now.kind, Kind::File(_)) && !installed && self.settings.keep {
                    self.wanting.insert(path.to_vec());
                } else {
                    self.wanting.remove(path);
                }
                self.index.insert(path.to_vec(), now, installed)
            }
        };
        if let Some(delta) = &mut self.cell
            && !installed
            && !delta.contains_key(path)
        {
            delta.insert(path.to_vec(), before);
        }
    }

    /// Whether a file was written, and not just given other attributes. Contents are only read if times don't tell.
    fn is_modified(&self, path: &[u8], before: &Entry, now: &Entry) -> bool {
        match (&before.kind, &now.kind) {
            (Kind::Link(before), Kind::Link(now)) => before != now,
            (Kind::Other, Kind::Other) => false,
            (Kind::File(kept), Kind::File(_)) => {
                if (before.stamp.modified, before.stamp.size) != (now.stamp.modified, now.stamp.size) {
                    return true;
                }
                match kept {
                    Some(kept) => !self.ground.file(path).and_then(|file| kept.is_in(&file)).unwrap_or(false),
                    None => before.stamp.inode != now.stamp.inode,
                }
            }
            _ => true,
        }
    }
}

/// Keeping.
impl Tracked {
    fn keep_contents(&mut self) {
        for path in std::mem::take(&mut self.wanting) {
            let Some(Entry { stamp, kind: Kind::File(None), .. }) = self.index.get(&path) else { continue };
            let stamp = *stamp;
            // If it can't be read or has changed since, its contents aren't known, and whoever wants them is told.
            let mut kept = self.read(&path, &stamp, Bounds::Settings);
            while matches!(kept, Ok(None))
                && self.vault.could_keep(stamp.size.min(stamp.bytes()))
                && !self.undo.is_empty()
            {
                // The next cell matters more than those long ago.
                self.forget_one();
                kept = self.read(&path, &stamp, Bounds::Settings);
            }
            if let Ok(Some((now, contents))) = kept
                && now.is_same(&stamp)
                && let Some(entry) = self.index.get_mut(&path)
            {
                entry.kind = Kind::File(Some(contents));
                entry.recent = stamp.is_recent();
            }
        }
    }

    /// Reads a file. None if there is no room for it, or it changes all the time.
    fn read(
        &self,
        path: &[u8],
        stamp: &Stamp,
        bounds: Bounds,
    ) -> io::Result<Option<(Stamp, Arc<contents::Contents>)>> {
        let file = self.ground.file(path)?;
        let mut stamp = *stamp;
        for _ in 0..3 {
            let before = Stamp::of(&rustix::fs::fstat(file.as_fd())?);
            if !before.is_same(&stamp) && bounds == Bounds::Settings {
                return Ok(None);
            }
            stamp = before;
            let earlier = self.cell.iter().chain(self.undo.iter().rev().map(|(_, delta)| delta));
            let earlier = earlier.take(2).find_map(|delta| delta.get(path)).and_then(Option::as_ref);
            // Other attributes, and maybe the same contents still.
            if let Some(contents) = earlier
                .filter(|earlier| earlier.stamp.modified == stamp.modified)
                .and_then(Entry::contents)
                .filter(|contents| contents.size == stamp.size)
                && contents.is_in(&file)?
            {
                return Ok(Some((stamp, Arc::clone(contents))));
            }
            let kept = match self.vault.keep(&file, stamp.size, bounds) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
                kept => kept?,
            };
            if Stamp::of(&rustix::fs::fstat(file.as_fd())?).is_same(&stamp) {
                return Ok(kept.map(|contents| (stamp, Arc::new(contents))));
            }
        }
        Ok(None)
    }
}

/// Putting back.
impl Tracked {
    /// Opens directories that were closed to their owner meanwhile, and looks into them.
    fn open_closed(&mut self) {
        if rustix::process::geteuid().is_root() {
            return;
        }
        let closed = |(path, _): &(&Vec<u8>, &Option<Entry>)| {
            let entry = self.index.get(path);
            entry.is_some_and(|entry| entry.is_directory() && entry.stamp.mode & 0o700 != 0o700)
        };
        let mut waiting: Vec<Vec<u8>> =
            self.cell.iter().flatten().filter(closed).map(|(path, _)| path.clone()).collect();
        let mut opened = HashSet::new();
        while let Some(path) = waiting.pop() {
            if !opened.insert(path.clone()) {
                continue;
            }
            let _ = self.ground.open_up(&path);
            self.look_below(path, &mut HashSet::new(), &mut waiting);
        }
    }

    /// Makes paths what they were.
    fn put_back(&mut self, mut wanted: Delta) -> PutBack {
        self.cell = None;
        let moved = self.move_back(&mut wanted);
        let wanted = &wanted;
        let mut failed: BTreeSet<&[u8]> = BTreeSet::new();
        // What wasn't there goes, the innermost first.
        for (path, before) in wanted.iter().rev() {
            let Some(now) = self.index.get(path) else { continue };
            if before.as_ref().is_some_and(|before| before.is_directory() == now.is_directory()) {
                continue;
            }
            if now.is_directory() {
                if self.ignored.iter().any(|ignored| is_below(path, ignored) || ignored == path) {
                    continue;
                }
                // Somebody else's things are in it.
                let others = |path: &[u8]| !is_installed(path) && !matches!(wanted.get(path), Some(None));
                if self.index.below(path).any(|(path, _)| others(path)) {
                    failed.insert(path);
                    continue;
                }
            }
            if self.ground.remove(path).is_err() {
                failed.insert(path);
            }
        }
        for (path, before) in wanted {
            if let Some(before) = before
                && self.put_one(path, before, moved.contains(path)).is_err()
            {
                failed.insert(path);
            }
        }
        // Directories were open while things were put into them.
        for (path, before) in wanted.iter().rev() {
            if let Some(before) = before
                && before.is_directory()
                && self.ground.set_mode(path, before.stamp.rights()).is_err()
            {
                failed.insert(path);
            }
        }
        // Those that were closed before had to be opened too.
        let above: BTreeSet<&[u8]> = wanted.keys().flat_map(|path| above(path)).collect();
        for path in above.into_iter().rev().filter(|path| !wanted.contains_key(*path)) {
            if let Some(entry) = self.index.get(path)
                && entry.is_directory()
                && entry.stamp.mode & 0o700 != 0o700
            {
                let _ = self.ground.set_mode(path, entry.stamp.rights());
            }
        }
        self.look_again(wanted, &failed);
        let names = failed.iter().take(MOST_FAILED).map(|path| String::from_utf8_lossy(path).into_owned());
        PutBack { put: wanted.len() - failed.len(), failed: names.collect(), failed_count: failed.len() }
    }

    /// Moves back what was only moved: directories, in which there may be what isn't known or kept, and files whose
    /// contents weren't kept. Otherwise the only copy would be removed.
    fn move_back(&mut self, wanted: &mut Delta) -> HashSet<Vec<u8>> {
        let mut moved = HashSet::new();
        let mut places = self.displaced(wanted);
        let paths: Vec<Vec<u8>> = wanted.keys().cloned().collect();
        for path in paths {
            let Some(Some(before)) = wanted.get(&path) else { continue };
            let (inode, is_directory) = (before.stamp.inode, before.is_directory());
            if !matches!(before.kind, Kind::Directory | Kind::File(None))
                || self.index.get(&path).is_some_and(|now| now.stamp.inode == inode)
            {
                continue;
            }
            let Some(from) = places.get(&inode).cloned() else { continue };
            let same = self.index.get(&from).is_some_and(|now| {
                let (size, modified) = (before.stamp.size, before.stamp.modified);
                match is_directory {
                    true => now.is_directory(),
                    false => {
                        matches!(now.kind, Kind::File(_))
                            && (now.stamp.size, now.stamp.modified) == (size, modified)
                    }
                }
            });
            if !same || is_below(&from, &path) || is_below(&path, &from) {
                continue;
            }
            if moved.len() >= MOST_MOVES {
                break;
            }
            let back = match self.ground.move_back(&from, &path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.ground.make_above(&path).and_then(|()| self.ground.move_back(&from, &path))
                }
                back => back,
            };
            if back.is_ok() {
                self.follow(&from, &path, wanted);
                moved.insert(path);
                places = self.displaced(wanted);
            }
        }
        moved
    }

    /// Where those are now, by inode, that aren't where they were.
    fn displaced(&self, wanted: &Delta) -> HashMap<u64, Vec<u8>> {
        let now = wanted.iter().filter_map(|(path, before)| {
            let inode = self.index.get(path)?.stamp.inode;
            let displaced = before.as_ref().is_none_or(|before| before.stamp.inode != inode);
            displaced.then(|| (inode, path.clone()))
        });
        now.collect()
    }

    /// Takes in that two paths were exchanged. What a cell put into one of them is to be removed from the other.
    fn follow(&mut self, one: &[u8], other: &[u8], wanted: &mut Delta) {
        let mut inside = Vec::new();
        for (from, to) in [(one, other), (other, one)] {
            for (path, _) in self.index.below(from) {
                let there = [to, &path[from.len()..]].concat();
                if wanted.contains_key(path) && !wanted.contains_key(&there) {
                    wanted.insert(there, None);
                }
                inside.push(path.clone());
            }
        }
        inside.extend([one.to_vec(), other.to_vec()]);
        for path in inside {
            let found = self.ground.look(&path);
            self.set(&path, found);
        }
        for path in [one, other] {
            if self.index.get(path).is_some_and(Entry::is_directory) {
                self.look_below(path.to_vec(), &mut HashSet::new(), &mut Vec::new());
            }
        }
    }

    /// Makes one path what it was, unless it is that already.
    fn put_one(&self, path: &[u8], before: &Entry, moved: bool) -> io::Result<()> {
        let now = self.index.get(path);
        if let (Kind::File(None), Some(now)) = (&before.kind, now)
            && matches!(now.kind, Kind::File(_))
            && (moved || before.stamp.is_same(&now.stamp))
        {
            return Ok(());
        }
        match (&before.kind, now.map(|now| &now.kind)) {
            (Kind::Directory, Some(Kind::Directory)) | (Kind::Other, Some(Kind::Other)) => return Ok(()),
            (Kind::Link(before), Some(Kind::Link(now))) if before == now => return Ok(()),
            (Kind::File(Some(contents)), Some(Kind::File(_))) => {
                let same = self.ground.file(path).and_then(|file| contents.is_in(&file)).unwrap_or(false);
                if same && self.ground.put_attributes(path, &before.stamp).is_ok() {
                    return Ok(());
                }
            }
            _ => {}
        }
        match self.ground.put(path, before) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.ground.make_above(path)?;
                self.ground.put(path, before)?;
            }
            put => put?,
        }
        match before.is_directory() && is_installed_directory(path) {
            true => Err(io::Error::other("what was in it isn't kept")),
            false => Ok(()),
        }
    }

    /// Takes in what was put back, with the contents that it has again.
    fn look_again(&mut self, wanted: &Delta, failed: &BTreeSet<&[u8]>) {
        self.cell = None;
        for (path, before) in wanted {
            let found = self.ground.look(path);
            match (found, before) {
                (Look::There(mut entry), Some(before)) if !failed.contains(&path[..]) => {
                    if let (Kind::File(_), Kind::File(Some(_))) = (&entry.kind, &before.kind) {
                        entry.kind = before.kind.clone();
                    }
                    self.wanting.remove(path);
                    self.index.insert(path.clone(), entry, is_installed(path));
                }
                (Look::Nothing, _) => {
                    let below: Vec<Vec<u8>> = self.index.below(path).map(|(path, _)| path.clone()).collect();
                    for path in below {
                        self.set(&path, Look::Nothing);
                    }
                    self.set(path, Look::Nothing);
                }
                (found, _) => self.set(path, found),
            }
        }
    }
}

/// A list of changes that doesn't grow without end.
#[derive(Default)]
struct Listing(TreeChanges, usize);

impl Listing {
    fn add(&mut self, path: &[u8], list: impl FnOnce(&mut TreeChanges) -> &mut Vec<String>) {
        let list = list(&mut self.0);
        if list.len() >= MOST_CHANGES || self.1 + path.len() > MOST_CHANGES_BYTES {
            self.0.truncated = true;
            return;
        }
        self.1 += path.len();
        list.push(String::from_utf8_lossy(path).into_owned());
    }
}

/// Whether something is still what it was.
fn is_unchanged(before: &Entry, now: &Entry) -> bool {
    let same = match (&before.kind, &now.kind) {
        (Kind::Directory, Kind::Directory) => return before.stamp.rights() == now.stamp.rights(),
        (Kind::Link(before), Kind::Link(now)) => return before == now,
        (Kind::File(Some(before)), Kind::File(Some(now))) => Arc::ptr_eq(before, now),
        _ => false,
    };
    same && !now.recent && before.stamp.is_same(&now.stamp)
}

/// Whether a path is inside of a directory that belongs to a package manager.
fn is_installed(path: &[u8]) -> bool {
    let (above, _) = split(path);
    above.split(|byte| *byte == b'/').any(|name| INSTALLED.contains(&name))
}

/// Whether a path is such a directory, by its name.
fn is_installed_directory(path: &[u8]) -> bool {
    INSTALLED.contains(&split(path).1)
}

fn is_ignored(ignored: &[Vec<u8>], path: &[u8]) -> bool {
    ignored.iter().any(|ignored| ignored == path || is_below(ignored, path))
}

/// The directories above a path, but for the root.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end])
}

fn is_below(above: &[u8], path: &[u8]) -> bool {
    path.len() > above.len() && path[above.len()] == b'/' && path.starts_with(above)
}

/// Removes all that is in a directory, however deep it is, and whatever its owner closed. Links aren't followed.
pub fn empty_directory(directory: &OwnedFd) -> io::Result<()> {
    ground::empty(directory)
}
