//! A session from inside: its guest, awake or asleep, and what is kept of it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use belljar_artifacts::RecordKind;
use belljar_engine::{Cell, CellHost, Descent, Engine, EngineError, Guest, GuestSpec, Limits, Snapshot};
use belljar_files::Moment as Files;
use belljar_store::{CheckpointNote, Facts, HistoryEntry, Lease, Loaded, Moment, SessionId};

use super::Switch;
use super::disk::{Disk, is_on_disk};
use super::ingest::Ran;
use super::kept::Kept;
use super::lineage::{Lineage, rollback_note, undo_note};
use super::verification::Verification;
use crate::checkpoint::{Checkpoint, HeldCheckpoint, Which};
use crate::sandbox::{Shared, check_layers};
use crate::workspace::WorkspacePolicy;
use crate::{Error, Outcome, Policy, Request};

/// Checkpoints of a session that isn't registered are held in memory; the oldest go beyond this many.
const MOST_HELD: usize = 1000;
/// How much of a cell's code a checkpoint shows.
const EXCERPT: usize = 200;
/// Bytes of JSON; a longer outcome isn't written to the history whole.
const LONGEST_OUTCOME: usize = 1 << 20;

/// One session, used by one caller at a time.
pub(crate) struct Slot {
    pub(crate) id: SessionId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) place: Place,
    pub(crate) switch: Arc<Switch>,
    pub(crate) life: Life,
    /// Cells so far.
    pub(crate) cells: u32,
    /// Sessions in the registry have a home, others live in memory only.
    pub(crate) registered: bool,
    last_code: Option<String>,
    held: Vec<HeldCheckpoint>,
    next_held: u32,
    /// Children so far.
    pub(crate) children: u64,
    pub(crate) used: Instant,
    /// Bytes of its own memory, and when that was.
    measured: Option<(Instant, u64)>,
    /// When its guest was told that time has passed.
    rested: Option<Instant>,
    /// Notes for the next outcome.
    pub(super) pending: Vec<String>,
    /// What its state comes from; of one in the registry it may not have been read yet.
    pub(crate) lineage: Option<Lineage>,
    /// The host has written files into it.
    pub(super) host_wrote: bool,
}

/// What a session's guests are made from.
#[derive(Clone)]
pub(crate) struct Place {
    /// But for what is its own.
    pub(crate) base: Arc<GuestSpec>,
    /// With its own directory and what it sees in it.
    pub(crate) spec: Arc<GuestSpec>,
    pub(crate) workspace: WorkspacePolicy,
    /// All that it may use.
    pub(crate) granted: Arc<Policy>,
    /// Its artifacts and datasets.
    pub(crate) kept: Option<Arc<Kept>>,
}

impl Place {
    /// What of the policy is about files.
    pub(crate) fn policy(&self) -> Policy {
        let Limits { file_bytes, file_count, .. } = self.spec.limits;
        Policy { file_bytes, file_count, workspace: self.workspace.clone(), ..Policy::default() }
    }

    /// Its shelf, on the host.
    pub(crate) fn shelf(&self) -> Option<&Path> {
        self.kept.as_ref().and_then(|kept| kept.shelf_path())
    }

    /// An absolute guest path, of one that may be relative to the workspace.
    pub(crate) fn guest_path(&self, path: &str) -> String {
        if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", self.spec.workspace) }
    }
}

/// Where the session is.
pub(crate) enum Life {
    /// In memory.
    Live(Box<Live>),
    /// On disk.
    Asleep,
    /// Nowhere: it was closed, or failed for good.
    Closed,
}

/// What children start from.
pub(crate) struct Ancestor {
    pub(crate) snapshot: Arc<dyn Snapshot>,
    /// The files of a checkpoint, if they are on disk.
    pub(crate) files: Option<Files>,
    pub(crate) checkpoint: Option<Checkpoint>,
}

/// A guest in memory.
pub(crate) struct Live {
    pub(crate) guest: Box<dyn Guest>,
    /// Its files, if they are on disk.
    pub(crate) disk: Option<Disk>,
    /// The right to keep it, for those in the registry.
    pub(crate) lease: Option<Lease>,
    /// What was read of it and not verified yet.
    pub(crate) verification: Verification,
    /// There is something that isn't on disk.
    pub(crate) changed: bool,
}

impl Slot {
    pub(crate) fn new(
        id: SessionId,
        shared: Arc<Shared>,
        place: Place,
        switch: Arc<Switch>,
        live: Option<Live>,
        registered: bool,
    ) -> Self {
        if let Some(live) = &live {
            switch.lead_to(live.guest.as_ref());
        }
        let cells =
            live.as_ref().and_then(|live| live.lease.as_ref()).map_or(0, |lease| lease.record().cells);
        Self {
            id,
            shared,
            place,
            switch,
            life: live.map_or(Life::Asleep, |live| Life::Live(Box::new(live))),
            cells,
            registered,
            last_code: None,
            held: Vec::new(),
            next_held: 1,
            children: 0,
            used: Instant::now(),
            measured: None,
            rested: None,
            pending: Vec::new(),
            lineage: None,
            host_wrote: false,
        }
    }

    /// Bytes of memory that are its own; looked up anew only if it was used since.
    pub(crate) fn memory(&mut self) -> u64 {
        let Life::Live(live) = &self.life else { return 0 };
        match self.measured {
            Some((at, bytes)) if at >= self.used => bytes,
            _ => {
                let bytes = live.guest.private_memory();
                self.measured = Some((Instant::now(), bytes));
                bytes
            }
        }
    }

    /// Tells the guest that time has passed, once after each use.
    pub(crate) fn rest(&mut self) {
        if let Life::Live(live) = &mut self.life
            && self.rested.is_none_or(|at| at < self.used)
        {
            live.guest.idle();
            self.rested = Some(Instant::now());
            self.measured = None;
        }
    }

    /// Whether the host started something in it that still runs.
    pub(crate) fn is_busy(&mut self) -> bool {
        let Life::Live(live) = &mut self.life else { return false };
        let processes = live.guest.processes().unwrap_or_default();
        processes.iter().any(|process| process.exit_code.is_none())
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self.life, Life::Live(_))
    }

    /// The guest, woken if it slept.
    pub(crate) fn live(&mut self) -> Result<&mut Live, Error> {
        self.used = Instant::now();
        if matches!(self.life, Life::Asleep) {
            self.wake()?;
        }
        match &mut self.life {
            Life::Live(live) => Ok(live),
            Life::Asleep | Life::Closed => Err(Error::Closed { session: self.id.to_string() }),
        }
    }

    fn wake(&mut self) -> Result<(), Error> {
        let lease = self.shared.acquire(&self.id)?;
        let live = wake(&self.shared, &self.place, lease)?;
        self.cells = live.lease.as_ref().map_or(self.cells, |lease| lease.record().cells);
        self.switch.lead_to(live.guest.as_ref());
        self.life = Life::Live(Box::new(live));
        self.shared.keeper.look_again();
        Ok(())
    }

    /// Runs a cell. Its outcome is in the history when this returns.
    pub(crate) fn run(&mut self, request: Request, host: Arc<dyn CellHost>) -> Result<Outcome, Error> {
        let registered = self.registered;
        let code = request.code.clone();
        self.live()?.changed = true;
        // Not before it is awake: another process may have gone on with it.
        let number = self.cells + 1;
        let started_ms = now_ms();
        let cell = Cell { number, file: request.file, code: request.code };
        self.sync_datasets()?;
        let watched = self.begin()?;
        let report = self.with_guest(|guest| guest.run(cell, host));
        drop(watched);
        let mut report = report?;
        self.cells = number;
        self.check_quota(number, &mut report)?;
        self.end(report.state, &mut report.changes, &mut report.notes)?;
        let code = String::from_utf8_lossy(&code);
        let ran = Ran {
            kind: RecordKind::Cell,
            number,
            code: &code,
            started_ms,
            status: report.status,
            tool_calls: report.usage.tool_calls,
            tool_call: request.tool_call,
            state: report.state,
            displays: report.displays.iter().chain(&report.value).cloned().collect(),
        };
        let (artifacts, refused) = self.keep(&ran, &mut report.changes);
        report.notes.append(&mut self.pending);
        report.usage.file_bytes += self.disk_bytes();
        let mut outcome = Outcome::new(report, self.id.to_string(), number);
        (outcome.artifacts, outcome.artifacts_refused) = (artifacts, refused);
        outcome.datasets = self.place.kept.as_ref().map(|kept| kept.uses()).unwrap_or_default();
        self.last_code = Some(excerpt(&code));
        self.used = Instant::now();
        if registered {
            let entry = HistoryEntry {
                number,
                kind: "cell".to_owned(),
                code: code.to_string(),
                started_ms,
                wall_ms: outcome.usage.wall_ms,
                outcome: Some(self.with_record(to_history(&outcome), &code)),
                note: None,
            };
            if let Err(error) = self.append_history(&entry) {
                // The cell ran, and its outcome is what counts.
                tracing::error!(session = %self.id, %error, "a cell is missing from the history");
            }
            self.commit_if_each()?;
        }
        Ok(outcome)
    }

    pub(super) fn commit_if_each(&mut self) -> Result<(), Error> {
        if self.registered && self.shared.commits_each_cell() { self.commit() } else { Ok(()) }
    }

    /// The engine that runs it.
    pub(crate) fn engine(&mut self) -> Result<Arc<dyn Engine>, Error> {
        let environment = match &self.live()?.lease {
            Some(lease) => lease.record().environment.clone(),
            None => return Ok(Arc::clone(&self.shared.engine)),
        };
        self.shared.engine_for(&environment)
    }

    /// Does something with the guest, woken if it slept. If that ends the guest, the session knows.
    pub(crate) fn with_guest<T>(
        &mut self,
        body: impl FnOnce(&mut dyn Guest) -> Result<T, EngineError>,
    ) -> Result<T, Error> {
        let done = body(self.live()?.guest.as_mut());
        done.map_err(|error| self.lose(error))
    }

    /// The guest failed. One in the registry goes on from what is on disk; another is over if its guest is gone.
    fn lose(&mut self, error: EngineError) -> Error {
        if matches!(error, EngineError::Gone(_)) {
            self.switch.lead_nowhere();
            self.life = if self.registered { Life::Asleep } else { Life::Closed };
        }
        error.into()
    }

    /// Makes the last cell's effects final.
    pub(crate) fn settle(&mut self) {
        if let Life::Live(live) = &mut self.life {
            live.guest.settle();
            if let Some(disk) = &mut live.disk {
                disk.settle();
            }
        }
    }

    /// Puts the state on disk, durably. The session stays awake.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        let cells = self.cells;
        match &self.life {
            Life::Live(live) if live.lease.is_none() => return Err(Error::NotRegistered),
            Life::Live(live) if live.changed => {}
            _ => return Ok(()),
        }
        let snapshot = self.with_guest(|guest| guest.snapshot())?;
        let on_disk = self.disk_bytes();
        let live = self.live()?;
        live.verification.finish()?;
        if let Some(disk) = &live.disk {
            disk.sync()?;
        }
        let Some(lease) = &mut live.lease else { return Err(Error::NotRegistered) };
        let tag = lease.commit(&snapshot.save()?, facts(cells, snapshot.as_ref(), on_disk))?;
        snapshot.set_stored(tag);
        live.changed = false;
        Ok(())
    }

    /// Puts the session to sleep. Says whether it was awake.
    pub(crate) fn hibernate(&mut self) -> Result<bool, Error> {
        if !self.registered {
            return Err(Error::NotRegistered);
        }
        if !self.is_live() {
            return Ok(false);
        }
        self.commit()?;
        self.switch.lead_nowhere();
        self.life = Life::Asleep;
        Ok(true)
    }

    /// Keeps the session as it is now.
    pub(crate) fn checkpoint(&mut self, name: Option<&str>) -> Result<Checkpoint, Error> {
        if let Some(name) = name {
            check_name(name)?;
        }
        self.live()?;
        let (cells, code) = (self.cells, self.last_code());
        let snapshot = self.with_guest(|guest| guest.snapshot())?;
        let on_disk = self.disk_bytes();
        let live = self.live()?;
        if let Some(lease) = &mut live.lease {
            live.verification.finish()?;
            let saved = snapshot.save()?;
            // The contents before the record that names them.
            let files = live.disk.as_mut().map(Disk::keep).transpose()?;
            let facts = facts(cells, snapshot.as_ref(), on_disk);
            let note =
                CheckpointNote { name: name.map(str::to_owned), cell: cells, code_excerpt: code, files };
            let (record, tag) = lease.checkpoint(&saved, facts, note)?;
            let about = Checkpoint::from(&record);
            snapshot.set_stored(tag);
            return Ok(about);
        }
        if let Some(name) = name
            && self.held.iter().any(|held| held.about.name.as_deref() == Some(name))
        {
            return Err(Error::CheckpointTaken { name: name.to_owned() });
        }
        let files = self.live()?.disk.as_mut().map(Disk::moment).transpose()?;
        let about = Checkpoint {
            number: self.next_held,
            name: name.map(str::to_owned),
            created_ms: now_ms(),
            cell: cells,
            code,
            bytes: snapshot.memory_bytes() + snapshot.file_bytes() + files.as_ref().map_or(0, Files::bytes),
        };
        self.next_held += 1;
        self.held.push(HeldCheckpoint { about: about.clone(), snapshot, files });
        if self.held.len() > MOST_HELD {
            self.held.remove(0);
        }
        Ok(about)
    }

    /// The beginning of the last cell's code. Another process may have run it.
    fn last_code(&mut self) -> Option<String> {
        if self.last_code.is_none() && self.registered && self.cells > 0 {
            let keeping = self.shared.keeping().ok()?;
            let history = keeping.store.history(&keeping.tenant, &self.id).ok()?;
            let last = history.entries.iter().rev().find(|entry| entry.kind == "cell");
            self.last_code = last.map(|entry| excerpt(&entry.code));
        }
        self.last_code.clone()
    }

    /// Its checkpoints, the oldest first.
    pub(crate) fn checkpoints(&mut self) -> Result<Vec<Checkpoint>, Error> {
        if !self.registered {
            return Ok(self.held.iter().map(|held| held.about.clone()).collect());
        }
        if let Life::Live(live) = &self.life
            && let Some(lease) = &live.lease
        {
            return Ok(lease.record().checkpoints.iter().map(Checkpoint::from).collect());
        }
        let keeping = self.shared.keeping()?;
        let record = keeping.store.record(&keeping.tenant, &self.id)?;
        Ok(record.checkpoints.iter().map(Checkpoint::from).collect())
    }

    pub(crate) fn delete_checkpoint(&mut self, which: &Which) -> Result<(), Error> {
        let number = self.find(which)?.number;
        self.held.retain(|held| held.about.number != number);
        if !self.registered {
            return Ok(());
        }
        let live = self.live()?;
        if let Some(lease) = &mut live.lease {
            let list = |lease: &Lease, other: bool| {
                let found =
                    lease.record().checkpoints.iter().filter(|point| (point.number != number) == other);
                found.filter_map(|point| point.files.clone()).collect::<Vec<_>>()
            };
            let (own, others) = (list(lease, false), list(lease, true));
            lease.delete_checkpoint(number)?;
            // Two checkpoints of the same files have one list.
            for name in own.iter().filter(|name| !others.contains(name)) {
                if let Some(disk) = &live.disk {
                    disk.forget(name)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the session what it was at a checkpoint.
    pub(crate) fn roll_back(&mut self, which: &Which) -> Result<Checkpoint, Error> {
        let checkpoint = self.find(which)?;
        let snapshot = self.snapshot_of(checkpoint.number)?;
        let files = self.files_of(checkpoint.number)?;
        self.with_guest(|guest| guest.roll_back_to(snapshot.as_ref()))?;
        let live = self.live()?;
        live.changed = true;
        let missing = match (&mut live.disk, &files) {
            (Some(disk), Some(files)) => disk.restore(files)?,
            _ => None,
        };
        let (number, cell) = (checkpoint.number, checkpoint.cell);
        self.note("rollback", rollback_note(number, cell))?;
        if let Some(lineage) = &mut self.lineage {
            lineage.roll_back(cell);
        }
        self.mark_taken_back(cell + 1..=u32::MAX);
        self.commit_if_each()?;
        missing.map_or(Ok(checkpoint), |note| Err(Error::NotPutBack { note }))
    }

    /// What children start from: the state now, or a checkpoint.
    pub(crate) fn parent_snapshot(&mut self, which: Option<&Which>) -> Result<Ancestor, Error> {
        let Some(which) = which else {
            let snapshot = self.with_guest(|guest| guest.snapshot())?;
            return Ok(Ancestor { snapshot, files: None, checkpoint: None });
        };
        let checkpoint = self.find(which)?;
        let (snapshot, files) = (self.snapshot_of(checkpoint.number)?, self.files_of(checkpoint.number)?);
        Ok(Ancestor { snapshot, files, checkpoint: Some(checkpoint) })
    }

    /// The files on disk of a checkpoint.
    fn files_of(&mut self, number: u32) -> Result<Option<Files>, Error> {
        if let Some(held) = self.held.iter().find(|held| held.about.number == number) {
            return Ok(held.files.clone());
        }
        let live = self.live()?;
        let (Some(lease), Some(disk)) = (&live.lease, &live.disk) else { return Ok(None) };
        let record = lease.record().checkpoints.iter().find(|point| point.number == number);
        record.and_then(|point| point.files.as_deref()).map(|name| disk.kept(name)).transpose()
    }

    fn snapshot_of(&mut self, number: u32) -> Result<Arc<dyn Snapshot>, Error> {
        if let Some(held) = self.held.iter().find(|held| held.about.number == number) {
            return Ok(Arc::clone(&held.snapshot));
        }
        let shared = Arc::clone(&self.shared);
        let live = self.live()?;
        let Some(lease) = &live.lease else { return Err(Error::NotRegistered) };
        let environment = lease.record().environment.clone();
        let Loaded { guest, unverified, .. } = lease.load_checkpoint(number)?;
        let snapshot = shared.engine_for(&environment)?.restore(guest)?;
        // It may be gone back to, and then be committed: no byte of it may be wrong.
        live.verification.add(unverified);
        Ok(snapshot)
    }

    /// Takes back the last cells.
    pub(crate) fn undo(&mut self, cells: usize) -> Result<Vec<u32>, Error> {
        let mut undone = self.with_guest(|guest| guest.undoable())?;
        let kept = self.undoable()?.len();
        if kept < cells && cells <= undone.len() {
            let reason = format!(
                "the files are on disk, and those of {kept} cells can be put back: of cells before the session was last woken \
                 they are not kept"
            );
            return Err(EngineError::Undo(reason).into());
        }
        self.with_guest(|guest| guest.undo(cells))?;
        self.live()?.changed |= cells > 0;
        undone.truncate(cells);
        let missing = match (undone.last(), &mut self.live()?.disk) {
            (Some(first), Some(disk)) => disk.undo(*first)?,
            _ => None,
        };
        if let Some(first) = undone.last() {
            let (first, last) = (*first, undone[0]);
            self.note("undo", undo_note(first, last))?;
            if let Some(lineage) = &mut self.lineage {
                lineage.undo(first);
            }
            self.mark_taken_back(first..=last);
            self.commit_if_each()?;
        }
        missing.map_or(Ok(undone), |note| Err(Error::NotPutBack { note }))
    }

    /// Numbers of the cells that can be taken back, the last one first.
    pub(crate) fn undoable(&mut self) -> Result<Vec<u32>, Error> {
        let mut cells = self.with_guest(|guest| guest.undoable())?;
        if let Some(disk) = &mut self.live()?.disk {
            let kept = disk.undoable();
            let gap = cells.iter().position(|cell| !kept.contains(cell)).unwrap_or(cells.len());
            cells.truncate(gap);
        }
        Ok(cells)
    }

    /// A child in the registry, which has all that the committed state or the checkpoint has from its first
    /// moment on.
    pub(crate) fn fork_on_disk(&mut self, id: &SessionId, from: Option<&Checkpoint>) -> Result<Lease, Error> {
        let moment = from.map_or(Moment::Head, |checkpoint| Moment::Checkpoint(checkpoint.number));
        match &self.live()?.lease {
            Some(lease) => Ok(lease.fork(moment, Some(id.clone()))?),
            None => Err(Error::NotRegistered),
        }
    }

    /// Ends the session and forgets all that was kept of it.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        let lease = match std::mem::replace(&mut self.life, Life::Closed) {
            Life::Live(live) => live.lease,
            Life::Asleep => Some(self.shared.acquire(&self.id)?),
            Life::Closed => None,
        };
        self.switch.lead_nowhere();
        self.held.clear();
        lease.map_or(Ok(()), |lease| lease.close())?;
        self.leave()
    }

    /// What becomes of the directory of a session that is over: that of one with a name stays, for people.
    fn leave(&self) -> Result<(), Error> {
        if self.place.kept.is_some() {
            self.shared.kept.clear(&self.id);
        }
        if !is_on_disk(&self.place.workspace) {
            return Ok(());
        }
        let workspaces = self.shared.workspaces(&self.place.workspace)?;
        if self.registered { workspaces.forget(&self.id) } else { workspaces.remove(&self.id) }
    }

    /// Writes an event into the history.
    pub(crate) fn note(&mut self, kind: &str, note: String) -> Result<(), Error> {
        let entry = HistoryEntry {
            number: self.cells,
            kind: kind.to_owned(),
            code: String::new(),
            started_ms: now_ms(),
            wall_ms: 0.0,
            outcome: None,
            note: Some(note),
        };
        self.append_history(&entry)
    }

    pub(super) fn append_history(&mut self, entry: &HistoryEntry) -> Result<(), Error> {
        match &mut self.life {
            Life::Live(live) => live.lease.as_mut().map_or(Ok(()), |lease| Ok(lease.append_history(entry)?)),
            Life::Asleep | Life::Closed => Ok(()),
        }
    }

    fn find(&mut self, which: &Which) -> Result<Checkpoint, Error> {
        let all = self.checkpoints()?;
        which
            .find(all.iter())
            .cloned()
            .ok_or_else(|| Error::NoCheckpoint { session: self.id.to_string(), which: which.to_string() })
    }
}

impl Slot {
    /// Nobody uses it any more. Whoever lets go of a session that has a name wants to find it again.
    pub(crate) fn let_go(&mut self) {
        if self.registered
            && self.is_live()
            && let Err(error) = self.hibernate()
        {
            tracing::error!(session = %self.id, %error, "a session could not be kept");
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.let_go();
        if !self.registered && !matches!(self.life, Life::Closed) {
            self.life = Life::Closed;
            if let Err(error) = self.leave() {
                tracing::error!(session = %self.id, %error, "a workspace could not be removed");
            }
        }
    }
}

/// Wakes what a lease is for.
fn wake(shared: &Arc<Shared>, place: &Place, lease: Lease) -> Result<Live, Error> {
    let spec = &place.spec;
    let engine = shared.engine_for(&lease.record().environment)?;
    // Before anything is booted: it may be gone.
    let disk = shared.disk(&lease.record().id, place, engine.name())?;
    check_layers(engine.as_ref(), spec)?;
    let mut verification = Verification::default();
    let guest = match lease.load()? {
        Some(Loaded { guest, unverified, .. }) => {
            let snapshot = engine.restore(guest)?;
            let guest = engine.resume(snapshot.as_ref(), Arc::clone(spec), Descent::Same)?;
            verification.add(unverified);
            guest
        }
        // It was made and never used.
        None => engine.boot(Arc::clone(spec))?,
    };
    Ok(Live { guest, disk, lease: Some(lease), verification, changed: false })
}

fn facts(cells: u32, snapshot: &dyn Snapshot, on_disk: u64) -> Facts {
    Facts { cells, memory_bytes: snapshot.memory_bytes(), file_bytes: snapshot.file_bytes() + on_disk }
}

fn excerpt(code: &str) -> String {
    let end = code.floor_char_boundary(EXCERPT.min(code.len()));
    code[..end].to_owned()
}

fn to_history(outcome: &Outcome) -> serde_json::Value {
    let whole = serde_json::to_value(outcome).unwrap_or_default();
    let values =
        outcome.displays.iter().chain(&outcome.value).map(|value| value.data.bytes() + value.text.len());
    let files = [&outcome.files_created, &outcome.files_modified, &outcome.files_deleted, &outcome.notes];
    let texts = [&outcome.stdout, &outcome.stderr].into_iter().chain(files.into_iter().flatten());
    let roughly = values.sum::<usize>() + texts.map(|text| text.len() + 8).sum::<usize>();
    // A byte is at most six in JSON; tracebacks are short.
    let surely_short = roughly < LONGEST_OUTCOME / 8 && outcome.exception.is_none();
    if surely_short { whole } else { bounded(whole) }
}

/// An outcome that isn't too long for the history.
pub(super) fn bounded(mut whole: serde_json::Value) -> serde_json::Value {
    if whole.to_string().len() <= LONGEST_OUTCOME {
        return whole;
    }
    // The figures stay; what was shown is too much to be read again.
    for (name, field) in whole.as_object_mut().into_iter().flatten() {
        match name.as_str() {
            "value" => *field = serde_json::Value::Null,
            "displays" | "files_created" | "files_modified" | "files_deleted" | "notes" => {
                *field = serde_json::Value::Array(Vec::new());
            }
            "files_truncated" => *field = true.into(),
            "stdout" | "stderr" => *field = excerpt(field.as_str().unwrap_or_default()).into(),
            _ => {}
        }
    }
    if whole.to_string().len() > LONGEST_OUTCOME {
        whole["exception"] = serde_json::Value::Null;
    }
    whole
}

fn check_name(name: &str) -> Result<(), Error> {
    let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    if name.is_empty() || name.len() > 64 || digits || name == "latest" || name.chars().any(char::is_control)
    {
        return Err(Error::CheckpointName { name: name.to_owned() });
    }
    Ok(())
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
