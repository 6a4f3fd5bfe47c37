//! A session's own files: read and written from outside, compared, taken back.
//!
//! The guest is hostile and may be running. Every path is resolved by the kernel below the tree's own root, so no link
//! leads out of it; only regular files are opened; what is a device, a socket or a pipe is never touched.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar_engine::{Changes, EXTENT, SavedChunk};
use belljar_files::{DirDoor, Touched, Watch};
use imbl::OrdMap;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, SeekFrom, Stat, Timespec, Timestamps, chmodat,
    mkdirat, openat2, readlinkat, renameat, seek, statat, symlinkat, unlinkat, utimensat,
};
use serde::{Deserialize, Serialize};

use crate::sys::{Owner, as_owner};

/// Parts of the tree that sessions see, by their names in moments: a workspace may be seen elsewhere the next time.
const WORKSPACE: &str = "workspace";
const TEMPORARY: &str = "tmp";
const PARTS: [&str; 2] = [WORKSPACE, TEMPORARY];
/// Directories whose contents belong to package managers: listed as a whole, and not taken back.
const INSTALLED: [&str; 2] = [".venv", "node_modules"];
/// Directories below which nothing is looked at.
const DEEPEST: usize = 128;
/// Names in a list of changes.
const MOST_CHANGES: usize = 10_000;
/// A file that was changed so shortly before it was looked at may have been changed again in the same tick.
const TICK: Duration = Duration::from_millis(20);

/// The files of a session. Those in memory have the paths below the root that sessions see.
pub(crate) struct Tree {
    own: Arc<Top>,
    /// The workspace, if it is a directory of the host: it isn't compared, nor taken back.
    disk: Option<Arc<Top>>,
    /// Where sessions see the workspace.
    workspace: Arc<str>,
    most_bytes: u64,
    /// Directories of the workspace on which something is mounted, or below which: they are never taken away.
    held: Arc<BTreeSet<Vec<u8>>>,
    known: Arc<Mutex<Known>>,
}

/// What is known of the files in memory, so that a cell costs what it touched and not what there is.
#[derive(Default)]
struct Known {
    /// None where the kernel has no more to give: then all is looked at each time.
    watch: Option<Watch>,
    /// The tree as it was last looked at, if it was.
    last: Option<Moment>,
    /// Files with several names: who writes by one of them touches only that.
    linked: BTreeSet<Vec<u8>>,
}

/// A directory, and whose rights are used below it, if this process has others.
pub(crate) struct Top {
    root: OwnedFd,
    owner: Option<Owner>,
}

/// The tree at one moment. Contents are shared between moments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moment {
    /// Two moments with one number are the same.
    number: u64,
    entries: OrdMap<Vec<u8>, Entry>,
    /// Directories that their owner can't read, so that nobody knows what is in them.
    closed: BTreeSet<Vec<u8>>,
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

impl Top {
    pub(crate) fn new(root: OwnedFd, owner: Option<Owner>) -> Self {
        Self { root, owner }
    }

    /// Opens a path below the root. Links are followed, but never out of it.
    fn open(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o644) } else { Mode::empty() };
        let file = File::from(openat2(&self.root, path.trim_start_matches('/'), flags, mode, resolve)?);
        let metadata = file.metadata()?;
        match metadata.is_file() {
            true => Ok(file),
            false if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            false => Err(io::Error::other("it is not a regular file")),
        }
    }

    /// Reads a file that isn't larger than this.
    pub(crate) fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        as_owner(self.owner, || {
            let file = self.open(path, OFlags::RDONLY)?;
            if file.metadata()?.len() > most {
                return Err(io::Error::other("it is larger than the session may have"));
            }
            let mut bytes = Vec::new();
            file.take(most).read_to_end(&mut bytes)?;
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

    fn make_directory(&self, path: &str) -> io::Result<OwnedFd> {
        let path = path.trim_start_matches('/');
        self.make_parents(&format!("{path}/"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        Ok(openat2(&self.root, path, flags, Mode::empty(), resolve)?)
    }

    fn make_parents(&self, path: &str) -> io::Result<()> {
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            if openat2(&self.root, &path[..end], flags, Mode::empty(), resolve).is_ok() {
                continue;
            }
            let (parent, name) = path[..end].rsplit_once('/').unwrap_or(("", &path[..end]));
            let parent = if parent.is_empty() { "." } else { parent };
            let parent = openat2(&self.root, parent, flags, Mode::empty(), resolve)?;
            match mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
                Err(rustix::io::Errno::EXIST) | Ok(()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Tree {
    /// The session's own tree; its workspace, if that is elsewhere; and which directories of it something is mounted on.
    pub(crate) fn new(
        own: Top,
        disk: Option<Top>,
        workspace: &str,
        held: impl IntoIterator<Item = String>,
        most_bytes: u64,
    ) -> Self {
        let held = held.into_iter().map(|path| [WORKSPACE.as_bytes(), b"/", path.as_bytes()].concat());
        let known = Known { watch: Watch::new(own.root.as_fd()).ok(), ..Known::default() };
        Self {
            own: Arc::new(own),
            disk: disk.map(Arc::new),
            workspace: workspace.into(),
            most_bytes,
            held: Arc::new(held.collect()),
            known: Arc::new(Mutex::new(known)),
        }
    }

    /// A way to the workspace, if it is in memory, that is open while somebody else changes it. The guest knows it by
    /// these names too.
    pub(crate) fn door<'n>(&self, aliases: impl Iterator<Item = &'n str>) -> io::Result<Option<DirDoor>> {
        if !self.is_whole() {
            return Ok(None);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = self.workspace.trim_start_matches('/');
        let top = openat2(&self.own.root, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        let owner = self.own.owner;
        let names = aliases.map(str::to_owned).chain([self.workspace.to_string()]);
        let door = DirDoor::new(top)
            .with_names(names)
            .with_owner(Arc::new(move |body: &mut dyn FnMut()| as_owner(owner, body)));
        Ok(Some(door))
    }

    /// Where a guest's path is, if it is in a part that sessions see.
    fn place<'p>(&self, path: &'p str) -> io::Result<(&Top, &'p str)> {
        let absent =
            || io::Error::new(io::ErrorKind::NotFound, "there is no such file among the session's own");
        let below =
            |part: &str| path.strip_prefix(part).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let rest = below(&self.workspace);
        if path.split('/').any(|name| name == "..") || (rest.is_none() && below("/tmp").is_none()) {
            return Err(absent());
        }
        match (&self.disk, rest) {
            (Some(disk), Some(rest)) if rest.trim_matches('/').is_empty() => Ok((disk, ".")),
            (Some(disk), Some(rest)) => Ok((disk, rest)),
            _ => Ok((&self.own, path)),
        }
    }

    pub(crate) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let (top, path) = self.place(path)?;
        top.read(path, self.most_bytes)
    }

    /// Replaces a file, with the directories above it.
    pub(crate) fn write(&self, path: &str, contents: &[u8]) -> io::Result<()> {
        let (top, path) = self.place(path)?;
        top.write(path, contents)
    }

    /// Makes a file of the engine's own in memory, in place of whatever was there.
    pub(crate) fn write_new(&self, path: &str, contents: &[u8]) -> io::Result<()> {
        as_owner(self.own.owner, || {
            let _ = unlinkat(&self.own.root, path.trim_start_matches('/'), AtFlags::empty());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            self.own.open(path, flags)?.write_all(contents)
        })
    }

    pub(crate) fn append(&self, path: &str, contents: &[u8]) -> io::Result<()> {
        as_owner(self.own.owner, || {
            self.own.open(path, OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW)?.write_all(contents)
        })
    }

    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        as_owner(self.own.owner, || {
            Ok(unlinkat(&self.own.root, path.trim_start_matches('/'), AtFlags::empty())?)
        })
    }

    /// Bytes in use, of those in memory.
    pub(crate) fn bytes(&self) -> u64 {
        rustix::fs::fstatvfs(&self.own.root)
            .map_or(0, |figures| (figures.f_blocks - figures.f_bfree).saturating_mul(figures.f_frsize))
    }

    /// The same files, for another thread.
    pub(crate) fn again(&self) -> Self {
        Self {
            own: Arc::clone(&self.own),
            disk: self.disk.clone(),
            workspace: Arc::clone(&self.workspace),
            most_bytes: self.most_bytes,
            held: Arc::clone(&self.held),
            known: Arc::clone(&self.known),
        }
    }

    /// Bytes that it may have.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Whether the workspace is in memory.
    pub(crate) fn is_whole(&self) -> bool {
        self.disk.is_none()
    }

    /// The parts that are compared and taken back: their names in moments, and below the root.
    fn parts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let workspace = self.workspace.trim_start_matches('/');
        let parts = [(WORKSPACE, workspace), (TEMPORARY, TEMPORARY)];
        parts.into_iter().skip(usize::from(!self.is_whole()))
    }

    /// Whether a path of a moment is in such a part.
    fn has(&self, path: &[u8]) -> bool {
        self.is_whole() || !path.starts_with(WORKSPACE.as_bytes())
    }

    /// Where a path of a moment is below the root.
    fn real(&self, path: &[u8]) -> Vec<u8> {
        match path.strip_prefix(WORKSPACE.as_bytes()).filter(|rest| rest.is_empty() || rest[0] == b'/') {
            Some(rest) => [self.workspace.trim_start_matches('/').as_bytes(), rest].concat(),
            None => path.to_vec(),
        }
    }

    /// Copies directories of the host into one of the tree, and what is in their `bin` into another. If there isn't room
    /// for all, nothing is copied. Whoever runs in the tree may change it meanwhile: nothing is followed out of it, and
    /// a file that is there is replaced and not written to.
    pub(crate) fn copy_packages(&self, sources: &[&Path], target: &str, programs: &str) -> io::Result<()> {
        let mut files = Vec::new();
        for source in sources {
            list_files(source, &mut files)?;
        }
        let directories: BTreeSet<&Path> = files.iter().filter_map(|file| file.inside.parent()).collect();
        let (top, target) = self.place(target)?;
        let (_, programs) = self.place(programs)?;
        let figures = rustix::fs::fstatvfs(&top.root)?;
        let needed: u64 = files.iter().map(|file| file.size.div_ceil(figures.f_frsize.max(1))).sum();
        if needed > figures.f_bavail || (files.len() + directories.len() + 16) as u64 > figures.f_favail {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let site = as_owner(top.owner, || top.make_directory(target))?;
        let bin = as_owner(top.owner, || top.make_directory(programs))?;
        let mut made = Vec::new();
        let copied = files.iter().try_for_each(|file| {
            let Some((base, inside)) = file.place(&site, &bin) else { return Ok(()) };
            // With this process's own rights: the cache may be nobody else's to read.
            let contents = File::open(&file.path)?;
            as_owner(top.owner, || {
                let (directory, name) = below(base, inside)?;
                let _ = unlinkat(&directory, name, AtFlags::empty());
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(if file.executable { 0o755 } else { 0o644 });
                let mut written = File::from(rustix::fs::openat(&directory, name, flags, mode)?);
                made.push((base, inside));
                io::copy(&mut contents.take(file.size), &mut written)?;
                if file.inside.extension().is_some_and(|extension| extension == "pyc") {
                    check_source(&written)?;
                }
                written.set_modified(file.modified)
            })
        });
        if copied.is_err() {
            as_owner(top.owner, || {
                for (base, inside) in made {
                    if let Ok((directory, name)) = below(base, inside) {
                        let _ = unlinkat(&directory, name, AtFlags::empty());
                    }
                }
            });
        }
        copied
    }

    /// A directory of the session's, made if need be, and whose rights are used in it, if this process has others.
    pub(crate) fn directory(&self, path: &str) -> io::Result<(OwnedFd, Option<Owner>)> {
        let (top, path) = self.place(path)?;
        Ok((as_owner(top.owner, || top.make_directory(path))?, top.owner))
    }

    /// Whether nothing more can be written.
    pub(crate) fn is_full(&self) -> bool {
        rustix::fs::fstatvfs(&self.own.root).is_ok_and(|figures| figures.f_bfree == 0 || figures.f_ffree == 0)
    }

    /// The name in moments of a path below the root.
    fn name(&self, real: &[u8]) -> Option<Vec<u8>> {
        self.parts().find_map(|(part, path)| {
            let rest = real.strip_prefix(path.as_bytes())?;
            (rest.is_empty() || rest[0] == b'/').then(|| [part.as_bytes(), rest].concat())
        })
    }

    /// What is different from an earlier moment, and this one.
    pub(crate) fn compare(&self, before: &Moment) -> io::Result<(Moment, Changes)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &mut *known;
        // First: what is touched while it is looked at is looked at again.
        let touched = known.watch.as_mut().map_or(Touched::Everything, Watch::take);
        let (now, changes, linked) = as_owner(self.own.owner, || {
            let some = match (touched, &known.last) {
                (Touched::Paths(paths), Some(last)) if last.number == before.number => {
                    self.look_at(before, paths, &known.linked)
                }
                _ => None,
            };
            some.unwrap_or_else(|| self.look(before, false, false))
        });
        (known.last, known.linked) = (Some(now.clone()), linked);
        Ok((now, changes))
    }

    /// Looks at what was touched since a moment. `None`: that isn't enough.
    fn look_at(
        &self,
        before: &Moment,
        touched: BTreeSet<Vec<u8>>,
        linked: &BTreeSet<Vec<u8>>,
    ) -> Option<(Moment, Changes, BTreeSet<Vec<u8>>)> {
        let mut paths = linked.clone();
        for path in touched.iter().filter_map(|real| self.name(real)) {
            if PARTS.iter().any(|part| part.as_bytes() == path) {
                return None;
            }
            if !is_installed(&path) {
                paths.insert(path);
            }
        }
        let mut now = before.clone();
        let mut changes = Changes::default();
        let mut scan = Scan::new(before, &mut now, &mut changes, self.most_bytes);
        let mut gone = Vec::new();
        let mut parent: Option<(&[u8], io::Result<OwnedFd>)> = None;
        let mut whole: BTreeSet<&[u8]> = BTreeSet::new();
        for path in &paths {
            let place = path.iter().rposition(|byte| *byte == b'/')?;
            let mut above =
                path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end]);
            if !whole.is_empty() && above.any(|above| whole.contains(above)) {
                continue;
            }
            if parent.as_ref().is_none_or(|(known, _)| *known != &path[..place]) {
                parent = Some((&path[..place], self.parent(path).map(|(parent, _)| parent)));
            }
            let name = CString::new(&path[place + 1..]).ok()?;
            let found = match &parent {
                Some((_, Ok(directory))) => {
                    let stat = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from);
                    stat.map(|stat| (directory, stat))
                }
                Some((_, Err(error))) => Err(error.kind().into()),
                None => return None,
            };
            match found {
                // A directory above is closed to its owner: what was known of it still is.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    scan.changes.truncated = true
                }
                Err(_) => scan.forget(path, &mut gone),
                Ok((directory, stat)) => {
                    let depth = path.iter().filter(|byte| **byte == b'/').count() - 1;
                    if depth > DEEPEST {
                        scan.changes.truncated = true;
                    } else if scan.is_same_directory(path, &stat) {
                        let stamp = Stamp::of(&stat);
                        scan.now
                            .entries
                            .insert(path.clone(), Entry { stamp, kind: Kind::Directory, recent: true });
                    } else {
                        scan.forget(path, &mut gone);
                        scan.entry(directory, &name, path.clone(), &stat, depth);
                        whole.insert(path);
                    }
                }
            }
        }
        let found = std::mem::take(&mut scan.linked);
        if found.iter().any(|path| !linked.contains(path)) {
            // Its other names are somewhere.
            return None;
        }
        for path in gone {
            if now.is_no_file(&path)
                && before.entries.get(&path).is_some_and(|entry| !matches!(entry.kind, Kind::Directory))
            {
                note(&mut changes.deleted, &path, &mut changes.truncated);
            }
        }
        changes.truncated |= !now.closed.is_empty();
        self.finish(&mut now, &mut changes);
        Some((now, changes, found))
    }

    /// Numbers a moment, and has paths as sessions see them.
    fn finish(&self, now: &mut Moment, changes: &mut Changes) {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        now.number = COUNT.fetch_add(1, Ordering::Relaxed);
        for list in [&mut changes.created, &mut changes.modified, &mut changes.deleted] {
            for path in list.iter_mut() {
                match path.strip_prefix(WORKSPACE) {
                    Some(rest) => *path = format!("{}{rest}", self.workspace),
                    None => path.insert(0, '/'),
                }
            }
            list.sort();
        }
    }

    /// The files of a moment, with what package managers have installed by now. What is the same in an earlier such
    /// moment is shared with it.
    pub(crate) fn with_installed(&self, files: &Moment, before: &Moment) -> Moment {
        let mut all = files.clone();
        if !files.entries.keys().any(|path| INSTALLED.iter().any(|name| path.ends_with(name.as_bytes()))) {
            return all;
        }
        let (now, ..) = as_owner(self.own.owner, || self.look(before, false, true));
        all.entries.extend(now.entries.into_iter().filter(|(path, _)| is_installed(path)));
        all
    }

    /// Looks at everything; at what is closed to its owner too, if that is to be opened.
    fn look(&self, before: &Moment, open_up: bool, whole: bool) -> (Moment, Changes, BTreeSet<Vec<u8>>) {
        let mut now = Moment::default();
        let mut changes = Changes::default();
        let mut scan = Scan::new(before, &mut now, &mut changes, self.most_bytes);
        (scan.open_up, scan.whole) = (open_up, whole);
        for (part, real) in self.parts() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = || openat2(&self.own.root, real, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
            let opened = open().or_else(|error| {
                let _ = chmodat(&self.own.root, real, Mode::from_raw_mode(0o755), AtFlags::empty());
                open().map_err(|_| error)
            });
            match opened {
                Ok(directory) => scan.directory(&directory, part.as_bytes(), 0),
                Err(_) => scan.changes.truncated = true,
            }
        }
        let linked = std::mem::take(&mut scan.linked);
        for (path, entry) in &before.entries {
            let gone = now.is_no_file(path) && !is_installed(path) && self.has(path);
            if gone && !matches!(entry.kind, Kind::Directory) {
                note(&mut changes.deleted, path, &mut changes.truncated);
            }
        }
        self.finish(&mut now, &mut changes);
        (now, changes, linked)
    }

    /// Makes the tree what it was, as far as it can, and returns how many paths it couldn't put back.
    pub(crate) fn restore(&self, moment: &Moment) -> io::Result<usize> {
        as_owner(self.own.owner, || {
            let (now, ..) = self.look(moment, true, false);
            let mut failed = 0;
            // What wasn't there goes, the innermost first.
            for (path, entry) in now.entries.iter().rev() {
                let wanted = moment.entries.get(path);
                let both_files =
                    |wanted: &Entry| matches!((&wanted.kind, &entry.kind), (Kind::File(_), Kind::File(_)));
                let known = !moment.is_closed(path);
                if self.held.contains(path) {
                    continue;
                }
                if known && wanted.is_none_or(|wanted| !wanted.is_like(entry) && !both_files(wanted)) {
                    failed += usize::from(self.take_away(path, entry).is_err());
                }
            }
            let wanted =
                || moment.entries.iter().filter(|(path, _)| self.has(path) && !self.held.contains(*path));
            for (path, entry) in wanted() {
                let found = now.entries.get(path);
                let same = found.is_some_and(|found| entry.is_like(found));
                if !same || found.is_some_and(|found| found.stamp.mode != entry.stamp.mode) {
                    failed += usize::from(self.put(path, entry, same).is_err());
                }
            }
            // Directories were open while things were put into them.
            for (path, entry) in wanted().rev() {
                if matches!(entry.kind, Kind::Directory)
                    && let Ok((parent, name)) = self.parent(path)
                {
                    let mode = Mode::from_raw_mode(entry.stamp.mode & 0o7777);
                    let _ = chmodat(&parent, name, mode, AtFlags::empty());
                }
            }
            Ok(failed)
        })
    }

    fn take_away(&self, path: &[u8], entry: &Entry) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        let flags = match entry.kind {
            Kind::Directory => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        match unlinkat(&parent, name, flags) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(rustix::io::Errno::NOTEMPTY) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
                empty(&opened)?;
                Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn parent<'p>(&self, path: &'p [u8]) -> io::Result<(OwnedFd, &'p OsStr)> {
        let place = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (parent, name) = (&path[..place], &path[place + 1..]);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        Ok((
            openat2(&self.own.root, OsStr::from_bytes(&self.real(parent)), flags, Mode::empty(), resolve)?,
            OsStr::from_bytes(name),
        ))
    }

    /// Rewrites a file that is still the same one, so that whoever has it open sees what was in it.
    fn put_in_place(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        entry: &Entry,
        contents: &Contents,
    ) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(parent, name, flags, Mode::empty())?);
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_ino != entry.stamp.inode
        {
            return Err(io::Error::other("it is another file"));
        }
        file.set_len(0)?;
        file.set_len(contents.size)?;
        for (offset, chunk) in &contents.pieces {
            file.write_all_at(&chunk.bytes, *offset)?;
        }
        let (seconds, nanoseconds) = entry.stamp.modified;
        let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ };
        rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time })?;
        Ok(())
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
                if self.put_in_place(&parent, name, entry, contents).is_ok() {
                    let _ = chmodat(&parent, name, mode, AtFlags::empty());
                    return Ok(());
                }
                let temporary = OsStr::from_bytes(b".belljar-restored");
                let _ = unlinkat(&parent, temporary, AtFlags::empty());
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
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

/// Whether a path is inside of a directory that belongs to a package manager.
fn is_installed(path: &[u8]) -> bool {
    let mut parts = path.rsplit(|byte| *byte == b'/');
    parts.next();
    parts.any(|part| INSTALLED.iter().any(|name| name.as_bytes() == part))
}

/// A file of a package on the host.
struct PackageFile {
    path: PathBuf,
    inside: PathBuf,
    size: u64,
    executable: bool,
    modified: SystemTime,
}

impl PackageFile {
    /// Where it goes; what would stand in for the session's own interpreter or installers goes nowhere.
    fn place<'p>(&'p self, site: &'p OwnedFd, bin: &'p OwnedFd) -> Option<(&'p OwnedFd, &'p Path)> {
        let Ok(program) = self.inside.strip_prefix("bin") else { return Some((site, &self.inside)) };
        let name = program.to_str()?;
        let word = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        (!["python", "pip", "uv", "uvx", "activate", "npm"].contains(&word)).then_some((bin, program))
    }
}

/// Bytecode of the cache counts whatever its source says, since nothing there changes. In a session it may (PEP 552).
fn check_source(bytecode: &File) -> io::Result<()> {
    let mut header = [0; 8];
    match bytecode.read_exact_at(&mut header, 0) {
        Ok(()) if header[4..] == [1, 0, 0, 0] => bytecode.write_all_at(&[3], 4),
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        Err(error) => Err(error),
    }
}

/// The regular files below a directory of the host.
fn list_files(source: &Path, files: &mut Vec<PackageFile>) -> io::Result<()> {
    let mut waiting = vec![source.to_owned()];
    while let Some(directory) = waiting.pop() {
        for found in std::fs::read_dir(&directory)? {
            let found = found?;
            let metadata = found.metadata()?;
            let path = found.path();
            if metadata.is_dir() {
                waiting.push(path);
            } else if metadata.is_file() {
                let inside = path.strip_prefix(source).map_err(io::Error::other)?.to_owned();
                let executable = metadata.permissions().mode() & 0o100 != 0;
                let (size, modified) = (metadata.len(), metadata.modified()?);
                files.push(PackageFile { path, inside, size, executable, modified });
            }
        }
    }
    Ok(())
}

/// The directory of a file below another, made if need be, and the file's name. No link is followed.
pub(crate) fn below<'p>(base: &OwnedFd, inside: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
    let name = inside.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = inside.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
    let Some(parent) = parent else {
        return Ok((openat2(base, ".", flags, Mode::empty(), resolve)?, name));
    };
    if let Ok(directory) = openat2(base, parent, flags, Mode::empty(), resolve) {
        return Ok((directory, name));
    }
    let (above, last) = below(base, parent)?;
    match mkdirat(&above, last, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok((openat2(&above, last, flags, Mode::empty(), resolve)?, name))
}

/// Removes all that is in a directory, however deep it is: what is further down comes up first.
fn empty(top: &OwnedFd) -> io::Result<()> {
    const MOST_ROUNDS: usize = 100_000;
    let mut moved = 0_u64;
    for _ in 0..MOST_ROUNDS {
        let mut found_any = false;
        for name in names(top)? {
            found_any = true;
            if unlinkat(top, &name, AtFlags::empty()).is_ok()
                || unlinkat(top, &name, AtFlags::REMOVEDIR).is_ok()
            {
                continue;
            }
            let inner = open_up(top, &name)?;
            for below in names(&inner)? {
                let removed = unlinkat(&inner, &below, AtFlags::empty()).is_ok()
                    || unlinkat(&inner, &below, AtFlags::REMOVEDIR).is_ok();
                if !removed {
                    moved += 1;
                    renameat(&inner, &below, top, format!(".belljar-{moved}"))?;
                }
            }
            unlinkat(top, &name, AtFlags::REMOVEDIR)?;
        }
        if !found_any {
            return Ok(());
        }
    }
    Err(io::Error::other("it does not become empty"))
}

fn names(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for found in Dir::read_from(directory)? {
        let found = found?;
        if ![c".", c".."].contains(&found.file_name()) {
            names.push(found.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Opens a directory, also one that is closed to its owner.
fn open_up(parent: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(parent, name, flags, Mode::empty());
    if let Ok(opened) = opened {
        // What is to be moved out of it must be allowed to leave.
        let _ = rustix::fs::fchmod(&opened, Mode::from_raw_mode(0o700));
        return Ok(opened);
    }
    // A link in its place can't lead out of the tree: its owner has nothing elsewhere that could be harmed.
    let there =
        rustix::fs::openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&there)?.st_mode) == FileType::Directory {
        rustix::fs::chmod(format!("/proc/self/fd/{}", there.as_raw_fd()), Mode::from_raw_mode(0o700))?;
    }
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

struct Scan<'s> {
    before: &'s Moment,
    now: &'s mut Moment,
    changes: &'s mut Changes,
    /// Since 1970.
    at: Duration,
    left: u64,
    /// Directories that are closed to their owner are opened.
    open_up: bool,
    /// Also at what package managers have installed.
    whole: bool,
    /// Files with several names that were found.
    linked: BTreeSet<Vec<u8>>,
}

impl<'s> Scan<'s> {
    fn new(before: &'s Moment, now: &'s mut Moment, changes: &'s mut Changes, left: u64) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let linked = BTreeSet::new();
        Self { before, now, changes, at, left, open_up: false, whole: false, linked }
    }

    /// Whether a path is the directory that it was, so that what is in it is told of by itself.
    fn is_same_directory(&self, path: &[u8], stat: &Stat) -> bool {
        let former = self.now.entries.get(path);
        FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            && !self.now.closed.contains(path)
            && former.is_some_and(|former| {
                matches!(former.kind, Kind::Directory)
                    && former.stamp.inode == stat.st_ino
                    && former.stamp.mode == stat.st_mode
            })
    }

    /// Forgets a path and all below it.
    fn forget(&mut self, path: &[u8], gone: &mut Vec<Vec<u8>>) {
        let below = [path, b"/"].concat();
        let known = self.now.entries.range(below.clone()..);
        let inside: Vec<Vec<u8>> =
            known.map(|(path, _)| path).take_while(|path| path.starts_with(&below)).cloned().collect();
        for path in inside.into_iter().chain([path.to_vec()]) {
            if self.now.entries.remove(&path).is_some() {
                gone.push(path);
            }
        }
        if !self.now.closed.is_empty() {
            self.now.closed.retain(|closed| closed != path && !closed.starts_with(&below));
        }
    }

    fn directory(&mut self, directory: &OwnedFd, path: &[u8], depth: usize) {
        let Ok(names) = names(directory).map(|names| if depth > DEEPEST { Vec::new() } else { names }) else {
            self.changes.truncated = true;
            return;
        };
        self.changes.truncated |= depth > DEEPEST;
        for name in names {
            // Gone since.
            let Ok(stat) = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let path = [path, b"/", name.to_bytes()].concat();
            self.entry(directory, &name, path, &stat, depth);
        }
    }

    fn entry(&mut self, directory: &OwnedFd, name: &CStr, path: Vec<u8>, stat: &Stat, depth: usize) {
        let mut stamp = Stamp::of(stat);
        let known = self.before.entries.get(&path);
        let kind = FileType::from_raw_mode(stat.st_mode);
        let kind = match (kind, known) {
            (FileType::Directory, _) => {
                let installed = INSTALLED.iter().any(|installed| installed.as_bytes() == name.to_bytes());
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened =
                    rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(io::Error::from);
                let opened = match self.open_up && stamp.mode & 0o700 != 0o700 {
                    true => {
                        stamp.mode |= 0o700;
                        open_up(directory, name)
                    }
                    false => opened,
                };
                match opened {
                    Ok(inner) if self.whole || !installed => self.directory(&inner, &path, depth + 1),
                    Ok(_) => {}
                    Err(_) => self.closed(&path),
                }
                Kind::Directory
            }
            (
                FileType::RegularFile,
                Some(Entry { kind: Kind::File(contents), stamp: former, recent: false }),
            ) if *former == stamp => Kind::File(Arc::clone(contents)),
            (FileType::RegularFile, known) => {
                let Ok(contents) = self.contents(directory, name) else {
                    self.changes.truncated = true;
                    return;
                };
                match known.map(|known| &known.kind) {
                    Some(Kind::File(former)) if former.is_same(&contents) => Kind::File(Arc::clone(former)),
                    _ => Kind::File(Arc::new(contents)),
                }
            }
            (FileType::Symlink, _) => Kind::Link(
                readlinkat(directory, name, Vec::new()).map(|target| target.into_bytes()).unwrap_or_default(),
            ),
            _ => Kind::Other,
        };
        if stat.st_nlink > 1 && !matches!(kind, Kind::Directory) {
            self.linked.insert(path.clone());
        }
        let modified =
            Duration::new(stamp.changed.0.max(0) as u64, stamp.changed.1.clamp(0, 999_999_999) as u32);
        let recent = modified + TICK > self.at;
        let entry = Entry { stamp, kind, recent };
        if !matches!(entry.kind, Kind::Directory) {
            match known {
                None | Some(Entry { kind: Kind::Directory, .. }) => {
                    note(&mut self.changes.created, &path, &mut self.changes.truncated)
                }
                Some(known) if !known.is_like(&entry) || known.stamp.modified != stamp.modified => {
                    note(&mut self.changes.modified, &path, &mut self.changes.truncated);
                }
                Some(_) => {}
            }
        }
        self.now.entries.insert(path, entry);
    }

    /// A directory that its owner can't read: what was known to be in it still is.
    fn closed(&mut self, path: &[u8]) {
        self.changes.truncated = true;
        self.now.closed.insert(path.to_vec());
        let below = [path, b"/"].concat();
        let known =
            self.before.entries.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below));
        self.now.entries.extend(known.map(|(path, entry)| (path.clone(), entry.clone())));
    }

    /// Reads a file, but for its holes.
    fn contents(&mut self, directory: &OwnedFd, name: &CStr) -> io::Result<Contents> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = File::from(rustix::fs::openat(directory, name, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file any more"));
        }
        let size = metadata.len();
        let mut pieces = Vec::new();
        let mut offset = 0;
        // A page is a hole or isn't: nothing is saved by asking.
        let is_small = size <= 4096;
        while offset < size {
            let (start, end) = match is_small {
                true => (offset, size),
                false => {
                    let Ok(start) = seek(file.as_fd(), SeekFrom::Data(offset)) else { break };
                    (start, seek(file.as_fd(), SeekFrom::Hole(start)).unwrap_or(size).min(size))
                }
            };
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
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
        }
    }
}

impl Contents {
    fn is_same(&self, other: &Self) -> bool {
        self.size == other.size
            && self.pieces.len() == other.pieces.len()
            && self
                .pieces
                .iter()
                .zip(&other.pieces)
                .all(|((at, one), (other_at, other))| at == other_at && one.bytes == other.bytes)
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

/// Adds a path to a list.
fn note(list: &mut Vec<String>, path: &[u8], truncated: &mut bool) {
    if list.len() >= MOST_CHANGES {
        *truncated = true;
        return;
    }
    list.push(String::from_utf8_lossy(path).into_owned());
}

impl Moment {
    /// Whether a path is somewhere in a closed directory.
    fn is_closed(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(place, _)| place);
        !self.closed.is_empty() && ends.into_iter().any(|end| self.closed.contains(&path[..end]))
    }

    /// Whether a path is a directory, or isn't there.
    fn is_no_file(&self, path: &[u8]) -> bool {
        self.entries.get(path).is_none_or(|entry| matches!(entry.kind, Kind::Directory))
    }

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
            let fits =
                !name.is_empty() && name != b"." && name != b".." && !name.contains(&0) && name.len() < 256;
            if !fits || !directories.contains(&path[..place]) || path.len() > 4096 {
                return Err("a path that makes no sense".to_owned());
            }
            let (size, kind) = match kind {
                SavedKind::Directory => {
                    directories.insert(path.clone());
                    (0, Kind::Directory)
                }
                SavedKind::Link(target) if !target.contains(&0) && target.len() <= 4096 => {
                    (0, Kind::Link(target))
                }
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
