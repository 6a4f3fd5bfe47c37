//! The registry of sessions.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::create::{NewSession, create};
use crate::draft::{sync_directory, unfinished_name};
use crate::error::{At, Result, StoreError};
use crate::history::{self, History};
use crate::layout::{self, Layout};
use crate::lease::Lease;
use crate::lease_file::{self, Attempt, LeaseFile};
use crate::record::SessionRecord;
use crate::session_id::{SessionId, Tenant};

/// Whoever looks at a session, or collects garbage, has it for a moment: that isn't worth an error.
const PATIENCE: Duration = Duration::from_millis(10);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// From so many sessions on, two threads list them.
const MANY: usize = 64;

/// A state directory. Any number of processes and threads may use it at once.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) layout: Layout,
}

/// The sessions of a tenant.
#[derive(Debug, Default)]
pub struct Listing {
    /// By name.
    pub sessions: Vec<Listed>,
    /// Those that can't be read.
    pub damaged: Vec<StoreError>,
}

/// One session in a listing.
#[derive(Debug)]
pub struct Listed {
    /// What is known about it.
    pub record: SessionRecord,
    /// Whether somebody has it now.
    pub in_use: bool,
}

impl Store {
    /// Opens a state directory. It needn't exist: nothing is made before something is written.
    ///
    /// # Errors
    ///
    /// [`StoreError::Future`] if a later Belljar made it, [`StoreError::Damaged`] if it isn't a state directory.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        Layout::open(root.into()).map(|layout| Self { layout })
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.layout.root()
    }

    /// Makes a session. It is durable with its first commit.
    ///
    /// # Errors
    ///
    /// [`StoreError::Exists`] if its name is taken.
    pub fn create(&self, tenant: &Tenant, new: NewSession) -> Result<Lease> {
        let directory = self.layout.establish_tenant(tenant)?;
        let _held = directory.hold_garbage()?;
        create(self, &directory, new.into_record(tenant), None::<fn(&Path) -> Result<()>>)
    }

    /// Takes a session that exists. Waits for it if somebody has it, until `cancelled`.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], [`StoreError::Busy`], [`StoreError::Cancelled`], or what is damaged.
    pub fn acquire(
        &self,
        tenant: &Tenant,
        id: &SessionId,
        wait: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Lease> {
        let directory = self.layout.tenant(tenant);
        let path = directory.session(id);
        let mut file = self.lock(id, &path, wait, cancelled)?;
        let record = SessionRecord::read(&path, id, tenant)?;
        file.sign(record.token)?;
        Ok(Lease {
            store: self.clone(),
            directory,
            path,
            file,
            record,
            history: None,
            swept: false,
            needs: Default::default(),
        })
    }

    /// What is known about a session, whoever has it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], or that its record is damaged.
    pub fn record(&self, tenant: &Tenant, id: &SessionId) -> Result<SessionRecord> {
        SessionRecord::read(&self.layout.tenant(tenant).session(id), id, tenant)
    }

    /// Whether somebody has a session.
    #[must_use]
    pub fn in_use(&self, tenant: &Tenant, id: &SessionId) -> bool {
        lease_file::in_use(&self.layout.tenant(tenant).session(id))
    }

    /// All sessions of a tenant.
    ///
    /// # Errors
    ///
    /// If the directory can't be listed; single sessions that can't be read are in the listing.
    pub fn sessions(&self, tenant: &Tenant) -> Result<Listing> {
        let mut ids = self.session_ids(tenant)?;
        ids.sort_unstable();
        let directory = self.layout.tenant(tenant);
        let list = |ids: &[SessionId]| -> Vec<Result<Listed>> {
            let one = |id| {
                let path = directory.session(id);
                let record = SessionRecord::read(&path, id, tenant)?;
                Ok(Listed { record, in_use: lease_file::in_use(&path) })
            };
            ids.iter().map(one).collect()
        };
        let listed = if ids.len() < MANY {
            list(&ids)
        } else {
            let (first, second) = ids.split_at(ids.len() / 2);
            thread::scope(|scope| {
                let second = scope.spawn(|| list(second));
                let mut listed = list(first);
                listed.extend(second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                listed
            })
        };
        let mut listing = Listing::default();
        for session in listed {
            match session {
                Ok(session) => listing.sessions.push(session),
                // Closed since the directory was read.
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => listing.damaged.push(error),
            }
        }
        Ok(listing)
    }

    /// All tenants that ever had a session.
    ///
    /// # Errors
    ///
    /// If the directory can't be listed.
    pub fn tenants(&self) -> Result<Vec<Tenant>> {
        let names = layout::names(&self.layout.tenants())?;
        let mut tenants: Vec<Tenant> = names.iter().filter_map(|name| Tenant::parse(name).ok()).collect();
        tenants.sort_unstable();
        Ok(tenants)
    }

    /// What happened in a session, whoever has it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], or that it can't be read at all.
    pub fn history(&self, tenant: &Tenant, id: &SessionId) -> Result<History> {
        let path = self.layout.tenant(tenant).session(id);
        if !path.is_dir() {
            return Err(StoreError::NotFound { session: id.clone(), path });
        }
        history::read(&path)
    }

    /// Ends a session that can't be taken because its record is damaged. Nobody may have it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], [`StoreError::Busy`], or why it can't be removed.
    pub fn discard(&self, tenant: &Tenant, id: &SessionId) -> Result<()> {
        let directory = self.layout.tenant(tenant);
        let path = directory.session(id);
        let _file = self.lock(id, &path, Duration::ZERO, &|| false)?;
        let _held = directory.hold_garbage()?;
        let gone = unfinished_name(&directory.sessions());
        std::fs::rename(&path, &gone).at("remove", &path)?;
        sync_directory(&directory.sessions())?;
        let _ = std::fs::remove_dir_all(&gone);
        Ok(())
    }

    pub(crate) fn session_ids(&self, tenant: &Tenant) -> Result<Vec<SessionId>> {
        let names = layout::names(&self.layout.tenant(tenant).sessions())?;
        Ok(names.iter().filter_map(|name| SessionId::parse(name).ok()).collect())
    }

    fn lock(
        &self,
        id: &SessionId,
        path: &Path,
        wait: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<LeaseFile> {
        let deadline = Instant::now().checked_add(wait.max(PATIENCE));
        let mut pause = FIRST_PAUSE;
        let mut gone = 0;
        loop {
            match LeaseFile::try_lock(path)? {
                Attempt::Locked(file) => return Ok(file),
                Attempt::Busy => {}
                // The file may have been replaced between opening and locking it; a session that was closed stays so.
                Attempt::Gone if gone < 3 && path.is_dir() => gone += 1,
                Attempt::Gone => {
                    return Err(StoreError::NotFound { session: id.clone(), path: path.to_owned() });
                }
            }
            if cancelled() {
                return Err(StoreError::Cancelled { session: id.clone() });
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let (session, owner) = (id.clone(), lease_file::owner(path));
                return Err(StoreError::Busy { session, path: path.join(lease_file::FILE), owner });
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
