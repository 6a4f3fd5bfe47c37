//! A session's own files: read and written from outside, compared, taken back.
//!
//! The guest is hostile and may be running. Every path is resolved by the kernel below the tree's own root, so no link
//! leads out of it; only regular files are opened; what is a device, a socket or a pipe is never touched.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar_engine::{Changes, EXTENT, SavedChunk};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, SeekFrom, Stat, Timespec, Timestamps, chmodat,
    mkdirat, openat2, readlinkat, renameat, seek, statat, symlinkat, unlinkat, utimensat,
};
use serde::{Deserialize, Serialize};

use crate::sys::as_owner;

/// Parts of the tree that sessions see, by their guest paths.
const PARTS: [&str; 2] = ["workspace", "tmp"];
/// Directories whose contents belong to package managers: listed as a whole, and not taken back.
const INSTALLED: [&str; 2] = [".venv", "node_modules"];
/// Directories below which nothing is looked at.
const DEEPEST: usize = 128;
/// Names in a list of changes.
const MOST_CHANGES: usize = 10_000;
/// A file that was changed so shortly before it was looked at may have been changed again in the same tick.
const TICK: Duration = Duration::from_millis(20);

/// The files of a session.
pub(crate) struct Tree {
    root: Arc<OwnedFd>,
    /// Whose rights are used, if this process has others.
    owner: Option<u32>,
    most_bytes: u64,
}

/// The tree at one moment. Contents are shared between moments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moment {
    entries: BTreeMap<Vec<u8>, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    stamp: Stamp,
    kind: Kind,
    /// It may have changed since without a trace.
    recent: bool,
}

/// What changes with every change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    mode: u32,
    changed: (i64, i64),
    modified: (i64, i64),
}

#[derive(Clone, Debug)]
enum Kind {
    Directory,
    /// Contents, but for holes.
    File(Arc<Contents>),
    Link(Vec<u8>),
    /// A pipe, a socket, a device: it isn't kept.
    Other,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    size: u64,
    pieces: Vec<(u64, SavedChunk)>,
}

/// An entry in a form that can be kept; contents are places in a list of chunks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedEntry {
    path: Vec<u8>,
    mode: u32,
    modified: (i64, i64),
    kind: SavedKind,
}

#[derive(Debug, Serialize, Deserialize)]
enum SavedKind {
    Directory,
    File { size: u64, pieces: Vec<(u64, u32)> },
    Link(Vec<u8>),
}

impl Tree {
    pub(crate) fn new(root: OwnedFd, owner: Option<u32>, most_bytes: u64) -> Self {
        Self { root: Arc::new(root), owner, most_bytes }
    }

    /// Opens a path below the root. Links are followed, but never out of it.
    fn open(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o644) } else { Mode::empty() };
        let file = File::from(openat2(&*self.root, path.trim_start_matches('/'), flags, mode, resolve)?);
        let metadata = file.metadata()?;
        match metadata.is_file() {
            true => Ok(file),
            false if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            false => Err(io::Error::other("it is not a regular file")),
        }
    }

    pub(crate) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        as_owner(self.owner, || {
            let file = self.open(path, OFlags::RDONLY)?;
            if file.metadata()?.len() > self.most_bytes {
                return Err(io::Error::other("it is larger than the session may have"));
            }
            let mut bytes = Vec::new();
            file.take(self.most_bytes).read_to_end(&mut bytes)?;
            Ok(bytes)
        })
    }

    /// Replaces a file, with the directories above it.
    pub(crate) fn write(&self, path: &str, contents: &[u8]) -> io::Result<()> {
        as_owner(self.owner, || {
            self.make_parents(path)?;
            let mut file = self.open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
            file.write_all(contents)
        })
    }

    /// Makes a file of the engine's own, in place of whatever was there.
    pub(crate) fn write_new(&self, path: &str, contents: &[u8]) -> io::Result<()> {
        as_owner(self.owner, || {
            let _ = unlinkat(&*self.root, path.trim_start_matches('/'), AtFlags::empty());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            self.open(path, flags)?.write_all(contents)
        })
    }

    pub(crate) fn append(&self, path: &str, contents: &[u8]) -> io::Result<()> {
        as_owner(self.owner, || {
            self.open(path, OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW)?.write_all(contents)
        })
    }

    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        as_owner(self.owner, || {
            Ok(unlinkat(&*self.root, path.trim_start_matches('/'), AtFlags::empty())?)
        })
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> u64 {
        rustix::fs::fstatvfs(&*self.root)
            .map_or(0, |figures| (figures.f_blocks - figures.f_bfree).saturating_mul(figures.f_frsize))
    }

    /// Whether nothing more can be written.
    pub(crate) fn is_full(&self) -> bool {
        rustix::fs::fstatvfs(&*self.root).is_ok_and(|figures| figures.f_bfree == 0 || figures.f_ffree == 0)
    }

    fn make_parents(&self, path: &str) -> io::Result<()> {
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            if openat2(&*self.root, &path[..end], flags, Mode::empty(), resolve).is_ok() {
                continue;
            }
            let (parent, name) = path[..end].rsplit_once('/').unwrap_or(("", &path[..end]));
            let parent = if parent.is_empty() { "." } else { parent };
            let parent = openat2(&*self.root, parent, flags, Mode::empty(), resolve)?;
            match mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
                Err(rustix::io::Errno::EXIST) | Ok(()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// What is different from an earlier moment, and this one.
    pub(crate) fn compare(&self, before: &Moment) -> io::Result<(Moment, Changes)> {
        as_owner(self.owner, || {
            let mut now = Moment::default();
            let mut changes = Changes::default();
            let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let mut scan = Scan { before, now: &mut now, changes: &mut changes, at, left: self.most_bytes };
            for part in PARTS {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = openat2(&*self.root, part, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
                if let Ok(directory) = opened {
                    scan.directory(&directory, part.as_bytes(), 0)?;
                }
            }
            for (path, entry) in &before.entries {
                if !now.entries.contains_key(path) && !matches!(entry.kind, Kind::Directory) {
                    note(&mut changes.deleted, path, &mut changes.truncated);
                }
            }
            Ok((now, changes))
        })
    }

    /// Makes the tree what it was. No process of the guest may be running that could stand in the way.
    pub(crate) fn restore(&self, moment: &Moment) -> io::Result<()> {
        let (now, _) = self.compare(moment)?;
        as_owner(self.owner, || {
            // What wasn't there goes, the innermost first.
            for (path, entry) in now.entries.iter().rev() {
                let wanted = moment.entries.get(path);
                if wanted.is_none_or(|wanted| !wanted.is_like(entry)) {
                    let flags = match entry.kind {
                        Kind::Directory => AtFlags::REMOVEDIR,
                        _ => AtFlags::empty(),
                    };
                    let (parent, name) = self.parent(path)?;
                    if let Err(error) = unlinkat(&parent, name, flags)
                        && error == rustix::io::Errno::NOTEMPTY
                    {
                        self.remove_tree(path)?;
                    }
                }
            }
            for (path, entry) in &moment.entries {
                let same = now.entries.get(path).is_some_and(|found| entry.is_like(found));
                if !same || now.entries.get(path).is_some_and(|found| found.stamp.mode != entry.stamp.mode) {
                    self.put(path, entry, same)?;
                }
            }
            Ok(())
        })
    }

    /// Puts all of a moment into an empty tree.
    pub(crate) fn fill(&self, moment: &Moment) -> io::Result<()> {
        self.restore(moment)
    }

    fn parent<'p>(&self, path: &'p [u8]) -> io::Result<(OwnedFd, &'p OsStr)> {
        let place = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (parent, name) = (&path[..place], &path[place + 1..]);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        Ok((openat2(&*self.root, OsStr::from_bytes(parent), flags, Mode::empty(), resolve)?, OsStr::from_bytes(name)))
    }

    /// Removes a directory with what the last look didn't show, such as installed packages.
    fn remove_tree(&self, path: &[u8]) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        let opened = openat2(&*self.root, OsStr::from_bytes(path), flags, Mode::empty(), resolve)?;
        empty(&opened, 0)?;
        let (parent, name) = self.parent(path)?;
        Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
    }

    fn put(&self, path: &[u8], entry: &Entry, same: bool) -> io::Result<()> {
        if PARTS.iter().any(|part| part.as_bytes() == path) {
            return Ok(());
        }
        let (parent, name) = self.parent(path)?;
        let mode = Mode::from_raw_mode(entry.stamp.mode & 0o7777);
        match &entry.kind {
            Kind::Directory => match mkdirat(&parent, name, mode) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            },
            Kind::File(contents) if !same => {
                let temporary = OsStr::from_bytes(b".belljar-restored");
                let _ = unlinkat(&parent, temporary, AtFlags::empty());
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = File::from(rustix::fs::openat(&parent, temporary, flags, mode)?);
                file.set_len(contents.size)?;
                for (offset, chunk) in &contents.pieces {
                    file.write_all_at(&chunk.bytes, *offset)?;
                }
                let (seconds, nanoseconds) = entry.stamp.modified;
                let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ };
                let times = Timestamps { last_access: time, last_modification: time };
                let _ = utimensat(&parent, temporary, &times, AtFlags::SYMLINK_NOFOLLOW);
                renameat(&parent, temporary, &parent, name)?;
            }
            Kind::File(_) => {}
            Kind::Link(target) => match symlinkat(OsStr::from_bytes(target), &parent, name) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            },
            Kind::Other => {}
        }
        if !matches!(entry.kind, Kind::Link(_) | Kind::Other) {
            let _ = chmodat(&parent, name, mode, AtFlags::empty());
        }
        Ok(())
    }
}

/// Removes all that is in a directory.
fn empty(directory: &OwnedFd, depth: usize) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other("directories that are too deep"));
    }
    for found in Dir::read_from(directory)? {
        let found = found?;
        let name = found.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        if unlinkat(directory, name, AtFlags::empty()).is_ok() {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inner = rustix::fs::openat(directory, name, flags, Mode::empty())?;
        let _ = rustix::fs::fchmod(&inner, Mode::from_raw_mode(0o700));
        empty(&inner, depth + 1)?;
        unlinkat(directory, name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

struct Scan<'s> {
    before: &'s Moment,
    now: &'s mut Moment,
    changes: &'s mut Changes,
    /// Since 1970.
    at: Duration,
    left: u64,
}

impl Scan<'_> {
    fn directory(&mut self, directory: &OwnedFd, path: &[u8], depth: usize) -> io::Result<()> {
        if depth > DEEPEST {
            self.changes.truncated = true;
            return Ok(());
        }
        for found in Dir::read_from(directory)? {
            let found = found?;
            let name = found.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            // Gone since.
            let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let path = [path, b"/", name.to_bytes()].concat();
            self.entry(directory, name, path, &stat, depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: &OwnedFd,
        name: &std::ffi::CStr,
        path: Vec<u8>,
        stat: &Stat,
        depth: usize,
    ) -> io::Result<()> {
        let stamp = Stamp::of(stat);
        let known = self.before.entries.get(&path);
        let kind = FileType::from_raw_mode(stat.st_mode);
        let kind = match (kind, known) {
            (FileType::Directory, _) => {
                let installed = INSTALLED.iter().any(|installed| installed.as_bytes() == name.to_bytes());
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                if !installed && let Ok(inner) = rustix::fs::openat(directory, name, flags, Mode::empty()) {
                    self.directory(&inner, &path, depth + 1)?;
                }
                Kind::Directory
            }
            (FileType::RegularFile, Some(Entry { kind: Kind::File(contents), stamp: former, recent: false }))
                if *former == stamp =>
            {
                Kind::File(Arc::clone(contents))
            }
            (FileType::RegularFile, known) => {
                let Ok(contents) = self.contents(directory, name) else {
                    self.changes.truncated = true;
                    return Ok(());
                };
                match known.map(|known| &known.kind) {
                    Some(Kind::File(former)) if former.is_same(&contents) => Kind::File(Arc::clone(former)),
                    _ => Kind::File(Arc::new(contents)),
                }
            }
            (FileType::Symlink, _) => {
                Kind::Link(readlinkat(directory, name, Vec::new()).map(|target| target.into_bytes()).unwrap_or_default())
            }
            _ => Kind::Other,
        };
        let modified = Duration::new(stamp.changed.0.max(0) as u64, stamp.changed.1.clamp(0, 999_999_999) as u32);
        let recent = modified + TICK > self.at;
        let entry = Entry { stamp, kind, recent };
        if !matches!(entry.kind, Kind::Directory) {
            match known {
                None => note(&mut self.changes.created, &path, &mut self.changes.truncated),
                Some(known) if !known.is_like(&entry) || known.stamp.modified != stamp.modified => {
                    note(&mut self.changes.modified, &path, &mut self.changes.truncated);
                }
                Some(_) => {}
            }
        }
        self.now.entries.insert(path, entry);
        Ok(())
    }

    /// Reads a file, but for its holes.
    fn contents(&mut self, directory: &OwnedFd, name: &std::ffi::CStr) -> io::Result<Contents> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = File::from(rustix::fs::openat(directory, name, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file any more"));
        }
        let size = metadata.len();
        let mut pieces = Vec::new();
        let mut offset = 0;
        while offset < size {
            let Ok(start) = seek(file.as_fd(), SeekFrom::Data(offset)) else { break };
            let end = seek(file.as_fd(), SeekFrom::Hole(start)).unwrap_or(size).min(size);
            offset = start;
            while offset < end {
                let length = (end - offset).min(EXTENT);
                self.left = self.left.checked_sub(length).ok_or(io::ErrorKind::FileTooLarge)?;
                let mut bytes = vec![0; length as usize];
                let mut filled = 0;
                while filled < bytes.len() {
                    match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
                        0 => break,
                        read => filled += read,
                    }
                }
                bytes.truncate(filled);
                if filled == 0 {
                    return Ok(Contents { size, pieces });
                }
                pieces.push((offset, SavedChunk { bytes: Arc::new(bytes), tag: Arc::new(OnceLock::new()) }));
                offset += filled as u64;
            }
        }
        Ok(Contents { size, pieces })
    }
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: stat.st_size as u64,
            mode: stat.st_mode,
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        }
    }
}

impl Contents {
    fn is_same(&self, other: &Self) -> bool {
        self.size == other.size
            && self.pieces.len() == other.pieces.len()
            && self.pieces.iter().zip(&other.pieces).all(|((at, one), (other_at, other))| {
                at == other_at && one.bytes == other.bytes
            })
    }
}

impl Entry {
    /// Whether both have the same contents; not whether they are the same.
    fn is_like(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (Kind::Directory, Kind::Directory) | (Kind::Other, Kind::Other) => true,
            (Kind::File(one), Kind::File(other)) => Arc::ptr_eq(one, other),
            (Kind::Link(one), Kind::Link(other)) => one == other,
            _ => false,
        }
    }
}

/// Adds a guest path to a list.
fn note(list: &mut Vec<String>, path: &[u8], truncated: &mut bool) {
    if list.len() >= MOST_CHANGES {
        *truncated = true;
        return;
    }
    list.push(format!("/{}", String::from_utf8_lossy(path)));
}

impl Moment {
    /// Bytes of all contents.
    pub(crate) fn bytes(&self) -> u64 {
        let files = self.entries.values().filter_map(|entry| match &entry.kind {
            Kind::File(contents) => Some(contents),
            _ => None,
        });
        files.flat_map(|contents| &contents.pieces).map(|(_, chunk)| chunk.bytes.len() as u64).sum()
    }

    /// In a form that can be kept: entries, and the contents that they refer to.
    pub(crate) fn save(&self) -> (Vec<SavedEntry>, Vec<SavedChunk>) {
        let (mut entries, mut chunks) = (Vec::new(), Vec::new());
        for (path, entry) in &self.entries {
            let kind = match &entry.kind {
                Kind::Directory => SavedKind::Directory,
                Kind::Link(target) => SavedKind::Link(target.clone()),
                Kind::Other => continue,
                Kind::File(contents) => {
                    let mut pieces = Vec::new();
                    for (offset, chunk) in &contents.pieces {
                        pieces.push((*offset, chunks.len() as u32));
                        chunks.push(chunk.clone());
                    }
                    SavedKind::File { size: contents.size, pieces }
                }
            };
            let Stamp { mode, modified, .. } = entry.stamp;
            entries.push(SavedEntry { path: path.clone(), mode, modified, kind });
        }
        (entries, chunks)
    }

    /// Reads what was kept. Nothing of it is believed.
    pub(crate) fn load(entries: Vec<SavedEntry>, chunks: &[SavedChunk], most: u64) -> Result<Self, String> {
        let mut moment = Self::default();
        let mut directories: BTreeSet<Vec<u8>> = PARTS.iter().map(|part| part.as_bytes().to_vec()).collect();
        let mut left = most;
        for SavedEntry { path, mode, modified, kind } in entries {
            let place = path.iter().rposition(|byte| *byte == b'/').ok_or("a path without a directory")?;
            let name = &path[place + 1..];
            let fits = !name.is_empty() && name != b"." && name != b".." && !name.contains(&0) && name.len() < 256;
            if !fits || !directories.contains(&path[..place]) || path.len() > 4096 {
                return Err("a path that makes no sense".to_owned());
            }
            let (size, kind) = match kind {
                SavedKind::Directory => {
                    directories.insert(path.clone());
                    (0, Kind::Directory)
                }
                SavedKind::Link(target) if !target.contains(&0) && target.len() <= 4096 => (0, Kind::Link(target)),
                SavedKind::Link(_) => return Err("a link that makes no sense".to_owned()),
                SavedKind::File { size, pieces } => {
                    let mut contents = Contents { size, pieces: Vec::new() };
                    for (offset, chunk) in pieces {
                        let chunk = chunks.get(chunk as usize).ok_or("contents that aren't there")?;
                        let length = chunk.bytes.len() as u64;
                        let end = offset.checked_add(length).filter(|end| *end <= size);
                        left = left.checked_sub(length).ok_or("more than the session may have")?;
                        end.ok_or("contents beyond the end of a file")?;
                        contents.pieces.push((offset, chunk.clone()));
                    }
                    (size, Kind::File(Arc::new(contents)))
                }
            };
            let kind_bits = match kind {
                Kind::Directory => 0o040_000,
                Kind::Link(_) => 0o120_000,
                _ => 0o100_000,
            };
            let mode = (mode & 0o777) | kind_bits;
            let modified = (modified.0, modified.1.clamp(0, 999_999_999));
            let stamp = Stamp { inode: 0, size, mode, changed: (0, 0), modified };
            moment.entries.insert(path, Entry { stamp, kind, recent: true });
        }
        Ok(moment)
    }
}
