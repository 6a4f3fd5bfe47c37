//! Collecting garbage.

use std::fs;
use std::time::Duration;

use futures_util::TryStreamExt;

use crate::blobs::{Blobs, Found};
use crate::clock;
use crate::database::ROWS;
use crate::error::{At, Result};
use crate::hash;
use crate::rows;
use crate::store::{ArtifactStore, Inner};

/// What is collected.
#[derive(Clone, Debug)]
pub struct CollectOptions {
    /// Only says what would be collected.
    pub dry_run: bool,
    /// What time it is, in milliseconds since 1970. The clock's, if it isn't given.
    pub now_ms: Option<u64>,
    /// Contents that no artifact ever had are garbage once they are older: an hour, unless told otherwise. In a
    /// bucket, it must be longer than writing a cell's files takes.
    pub grace: Duration,
    /// Records of cells that no artifact comes from are garbage once they are older: a week, unless told otherwise. A
    /// session that goes on may still come to need them.
    pub record_grace: Duration,
    /// In place of the store's own limit.
    pub max_age: Option<Duration>,
}

impl Default for CollectOptions {
    fn default() -> Self {
        Self {
            dry_run: false,
            now_ms: None,
            grace: Duration::from_secs(60 * 60),
            record_grace: Duration::from_secs(7 * 24 * 60 * 60),
            max_age: None,
        }
    }
}

/// What was collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Artifacts that were too old.
    pub artifacts: u64,
    /// Contents that no artifact had.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were left half written.
    pub temporaries: u64,
    /// Records of cells that no artifact comes from.
    pub records: u64,
}

impl ArtifactStore {
    /// Collects garbage: artifacts that are too old and not pinned; contents that no artifact has; what processes left
    /// half written when they died; records that nothing comes from. Others may use the store meanwhile.
    ///
    /// # Errors
    /// If something can't be read or removed. What was collected until then is.
    pub fn collect(&self, options: &CollectOptions) -> Result<Collected> {
        let store = &*self.inner;
        let now_ms = options.now_ms.unwrap_or_else(clock::now_ms);
        let mut collected = Collected::default();
        if let Some(age) = options.max_age.or(store.limits.max_age) {
            store.collect_old(before(now_ms, age), options.dry_run, &mut collected)?;
        }
        store.collect_unnamed(options.dry_run, &mut collected)?;
        store.collect_orphans(before(now_ms, options.grace), options.dry_run, &mut collected)?;
        store.collect_records(before(now_ms, options.record_grace), options.dry_run, &mut collected)?;
        match &store.blobs {
            Blobs::Directory(directory) => {
                collected.temporaries += directory.remove_left_behind(options.dry_run)?;
            }
            Blobs::Bucket(_) => store.collect_copies(options.dry_run, &mut collected)?,
        }
        Ok(collected)
    }
}

/// The moment that was so long ago.
fn before(now_ms: u64, age: Duration) -> u64 {
    now_ms.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

impl Inner {
    fn collect_old(&self, before_ms: u64, dry_run: bool, collected: &mut Collected) -> Result<()> {
        const ACTION: &str = "look for old artifacts";
        if dry_run {
            let sql = "SELECT COUNT(*) FROM artifacts WHERE pinned = 0 AND created_ms < $1";
            let rows = self.wait(self.database.rows(ACTION, sql, vec![before_ms.into()]))?;
            collected.artifacts += rows.first().map_or(Ok(0), |row| row.number(0))?;
            return Ok(());
        }
        loop {
            let sql = format!(
                "SELECT id FROM artifacts WHERE pinned = 0 AND created_ms < $1 ORDER BY created_ms LIMIT {ROWS}"
            );
            let rows = self.wait(self.database.rows(ACTION, &sql, vec![before_ms.into()]))?;
            let ids = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>>>()?;
            if ids.is_empty() {
                return Ok(());
            }
            let hashes = self.wait(self.forget(&ids))?;
            collected.artifacts += hashes.len() as u64;
        }
    }

    /// Contents that have a row, but no artifact.
    fn collect_unnamed(&self, dry_run: bool, collected: &mut Collected) -> Result<()> {
        let sql = "SELECT sha256, size FROM blobs WHERE NOT EXISTS \
                   (SELECT 1 FROM artifacts WHERE artifacts.sha256 = blobs.sha256)";
        let mut hashes = Vec::new();
        for row in self.wait(self.database.rows("look for contents", sql, Vec::new()))? {
            hashes.push(row.text(0)?);
            if dry_run {
                collected.blobs += 1;
                collected.bytes += row.number(1)?;
            }
        }
        if !dry_run {
            let (blobs, bytes) = self.sweep(&hashes)?;
            collected.blobs += blobs;
            collected.bytes += bytes;
        }
        Ok(())
    }

    /// Contents that have no row.
    fn collect_orphans(&self, before_ms: u64, dry_run: bool, collected: &mut Collected) -> Result<()> {
        match &self.blobs {
            Blobs::Directory(directory) => directory.list(|found| {
                found
                    .chunks(ROWS)
                    .try_for_each(|found| self.collect_some(found, before_ms, dry_run, collected))
            }),
            Blobs::Bucket(bucket) => {
                let mut objects = bucket.list()?.try_chunks(ROWS);
                while let Some(found) = self.wait(objects.try_next()).map_err(|error| error.1)? {
                    self.collect_some(&found, before_ms, dry_run, collected)?;
                }
                Ok(())
            }
        }
    }

    fn collect_some(
        &self,
        found: &[Found],
        before_ms: u64,
        dry_run: bool,
        collected: &mut Collected,
    ) -> Result<()> {
        let old: Vec<&Found> = found.iter().filter(|found| found.modified_ms <= before_ms).collect();
        let hashes: Vec<&str> = old.iter().map(|found| found.sha256.as_str()).collect();
        let known = self.wait(rows::blobs(&self.database, &hashes))?;
        let is_named = |found: &Found| known.get(&found.sha256).is_some_and(|blob| blob.place == found.place);
        let orphans: Vec<&Found> = old.into_iter().filter(|found| !is_named(found)).collect();
        if orphans.is_empty() {
            return Ok(());
        }
        if !dry_run {
            self.clean_up(orphans.iter().map(|found| (found.sha256.clone(), found.place.clone())).collect())?;
        }
        collected.blobs += orphans.len() as u64;
        collected.bytes += orphans.iter().map(|found| found.size).sum::<u64>();
        Ok(())
    }

    fn collect_records(&self, before_ms: u64, dry_run: bool, collected: &mut Collected) -> Result<()> {
        const ACTION: &str = "collect records";
        const REACHED: &str = "WITH RECURSIVE reached (id) AS (\
                               SELECT record FROM artifacts WHERE record IS NOT NULL \
                               UNION SELECT records.previous FROM records JOIN reached ON records.id = reached.id \
                               WHERE records.previous IS NOT NULL)";
        const UNREACHED: &str = "FROM records WHERE added_ms <= $1 AND id NOT IN (SELECT id FROM reached)";
        if dry_run {
            let sql = format!("{REACHED} SELECT COUNT(*) {UNREACHED}");
            let rows = self.wait(self.database.rows(ACTION, &sql, vec![before_ms.into()]))?;
            collected.records += rows.first().map_or(Ok(0), |row| row.number(0))?;
            return Ok(());
        }
        collected.records += self.wait(async {
            let mut writing = self.database.write(ACTION).await?;
            let sql = format!("{REACHED} DELETE {UNREACHED}");
            let records = writing.execute(ACTION, &sql, vec![before_ms.into()]).await?;
            // Records name origins as well; those are few.
            let sql = "DELETE FROM origins WHERE added_ms <= $1 \
                       AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.origin = origins.id) \
                       AND NOT EXISTS (SELECT 1 FROM records WHERE records.origin = origins.id)";
            writing.execute(ACTION, sql, vec![before_ms.into()]).await?;
            writing.commit(ACTION).await?;
            Ok::<_, crate::ArtifactError>(records)
        })?;
        Ok(())
    }

    /// Local copies of contents that nothing has any more.
    fn collect_copies(&self, dry_run: bool, collected: &mut Collected) -> Result<()> {
        let copies = self.copies();
        let Ok(entries) = fs::read_dir(&copies) else { return Ok(()) };
        // Where they are made, by processes that may have died over it.
        collected.temporaries += self.copying()?.remove_left_behind(dry_run)?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let names: Vec<String> = names.filter(|name| hash::is_one(name)).collect();
        let hashes: Vec<&str> = names.iter().map(String::as_str).collect();
        let known = self.wait(rows::blobs(&self.database, &hashes))?;
        for name in names.iter().filter(|name| !known.contains_key(*name)) {
            let path = copies.join(name);
            if !dry_run {
                fs::remove_file(&path).at("remove", &path)?;
            }
            collected.temporaries += 1;
        }
        Ok(())
    }
}
