//! The one transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{Entry, Intake};
use crate::artifact::{Artifact, ArtifactId, Refused};
use crate::batch::NewFile;
use crate::blobs::Blobs;
use crate::clock;
use crate::database::{Value, Writing};
use crate::error::Result;
use crate::quota::Quota;
use crate::record::{RecordId, canonical};
use crate::rows::{self, Blob};

const ACTION: &str = "keep artifacts";

pub(super) enum Outcome {
    Kept {
        kept: Vec<Artifact>,
        refused: Vec<(usize, Refused)>,
        named: HashSet<String>,
    },
    /// Contents that were thought to be stored, and aren't. Nothing was changed.
    Missing(HashSet<String>),
}

impl Intake<'_, '_> {
    pub(super) async fn commit(&self, files: &[NewFile<'_>]) -> Result<Outcome> {
        let mut writing = self.store.database.write(ACTION).await?;
        let hashes: BTreeSet<&str> = self.entries.iter().map(|entry| entry.sha256.as_str()).collect();
        let hashes: Vec<&str> = hashes.into_iter().collect();
        let stored = rows::blobs_within(&mut writing, &hashes).await?;
        let missing = self.missing(&stored)?;
        if !missing.is_empty() {
            writing.roll_back().await?;
            return Ok(Outcome::Missing(missing));
        }

        let [session, tenant, total] =
            rows::held_within(&mut writing, self.batch.tenant, self.batch.session).await?;
        let mut quota = Quota::new(&self.store.limits, session, tenant, total);
        let mut new: BTreeMap<&str, Blob> = BTreeMap::new();
        let mut kept = Vec::new();
        let mut refused = Vec::new();
        for entry in &self.entries {
            let is_new = !stored.contains_key(&entry.sha256) && !new.contains_key(entry.sha256.as_str());
            let bytes = if is_new { entry.size } else { 0 };
            if let Some((why, reason)) = quota.refuses(entry.size, bytes) {
                let file = &files[entry.number];
                refused.push((entry.number, self.refuse(file, entry.size, why, reason)));
                continue;
            }
            quota.add(entry.size, bytes);
            if is_new && let Some(written) = self.written.get(&entry.sha256) {
                new.insert(&entry.sha256, Blob { size: written.size, place: written.place.clone() });
            }
            kept.push(entry);
        }

        let now_ms = clock::now_ms();
        let origin = self.insert_records(&mut writing, now_ms).await?;
        let named: HashSet<String> = match &self.store.blobs {
            // Names follow from hashes: what was stored before is named as well.
            Blobs::Directory(_) => self
                .written
                .iter()
                .filter(|(sha256, _)| stored.contains_key(*sha256))
                .map(|(_, written)| written)
                .map(|written| written.place.clone())
                .collect(),
            Blobs::Bucket(_) => HashSet::new(),
        };
        let named = named.into_iter().chain(new.values().map(|blob| blob.place.clone())).collect();
        let new =
            new.into_iter().map(|(sha256, blob)| vec![sha256.into(), blob.size.into(), blob.place.into()]);
        writing.insert(ACTION, ("blobs", "sha256, size, place", ""), new.collect()).await?;
        let kept = self.insert_artifacts(&mut writing, files, kept, &origin, now_ms).await?;
        let held = [quota.session, quota.tenant, quota.total];
        rows::set_held(&mut writing, self.batch.tenant, self.batch.session, held).await?;
        writing.commit(ACTION).await?;
        Ok(Outcome::Kept { kept, refused, named })
    }

    /// Sees that all contents are there, now that nobody can delete any.
    fn missing(&self, stored: &HashMap<String, Blob>) -> Result<HashSet<String>> {
        let mut missing = HashSet::new();
        let mut changed = BTreeSet::new();
        for Entry { sha256, size, .. } in &self.entries {
            let written = self.written.get(sha256);
            // Without either, there may be a file, but it is another's, who isn't through with it.
            let is_ours = written.is_some() || stored.contains_key(sha256);
            let is_there = match &self.store.blobs {
                Blobs::Directory(directory) if is_ours && !directory.has(sha256, *size)? => {
                    let temporary = written.and_then(|written| written.temporary.as_ref());
                    if let Some(temporary) = temporary {
                        directory.name(&temporary.path, sha256, *size, &mut changed)?;
                    }
                    temporary.is_some()
                }
                _ => is_ours,
            };
            if !is_there {
                missing.insert(sha256.clone());
            }
        }
        if let Blobs::Directory(directory) = &self.store.blobs
            && !changed.is_empty()
        {
            directory.sync_names(&changed)?;
        }
        Ok(missing)
    }

    /// Returns the name of the origin.
    async fn insert_records(&self, writing: &mut Writing<'_>, now_ms: u64) -> Result<RecordId> {
        // Those that are stored already are wanted again.
        let again = "ON CONFLICT (id) DO UPDATE SET added_ms = excluded.added_ms";
        let origin = self.batch.origin.id();
        let row = vec![origin.clone().into(), canonical(self.batch.origin).into(), now_ms.into()];
        writing.insert(ACTION, ("origins", "id, body, added_ms", again), vec![row]).await?;
        let records: BTreeMap<RecordId, Vec<Value>> = self
            .batch
            .cells
            .iter()
            .map(|cell| {
                let row = vec![
                    cell.id().into(),
                    cell.previous.clone().into(),
                    cell.origin.clone().into(),
                    canonical(cell).into(),
                    now_ms.into(),
                ];
                (cell.id(), row)
            })
            .collect();
        let columns = "id, previous, origin, body, added_ms";
        writing.insert(ACTION, ("records", columns, again), records.into_values().collect()).await?;
        Ok(origin)
    }

    async fn insert_artifacts(
        &self,
        writing: &mut Writing<'_>,
        files: &[NewFile<'_>],
        entries: Vec<&Entry>,
        origin: &str,
        now_ms: u64,
    ) -> Result<Vec<Artifact>> {
        let batch = self.batch;
        let record = batch.cells.last().map(crate::record::CellRecord::id);
        // A list of texts can always be written.
        let parents = serde_json::to_string(&batch.parents).unwrap_or_else(|_| "[]".to_owned());
        let created_at = clock::rfc3339(now_ms);
        let kept: Vec<Artifact> = entries
            .into_iter()
            .map(|entry| Artifact {
                id: ArtifactId::generate(now_ms),
                name: files[entry.number].name.clone(),
                size: entry.size,
                mime: entry.mime.clone(),
                sha256: entry.sha256.clone(),
                created_at: created_at.clone(),
                url: None,
                session: batch.session.to_owned(),
                cell: batch.cell,
                tool_call: batch.tool_call.clone(),
                parents: batch.parents.clone(),
                pinned: false,
                taken_back: false,
            })
            .collect();
        let row = |artifact: &Artifact| -> Vec<Value> {
            vec![
                artifact.id.as_str().into(),
                artifact.name.as_str().into(),
                artifact.size.into(),
                artifact.mime.as_str().into(),
                artifact.sha256.as_str().into(),
                now_ms.into(),
                batch.session.into(),
                u64::from(batch.cell).into(),
                batch.tool_call.clone().into(),
                parents.as_str().into(),
                false.into(),
                false.into(),
                batch.tenant.into(),
                origin.into(),
                record.clone().into(),
            ]
        };
        let columns = format!("{}, tenant, origin, record", rows::ARTIFACT);
        writing.insert(ACTION, ("artifacts", &columns, ""), kept.iter().map(row).collect()).await?;
        Ok(kept)
    }
}
