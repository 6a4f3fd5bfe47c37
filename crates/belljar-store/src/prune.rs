//! Fewer sessions: those that slept for long, and those that take too much room.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock;
use crate::error::{Result, StoreError};
use crate::hash::Hash;
use crate::layout;
use crate::lease_file;
use crate::pack::pack_name;
use crate::session_id::{SessionId, Tenant};
use crate::store::Store;
use crate::survey::{Summaries, Surveyed, survey};

/// Which sessions to close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// Those that nobody used for longer.
    pub idle: Option<Duration>,
    /// Then the least recently used, until all that is left of the tenant has no more bytes than this.
    pub keep_bytes: Option<u64>,
    /// Only says which.
    pub dry_run: bool,
}

/// What pruning did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The sessions that were closed.
    pub closed: Vec<SessionId>,
    /// How many bytes that frees.
    pub freed_bytes: u64,
    /// How many bytes are left.
    pub kept_bytes: u64,
}

impl Store {
    /// Closes sessions of a tenant; never those that are in use.
    ///
    /// # Errors
    ///
    /// If a session can't be closed; those before it are gone, all others are unharmed.
    pub fn prune(&self, tenant: &Tenant, prune: &Prune) -> Result<Pruned> {
        let directory = self.layout.tenant(tenant);
        if !directory.path.is_dir() {
            return Ok(Pruned::default());
        }
        if !prune.dry_run {
            // What is garbage already shouldn't cost anybody their session.
            self.collect_tenant(tenant)?;
        }
        let mut summaries = Summaries::default();
        let mut room = Room::of(&directory.packs())?;
        let mut candidates = Vec::new();
        for session in survey(&directory)? {
            room.enter(&session, &mut summaries);
            if let Ok(record) = session.record(&directory)
                && !lease_file::in_use(&session.path)
            {
                candidates.push((record.last_used, session));
            }
        }
        candidates.sort_by_key(|(last_used, _)| *last_used);

        let now = clock::now_ms();
        let mut pruned = Pruned::default();
        for (last_used, session) in &candidates {
            let idle = Duration::from_millis(now.saturating_sub(*last_used));
            let too_old = prune.idle.is_some_and(|most| idle > most);
            let too_much = prune.keep_bytes.is_some_and(|most| room.bytes > most);
            if !(too_old || too_much) {
                continue;
            }
            if !prune.dry_run && !self.close_if_unused_since(tenant, &session.id, *last_used)? {
                continue;
            }
            pruned.freed_bytes += room.leave(session, &mut summaries);
            pruned.closed.push(session.id.clone());
        }
        pruned.kept_bytes = room.bytes;
        if !prune.dry_run && !pruned.closed.is_empty() {
            self.collect_tenant(tenant)?;
        }
        Ok(pruned)
    }

    /// How many bytes a tenant has on disk.
    ///
    /// # Errors
    ///
    /// If a directory can't be listed.
    pub fn usage(&self, tenant: &Tenant) -> Result<u64> {
        let directory = self.layout.tenant(tenant);
        let sessions: u64 = survey(&directory)?.iter().map(|session| session.bytes).sum();
        Ok(Room::of(&directory.packs())?.bytes + sessions)
    }

    fn close_if_unused_since(&self, tenant: &Tenant, id: &SessionId, last_used: u64) -> Result<bool> {
        match self.acquire(tenant, id, Duration::ZERO, &|| false) {
            Ok(lease) if lease.record().last_used == last_used => lease.close().map(|()| true),
            Ok(_) | Err(StoreError::Busy { .. } | StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Who needs which packs, and how many bytes everything has.
struct Room {
    /// How long each pack is, and how many sessions need it.
    packs: HashMap<Hash, (u64, usize)>,
    bytes: u64,
}

impl Room {
    fn of(packs: &std::path::Path) -> Result<Self> {
        let mut room = Self { packs: HashMap::new(), bytes: 0 };
        for entry in layout::entries(packs)? {
            let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
            room.bytes += bytes;
            if let Some((id, _)) = entry.file_name().to_str().and_then(pack_name) {
                room.packs.entry(id).or_default().0 += bytes;
            }
        }
        Ok(room)
    }

    fn enter(&mut self, session: &Surveyed, summaries: &mut Summaries) {
        self.bytes += session.bytes;
        for id in needs(session, summaries) {
            self.packs.entry(id).or_default().1 += 1;
        }
    }

    /// How many bytes are free without it.
    fn leave(&mut self, session: &Surveyed, summaries: &mut Summaries) -> u64 {
        let mut freed = session.bytes;
        for id in needs(session, summaries) {
            let (bytes, users) = self.packs.entry(id).or_default();
            *users = users.saturating_sub(1);
            if *users == 0 {
                freed += *bytes;
            }
        }
        self.bytes = self.bytes.saturating_sub(freed);
        freed
    }
}

fn needs(session: &Surveyed, summaries: &mut Summaries) -> Vec<Hash> {
    let mut packs: Vec<Hash> = session
        .points
        .iter()
        .filter_map(|point| {
            Some(summaries.of(session, *point)?.packs.iter().map(|pack| pack.id).collect::<Vec<_>>())
        })
        .flatten()
        .collect();
    packs.sort_unstable();
    packs.dedup();
    packs
}
