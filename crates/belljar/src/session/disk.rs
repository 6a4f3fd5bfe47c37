//! A workspace on disk: what a cell changes there, and putting it back.
//!
//! Engines only show the directory. What changed is found here, contents that may be needed again are put aside here,
//! and a cell that is taken back has its files put back here; so it is the same for all engines.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use belljar_engine::{Changes, FileDoor, Interrupter, Rollback};
use belljar_files::{Moment, PutBack, Tracked, TrackedSettings, clone_tree};
use belljar_store::SessionId;

use super::Place;
use crate::Error;
use crate::workspace::{StorageKind, WorkspacePolicy, Workspaces, is_manifest, open_directory};

/// Larger files are put aside only where their blocks can be shared.
const MOST_FILE: u64 = 64 << 20;
/// Bytes that are put aside for one session.
const MOST_KEPT: u64 = 512 << 20;
/// How often the size of a workspace is looked at whose engine can't refuse a write.
const POLL: Duration = Duration::from_millis(100);
/// Bytes beyond the quota and a half with which nothing is run any more.
const MOST_OVER: u64 = 256 << 20;
/// Paths that a note names.
const MOST_NAMED: usize = 5;

/// A session's directory.
pub(crate) struct Disk {
    pub(crate) workspaces: Workspaces,
    pub(crate) id: SessionId,
    /// Where the session sees it.
    guest: String,
    tracked: Arc<Mutex<Tracked>>,
    /// What is seen in it that isn't its own.
    ignored: Vec<String>,
    pub(crate) door: Arc<dyn FileDoor>,
    most_bytes: u64,
    most_files: u64,
    /// What the running cell may have.
    allowed: (u64, u64),
    /// What there was when the last one ended.
    left: (u64, u64),
    /// The engine lets writes pass.
    polled: bool,
    /// A cell has ended, and what it left isn't put aside.
    unsettled: Option<u32>,
}

/// Looks at the size of a workspace while a cell runs.
pub(crate) struct Poller {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Disk {
    /// Opens the directory of a session, which is there. It is `polled` if the engine lets writes pass.
    pub(crate) fn open(
        workspaces: &Workspaces,
        id: &SessionId,
        place: &Place,
        polled: bool,
    ) -> Result<Self, Error> {
        let Place { spec, workspace: policy, .. } = place;
        let ignored: Vec<String> = workspaces.seen(id, policy)?.into_iter().map(|(at, _)| at).collect();
        let settings = TrackedSettings {
            ignored: ignored.clone(),
            undo: spec.undo,
            most_file: MOST_FILE,
            most_total: MOST_KEPT,
            keep: spec.rollback != Rollback::Never,
        };
        let failed = |source| Error::Workspace { path: workspaces.thread(id), source };
        let tracked =
            Tracked::open(workspaces.directory(id)?, &workspaces.vault(), settings).map_err(failed)?;
        Ok(Self {
            workspaces: workspaces.clone(),
            id: id.clone(),
            guest: spec.workspace.clone(),
            tracked: Arc::new(Mutex::new(tracked)),
            ignored,
            door: workspaces.door(id, &place.policy(), place.shelf())?,
            most_bytes: spec.limits.file_bytes,
            most_files: spec.limits.file_count,
            allowed: (spec.limits.file_bytes, spec.limits.file_count),
            left: (0, 0),
            polled,
            unsettled: None,
        })
    }

    fn tracked(&self) -> MutexGuard<'_, Tracked> {
        self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> impl Fn(io::Error) -> Error {
        let path = self.workspaces.thread(&self.id);
        move |source| Error::Workspace { path: path.clone(), source }
    }

    /// A cell or a command is about to run.
    pub(crate) fn begin(&mut self, interrupter: Arc<dyn Interrupter>) -> Result<Option<Poller>, Error> {
        self.settle();
        self.open_up();
        let mut tracked = self.tracked();
        tracked.begin().map_err(self.failed())?;
        // Whoever has too much already may still remove some of it.
        let usage = tracked.usage();
        if self.polled && (!usage.complete || usage.bytes > self.most_bytes.saturating_mul(3) / 2 + MOST_OVER)
        {
            drop(tracked);
            let reason = match usage.complete {
                true => format!("it has {} bytes, and may have {}", usage.bytes, self.most_bytes),
                false => {
                    "it has directories that nobody can look into: they are too deep, or closed".to_owned()
                }
            };
            return Err(self.failed()(io::Error::new(io::ErrorKind::QuotaExceeded, reason)));
        }
        drop(tracked);
        let allowed = (self.most_bytes.max(usage.bytes), self.most_files.max(usage.files));
        self.allowed = allowed;
        let poller = self.polled.then(|| Poller::start(Arc::clone(&self.tracked), allowed, interrupter));
        poller.transpose().map_err(self.failed())
    }

    /// Whoever runs in it may have closed the directory itself.
    fn open_up(&self) {
        if let Err(error) = self.workspaces.open_up(&self.id) {
            tracing::warn!(%error, "a workspace stays closed");
        }
    }

    /// It ended, and what it did stays: adds to what it changed.
    pub(crate) fn finish(&mut self, cell: u32, changes: &mut Changes) -> Result<(), Error> {
        self.open_up();
        let found = self.tracked().finish().map_err(self.failed())?;
        self.unsettled = Some(cell);
        let usage = self.tracked().usage();
        self.left = (usage.bytes, usage.files);
        let below = format!("{}/", self.guest);
        let guest = |path: String| format!("{below}{path}");
        for (told, found) in [
            (&mut changes.created, found.created),
            (&mut changes.modified, found.modified),
            (&mut changes.deleted, found.deleted),
        ] {
            told.retain(|path| !path.starts_with(&below));
            told.extend(found.into_iter().map(guest));
            told.sort();
        }
        changes.truncated |= found.truncated;
        Ok(())
    }

    /// Whether what has ended left more than it was allowed, and nobody noticed while it ran.
    pub(crate) fn is_overfull(&self) -> Result<bool, Error> {
        if !self.polled {
            return Ok(false);
        }
        let usage = self.tracked().poll().map_err(self.failed())?;
        Ok(!usage.complete || usage.bytes > self.allowed.0 || usage.files > self.allowed.1)
    }

    /// Whether there is more than may be, while nothing runs that was asked for.
    pub(crate) fn is_filled_meanwhile(&self, hidden: u64) -> Result<bool, Error> {
        if !self.polled {
            return Ok(false);
        }
        let usage = self.tracked().poll().map_err(self.failed())?;
        // What was there when the last cell ended may stay.
        let (bytes, files) = (self.most_bytes.max(self.left.0), self.most_files.max(self.left.1));
        Ok(!usage.complete || usage.bytes.saturating_add(hidden) > bytes || usage.files > files)
    }

    /// Whether the engine lets writes pass.
    pub(crate) fn is_polled(&self) -> bool {
        self.polled
    }

    /// What there may be, in words.
    pub(crate) fn quota(&self) -> String {
        format!("the session's files are full: {} bytes, {} files", self.most_bytes, self.most_files)
    }

    /// It ended and is taken back. Returns a note if some of it couldn't be.
    pub(crate) fn roll_back(&mut self) -> Result<Option<String>, Error> {
        self.open_up();
        let put_back = self.tracked().roll_back().map_err(self.failed())?;
        Ok(note(&put_back))
    }

    /// Puts aside what the next cell may change.
    pub(crate) fn settle(&mut self) {
        if let Some(cell) = self.unsettled.take() {
            self.tracked().keep(cell);
        }
    }

    /// Numbers of the cells that can be taken back, the last one first.
    pub(crate) fn undoable(&mut self) -> Vec<u32> {
        self.settle();
        let mut cells: Vec<u32> = self.tracked().undoable().collect();
        cells.sort_unstable_by(|one, other| other.cmp(one));
        cells.dedup();
        cells
    }

    /// Takes back this cell and all later ones.
    pub(crate) fn undo(&mut self, first: u32) -> Result<Option<String>, Error> {
        self.settle();
        let put_back = self.tracked().undo_to(first).map_err(self.failed())?;
        Ok(note(&put_back))
    }

    /// The files as they are now.
    pub(crate) fn moment(&mut self) -> Result<Moment, Error> {
        self.settle();
        self.tracked().moment().map_err(self.failed())
    }

    /// Makes the files what they were.
    pub(crate) fn restore(&mut self, moment: &Moment) -> Result<Option<String>, Error> {
        self.settle();
        let put_back = self.tracked().restore(moment).map_err(self.failed())?;
        Ok(note(&put_back))
    }

    /// Bytes in use that the engine doesn't know of.
    pub(crate) fn uncounted(&self) -> u64 {
        if self.polled { self.tracked().usage().bytes } else { 0 }
    }

    /// What is written is on disk when this returns.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let directory = self.workspaces.directory(&self.id)?;
        rustix::fs::syncfs(&directory).map_err(|error| self.failed()(error.into()))
    }

    /// Keeps the files for a checkpoint, durably, and returns the name of the list.
    pub(crate) fn keep(&mut self) -> Result<String, Error> {
        let moment = self.moment()?;
        let objects = self.workspaces.objects()?;
        let _held = objects.hold().map_err(self.failed())?;
        let manifest = moment.save(&objects).map_err(self.failed())?;
        let name = blake3::hash(&manifest).to_hex()[..32].to_owned();
        let path = self.workspaces.manifests(&self.id);
        write_durably(&path, &name, &manifest).map_err(self.failed())?;
        Ok(name)
    }

    /// The files of a checkpoint.
    pub(crate) fn kept(&self, name: &str) -> Result<Moment, Error> {
        let path = self.manifest_path(name)?;
        let failed = |source| Error::Workspace { path: path.clone(), source };
        let manifest = fs::read(&path).map_err(failed)?;
        if blake3::hash(&manifest).to_hex()[..32] != *name {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "the list of files is damaged")));
        }
        Moment::load(&manifest, &self.workspaces.objects()?).map_err(failed)
    }

    fn manifest_path(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.workspaces.manifests(&self.id);
        // It comes from a record that may be anybody's.
        if is_manifest(name.as_bytes()) {
            return Ok(path.join(name));
        }
        Err(Error::Workspace { path, source: io::ErrorKind::InvalidInput.into() })
    }

    /// Forgets the files of a checkpoint.
    pub(crate) fn forget(&self, name: &str) -> Result<(), Error> {
        match fs::remove_file(self.manifest_path(name)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed()(error)),
            _ => {
                self.workspaces.collect_if_possible();
                Ok(())
            }
        }
    }

    /// Makes the directory of a child, with copies of the files as they are now or were at a moment. It must be new.
    pub(crate) fn copy_to(&mut self, child: &SessionId, moment: Option<&Moment>) -> Result<(), Error> {
        let usage = self.tracked().poll().map_err(self.failed())?;
        let most = self.most_bytes.max(usage.bytes);
        // Hard links share what copies don't.
        if let Some(moment) = moment
            && moment.bytes() > most
        {
            let reason = format!("a copy of its files has {} bytes, more than it may", moment.bytes());
            return Err(self.failed()(io::Error::new(io::ErrorKind::StorageFull, reason)));
        }
        if !usage.complete && moment.is_none() {
            let reason = "it has directories that nobody can look into: they are too deep, or closed";
            return Err(self.failed()(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        let path = self.workspaces.thread(child);
        let failed = |source| Error::Workspace { path: path.clone(), source };
        if fs::symlink_metadata(&path).is_ok() {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        // It is there whole or not at all. Somebody may have died here before.
        let staging = self.workspaces.staging(child);
        fs::create_dir_all(&staging).map_err(failed)?;
        let opened = open_directory(&staging).map_err(failed)?;
        belljar_files::empty_directory(&opened).map_err(failed)?;
        let copied = self.fill(&opened, moment, most).and_then(|()| {
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            fs::rename(&staging, &path)
        });
        if copied.is_err() {
            let _ = belljar_files::empty_directory(&opened).and_then(|()| fs::remove_dir(&staging));
        }
        copied.map_err(failed)
    }

    fn fill(&self, target: &OwnedFd, moment: Option<&Moment>, most: u64) -> io::Result<()> {
        match moment {
            Some(moment) => moment.write_to(target.try_clone()?),
            None => {
                let own = open_directory(&self.workspaces.thread(&self.id))?;
                clone_tree(own.as_fd(), target.as_fd(), &self.ignored, most).map(drop)
            }
        }
    }
}

fn write_durably(directory: &PathBuf, name: &str, contents: &[u8]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(contents)?;
    file.as_file().sync_all()?;
    file.persist(directory.join(name))?;
    File::open(directory)?.sync_all()
}

/// What couldn't be put back, in words.
fn note(put_back: &PutBack) -> Option<String> {
    let first = put_back.failed.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = put_back.failed.len().saturating_sub(MOST_NAMED);
    match (put_back.failed.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("these files could not be put back: {first}")),
        (false, more) => Some(format!("these files could not be put back: {first}, and {more} more")),
    }
}

impl Poller {
    fn start(
        tracked: Arc<Mutex<Tracked>>,
        (most_bytes, most_files): (u64, u64),
        interrupter: Arc<dyn Interrupter>,
    ) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let look = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(POLL) {
                let usage = tracked.lock().unwrap_or_else(PoisonError::into_inner).poll();
                let hidden = interrupter.hidden_bytes();
                match usage {
                    Ok(usage)
                        if !usage.complete
                            || usage.bytes.saturating_add(hidden) > most_bytes
                            || usage.files > most_files =>
                    {
                        interrupter.fill();
                    }
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%error, "the size of a workspace is not known"),
                }
            }
        };
        let thread = thread::Builder::new().name("belljar-quota".to_owned()).spawn(look)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a policy has files on disk.
pub(crate) fn is_on_disk(policy: &WorkspacePolicy) -> bool {
    policy.storage == StorageKind::Disk
}
