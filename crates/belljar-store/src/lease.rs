//! A session that is owned.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_engine::{SavedGuest, Tag};

use crate::clock;
use crate::draft::{Draft, is_unfinished, sync_directory, unfinished_name};
use crate::error::{At, Result, StoreError};
use crate::hash::Hash;
use crate::history::{HistoryEntry, HistoryWriter};
use crate::landing::Landing;
use crate::layout::{self, TenantDirectory, point_file, point_name};
use crate::lease_file::LeaseFile;
use crate::load::{self, Loaded};
use crate::pack::PackReference;
use crate::point::{self, PointFile};
use crate::record::{CheckpointRecord, Facts, SessionRecord};
use crate::save;
use crate::session_id::{SessionId, Tenant};
use crate::sharing;
use crate::store::Store;

/// So much in packs that others may need too is left alone; then garbage is collected.
const TOLERATED_GARBAGE: u64 = 64 << 20;

/// Exclusive ownership of a session, until it is dropped or the process dies.
///
/// Every write checks that the session is still owned, and fails with [`StoreError::LeaseLost`] otherwise.
pub struct Lease {
    pub(crate) store: Store,
    pub(crate) directory: TenantDirectory,
    pub(crate) path: PathBuf,
    pub(crate) file: LeaseFile,
    pub(crate) record: SessionRecord,
    pub(crate) history: Option<HistoryWriter>,
    /// Whether what a former owner left unfinished was looked for.
    pub(crate) swept: bool,
    /// Which packs each point needs, as far as anybody asked.
    pub(crate) needs: HashMap<Hash, Arc<[PackReference]>>,
}

/// What to remember with a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointNote {
    /// A name, unique in the session.
    pub name: Option<String>,
    /// The number of the cell that led to it.
    pub cell: u32,
    /// The beginning of that cell's code.
    pub code_excerpt: Option<String>,
    /// What its owner knows the files by that are kept elsewhere.
    pub files: Option<String>,
}

/// What of a session's record its owner may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whatever its owner wants to remember.
    pub labels: BTreeMap<String, String>,
    /// What the session may use.
    pub policy: serde_json::Value,
}

/// A state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The one that it goes on from.
    Head,
    /// The one of a checkpoint.
    Checkpoint(u32),
}

impl Lease {
    /// The session's name.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.record.id
    }

    /// Whose session it is.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.record.tenant
    }

    /// Larger than that of every owner before.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.file.token()
    }

    /// What is known about the session.
    #[must_use]
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// The session's checkpoints, by number.
    #[must_use]
    pub fn checkpoints(&self) -> &[CheckpointRecord] {
        &self.record.checkpoints
    }

    /// Makes this the state that the session goes on from, durably.
    ///
    /// The tag names its memory: with it, the next commit writes only what changed since.
    ///
    /// # Errors
    ///
    /// The former state stays.
    pub fn commit(&mut self, guest: &SavedGuest, facts: Facts) -> Result<Tag> {
        let mut record = self.record.clone();
        record.set_facts(facts);
        let tag = self.save(guest, record, |record, point, _| record.head = Some(point))?;
        self.collect_if_worth();
        Ok(tag)
    }

    /// Keeps this state under a number, durably. The head stays what it was.
    ///
    /// # Errors
    ///
    /// [`StoreError::NameTaken`], or what keeps it from being written; nothing is changed then.
    pub fn checkpoint(
        &mut self,
        guest: &SavedGuest,
        facts: Facts,
        note: CheckpointNote,
    ) -> Result<(CheckpointRecord, Tag)> {
        self.check_name(&note)?;
        let tag = self.save(guest, self.record.clone(), |record, point, bytes| {
            add_checkpoint(record, note, facts, point, bytes);
        })?;
        self.collect_if_worth();
        Ok((self.newest_checkpoint()?, tag))
    }

    /// Keeps the head under a number, without loading it.
    ///
    /// # Errors
    ///
    /// As [`Self::checkpoint`], and [`StoreError::NoHead`].
    pub fn checkpoint_head(&mut self, note: CheckpointNote) -> Result<CheckpointRecord> {
        self.check_name(&note)?;
        let head = self.record.head.ok_or_else(|| self.no_head())?;
        // A checkpoint that can't be loaded is none.
        let bytes = PointFile::open(&self.path, head)?.load()?.bytes();
        let mut record = self.record.clone();
        let facts = record.facts();
        add_checkpoint(&mut record, note, facts, head, bytes);
        let _held = self.directory.hold_garbage()?;
        self.land(Landing::default(), record)?;
        self.newest_checkpoint()
    }

    /// The state that the session goes on from; none if none was ever saved.
    ///
    /// # Errors
    ///
    /// Names the file that is damaged.
    pub fn load(&self) -> Result<Option<Loaded>> {
        self.record.head.map(|head| load::load(&self.directory, &self.path, head)).transpose()
    }

    /// The state of a checkpoint.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoCheckpoint`], or names the file that is damaged.
    pub fn load_checkpoint(&self, number: u32) -> Result<Loaded> {
        load::load(&self.directory, &self.path, self.find_checkpoint(number)?.point)
    }

    /// Forgets a checkpoint.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoCheckpoint`], or what keeps the record from being written; the checkpoint stays then.
    pub fn delete_checkpoint(&mut self, number: u32) -> Result<()> {
        self.find_checkpoint(number)?;
        let mut record = self.record.clone();
        record.checkpoints.retain(|checkpoint| checkpoint.number != number);
        let held = self.directory.hold_garbage()?;
        self.land(Landing::default(), record)?;
        drop(held);
        self.collect_if_worth();
        Ok(())
    }

    /// Goes on from a checkpoint, without loading it. What could be undone from there no longer can.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoCheckpoint`], or what keeps it from being written; the head stays then.
    pub fn reset_head_to(&mut self, number: u32, facts: Facts) -> Result<()> {
        let point = PointFile::open(&self.path, self.find_checkpoint(number)?.point)?.load()?;
        let summary = &point.summary;
        let encoded = point::encode(
            &summary.environment,
            summary.memory,
            &summary.packs,
            &point.tables,
            &point.state,
            &[],
        )
        .map_err(|reason| StoreError::Unfit { session: self.record.id.clone(), reason })?;
        let mut record = self.record.clone();
        record.set_facts(facts);
        record.environment.clone_from(&summary.environment);
        record.head = Some(encoded.name);
        let held = self.directory.hold_garbage()?;
        let draft = Draft::of(&self.path, &encoded.bytes)?;
        self.needs.insert(encoded.name, summary.packs.clone().into());
        self.land(Landing { point: Some((encoded.name, draft)), ..Landing::default() }, record)?;
        drop(held);
        self.collect_if_worth();
        Ok(())
    }

    /// Adds to the history: it survives this process at once, and the machine with the next commit.
    ///
    /// # Errors
    ///
    /// What was there stays.
    pub fn append_history(&mut self, entry: &HistoryEntry) -> Result<()> {
        if !self.file.is_ours() {
            return Err(self.lost());
        }
        let history = match &mut self.history {
            Some(history) => history,
            none => none.insert(HistoryWriter::open(&self.path)?),
        };
        history.append(entry)
    }

    /// Changes labels or policy, durably.
    ///
    /// # Errors
    ///
    /// The former record stays.
    pub fn update(&mut self, change: impl FnOnce(&mut Settings)) -> Result<()> {
        let mut record = self.record.clone();
        let mut settings = Settings { labels: record.labels, policy: record.policy };
        change(&mut settings);
        Settings { labels: record.labels, policy: record.policy } = settings;
        let _held = self.directory.hold_garbage()?;
        self.land(Landing::default(), record)
    }

    /// Notes that the session was used just now.
    ///
    /// # Errors
    ///
    /// The former record stays.
    pub fn touch(&mut self) -> Result<()> {
        self.update(|_| ())
    }

    /// Ends the session: its record, history and all its states are gone.
    ///
    /// # Errors
    ///
    /// The session is there as before, or gone: nothing in between.
    pub fn close(self) -> Result<()> {
        let held = self.directory.hold_garbage()?;
        if !self.file.is_ours() {
            return Err(self.lost());
        }
        let sessions = self.directory.sessions();
        let own: Vec<Hash> = self
            .record
            .points()
            .filter_map(|point| Some(PointFile::open(&self.path, point).ok()?.summary.packs))
            .flatten()
            .filter(|pack| pack.writer == self.record.writer)
            .map(|pack| pack.id)
            .collect();
        let gone = unfinished_name(&sessions);
        fs::rename(&self.path, &gone).at("remove", &self.path)?;
        sync_directory(&sessions)?;
        // Nobody finds it any more; what stays of it is garbage.
        let _ = fs::remove_dir_all(&gone);
        sharing::remove_unmarked(&self.directory, own)?;
        drop(held);
        Ok(())
    }

    pub(crate) fn find_checkpoint(&self, number: u32) -> Result<&CheckpointRecord> {
        self.record
            .checkpoint(number)
            .ok_or_else(|| StoreError::NoCheckpoint { session: self.record.id.clone(), number })
    }

    pub(crate) fn no_head(&self) -> StoreError {
        StoreError::NoHead { session: self.record.id.clone() }
    }

    fn lost(&self) -> StoreError {
        StoreError::LeaseLost { session: self.record.id.clone(), path: self.file.path().to_owned() }
    }

    fn check_name(&self, note: &CheckpointNote) -> Result<()> {
        let taken = |name: &&String| {
            self.record.checkpoints.iter().any(|checkpoint| checkpoint.name.as_ref() == Some(*name))
        };
        match note.name.as_ref().filter(taken) {
            Some(name) => Err(StoreError::NameTaken { session: self.record.id.clone(), name: name.clone() }),
            None => Ok(()),
        }
    }

    fn newest_checkpoint(&self) -> Result<CheckpointRecord> {
        self.record.checkpoints.last().cloned().ok_or_else(|| self.no_head())
    }

    fn save(
        &mut self,
        guest: &SavedGuest,
        mut record: SessionRecord,
        name: impl FnOnce(&mut SessionRecord, Hash, u64),
    ) -> Result<Tag> {
        let _held = self.directory.hold_garbage()?;
        let mut saved =
            save::save(&self.directory, (&self.record.id, &self.path), self.record.writer, guest)?;
        record.environment.clone_from(&guest.environment);
        name(&mut record, saved.point.name, saved.bytes);
        self.needs.insert(saved.point.name, saved.packs.as_slice().into());
        let landing = Landing {
            pack: saved.pack.take(),
            point: saved.point_draft.take().map(|draft| (saved.point.name, draft)),
            marked: saved.shares_with_others,
            ..Landing::default()
        };
        self.land(landing, record)?;
        Ok(saved.publish(guest))
    }

    /// Writes a new record with what it names, then removes what only the former one named.
    fn land(&mut self, landing: Landing<'_>, mut record: SessionRecord) -> Result<()> {
        record.touch();
        record.token = self.file.token();
        let (kept, _) = self.packs_of(record.points());
        record.stored_bytes = kept.values().map(|pack| pack.length).sum();
        let history = self.history.as_ref().filter(|history| history.needs_sync());
        let new_session = self.record.head.is_none() && self.record.checkpoints.is_empty();
        let landing = Landing { history, new_session, ..landing };
        if let Err(error) = landing.land(&self.directory, &self.path, &self.file, &record) {
            // The last sync may have failed after the record was placed: which record is on disk is unknown, so
            // the next one looks for points that neither names.
            self.swept = false;
            return Err(error);
        }
        if let Some(history) = &mut self.history {
            history.synced();
        }
        let former = std::mem::replace(&mut self.record, record);
        self.leave(&former);
        Ok(())
    }

    /// Removes points that aren't named any more, and packs that only they needed.
    ///
    /// Nothing here can fail: what stays is garbage, which is collected later.
    fn leave(&mut self, former: &SessionRecord) {
        let named: HashSet<Hash> = self.record.points().collect();
        let left: Vec<Hash> = former.points().filter(|point| !named.contains(point)).collect();
        if !left.is_empty() {
            let (before, _) = self.packs_of(left.iter().copied());
            let (now, complete) = self.packs_of(named.iter().copied());
            for point in &left {
                let _ = fs::remove_file(self.path.join(point_file(*point)));
                self.needs.remove(point);
            }
            let dropped = before.values().filter(|pack| !now.contains_key(&pack.id));
            let (own, others): (Vec<_>, Vec<_>) =
                dropped.partition(|pack| complete && pack.writer == self.record.writer);
            let stay = sharing::remove_unmarked(&self.directory, own.iter().map(|pack| pack.id).collect());
            let stay: HashSet<Hash> = stay.into_iter().flatten().collect();
            self.record.garbage += others
                .into_iter()
                .chain(own.into_iter().filter(|pack| stay.contains(&pack.id)))
                .map(|pack| pack.length)
                .sum::<u64>();
        }
        if !self.swept {
            sweep(&self.path, &named);
            self.swept = true;
        }
    }

    /// The packs that some points need, and whether all of those points could be read.
    fn packs_of(&mut self, points: impl Iterator<Item = Hash>) -> (HashMap<Hash, PackReference>, bool) {
        let mut packs = HashMap::new();
        let mut complete = true;
        for point in points {
            if !self.needs.contains_key(&point) {
                match PointFile::open(&self.path, point) {
                    Ok(file) => {
                        self.needs.insert(point, file.summary.packs.into());
                    }
                    // One bad checkpoint keeps nobody from going on.
                    Err(_) => complete = false,
                }
            }
            let needs = self.needs.get(&point).into_iter().flat_map(|needs| needs.iter());
            packs.extend(needs.map(|pack| (pack.id, pack.clone())));
        }
        (packs, complete)
    }

    /// A session that shares its packs can't tell what is garbage; from time to time somebody must look.
    ///
    /// What was asked for is done already: should this fail, it is tried again when there is as much more.
    fn collect_if_worth(&mut self) {
        if self.record.garbage > TOLERATED_GARBAGE {
            let _ = self.store.collect_tenant(&self.record.tenant);
            self.record.garbage = 0;
        }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Lease({}/{}, token {})", self.tenant(), self.id(), self.token())
    }
}

/// Removes what a former owner of a session didn't finish. The caller has the lease.
pub(crate) fn sweep(session: &Path, named: &HashSet<Hash>) {
    for entry in layout::entries(session).unwrap_or_default() {
        let name = entry.file_name();
        let orphan = name.to_str().and_then(point_name).is_some_and(|point| !named.contains(&point));
        if orphan || is_unfinished(&name) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn add_checkpoint(record: &mut SessionRecord, note: CheckpointNote, facts: Facts, point: Hash, bytes: u64) {
    let number = record.next_checkpoint;
    record.next_checkpoint += 1;
    record.checkpoints.push(CheckpointRecord {
        number,
        name: note.name,
        created: clock::now_ms(),
        cell: note.cell,
        code_excerpt: note.code_excerpt,
        bytes,
        facts,
        files: note.files,
        point,
    });
}
