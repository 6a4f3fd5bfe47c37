//! Taking in what a cell left behind.
//!
//! First all files are read: what is refused is refused then, and what is new is written, where nothing names it yet.
//! When all of it is durable, one transaction writes all rows. Contents are only ever deleted by whoever holds the
//! database for writing ([`sweep`](crate::sweep)), and in that transaction it is seen once more that all of them are
//! there: a row without contents can't come into being.

mod commit;
mod reading;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Instant, SystemTime};

use futures_util::{StreamExt, TryStreamExt};

use crate::artifact::{Artifact, Refusal, Refused};
use crate::batch::{Batch, Ingested, MOST_REFUSED, NewFile};
use crate::blobs::{Blobs, Bucket, Directory, Temporary};
use crate::database::{ROWS, placeholders};
use crate::error::{ArtifactError, Result};
use crate::names::check_scope;
use crate::quota::Quota;
use crate::rows;
use crate::store::Inner;
use crate::streaming::PIECE;

/// Files up to this size are held in memory until there are enough of them.
const SMALL: usize = PIECE;
/// How much of small files is held in memory.
const GROUP: usize = 32 << 20;
/// How many objects are put at the same time.
const PUTS: usize = 16;
/// Objects that nothing names are garbage after an hour. Whoever took nearly as long must not name them any more.
const SLOWEST_MINUTES: u64 = 40;

/// A file that will be kept if there is room.
struct Entry {
    /// Its number among the files.
    number: usize,
    size: u64,
    sha256: String,
    mime: String,
}

/// Contents that were written for this batch.
struct Written {
    size: u64,
    place: String,
    /// Where they are as long as they have no name; not in a bucket.
    temporary: Option<Temporary>,
}

/// A batch on its way.
struct Intake<'b, 'f> {
    store: &'b Inner,
    batch: &'b Batch<'b, 'f>,
    quota: Quota,
    /// Sizes of large files that are stored already: these may be the same.
    sizes: HashSet<u64>,
    entries: Vec<Entry>,
    refused: Vec<(usize, Refused)>,
    more_refused: u64,
    /// Small contents that may have to be written.
    small: HashMap<String, Vec<u8>>,
    small_bytes: usize,
    written: HashMap<String, Written>,
    /// Contents that were thought to be stored, but weren't.
    missed: HashSet<String>,
    /// Places that have rows now.
    named: HashSet<String>,
    /// By both clocks: one stands still while the machine sleeps, the other may be set.
    began: (Instant, SystemTime),
}

pub(crate) fn ingest(store: &Inner, mut batch: Batch<'_, '_>) -> Result<Ingested> {
    check_scope("a tenant", batch.tenant)?;
    check_scope("a session", batch.session)?;
    if let Some(call) = batch.tool_call.as_deref().filter(|call| call.contains('\0')) {
        return Err(ArtifactError::invalid("the name of a tool call", call, "it has a NUL in it"));
    }
    // The files are read, while the rest is looked at.
    let mut files = std::mem::take(&mut batch.files);
    let mut intake = Intake::new(store, &batch, &files)?;
    let result = intake.take_all(&mut files).and_then(|()| intake.keep(&mut files));
    let unused = intake.unused(result.is_ok());
    drop(intake);
    // Where the database doesn't answer, they will be found by whoever collects garbage.
    let is_reachable = !matches!(result, Err(ArtifactError::Busy { .. } | ArtifactError::Unreachable { .. }));
    if is_reachable
        && !unused.is_empty()
        && let Err(error) = store.clean_up(unused)
    {
        tracing::warn!(%error, "contents that nothing names could not be removed");
    }
    result
}

impl<'b, 'f> Intake<'b, 'f> {
    fn new(store: &'b Inner, batch: &'b Batch<'b, 'f>, files: &[NewFile<'_>]) -> Result<Self> {
        let mut large: Vec<u64> =
            files.iter().map(|file| file.size).filter(|size| *size > SMALL as u64).collect();
        large.sort_unstable();
        large.dedup();
        let mut sizes = HashSet::new();
        let [session, tenant, total] = store.wait(async {
            for some in large.chunks(ROWS) {
                let marks = placeholders(0, some.len());
                let sql = format!("SELECT DISTINCT size FROM blobs WHERE size IN ({marks})");
                let values = some.iter().map(|size| (*size).into()).collect();
                for row in store.database.rows("look for contents", &sql, values).await? {
                    sizes.insert(row.number(0)?);
                }
            }
            rows::held(&store.database, batch.tenant, batch.session).await
        })?;
        Ok(Self {
            store,
            batch,
            quota: Quota::new(&store.limits, session, tenant, total),
            sizes,
            entries: Vec::new(),
            refused: Vec::new(),
            more_refused: 0,
            small: HashMap::new(),
            small_bytes: 0,
            written: HashMap::new(),
            missed: HashSet::new(),
            named: HashSet::new(),
            began: (Instant::now(), SystemTime::now()),
        })
    }

    fn take_all(&mut self, files: &mut [NewFile<'_>]) -> Result<()> {
        files.iter_mut().enumerate().try_for_each(|(number, file)| self.take(number, file, None))
    }

    /// Reads a file, and decides about it. `again` is the entry that it has, if it was read before.
    fn take(&mut self, number: usize, file: &mut NewFile<'_>, again: Option<usize>) -> Result<()> {
        match (self.read(number, file)?, again) {
            (Ok(entry), None) => {
                self.quota.add(entry.size, 0);
                self.entries.push(entry);
            }
            (Ok(entry), Some(place)) => self.entries[place] = entry,
            (Err(refused), again) => {
                self.add_refused(number, refused);
                if let Some(place) = again {
                    self.entries.remove(place);
                }
            }
        }
        if self.small_bytes > GROUP { self.flush() } else { Ok(()) }
    }

    /// Writes small contents, unless they are stored, and waits until they are durable.
    fn flush(&mut self) -> Result<()> {
        self.small_bytes = 0;
        let small = std::mem::take(&mut self.small);
        if small.is_empty() {
            return Ok(());
        }
        let hashes: Vec<&str> = small.keys().map(String::as_str).collect();
        let stored = self.store.wait(rows::blobs(&self.store.database, &hashes))?;
        let missed = &self.missed;
        let is_stored = |sha256: &str| !missed.contains(sha256) && stored.contains_key(sha256);
        match &self.store.blobs {
            Blobs::Directory(directory) => {
                let mut written = Vec::new();
                for (sha256, bytes) in small {
                    let size = bytes.len() as u64;
                    if is_stored(&sha256) && directory.has(&sha256, size)? {
                        continue;
                    }
                    let mut temporary = directory.temporary()?;
                    temporary.write(&bytes)?;
                    written.push((sha256, size, temporary));
                }
                let mut temporaries: Vec<_> = written.iter_mut().map(|(.., temporary)| temporary).collect();
                directory.sync_files(&mut temporaries)?;
                for (sha256, size, temporary) in written {
                    let place = Directory::place(&sha256);
                    self.written.insert(sha256, Written { size, place, temporary: Some(temporary) });
                }
            }
            Blobs::Bucket(bucket) => {
                let new = small.into_iter().filter(|(sha256, _)| !is_stored(sha256));
                let puts = new.map(|(sha256, bytes)| async move {
                    let (size, place) = (bytes.len() as u64, Bucket::new_place(&sha256));
                    bucket.put(&place, bytes).await?;
                    Ok((sha256, Written { size, place, temporary: None }))
                });
                let puts = futures_util::stream::iter(puts).buffer_unordered(PUTS);
                let written = &mut self.written;
                self.store.wait(puts.try_for_each(|(sha256, new)| {
                    written.insert(sha256, new);
                    futures_util::future::ok(())
                }))?;
            }
        }
        Ok(())
    }

    /// Gives all that was written its name, and waits until that is durable.
    fn name(&self) -> Result<()> {
        let Blobs::Directory(directory) = &self.store.blobs else { return Ok(()) };
        let mut changed = BTreeSet::new();
        for (sha256, written) in &self.written {
            if let Some(temporary) = &written.temporary {
                directory.name(&temporary.path, sha256, written.size, &mut changed)?;
            }
        }
        directory.sync_names(&changed)
    }

    /// Makes it durable, and then known.
    fn keep(&mut self, files: &mut [NewFile<'_>]) -> Result<Ingested> {
        loop {
            self.flush()?;
            if self.entries.is_empty() && self.batch.cells.is_empty() {
                return Ok(self.ingested(Vec::new()));
            }
            self.name()?;
            let (began, began_at) = self.began;
            let minutes = began.elapsed().max(began_at.elapsed().unwrap_or_default()).as_secs() / 60;
            if matches!(self.store.blobs, Blobs::Bucket(_)) && minutes >= SLOWEST_MINUTES {
                return Err(ArtifactError::TooSlow { minutes });
            }
            let missing = match self.store.wait(self.commit(files))? {
                commit::Outcome::Kept { kept, refused, named } => {
                    refused.into_iter().for_each(|(number, refused)| self.add_refused(number, refused));
                    self.named = named;
                    return Ok(self.ingested(kept));
                }
                commit::Outcome::Missing(missing) => missing,
            };
            // Somebody removed them since they were found. This time they are written.
            for sha256 in &missing {
                if !self.missed.insert(sha256.clone()) {
                    return Err(ArtifactError::Gone { sha256: sha256.clone(), place: self.store.place() });
                }
            }
            // From the last one on: entries of files that can't be read any more go.
            for place in (0..self.entries.len()).rev() {
                if missing.contains(&self.entries[place].sha256) {
                    let number = self.entries[place].number;
                    self.take(number, &mut files[number], Some(place))?;
                }
            }
        }
    }

    fn ingested(&mut self, kept: Vec<Artifact>) -> Ingested {
        self.refused.sort_by_key(|(number, _)| *number);
        let refused = self.refused.drain(..).map(|(_, refused)| refused).collect();
        Ingested { kept, refused, more_refused: self.more_refused }
    }

    fn add_refused(&mut self, number: usize, refused: Refused) {
        if self.refused.len() < MOST_REFUSED {
            self.refused.push((number, refused));
        } else {
            self.more_refused += 1;
        }
    }

    /// What was written for nothing: hashes and places. Where it isn't known whether rows were written, all of it:
    /// whoever removes it looks again.
    fn unused(&mut self, is_known: bool) -> Vec<(String, String)> {
        let written = std::mem::take(&mut self.written);
        let places = written.into_iter().map(|(sha256, written)| (sha256, written.place));
        places.filter(|(_, place)| !(is_known && self.named.contains(place))).collect()
    }

    fn refuse(&self, file: &NewFile<'_>, size: u64, why: Refusal, reason: impl Into<String>) -> Refused {
        crate::batch::refused(&file.name, size, why, reason)
    }
}
