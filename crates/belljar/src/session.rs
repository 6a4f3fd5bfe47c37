//! One interpreter with its variables and files.

mod commands;
mod disk;
mod ingest;
mod interrupts;
mod kept;
mod lineage;
mod slot;
mod slot_files;
mod verification;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use belljar_engine::{
    CellHost, Descent, Engine, Event, FileDoor, FileError, FileOp, FileReply, Interrupter, ToolCall,
    ToolReply,
};
use belljar_store::SessionId;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, oneshot};

pub use self::commands::SessionDescription;
pub(crate) use self::disk::{Disk, is_on_disk};
pub(crate) use self::ingest::displayed;
pub(crate) use self::interrupts::Switch;
pub(crate) use self::kept::{Kept, KeptPlaces, SHELF, shelves_of};
pub(crate) use self::lineage::Lineage;
pub(crate) use self::slot::now_ms;
pub(crate) use self::slot::{Ancestor, Life, Live, Place, Slot};
pub(crate) use self::verification::Verification;
use crate::cell::{CellLife, InterruptOnDrop};
use crate::events::EventQueue;
use crate::history::History;
use crate::registry::export;
use crate::sandbox::Shared;
use crate::tool::ToolTable;
use crate::{Checkpoint, DatasetUse, Error, Files, Outcome, Request, RunningCell, Staged, Which};

/// One interpreter with its variables and files. It runs one cell at a time; further ones wait their turn.
///
/// Dropping a session that was made by [`Sandbox::session`](crate::Sandbox::session) ends it. One that is in
/// the registry is put to sleep by that, and can be opened again.
///
/// The functions with `_blocking` in their name must not be called from async code; the others need a
/// tokio runtime.
pub struct Session {
    id: SessionId,
    slot: Arc<Mutex<Slot>>,
    switch: Arc<Switch>,
    tools: Arc<ToolTable>,
    shared: Arc<Shared>,
    place: Place,
}

impl Session {
    pub(crate) fn new(slot: Slot) -> Self {
        let (id, switch, shared) = (slot.id.clone(), Arc::clone(&slot.switch), Arc::clone(&slot.shared));
        let (registered, place) = (slot.registered, slot.place.clone());
        let tools = Arc::clone(&shared.tools);
        let session = Self { id, switch, tools, slot: Arc::new(Mutex::new(slot)), shared, place };
        if registered {
            session.shared.keeper.add(&session.slot);
        }
        if is_on_disk(&session.place.workspace) {
            watch_quota(&session.slot);
        }
        session
    }

    /// Its name.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Runs code to its end. Dropping the future interrupts the cell.
    pub async fn run(&self, request: impl Into<Request>) -> Result<Outcome, Error> {
        let request = request.into();
        let (receiver, mut stop) = self.start_with(None, |slot, host| slot.run(request, host)).await;
        let outcome = receiver.await.unwrap_or(Err(Error::Abandoned));
        stop.armed = false;
        outcome
    }

    /// Starts code and returns at once; its events can be heard while it runs.
    pub async fn start(&self, request: impl Into<Request>) -> RunningCell {
        let (request, events) = (request.into(), Arc::new(EventQueue::default()));
        let heard = Some(Arc::clone(&events));
        let (outcome, stop) = self.start_with(heard, |slot, host| slot.run(request, host)).await;
        RunningCell { events, outcome, stop }
    }

    /// Runs code to its end on this thread.
    pub fn run_blocking(&self, request: impl Into<Request>) -> Result<Outcome, Error> {
        self.run_observed_blocking(request, |_| ())
    }

    /// Runs code to its end on this thread and hears its events meanwhile.
    pub fn run_observed_blocking(
        &self,
        request: impl Into<Request>,
        observer: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Outcome, Error> {
        self.slot.blocking_lock().run(request.into(), self.host(observer))
    }

    /// Asks the running cell or command to stop: by a `KeyboardInterrupt` or a signal first, hard if it doesn't give
    /// way. The variables stay. Does nothing between cells. Can be called from any thread.
    pub fn interrupt(&self) {
        self.switch.interrupt();
    }

    /// Something that interrupts this session's cells and can be kept elsewhere, e.g. by a signal handler.
    pub fn interrupter(&self) -> Arc<dyn Fn() + Send + Sync> {
        let switch = Arc::clone(&self.switch);
        Arc::new(move || switch.interrupt())
    }

    /// Makes the last cell's effects final now instead of before the next one. The async functions do so by
    /// themselves, after the outcome is there.
    pub fn settle_blocking(&self) {
        self.slot.blocking_lock().settle();
    }

    /// The session's files: to read, write, find and watch them from outside, also while a cell runs where the engine
    /// can.
    pub fn files(&self) -> Result<Files, Error> {
        let workspace = &self.place.workspace;
        if is_on_disk(workspace) {
            let workspaces = self.shared.workspaces(workspace)?;
            return workspaces.files_and_shelf(&self.id, &self.place.policy(), self.place.shelf());
        }
        let door = SlotDoor { slot: Arc::clone(&self.slot), switch: Arc::clone(&self.switch) };
        Ok(Files::new(Arc::new(door), self.place.spec.workspace.clone(), None))
    }

    /// Where its files are on the host, if they are on disk.
    pub fn directory(&self) -> Option<PathBuf> {
        let workspace = &self.place.workspace;
        let workspaces = is_on_disk(workspace).then(|| self.shared.workspaces(workspace).ok()).flatten();
        workspaces.map(|workspaces| workspaces.thread(&self.id))
    }

    /// Where it sees its workspace.
    pub fn workspace_path(&self) -> &str {
        &self.place.spec.workspace
    }

    /// Fetches a dataset, unless that was done, and stages it into the session: it is there as `data/{file}`, read-only,
    /// shared with all sessions that have it. The policy says whether it may be.
    pub async fn stage(&self, dataset: &str, version: Option<&str>) -> Result<Staged, Error> {
        let (dataset, version) = (dataset.to_owned(), version.map(str::to_owned));
        let (slot, place) = (Arc::clone(&self.slot), self.place.clone());
        tokio::task::spawn_blocking(move || stage(&slot, &place, &dataset, version.as_deref()))
            .await
            .unwrap_or(Err(Error::Abandoned))
    }

    /// [`Session::stage`] without async.
    pub fn stage_blocking(&self, dataset: &str, version: Option<&str>) -> Result<Staged, Error> {
        stage(&self.slot, &self.place, dataset, version)
    }

    /// Stages a dataset as it once was.
    pub(crate) fn restage(&self, wanted: &DatasetUse) -> Result<(), Error> {
        self.place.kept.as_ref().ok_or(Error::NotStaged)?.restage(wanted)
    }

    /// Takes a dataset out of the session. Says whether it was there.
    pub fn unstage_blocking(&self, dataset: &str) -> Result<bool, Error> {
        self.place.kept.as_ref().ok_or(Error::NotStaged)?.unstage(dataset)
    }

    /// The datasets that were staged into the session.
    pub fn staged_blocking(&self) -> Result<Vec<Staged>, Error> {
        self.place.kept.as_ref().map_or(Ok(Vec::new()), |kept| kept.staged())
    }

    /// Puts a file into the session, at an absolute guest path or one below the workspace.
    pub async fn write_file(&self, path: &str, contents: &[u8]) -> Result<(), Error> {
        let (path, contents) = (path.to_owned(), contents.to_vec());
        self.in_background(move |slot| slot.write_file(&path, &contents)).await
    }

    /// [`Session::write_file`] without async.
    pub fn write_file_blocking(&self, path: &str, contents: &[u8]) -> Result<(), Error> {
        self.slot.blocking_lock().write_file(path, contents)
    }

    /// Reads a file of the session.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>, Error> {
        let path = path.to_owned();
        self.in_background(move |slot| slot.read_file(&path)).await
    }

    /// [`Session::read_file`] without async.
    pub fn read_file_blocking(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.slot.blocking_lock().read_file(path)
    }

    /// Keeps the session as it is now: variables and files. A name is optional; there is always a number.
    ///
    /// Of a session in the registry the checkpoint is on disk when this returns; else it lives with the session.
    pub async fn checkpoint(&self, name: Option<&str>) -> Result<Checkpoint, Error> {
        let name = name.map(str::to_owned);
        self.in_background(move |slot| slot.checkpoint(name.as_deref())).await
    }

    /// [`Session::checkpoint`] without async.
    pub fn checkpoint_blocking(&self, name: Option<&str>) -> Result<Checkpoint, Error> {
        self.slot.blocking_lock().checkpoint(name)
    }

    /// Its checkpoints, the oldest first.
    pub async fn checkpoints(&self) -> Result<Vec<Checkpoint>, Error> {
        self.in_background(Slot::checkpoints).await
    }

    /// [`Session::checkpoints`] without async.
    pub fn checkpoints_blocking(&self) -> Result<Vec<Checkpoint>, Error> {
        self.slot.blocking_lock().checkpoints()
    }

    /// Forgets a checkpoint.
    pub async fn delete_checkpoint(&self, which: impl Into<Which>) -> Result<(), Error> {
        let which = which.into();
        self.in_background(move |slot| slot.delete_checkpoint(&which)).await
    }

    /// [`Session::delete_checkpoint`] without async.
    pub fn delete_checkpoint_blocking(&self, which: impl Into<Which>) -> Result<(), Error> {
        self.slot.blocking_lock().delete_checkpoint(&which.into())
    }

    /// Makes the session what it was at a checkpoint: variables, files, open files, randomness. The
    /// checkpoints stay, later ones too. Read-write mounts are outside.
    pub async fn rollback(&self, which: impl Into<Which>) -> Result<Checkpoint, Error> {
        let which = which.into();
        self.in_background(move |slot| slot.roll_back(&which)).await
    }

    /// [`Session::rollback`] without async.
    pub fn rollback_blocking(&self, which: impl Into<Which>) -> Result<Checkpoint, Error> {
        self.slot.blocking_lock().roll_back(&which.into())
    }

    /// Takes back the last so many cells that ended well, and says which; with them go files that the host wrote
    /// since. If there aren't so many any more, nothing changes. [`Policy::undo`](crate::Policy::undo) says how many are kept.
    pub async fn undo(&self, cells: usize) -> Result<Vec<u32>, Error> {
        self.in_background(move |slot| slot.undo(cells)).await
    }

    /// [`Session::undo`] without async.
    pub fn undo_blocking(&self, cells: usize) -> Result<Vec<u32>, Error> {
        self.slot.blocking_lock().undo(cells)
    }

    /// Numbers of the cells that can be taken back, the last one first.
    pub async fn undoable(&self) -> Result<Vec<u32>, Error> {
        self.in_background(Slot::undoable).await
    }

    /// [`Session::undoable`] without async.
    pub fn undoable_blocking(&self) -> Result<Vec<u32>, Error> {
        self.slot.blocking_lock().undoable()
    }

    /// So many children that start from the session as it is now and then go their own ways: variables, files
    /// and open files are copies, randomness is their own. Children of a session in the registry are there too.
    pub async fn fork(&self, children: usize) -> Result<Vec<Session>, Error> {
        self.in_background(move |slot| fork(slot, None, &vec![None; children])).await
    }

    /// [`Session::fork`] without async.
    pub fn fork_blocking(&self, children: usize) -> Result<Vec<Session>, Error> {
        fork(&mut self.slot.blocking_lock(), None, &vec![None; children])
    }

    /// Children of a checkpoint.
    pub async fn fork_from(&self, which: impl Into<Which>, children: usize) -> Result<Vec<Session>, Error> {
        let which = which.into();
        self.in_background(move |slot| fork(slot, Some(&which), &vec![None; children])).await
    }

    /// [`Session::fork_from`] without async.
    pub fn fork_from_blocking(
        &self,
        which: impl Into<Which>,
        children: usize,
    ) -> Result<Vec<Session>, Error> {
        fork(&mut self.slot.blocking_lock(), Some(&which.into()), &vec![None; children])
    }

    /// A child with a name, for sessions in the registry; of a checkpoint, or of the session as it is now.
    pub fn fork_named_blocking(&self, which: Option<Which>, name: &str) -> Result<Session, Error> {
        let name = SessionId::parse(name)?;
        let mut slot = self.slot.blocking_lock();
        if !slot.registered {
            return Err(Error::NotRegistered);
        }
        fork(&mut slot, which.as_ref(), &[Some(name)])?.pop().ok_or(Error::Abandoned)
    }

    /// Puts the session to sleep on disk, where it needs no memory; the next use wakes it. It is durable when
    /// this returns. Only sessions in the registry can sleep. Says whether it was awake.
    pub async fn hibernate(&self) -> Result<bool, Error> {
        self.in_background(Slot::hibernate).await
    }

    /// [`Session::hibernate`] without async.
    pub fn hibernate_blocking(&self) -> Result<bool, Error> {
        self.slot.blocking_lock().hibernate()
    }

    /// Puts the state on disk, durably, and stays awake.
    pub fn commit_blocking(&self) -> Result<(), Error> {
        self.slot.blocking_lock().commit()
    }

    /// Wakes the session now instead of at its next use.
    pub async fn wake(&self) -> Result<(), Error> {
        self.in_background(|slot| slot.live().map(|_| ())).await
    }

    /// [`Session::wake`] without async.
    pub fn wake_blocking(&self) -> Result<(), Error> {
        self.slot.blocking_lock().live().map(|_| ())
    }

    /// Whether it is in memory. Waits for the running cell.
    pub fn is_live_blocking(&self) -> bool {
        self.slot.blocking_lock().is_live()
    }

    /// The cells that were run, with their outcomes, and what else happened. For sessions in the registry.
    pub fn history_blocking(&self) -> Result<History, Error> {
        let slot = self.slot.blocking_lock();
        if !slot.registered {
            return Err(Error::NotRegistered);
        }
        let keeping = self.shared.keeping()?;
        Ok(History::new(keeping.store.history(&keeping.tenant, &self.id)?, slot.cells))
    }

    /// Writes the session, its checkpoints and its history into one file. For sessions in the registry.
    pub fn export_blocking(&self, to: &Path) -> Result<u64, Error> {
        let mut slot = self.slot.blocking_lock();
        slot.live()?;
        slot.commit()?;
        match &slot.live()?.lease {
            Some(lease) => export(&self.shared.keeping()?.store, lease, to),
            None => Err(Error::NotRegistered),
        }
    }

    /// Ends the session and forgets all that was kept of it: state, checkpoints, history.
    pub async fn close(self) -> Result<(), Error> {
        self.in_background(Slot::close).await
    }

    /// [`Session::close`] without async.
    pub fn close_blocking(self) -> Result<(), Error> {
        self.slot.blocking_lock().close()
    }

    /// Bytes of memory that are this session's own; none while it sleeps. Waits for the running cell.
    pub fn private_memory_blocking(&self) -> u64 {
        match &self.slot.blocking_lock().life {
            Life::Live(live) => live.guest.private_memory(),
            Life::Asleep | Life::Closed => 0,
        }
    }

    /// Does something that blocks on a thread that may.
    async fn in_background<T: Send + 'static>(
        &self,
        body: impl FnOnce(&mut Slot) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let mut slot = Arc::clone(&self.slot).lock_owned().await;
        tokio::task::spawn_blocking(move || body(&mut slot)).await.unwrap_or(Err(Error::Abandoned))
    }

    /// The host's side of a cell on this thread.
    fn host(&self, observer: impl Fn(Event) + Send + Sync + 'static) -> Arc<dyn CellHost> {
        let (tools, kept) = (Arc::clone(&self.tools), self.place.kept.clone());
        Arc::new(Host { tools, kept, runtime: None, life: Arc::default(), observer })
    }

    async fn start_with<O: Send + 'static>(
        &self,
        events: Option<Arc<EventQueue>>,
        body: impl FnOnce(&mut Slot, Arc<dyn CellHost>) -> Result<O, Error> + Send + 'static,
    ) -> (oneshot::Receiver<Result<O, Error>>, InterruptOnDrop) {
        let slot = Arc::clone(&self.slot).lock_owned().await;
        let (sender, receiver) = oneshot::channel();
        let life = Arc::new(CellLife::default());
        let heard = events.clone();
        let observer = move |event| {
            if let Some(events) = &heard {
                events.push(event);
            }
        };
        let host = Host {
            tools: Arc::clone(&self.tools),
            kept: self.place.kept.clone(),
            runtime: Handle::try_current().ok(),
            life: Arc::clone(&life),
            observer,
        };
        let interrupter: Arc<dyn Interrupter> = Arc::clone(&self.switch) as _;
        let stop = InterruptOnDrop { interrupter, life: Arc::clone(&life), armed: true };
        tokio::task::spawn_blocking(move || {
            let mut slot = slot;
            let outcome = body(&mut slot, Arc::new(host));
            life.end();
            if let Some(events) = events {
                events.close();
            }
            // The caller has its answer before the cell's effects are made final.
            let _ = sender.send(outcome);
            slot.settle();
        });
        (receiver, stop)
    }
}

/// It is on disk when this is done, unless a cell of it still runs: then it is when that has ended.
impl Drop for Session {
    fn drop(&mut self) {
        // The keeper may look at it for a moment, and would otherwise be the last to let go.
        for _ in 0..100 {
            if let Ok(mut slot) = self.slot.try_lock() {
                return slot.let_go();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Looks now and then whether something in the background fills a session's disk, as long as there is the session.
fn watch_quota(slot: &Arc<Mutex<Slot>>) {
    const PAUSE: Duration = Duration::from_millis(250);
    let slot = Arc::downgrade(slot);
    let look = move || {
        loop {
            std::thread::sleep(PAUSE);
            let Some(slot) = slot.upgrade() else { return };
            // While something runs that was asked for, others look.
            if let Ok(mut slot) = slot.try_lock() {
                slot.check_background();
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("belljar-quota".to_owned()).spawn(look) {
        tracing::error!(%error, "the size of a workspace is not watched between cells");
    }
}

/// Stages a dataset. While a cell runs it is on the shelf at once, and in `data/` before the next.
fn stage(slot: &Mutex<Slot>, place: &Place, dataset: &str, version: Option<&str>) -> Result<Staged, Error> {
    let staged = place.kept.as_ref().ok_or(Error::NotStaged)?.stage(dataset, version)?;
    if let Ok(mut slot) = slot.try_lock()
        && slot.is_live()
    {
        slot.sync_datasets()?;
    }
    Ok(staged)
}

/// A way to the files of a session whose workspace is in memory: around the running cell if the engine can, else
/// after it.
struct SlotDoor {
    slot: Arc<Mutex<Slot>>,
    switch: Arc<Switch>,
}

impl FileDoor for SlotDoor {
    fn file(&self, operation: FileOp) -> Result<FileReply, FileError> {
        let Some(door) = self.switch.door() else { return self.slot.blocking_lock().file(operation) };
        // Between cells the engine is told of a change, so that it belongs to no cell.
        match self.slot.try_lock() {
            Ok(mut slot) if operation.changes() => slot.file(operation),
            _ => door.file(operation),
        }
    }
}

/// Children of a session, one for each name or missing name.
fn fork(slot: &mut Slot, which: Option<&Which>, names: &[Option<SessionId>]) -> Result<Vec<Session>, Error> {
    let ancestor = slot.parent_snapshot(which)?;
    if slot.registered {
        // So that children share with it on disk, and only what is right.
        slot.commit()?;
        slot.live()?.verification.finish()?;
    }
    let engine = slot.engine()?;
    let mut children: Vec<Slot> = Vec::with_capacity(names.len());
    for name in names {
        let id = name.clone().unwrap_or_else(SessionId::generate);
        match make_child(slot, id, engine.as_ref(), &ancestor) {
            Ok(child) => children.push(child),
            Err(error) => {
                // All or none: nobody would know of those that were made.
                for mut child in children {
                    let _ = child.close();
                }
                return Err(error);
            }
        }
    }
    Ok(children.into_iter().map(Session::new).collect())
}

fn make_child(
    parent: &mut Slot,
    id: SessionId,
    engine: &dyn Engine,
    ancestor: &Ancestor,
) -> Result<Slot, Error> {
    let shared = Arc::clone(&parent.shared);
    let mut ancestors = parent.place.kept.as_ref().map(|kept| kept.ancestors.clone()).unwrap_or_default();
    ancestors.push(parent.id.to_string());
    let granted = Arc::clone(&parent.place.granted);
    let place = shared.place_of(&id, Arc::clone(&parent.place.base), granted, now_ms(), ancestors)?;
    if let (Some(own), Some(its)) = (&parent.place.kept, &place.kept) {
        own.hand_down(its)?;
    }
    // A name that is taken is found before anything is written under it.
    if parent.registered {
        shared.check_free(&id)?;
    }
    if let Some(disk) = &mut parent.live()?.disk {
        disk.copy_to(&id, ancestor.files.as_ref())?;
    }
    let made = make_guest(parent, &id, engine, ancestor, &place);
    if made.is_err() && place.kept.is_some() {
        shared.kept.clear(&id);
    }
    if made.is_err() && is_on_disk(&place.workspace) {
        let _ = shared.workspaces(&place.workspace)?.remove(&id);
    }
    made
}

fn make_guest(
    parent: &mut Slot,
    id: &SessionId,
    engine: &dyn Engine,
    ancestor: &Ancestor,
    place: &Place,
) -> Result<Slot, Error> {
    let Ancestor { snapshot, checkpoint, .. } = ancestor;
    // In the registry a child is its name; elsewhere it is its number, so that a seeded run can be repeated.
    let number = if parent.registered { number_of(id) } else { parent.children };
    parent.children += 1;
    let guest = engine.resume(snapshot.as_ref(), Arc::clone(&place.spec), Descent::Child(number))?;
    let disk = parent.shared.disk(id, place, engine.name())?;
    let mut live = Live { guest, disk, lease: None, verification: Verification::default(), changed: true };
    if parent.registered {
        live.lease = Some(parent.fork_on_disk(id, checkpoint.as_ref())?);
    }
    let shared = Arc::clone(&parent.shared);
    let mut child =
        Slot::new(id.clone(), shared, place.clone(), Arc::default(), Some(live), parent.registered);
    child.cells = checkpoint.as_ref().map_or(parent.cells, |point| point.cell);
    child.host_wrote = parent.host_wrote;
    child.lineage = parent.lineage.clone();
    if let (Some(lineage), Some(point)) = (&mut child.lineage, checkpoint) {
        lineage.roll_back(point.cell);
    }
    if parent.registered {
        let noted = child.note("fork", format!("a child of {}", parent.id));
        if let Err(error) = noted.and_then(|()| child.commit()) {
            let _ = child.close();
            return Err(error);
        }
    }
    Ok(child)
}

/// A number for a name (FNV-1a).
fn number_of(id: &SessionId) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    id.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The host's side of a cell.
struct Host<F> {
    tools: Arc<ToolTable>,
    kept: Option<Arc<Kept>>,
    runtime: Option<Handle>,
    life: Arc<CellLife>,
    observer: F,
}

impl<F: Fn(Event) + Send + Sync> CellHost for Host<F> {
    fn event(&self, event: Event) {
        (self.observer)(event);
    }

    fn call(&self, call: ToolCall, reply: ToolReply) {
        match &self.kept {
            Some(kept) if kept.answers(&call.name) => {
                let kept = Arc::clone(kept);
                self.tools.run(call.name.clone(), reply, move || kept.call(&call));
            }
            _ => self.tools.call(call, reply, self.runtime.as_ref()),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.life.is_cancelled()
    }
}
