//! The sessions that are kept: looking at them, and clearing up, without any interpreter.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_runtime::{Quiet, Runtime};
pub use belljar_store::{Collected, Cooled, HistoryEntry, Parent, Prune, Pruned};
use belljar_store::{Lease, Listed, SessionId, SessionRecord, Store, Tenant};
use belljar_wasm::WasmEngine;
use serde::Serialize;

use crate::datasets::DatasetPolicy;
use crate::history::History;
use crate::recipe::{Recipe, is_recipe};
use crate::sandbox::{ENGINE_LABEL, engine_label};
use crate::session::{KeptPlaces, is_on_disk, shelves_of};
use crate::workspace::{WorkspacePolicy, Workspaces};
use crate::{Checkpoint, EngineKind, Environment, Error, Files, Policy, Runtimes, default_state_dir};

/// The sessions that are kept in a state directory.
///
/// ```no_run
/// # fn main() -> Result<(), belljar::Error> {
/// let registry = belljar::Registry::open("state")?;
/// for session in registry.sessions()?.sessions {
///     println!("{}: {} cells", session.id, session.cells);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Registry {
    store: Store,
    tenant: Tenant,
    wait: Duration,
}

/// What is known of a session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionInfo {
    /// Its name.
    pub id: SessionId,
    /// Whose it is.
    pub tenant: Tenant,
    /// Where it is.
    pub state: SessionLife,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it was last used.
    pub last_used_ms: u64,
    /// The environment that it was made in, by its hash.
    pub environment: String,
    /// What runs it.
    pub engine: EngineKind,
    /// Cells so far.
    pub cells: u32,
    /// Bytes of memory that aren't the environment's.
    pub memory_bytes: u64,
    /// Bytes of its files.
    pub file_bytes: u64,
    /// Bytes on disk that were written for it; others may share them.
    pub stored_bytes: u64,
    /// Where it comes from.
    pub parent: Option<Parent>,
    /// What it may use: a [`Policy`], as it was recorded.
    pub policy: serde_json::Value,
    /// Its checkpoints, the oldest first.
    pub checkpoints: Vec<Checkpoint>,
}

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionLife {
    /// Some process has it.
    Live,
    /// On disk.
    Hibernated,
}

/// All sessions, as far as they can be read.
#[derive(Debug, Default)]
pub struct SessionList {
    /// Sorted by name.
    pub sessions: Vec<SessionInfo>,
    /// What couldn't be read, and why.
    pub damaged: Vec<Error>,
}

impl Registry {
    /// The registry in a state directory. It needn't exist yet.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, Error> {
        Ok(Self::new(Store::open(directory)?, Tenant::local(), Duration::ZERO))
    }

    /// The registry in the user's data directory.
    pub fn open_default() -> Result<Self, Error> {
        Self::open(default_state_dir().ok_or(Error::NoStateDirectory)?)
    }

    pub(crate) fn new(store: Store, tenant: Tenant, wait: Duration) -> Self {
        Self { store, tenant, wait }
    }

    /// How long to wait for a session that is in use; at first not at all.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The state directory.
    pub fn directory(&self) -> &Path {
        self.store.root()
    }

    /// All sessions.
    pub fn sessions(&self) -> Result<SessionList, Error> {
        let listing = self.store.sessions(&self.tenant)?;
        let sessions = listing.sessions.into_iter().map(|Listed { record, in_use }| info(&record, in_use));
        Ok(SessionList {
            sessions: sessions.collect(),
            damaged: listing.damaged.into_iter().map(Error::from).collect(),
        })
    }

    /// One session.
    pub fn session(&self, name: &str) -> Result<SessionInfo, Error> {
        let id = SessionId::parse(name)?;
        let record = self.store.record(&self.tenant, &id)?;
        Ok(info(&record, self.store.in_use(&self.tenant, &id)))
    }

    /// Whether there is a session of that name.
    pub fn contains(&self, name: &str) -> Result<bool, Error> {
        match self.store.record(&self.tenant, &SessionId::parse(name)?) {
            Ok(_) => Ok(true),
            Err(belljar_store::StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What was run in a session.
    pub fn history(&self, name: &str) -> Result<History, Error> {
        let id = SessionId::parse(name)?;
        let history = self.store.history(&self.tenant, &id)?;
        // Of one that is in use nobody else knows how far it is.
        let running = self.store.in_use(&self.tenant, &id);
        let cells = if running { u32::MAX } else { self.store.record(&self.tenant, &id)?.cells };
        Ok(History::new(history, cells))
    }

    /// Writes a sleeping session into one file, with its checkpoints, its history and its environment's image;
    /// returns the file's size.
    pub fn export(&self, name: &str, to: &Path) -> Result<u64, Error> {
        export(&self.store, &self.lease(name)?, to)
    }

    /// Adds a session from a file. Nothing in the file is believed: it gets no mounts of the host, whatever it
    /// had where it comes from. They are returned.
    ///
    /// The interpreter must be of the version that the session was made with; `runtimes` says where it is.
    pub fn import(&self, from: &Path, name: Option<&str>, runtimes: &Runtimes) -> Result<Imported, Error> {
        let id = name.map(SessionId::parse).transpose()?;
        let (mut lease, environment) = self.store.import(&self.tenant, from, id)?;
        if let Err(error) = self.pin(&lease.record().environment, environment, runtimes) {
            // A session that can't be woken is no use to anybody.
            lease.close()?;
            return Err(error);
        }
        let mut policy: Policy = serde_json::from_value(lease.record().policy.clone()).unwrap_or_default();
        let mounts = std::mem::take(&mut policy.mounts);
        policy.install = false;
        // Directories are the other machine's, too.
        let WorkspacePolicy { storage, .. } = policy.workspace;
        policy.workspace = WorkspacePolicy { storage, ..WorkspacePolicy::default() };
        policy.datasets = DatasetPolicy { allow: policy.datasets.allow.take(), ..DatasetPolicy::default() };
        let workspace = policy.workspace.clone();
        let policy = serde_json::to_value(&policy).unwrap_or_default();
        let labels = engine_label(self.engine_of(&lease.record().environment));
        lease.update(|settings| {
            settings.policy = policy;
            settings.labels.extend(labels);
        })?;
        if is_on_disk(&workspace) {
            self.workspaces().create(&lease.record().id)?;
        }
        let session = info(lease.record(), false);
        Ok(Imported { session, dropped_mounts: mounts.into_iter().map(|mount| mount.guest).collect() })
    }

    /// Puts the environment of an imported session aside, unless it is there.
    fn pin(&self, name: &str, packed: Option<File>, runtimes: &Runtimes) -> Result<(), Error> {
        if self.store.environment(name).is_some() {
            return Ok(());
        }
        let missing = || Error::NoEnvironment { environment: name.to_owned() };
        let mut packed = packed.ok_or_else(missing)?;
        if is_native(&mut packed).map_err(Error::Temporary)? {
            let recipe = Recipe::import(&packed, name)?;
            // Here and now, so that a session that can't be woken isn't taken in.
            recipe.assemble(runtimes, &Quiet)?;
            self.store.pin_environment(name, |directory| recipe.write_foreign(directory))?;
            return Ok(());
        }
        let cache = runtimes.cache()?;
        let runtime = |id: &str| Runtime::find(&cache, id);
        let unpack = |directory: &Path| WasmEngine::unpack_pinned(&packed, runtime, name, directory);
        self.store.pin_environment(name, unpack)?;
        Ok(())
    }

    /// What runs sessions of an environment that is pinned.
    fn engine_of(&self, environment: &str) -> EngineKind {
        match self.store.environment(environment) {
            Some(pinned) if Recipe::is_in(&pinned) => EngineKind::Native,
            _ => EngineKind::Wasm,
        }
    }

    /// The environment that a session was made in, if it is a native one: a sandbox that is made for it needs no
    /// other engine to wake the session.
    pub fn native_environment(&self, name: &str) -> Result<Option<Environment>, Error> {
        let record = self.store.record(&self.tenant, &SessionId::parse(name)?)?;
        match self.store.environment(&record.environment) {
            Some(pinned) if Recipe::is_in(&pinned) => Ok(Some(Recipe::read(&pinned)?.environment()?)),
            _ => Ok(None),
        }
    }

    /// Ends a session and forgets all that was kept of it, also if it is damaged.
    pub fn close(&self, name: &str) -> Result<(), Error> {
        match self.lease(name) {
            Ok(lease) => {
                let id = lease.record().id.clone();
                let policy =
                    serde_json::from_value::<Policy>(lease.record().policy.clone()).unwrap_or_default();
                lease.close()?;
                self.clear_shelf(&id);
                match is_on_disk(&policy.workspace) {
                    true => self.workspaces_of(&policy.workspace).forget(&id),
                    false => Ok(()),
                }
            }
            Err(Error::Store(error)) if error.is_damage() => {
                Ok(self.store.discard(&self.tenant, &SessionId::parse(name)?)?)
            }
            Err(error) => Err(error),
        }
    }

    /// Where workspaces are, but for sessions that say otherwise.
    pub fn workspaces(&self) -> Workspaces {
        Workspaces::of_state(self.store.root(), &self.tenant)
    }

    /// Where a session's workspace is.
    pub fn workspaces_of(&self, policy: &WorkspacePolicy) -> Workspaces {
        let open = |root| Workspaces::open(root).flat(policy.flat);
        policy.root.as_ref().map_or_else(|| self.workspaces(), open)
    }

    /// The files of a session whose workspace is on disk, without waking it; `None` if it is in memory.
    pub fn files(&self, name: &str) -> Result<Option<Files>, Error> {
        let id = SessionId::parse(name)?;
        let record = self.store.record(&self.tenant, &id)?;
        let policy: Policy = serde_json::from_value(record.policy.clone())
            .map_err(|error| Error::RecordedPolicy { session: name.to_owned(), reason: error.to_string() })?;
        if !is_on_disk(&policy.workspace) {
            return Ok(None);
        }
        let shelf = self.shelves().join(id.as_str());
        self.workspaces_of(&policy.workspace).files_and_shelf(&id, &policy, Some(&shelf)).map(Some)
    }

    /// Closes sessions by age and size, and removes what nothing needs any more.
    pub fn prune(&self, prune: &Prune) -> Result<Pruned, Error> {
        Ok(self.store.prune(&self.tenant, prune)?)
    }

    /// Removes what nothing needs any more.
    pub fn collect(&self) -> Result<Collected, Error> {
        Ok(self.store.collect()?)
    }

    /// Compresses what was written longer ago than this. A session that is used again wakes a little slower.
    pub fn cool(&self, older_than: Duration) -> Result<Cooled, Error> {
        Ok(self.store.cool(&self.tenant, older_than)?)
    }

    /// Reads every byte that is kept, and returns what is wrong.
    pub fn verify(&self) -> Result<Vec<Error>, Error> {
        let mut wrong: Vec<Error> = self.store.verify(&self.tenant)?.into_iter().map(Error::from).collect();
        let records = self.sessions()?.sessions.into_iter();
        let policies = records.filter_map(|session| serde_json::from_value::<Policy>(session.policy).ok());
        let mut roots: Vec<Workspaces> = policies
            .filter(|policy| is_on_disk(&policy.workspace))
            .map(|policy| self.workspaces_of(&policy.workspace))
            .collect();
        roots.sort_by(|one, other| one.root().cmp(other.root()));
        roots.dedup();
        for root in roots {
            for name in root.damaged()? {
                let source =
                    std::io::Error::new(std::io::ErrorKind::InvalidData, format!("{name} is damaged"));
                wrong.push(Error::Workspace { path: root.root().to_owned(), source });
            }
        }
        Ok(wrong)
    }

    /// Bytes on disk.
    pub fn disk_bytes(&self) -> Result<u64, Error> {
        Ok(self.store.usage(&self.tenant)?)
    }

    /// Forgets what a session had on its shelf.
    fn clear_shelf(&self, id: &SessionId) {
        KeptPlaces { shelves: Some(self.shelves()), ..KeptPlaces::default() }.clear(id);
    }

    fn shelves(&self) -> PathBuf {
        shelves_of(self.store.root()).join(self.tenant.as_str())
    }

    fn lease(&self, name: &str) -> Result<Lease, Error> {
        let id = SessionId::parse(name)?;
        Ok(self.store.acquire(&self.tenant, &id, self.wait, &|| false)?)
    }
}

/// Writes a session and what it needs into one file.
pub(crate) fn export(store: &Store, lease: &Lease, to: &Path) -> Result<u64, Error> {
    let environment = &lease.record().environment;
    let missing = || Error::NoEnvironment { environment: environment.clone() };
    let pinned = store.environment(environment).ok_or_else(missing)?;
    let mut packed = tempfile::NamedTempFile::new().map_err(Error::Temporary)?;
    if Recipe::is_in(&pinned) {
        packed.write_all(&Recipe::read(&pinned)?.export()?).map_err(Error::Temporary)?;
    } else {
        WasmEngine::pack_pinned(&pinned, BufWriter::new(&mut packed)).map_err(Error::Temporary)?;
    }
    Ok(lease.export(to, Some(packed.path()), &mut |_, _| ())?)
}

/// Whether what came along with a session describes a native environment. It is read from its beginning again.
fn is_native(packed: &mut File) -> std::io::Result<bool> {
    let mut start = Vec::new();
    Read::by_ref(packed).take(1).read_to_end(&mut start)?;
    packed.rewind()?;
    Ok(is_recipe(&start))
}

/// A session that came from a file.
#[derive(Clone, Debug, Serialize)]
pub struct Imported {
    /// The session.
    pub session: SessionInfo,
    /// Guest paths of mounts that it had and hasn't any more.
    pub dropped_mounts: Vec<String>,
}

fn info(record: &SessionRecord, in_use: bool) -> SessionInfo {
    SessionInfo {
        id: record.id.clone(),
        tenant: record.tenant.clone(),
        state: if in_use { SessionLife::Live } else { SessionLife::Hibernated },
        created_ms: record.created,
        last_used_ms: record.last_used,
        environment: record.environment.clone(),
        engine: record.labels.get(ENGINE_LABEL).and_then(|name| name.parse().ok()).unwrap_or_default(),
        cells: record.cells,
        memory_bytes: record.memory_bytes,
        file_bytes: record.file_bytes,
        stored_bytes: record.stored_bytes,
        parent: record.parent.clone(),
        policy: record.policy.clone(),
        checkpoints: record.checkpoints.iter().map(Checkpoint::from).collect(),
    }
}
