//! Removing artifacts, and contents that nothing names.
//!
//! Rows of artifacts go first. Contents go in a second transaction, where it is seen that no artifact has them: as
//! there is only one writer, none can come to have them in the meantime. In a directory they are removed while that
//! transaction holds the database, so that whoever writes next finds them gone. In a bucket, where a request may
//! arrive late, they are removed after it: their keys are never used again.

use std::collections::HashMap;

use crate::blobs::Blobs;
use crate::database::{ROWS, Value, Writing, placeholders};
use crate::error::Result;
use crate::rows;
use crate::store::Inner;

const ACTION: &str = "remove contents";

impl Inner {
    /// Removes rows of artifacts. Returns the hashes of their contents.
    pub(crate) async fn forget(&self, ids: &[String]) -> Result<Vec<String>> {
        const ACTION: &str = "remove artifacts";
        let mut hashes = Vec::new();
        for ids in ids.chunks(ROWS) {
            let mut writing = self.database.write(ACTION).await?;
            let marks = placeholders(0, ids.len());
            let values: Vec<Value> = ids.iter().map(|id| id.as_str().into()).collect();
            let sql = format!("SELECT tenant, session, size, sha256 FROM artifacts WHERE id IN ({marks})");
            let mut released: HashMap<(String, String), (u64, u64)> = HashMap::new();
            let mut count = 0;
            for row in writing.rows(ACTION, &sql, values.clone()).await? {
                let (tenant, session, size) = (row.text(0)?, row.text(1)?, row.number(2)?);
                hashes.push(row.text(3)?);
                for scope in [(tenant.clone(), session), (tenant, String::new())] {
                    let held = released.entry(scope).or_default();
                    *held = (held.0 + size, held.1 + 1);
                }
                count += 1;
            }
            writing.execute(ACTION, &format!("DELETE FROM artifacts WHERE id IN ({marks})"), values).await?;
            for ((tenant, session), (bytes, files)) in released {
                rows::release(&mut writing, &tenant, &session, bytes, files).await?;
                let sql = "DELETE FROM held WHERE tenant = $1 AND session = $2 AND files = 0";
                writing.execute(ACTION, sql, vec![tenant.into(), session.into()]).await?;
            }
            rows::release(&mut writing, "", "", 0, count).await?;
            writing.commit(ACTION).await?;
        }
        Ok(hashes)
    }

    /// Removes those of these contents that no artifact has. Returns how many, and their bytes.
    pub(crate) fn sweep(&self, hashes: &[String]) -> Result<(u64, u64)> {
        let mut removed = (0, 0);
        for hashes in hashes.chunks(ROWS) {
            let (count, bytes, places) = self.wait(self.sweep_some(hashes))?;
            removed = (removed.0 + count, removed.1 + bytes);
            if let Blobs::Bucket(bucket) = &self.blobs {
                self.wait(bucket.delete(&places))?;
            }
        }
        Ok(removed)
    }

    async fn sweep_some(&self, hashes: &[String]) -> Result<(u64, u64, Vec<String>)> {
        let mut writing = self.database.write(ACTION).await?;
        let free = unnamed(&mut writing, hashes).await?;
        let free: Vec<&str> = free.iter().map(String::as_str).collect();
        let known = rows::blobs_within(&mut writing, &free).await?;
        if let Blobs::Directory(directory) = &self.blobs {
            // Also those that have no row: they were written, but never kept.
            for sha256 in &free {
                directory.remove(sha256)?;
            }
        }
        let (mut bytes, mut places) = (0, Vec::new());
        if !known.is_empty() {
            let values = known.keys().map(|hash| hash.as_str().into()).collect();
            let marks = placeholders(0, known.len());
            writing.execute(ACTION, &format!("DELETE FROM blobs WHERE sha256 IN ({marks})"), values).await?;
            for blob in known.into_values() {
                bytes += blob.size;
                places.push(blob.place);
            }
            rows::release(&mut writing, "", "", bytes, 0).await?;
        }
        writing.commit(ACTION).await?;
        Ok((free.len() as u64, bytes, places))
    }

    /// Removes contents that were written for rows that were never written; or maybe they were.
    pub(crate) fn clean_up(&self, unused: Vec<(String, String)>) -> Result<()> {
        match &self.blobs {
            Blobs::Directory(_) => {
                let hashes: Vec<String> = unused.into_iter().map(|(sha256, _)| sha256).collect();
                self.sweep(&hashes).map(drop)
            }
            Blobs::Bucket(bucket) => {
                let hashes: Vec<&str> = unused.iter().map(|(sha256, _)| sha256.as_str()).collect();
                let unnamed: Vec<String> = self.wait(async {
                    // Whoever wrote them is through, once the database was had.
                    let mut writing = self.database.write(ACTION).await?;
                    let known = rows::blobs_within(&mut writing, &hashes).await?;
                    writing.roll_back().await?;
                    let is_named = |(sha256, place): &(String, String)| {
                        known.get(sha256).is_some_and(|blob| blob.place == *place)
                    };
                    let unused = unused.iter().filter(|unused| !is_named(unused));
                    Ok::<_, crate::ArtifactError>(unused.map(|(_, place)| place.clone()).collect())
                })?;
                self.wait(bucket.delete(&unnamed))
            }
        }
    }
}

/// Those of these contents that no artifact has.
async fn unnamed(writing: &mut Writing<'_>, hashes: &[String]) -> Result<Vec<String>> {
    let marks = placeholders(0, hashes.len());
    let sql = format!("SELECT DISTINCT sha256 FROM artifacts WHERE sha256 IN ({marks})");
    let values = hashes.iter().map(|hash| hash.as_str().into()).collect();
    let mut named = std::collections::HashSet::new();
    for row in writing.rows(ACTION, &sql, values).await? {
        named.insert(row.text(0)?);
    }
    let mut free: Vec<String> = hashes.iter().filter(|hash| !named.contains(*hash)).cloned().collect();
    free.sort_unstable();
    free.dedup();
    Ok(free)
}
