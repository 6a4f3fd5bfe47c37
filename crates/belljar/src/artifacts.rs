//! What came out of cells: kept by its hash, found again by its id, and given away as a signed link.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use belljar_artifacts::{
    Artifact, ArtifactError, ArtifactId, BlobPlace, Candidate, CellRecord, CollectOptions,
    Collected as CollectedArtifacts, Contents, Database, DatasetUse, Disposition, Filter as ArtifactFilter,
    Grant, LinkError, Origin, Provenance, RecordKind, Refusal, Refused, StoreLimits, StoreUsage,
};
use belljar_artifacts::{ArtifactStore, LinkKeys, LinkSigner, StoreSettings};
use belljar_store::Tenant;
use serde::{Deserialize, Serialize};

use crate::Error;

/// What becomes of the files that cells leave under `artifacts/`.
///
/// | | default |
/// |---|---|
/// | `keep` | yes, if the sandbox has a place for them: a state directory, say |
/// | `leave` | no: what is kept is removed from the workspace |
/// | `displays` | no: what is displayed is in the outcome only |
/// | `read` | cells can read what their own session made |
/// | `seeded` | yes: randomness comes from a seed that is recorded |
/// | `max_bytes`, `max_count` | 1 GiB for one, 10,000 of one cell |
/// | `allow`, `deny` | every kind of file |
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ArtifactPolicy {
    /// Whether they are kept.
    pub keep: bool,
    /// Whether they stay in the workspace, too.
    pub leave: bool,
    /// Whether images and the like that are displayed are kept as well.
    pub displays: bool,
    /// What cells can read back.
    pub read: ArtifactScope,
    /// Whether randomness that would be the host's comes from a seed instead, drawn for each session and recorded with
    /// what it makes, so that this can be made again.
    pub seeded: bool,
    /// Bytes of one artifact.
    pub max_bytes: Option<u64>,
    /// Artifacts of one cell.
    pub max_count: Option<u64>,
    /// The kinds that may leave, such as `image/*`; all of them if there are none.
    pub allow: Vec<String>,
    /// The kinds that may not, whatever is allowed.
    pub deny: Vec<String>,
}

impl Default for ArtifactPolicy {
    fn default() -> Self {
        Self {
            keep: true,
            leave: false,
            displays: false,
            read: ArtifactScope::Session,
            seeded: true,
            max_bytes: Some(1 << 30),
            max_count: Some(10_000),
            allow: Vec::new(),
            deny: Vec::new(),
        }
    }
}

/// Which artifacts cells can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactScope {
    /// None.
    None,
    /// Those of their own session, and of those that it was forked from.
    #[default]
    Session,
    /// All of the tenant's.
    Tenant,
}

/// Looks at what is about to be kept, and may say why not.
pub type ArtifactHook = Arc<dyn Fn(&Candidate) -> Result<(), String> + Send + Sync>;

/// Where artifacts are kept.
#[derive(Clone, Debug)]
pub struct ArtifactSettings {
    /// Their metadata: SQLite in a file, or PostgreSQL.
    pub database: Database,
    /// Their contents: a directory, or a bucket.
    pub blobs: BlobPlace,
    /// A directory for what is under way, and for copies of what is in a bucket.
    pub scratch: PathBuf,
    /// The file with the keys that links are signed with; made when it is first needed.
    pub keys: PathBuf,
    /// What signed links begin with, such as `https://files.example.com`; a path only, if nothing is said.
    pub base: Option<String>,
    /// How long the links in outcomes are good for.
    pub link_life: Duration,
    /// How much is kept, and how long.
    pub limits: StoreLimits,
}

/// How long links are good that were signed with an older key.
const KEY_RETENTION: Duration = Duration::from_secs(30 * 86_400);
/// How long the links in outcomes are good for.
const LINK_LIFE: Duration = Duration::from_secs(3600);

impl ArtifactSettings {
    /// All of it in one directory.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self {
            database: Database::Sqlite(directory.join("artifacts.db")),
            blobs: BlobPlace::Directory(directory.join("blobs")),
            scratch: directory.join("scratch"),
            keys: directory.join("keys.json"),
            base: None,
            link_life: LINK_LIFE,
            limits: StoreLimits::default(),
        }
    }

    /// Where a state directory has them.
    pub fn of_state(state: &Path) -> Self {
        Self::in_directory(state.join("artifacts"))
    }
}

/// The artifacts of a tenant. Nothing is opened or made before it is needed.
///
/// The functions block, and must not be called from async code.
///
/// ```no_run
/// # fn main() -> Result<(), belljar::Error> {
/// # let sandbox = belljar::Sandbox::builder().state_dir("state").build_blocking()?;
/// let outcome = sandbox.run_blocking("open('artifacts/report.csv', 'w').write('a,b\\n1,2\\n')")?;
/// let artifact = &outcome.artifacts[0];
/// println!("{} is {}, at {:?}", artifact.name, artifact.mime, artifact.url);
/// sandbox.artifacts()?.copy_to(artifact.id.as_str(), "report.csv".as_ref())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Artifacts {
    inner: Arc<Inner>,
    tenant: Tenant,
}

struct Inner {
    settings: ArtifactSettings,
    store: Mutex<Option<ArtifactStore>>,
    signer: OnceLock<LinkSigner>,
}

/// How a signed link is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// How long it is good for; as long as those in outcomes, if nothing is said.
    pub life: Option<Duration>,
    /// Who may use it: whoever asks must say this name.
    pub audience: Option<String>,
    /// Whether browsers show it or save it.
    pub disposition: Disposition,
    /// Lead to the bucket itself, if the contents are in one.
    pub direct: bool,
}

impl Artifacts {
    /// The artifacts of the local user.
    pub fn open(settings: ArtifactSettings) -> Self {
        Self::of_tenant(settings, Tenant::local())
    }

    /// The artifacts of a tenant.
    pub fn of_tenant(settings: ArtifactSettings, tenant: Tenant) -> Self {
        let inner = Inner { settings, store: Mutex::default(), signer: OnceLock::new() };
        Self { inner: Arc::new(inner), tenant }
    }

    /// Where they are.
    pub fn settings(&self) -> &ArtifactSettings {
        &self.inner.settings
    }

    pub(crate) fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    /// The store, opened if it isn't. One that can't be opened is tried again the next time.
    pub(crate) fn store(&self) -> Result<ArtifactStore, Error> {
        let mut opened = self.inner.store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*opened {
            return Ok(store.clone());
        }
        let ArtifactSettings { database, blobs, scratch, limits, .. } = self.inner.settings.clone();
        self.make_private();
        let ages = limits.max_age.is_some();
        let store = ArtifactStore::open(StoreSettings { database, blobs, scratch, limits })?;
        // Once for each process: what is too old goes by itself.
        if ages && let Err(error) = store.collect(&CollectOptions::default()) {
            tracing::warn!(%error, "old artifacts could not be removed");
        }
        *opened = Some(store.clone());
        Ok(store)
    }

    /// Makes directories that only their owner can look into. What fails here fails again, with a better reason.
    fn make_private(&self) {
        let ArtifactSettings { database, blobs, scratch, .. } = &self.inner.settings;
        let mut directories = vec![scratch.as_path()];
        if let BlobPlace::Directory(directory) = blobs {
            directories.push(directory);
        }
        if let Database::Sqlite(path) = database {
            directories.extend(path.parent());
        }
        for directory in directories {
            let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        }
    }

    /// Whether there may be any: nothing is made to find out.
    pub(crate) fn is_there(&self) -> bool {
        match &self.inner.settings.database {
            Database::Sqlite(path) => path.exists(),
            Database::Postgres(_) => true,
        }
    }

    fn signer(&self) -> Result<&LinkSigner, Error> {
        if let Some(signer) = self.inner.signer.get() {
            return Ok(signer);
        }
        let ArtifactSettings { keys, base, .. } = &self.inner.settings;
        let made = LinkSigner::new(Arc::new(LinkKeys::open(keys)?), base.clone());
        Ok(self.inner.signer.get_or_init(|| made))
    }

    /// One artifact.
    pub fn get(&self, id: &str) -> Result<Artifact, Error> {
        let artifact = self.store()?.artifact(self.tenant(), id)?;
        Ok(self.linked(artifact))
    }

    /// Those that are asked for, the newest first.
    pub fn list(&self, filter: &ArtifactFilter) -> Result<Vec<Artifact>, Error> {
        let found = self.store()?.list(self.tenant(), filter)?;
        Ok(found.into_iter().map(|artifact| self.linked(artifact)).collect())
    }

    /// The contents of one.
    pub fn read(&self, id: &str) -> Result<Contents, Error> {
        Ok(self.store()?.read(self.tenant(), id, None)?)
    }

    /// A part of the contents.
    pub fn read_range(&self, id: &str, range: std::ops::Range<u64>) -> Result<Contents, Error> {
        Ok(self.store()?.read(self.tenant(), id, Some(range))?)
    }

    /// Writes the contents into a file, which is there as a whole or not at all. Returns its size.
    pub fn copy_to(&self, id: &str, to: &Path) -> Result<u64, Error> {
        let mut contents = self.read(id)?;
        let failed = |source| Error::Output { path: to.to_owned(), source };
        // Into what isn't a file it is written as it is.
        if fs::metadata(to).is_ok_and(|found| !found.is_file()) {
            let mut file = File::options().write(true).open(to).map_err(failed)?;
            return io::copy(&mut contents, &mut file).map_err(failed);
        }
        let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new()
            .prefix(".belljar-")
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(directory)
            .map_err(failed)?;
        let size = io::copy(&mut contents, &mut file).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(to).map_err(|error| failed(error.error))?;
        Ok(size)
    }

    /// A signed link to one.
    pub fn link(&self, id: &str, options: &LinkOptions) -> Result<String, Error> {
        let artifact = self.store()?.artifact(self.tenant(), id)?;
        let life = options.life.unwrap_or(self.inner.settings.link_life);
        if options.direct {
            let shown = belljar_artifacts::content_disposition(&artifact.name, options.disposition);
            let direct = self.store()?.presigned(self.tenant(), id, life, Some(&shown))?;
            return direct.ok_or(Error::NoBucket);
        }
        self.sign(&artifact, options, life)
    }

    /// A signed link to one that is known already.
    pub fn link_to(&self, artifact: &Artifact, options: &LinkOptions) -> Result<String, Error> {
        self.sign(artifact, options, options.life.unwrap_or(self.inner.settings.link_life))
    }

    /// What a signed link gives, if it is good for whoever asks, now.
    pub fn check_link(&self, link: &str, audience: Option<&str>) -> Result<Grant, Error> {
        Ok(self.signer()?.check(link, audience, now_ms())?)
    }

    /// Signs with a new key from now on. Links that were signed with older ones stay good.
    pub fn rotate_keys(&self) -> Result<(), Error> {
        self.signer()?.keys().rotate(KEY_RETENTION, now_ms())?;
        Ok(())
    }

    /// Keeps one until it is removed by name, or no longer.
    pub fn pin(&self, id: &str, pinned: bool) -> Result<(), Error> {
        Ok(self.store()?.pin(self.tenant(), id, pinned)?)
    }

    /// Removes one. Its contents stay as long as another one has the same.
    pub fn remove(&self, id: &str) -> Result<(), Error> {
        Ok(self.store()?.remove(self.tenant(), id)?)
    }

    /// Where one comes from.
    pub fn provenance(&self, id: &str) -> Result<Provenance, Error> {
        let mut found = self.store()?.provenance(self.tenant(), id)?;
        found.artifact = self.linked(found.artifact);
        Ok(found)
    }

    /// Whether the contents are still what they were.
    pub fn check(&self, id: &str) -> Result<(), Error> {
        Ok(self.store()?.verify(self.tenant(), id)?)
    }

    /// How much the tenant has.
    pub fn usage(&self) -> Result<StoreUsage, Error> {
        Ok(self.store()?.usage(Some(self.tenant()))?)
    }

    /// How much all tenants have.
    pub fn usage_of_all(&self) -> Result<StoreUsage, Error> {
        Ok(self.store()?.usage(None)?)
    }

    /// Removes what is too old, of all tenants, and what nothing needs any more.
    pub fn collect(&self, options: &CollectOptions) -> Result<CollectedArtifacts, Error> {
        Ok(self.store()?.collect(options)?)
    }

    /// With a link, if one can be signed.
    pub(crate) fn linked(&self, mut artifact: Artifact) -> Artifact {
        let life = self.inner.settings.link_life;
        match self.sign(&artifact, &LinkOptions::default(), life) {
            Ok(url) => artifact.url = Some(url),
            Err(error) => tracing::warn!(%error, "an artifact has no link"),
        }
        artifact
    }

    fn sign(&self, artifact: &Artifact, options: &LinkOptions, life: Duration) -> Result<String, Error> {
        let life = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        let name = artifact.name.rsplit('/').next().unwrap_or_default();
        Ok(self.signer()?.sign(&Grant {
            artifact: artifact.id.clone(),
            audience: options.audience.clone(),
            expires_ms: now_ms().saturating_add(life),
            disposition: options.disposition,
            name: Some(name.to_owned()),
        }))
    }
}

/// The hash of what a reader gives, in hexadecimal digits, and how much that is.
pub fn hash_contents(contents: impl Read) -> io::Result<(String, u64)> {
    belljar_artifacts::hash_contents(contents)
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
