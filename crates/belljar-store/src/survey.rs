//! All of a tenant's sessions with everything that they need, whoever has them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::error::{Result, StoreError};
use crate::hash::Hash;
use crate::layout::{self, TenantDirectory, point_name};
use crate::point::{PointFile, Summary};
use crate::record::SessionRecord;
use crate::session_id::SessionId;

/// Points that were read before: their names vouch for their contents, so they needn't be read again.
#[derive(Default)]
pub(crate) struct Summaries {
    known: HashMap<Hash, Summary>,
    /// Whether there are points of a later Belljar, or that can't be read just now: nobody knows what they need.
    pub(crate) unknown: bool,
}

/// One session.
pub(crate) struct Surveyed {
    pub(crate) id: SessionId,
    pub(crate) path: PathBuf,
    /// All points that are there, named by the record or not.
    pub(crate) points: Vec<Hash>,
    /// How many bytes its files have.
    pub(crate) bytes: u64,
    /// Whether something in it was never finished.
    pub(crate) unfinished: bool,
}

pub(crate) fn survey(directory: &TenantDirectory) -> Result<Vec<Surveyed>> {
    let mut sessions = Vec::new();
    for name in layout::names(&directory.sessions())? {
        let Ok(id) = SessionId::parse(&name) else { continue };
        let path = directory.session(&id);
        let entries = match layout::entries(&path) {
            // A file where a session should be harms no other.
            Err(StoreError::Damaged { .. }) => continue,
            entries => entries?,
        };
        let mut session = Surveyed { id, path, points: Vec::new(), bytes: 0, unfinished: false };
        for entry in entries {
            let name = entry.file_name();
            session.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            session.unfinished |= crate::draft::is_unfinished(&name);
            session.points.extend(name.to_str().and_then(point_name));
        }
        sessions.push(session);
    }
    Ok(sessions)
}

impl Summaries {
    /// What a point needs; nothing if it is damaged, since nobody can load it.
    pub(crate) fn of(&mut self, session: &Surveyed, point: Hash) -> Option<&Summary> {
        // Only what could be read is remembered: what couldn't may be whole in another session, or next time.
        if let Entry::Vacant(place) = self.known.entry(point) {
            match PointFile::open(&session.path, point) {
                Ok(file) => {
                    place.insert(file.summary);
                }
                Err(StoreError::Damaged { .. }) => {}
                Err(_) => self.unknown = true,
            }
        }
        self.known.get(&point)
    }
}

impl Surveyed {
    pub(crate) fn record(&self, directory: &TenantDirectory) -> Result<SessionRecord> {
        SessionRecord::read(&self.path, &self.id, &directory.tenant)
    }

    /// Whether there is something that the record doesn't name.
    pub(crate) fn has_orphans(&self, record: &SessionRecord) -> bool {
        let named: HashSet<Hash> = record.points().collect();
        self.unfinished || self.points.iter().any(|point| !named.contains(point))
    }
}
