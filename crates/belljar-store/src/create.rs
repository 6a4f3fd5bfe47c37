//! New sessions: made aside, then given their name at once.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::clock;
use crate::draft::{Draft, sync_directory, unfinished_name};
use crate::error::{At, Result, StoreError};
use crate::layout::TenantDirectory;
use crate::lease::Lease;
use crate::lease_file::{Attempt, LeaseFile};
use crate::record::{self, Parent, SessionRecord};
use crate::session_id::{SessionId, Tenant};
use crate::store::Store;

/// What a new session should be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewSession {
    /// Its name; one is made up if there is none.
    pub id: Option<SessionId>,
    /// What it is made from.
    pub environment: String,
    /// What it may use; the store doesn't look inside.
    pub policy: serde_json::Value,
    /// What it was forked from.
    pub parent: Option<Parent>,
    /// Whatever its owner wants to remember.
    pub labels: BTreeMap<String, String>,
}

impl NewSession {
    pub(crate) fn into_record(self, tenant: &Tenant) -> SessionRecord {
        let now = clock::now_ms();
        SessionRecord {
            id: self.id.unwrap_or_else(SessionId::generate),
            tenant: tenant.clone(),
            created: now,
            last_used: now,
            environment: self.environment,
            policy: self.policy,
            parent: self.parent,
            labels: self.labels,
            cells: 0,
            memory_bytes: 0,
            file_bytes: 0,
            stored_bytes: 0,
            checkpoints: Vec::new(),
            token: 0,
            next_checkpoint: 1,
            head: None,
            writer: clock::random(),
            garbage: 0,
        }
    }
}

/// Makes a session with this record, and with whatever `fill` puts into its directory.
///
/// The caller keeps garbage from being collected. An empty session may be lost with the machine until its first
/// commit; one that is filled is durable.
pub(crate) fn create<F: FnOnce(&Path) -> Result<()>>(
    store: &Store,
    directory: &TenantDirectory,
    mut record: SessionRecord,
    fill: Option<F>,
) -> Result<Lease> {
    let path = directory.session(&record.id);
    let exists = || StoreError::Exists { session: record.id.clone(), path: path.clone() };
    if path.is_dir() {
        return Err(exists());
    }
    let aside = Aside::create(&directory.sessions())?;
    let Attempt::Locked(mut file) = LeaseFile::try_lock(&aside.path)? else {
        return Err(io::Error::other("it isn't there any more")).at("lock", &aside.path);
    };
    file.sign(record.token)?;
    record.token = file.token();
    let filled = fill.map(|fill| fill(&aside.path)).transpose()?.is_some();
    let draft = Draft::of(&aside.path, &record.encode())?;
    draft.sync()?;
    draft.place(&aside.path.join(record::FILE))?.keep();
    if filled {
        sync_directory(&aside.path)?;
    }
    match fs::rename(&aside.path, &path) {
        Ok(()) => {}
        Err(error)
            if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) =>
        {
            return Err(exists());
        }
        Err(error) => return Err(error).at("create", &path),
    }
    file.moved(&path);
    if filled {
        sync_directory(&directory.sessions())?;
    }
    Ok(Lease {
        store: store.clone(),
        directory: directory.clone(),
        path,
        file,
        record,
        history: None,
        swept: true,
        needs: HashMap::new(),
    })
}

/// A directory that goes away unless it gets a name.
struct Aside {
    path: PathBuf,
}

impl Aside {
    fn create(sessions: &Path) -> Result<Self> {
        let path = unfinished_name(sessions);
        DirBuilder::new().mode(0o700).create(&path).at("create", &path)?;
        Ok(Self { path })
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Under its new name it isn't found, which is as it should be.
        let _ = fs::remove_dir_all(&self.path);
    }
}
