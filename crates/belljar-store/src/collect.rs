//! Garbage: what no point needs, and what was never finished.

use std::collections::HashSet;
use std::fs;
use std::io;

use crate::draft::is_unfinished;
use crate::error::{At, Result, StoreError};
use crate::hash::Hash;
use crate::layout::{self, TenantDirectory};
use crate::lease::sweep;
use crate::lease_file::{Attempt, LeaseFile};
use crate::pack::pack_name;
use crate::session_id::Tenant;
use crate::sharing::marked_pack;
use crate::store::Store;
use crate::survey::{Summaries, survey};

/// What collecting garbage freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// How many files.
    pub files: u64,
    /// How many bytes they had.
    pub bytes: u64,
}

impl Store {
    /// Removes packs that no point names, what dead processes left unfinished, and environments that nobody names.
    ///
    /// What a running commit is about to name stays. Commits wait for a moment.
    ///
    /// # Errors
    ///
    /// If something can't be read or removed; what was removed until then is gone.
    pub fn collect(&self) -> Result<Collected> {
        let mut collected = Collected::default();
        let mut environments = Some(HashSet::new());
        for tenant in self.tenants()? {
            collected.add(self.collect_garbage(&tenant, &mut environments)?);
        }
        if let Some(needed) = environments {
            collected.add(self.collect_environments(&needed)?);
        }
        Ok(collected)
    }

    pub(crate) fn collect_tenant(&self, tenant: &Tenant) -> Result<Collected> {
        self.collect_garbage(tenant, &mut None)
    }

    /// Also notes which environments are needed; none if that can't be known.
    fn collect_garbage(
        &self,
        tenant: &Tenant,
        environments: &mut Option<HashSet<String>>,
    ) -> Result<Collected> {
        let directory = self.layout.tenant(tenant);
        // Most is read while commits go on. Points never change, so only new ones are read when they have stopped.
        let mut summaries = Summaries::default();
        for session in survey(&directory)? {
            for point in &session.points {
                summaries.of(&session, *point);
            }
            sweep_if_free(&directory, &session);
        }
        let mut collected = Collected::default();
        let _alone = directory.stop_commits()?;
        let mut needed = HashSet::new();
        // What a closed session left behind is gone by now, however it failed to load before.
        summaries.unknown = false;
        for session in survey(&directory)? {
            for point in &session.points {
                let Some(summary) = summaries.of(&session, *point) else { continue };
                needed.extend(summary.packs.iter().map(|pack| pack.id));
                if let Some(environments) = environments {
                    environments.insert(summary.environment.clone());
                }
            }
            match session.record(&directory) {
                Ok(record) => {
                    if let Some(environments) = environments {
                        environments.insert(record.environment);
                    }
                }
                Err(StoreError::Future { .. } | StoreError::Io { .. }) => *environments = None,
                Err(_) => {}
            }
        }
        collected.add(remove_unfinished(&directory)?);
        if summaries.unknown {
            *environments = None;
            return Ok(collected);
        }
        collected.add(remove_packs(&directory, &needed)?);
        Ok(collected)
    }
}

impl Collected {
    pub(crate) fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// Points that a dead owner left in a session keep packs alive for nobody.
fn sweep_if_free(directory: &TenantDirectory, session: &crate::survey::Surveyed) {
    let orphans = || session.record(directory).is_ok_and(|record| session.has_orphans(&record));
    if !orphans() {
        return;
    }
    if let Ok(Attempt::Locked(_lease)) = LeaseFile::try_lock(&session.path)
        && let Ok(record) = session.record(directory)
    {
        sweep(&session.path, &record.points().collect());
    }
}

fn remove_packs(directory: &TenantDirectory, needed: &HashSet<Hash>) -> Result<Collected> {
    let mut collected = Collected::default();
    let packs = directory.packs();
    for entry in layout::entries(&packs)? {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let id = pack_name(name).map(|(id, _)| id).or_else(|| marked_pack(name));
        if id.is_some_and(|id| !needed.contains(&id)) {
            collected.add(remove(&entry)?);
        }
    }
    Ok(collected)
}

/// While commits are stopped nobody is writing, so whatever isn't finished never will be.
fn remove_unfinished(directory: &TenantDirectory) -> Result<Collected> {
    let mut collected = Collected::default();
    for parent in [directory.packs(), directory.sessions()] {
        for entry in layout::entries(&parent)? {
            if is_unfinished(&entry.file_name()) {
                collected.add(remove(&entry)?);
            }
        }
    }
    Ok(collected)
}

pub(crate) fn remove(entry: &fs::DirEntry) -> Result<Collected> {
    let path = entry.path();
    let metadata = entry.metadata().at("read", &path)?;
    let (result, bytes) = if metadata.is_dir() {
        let bytes = layout::entries(&path)?
            .iter()
            .map(|entry| entry.metadata().map_or(0, |metadata| metadata.len()))
            .sum();
        (fs::remove_dir_all(&path), bytes)
    } else {
        (fs::remove_file(&path), metadata.len())
    };
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at("remove", &path),
        _ => Ok(Collected { files: 1, bytes }),
    }
}
