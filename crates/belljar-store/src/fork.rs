//! Children of a session: they share all its packs, and no data is copied.

use std::fs;
use std::path::Path;

use crate::create::{NewSession, create};
use crate::draft::{Draft, sync_directory};
use crate::error::{At, Result, StoreError};
use crate::hash::Hash;
use crate::layout::point_file;
use crate::lease::{Lease, Moment};
use crate::pack;
use crate::point::PointFile;
use crate::record::Parent;
use crate::session_id::SessionId;
use crate::sharing;

impl Lease {
    /// Makes a session that goes on from a state of this one, durably, with the same policy and labels.
    ///
    /// # Errors
    ///
    /// [`StoreError::Exists`], [`StoreError::NoHead`], [`StoreError::NoCheckpoint`], or what is damaged. This session
    /// isn't affected.
    pub fn fork(&self, from: Moment, new: Option<SessionId>) -> Result<Lease> {
        let (point, facts, checkpoint) = match from {
            Moment::Head => (self.record.head.ok_or_else(|| self.no_head())?, self.record.facts(), None),
            Moment::Checkpoint(number) => {
                let checkpoint = self.find_checkpoint(number)?;
                (checkpoint.point, checkpoint.facts, Some(number))
            }
        };
        let _held = self.directory.hold_garbage()?;
        // Whole, so that nobody gets a child that can't be loaded.
        let summary = PointFile::open(&self.path, point)?.load()?.summary;
        let packs = self.directory.packs();
        let ids: Vec<Hash> = summary.packs.iter().map(|pack| pack.id).collect();
        let there = sharing::mark(&self.directory, &ids)?;
        if let Some(missing) = ids.iter().find(|id| !there.contains(id)) {
            return Err(StoreError::damaged(&pack::hot_path(&packs, *missing), "it isn't there"));
        }
        sync_directory(&packs)?;
        let mut record = NewSession {
            id: new,
            environment: summary.environment,
            policy: self.record.policy.clone(),
            parent: Some(Parent { session: self.record.id.clone(), checkpoint, cell: facts.cells }),
            labels: self.record.labels.clone(),
        }
        .into_record(&self.record.tenant);
        record.set_facts(facts);
        record.head = Some(point);
        record.stored_bytes = summary.packs.iter().map(|pack| pack.length).sum();
        let fill = |child: &Path| {
            let (from, to) = (self.path.join(point_file(point)), child.join(point_file(point)));
            // Points never change, so one file can serve both; where links can't be had, it is copied.
            if fs::hard_link(&from, &to).is_ok() {
                return Ok(());
            }
            let draft = Draft::of(child, &fs::read(&from).at("read", &from)?)?;
            draft.sync()?;
            draft.place(&to)?.keep();
            Ok(())
        };
        create(&self.store, &self.directory, record, Some(fill))
    }
}
