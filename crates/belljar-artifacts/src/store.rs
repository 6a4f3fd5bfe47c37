//! The store: a database, and contents.

use std::fs;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::runtime::{Builder, Runtime};

use crate::artifact::Artifact;
use crate::batch::{Batch, Ingested};
use crate::blobs::{Blobs, Bucket, Directory};
use crate::clock;
use crate::database::{Database, Value};
use crate::error::{ArtifactError, At, Result};
use crate::filter::Filter;
use crate::hash::Hasher;
use crate::ingest;
use crate::record::{CellRecord, Origin, Provenance};
use crate::rows::{self, Blob};
use crate::settings::{BlobPlace, StoreLimits, StoreSettings};

/// How far back a history is followed.
const LONGEST_HISTORY: u64 = 100_000;

/// Artifacts of all tenants: a database with metadata, and a directory or bucket with contents.
///
/// What it says was kept is durable. Many processes may use the same store at once. Its methods wait for disks and
/// servers; they aren't for the threads of an asynchronous runtime, but for those that it has for waiting.
#[derive(Clone)]
pub struct ArtifactStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) database: Database,
    pub(crate) blobs: Blobs,
    pub(crate) limits: StoreLimits,
    scratch: PathBuf,
    runtime: Option<Runtime>,
}

/// What is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Bytes of all artifacts.
    pub bytes: u64,
    /// Bytes that are stored for them: contents that occur twice count once.
    pub stored_bytes: u64,
    /// Artifacts.
    pub count: u64,
    /// Those that are pinned.
    pub pinned: u64,
}

impl ArtifactStore {
    /// Opens a store, and makes it if there is none.
    ///
    /// # Errors
    /// If the database or the contents can't be reached, were made by a later Belljar, or don't belong together.
    pub fn open(settings: StoreSettings) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("belljar-artifacts")
            .enable_all()
            .build()
            .at("start threads for", &settings.scratch)?;
        let database = runtime.block_on(Database::open(&settings.database))?;
        let blobs = match &settings.blobs {
            BlobPlace::Directory(path) => Blobs::Directory(Directory::open(path)?),
            BlobPlace::S3(place) => Blobs::Bucket(Bucket::open(place)?),
        };
        let inner = Inner {
            database,
            blobs,
            limits: settings.limits,
            scratch: settings.scratch,
            runtime: Some(runtime),
        };
        let claimed = inner.wait(inner.name()).and_then(|name| match &inner.blobs {
            Blobs::Directory(directory) => directory.claim(&name),
            Blobs::Bucket(bucket) => inner.wait(bucket.claim(&name)),
        });
        if let Err(error) = claimed {
            // SQLite removes its log by name when it closes: not when another database may have that name.
            inner.wait(inner.database.close());
            return Err(error);
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Keeps what a cell left behind: all that isn't refused, in one go. When this returns, it is durable.
    ///
    /// # Errors
    /// If contents or rows could not be written. Then nothing was kept.
    pub fn ingest(&self, batch: Batch<'_, '_>) -> Result<Ingested> {
        ingest::ingest(&self.inner, batch)
    }

    /// What is told of an artifact.
    ///
    /// # Errors
    /// [`ArtifactError::NotFound`], if there is none, or it is another tenant's.
    pub fn artifact(&self, tenant: &str, id: &str) -> Result<Artifact> {
        self.inner.wait(self.inner.artifact(tenant, id))
    }

    /// Artifacts of a tenant, the newest first.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn list(&self, tenant: &str, filter: &Filter) -> Result<Vec<Artifact>> {
        let Some((sql, values)) = filter.query(tenant) else { return Ok(Vec::new()) };
        let rows = self.inner.wait(self.inner.database.rows("list artifacts", &sql, values))?;
        rows.iter().map(rows::artifact).collect()
    }

    /// The contents as a file of the host, of mode 0444, that may be linked to but not changed. Those that are in a
    /// bucket are brought here once.
    ///
    /// # Errors
    /// If there is no such artifact, or its contents are gone or damaged.
    pub fn local(&self, tenant: &str, id: &str) -> Result<PathBuf> {
        let (artifact, blob) = self.inner.wait(self.inner.located(tenant, id))?;
        match &self.inner.blobs {
            Blobs::Directory(directory) => {
                if directory.has(&artifact.sha256, artifact.size)? {
                    return Ok(directory.path(&artifact.sha256));
                }
                Err(self.inner.gone(&artifact.sha256))
            }
            Blobs::Bucket(bucket) => self.inner.bring(bucket, &artifact, &blob),
        }
    }

    /// Pins an artifact, so that it stays however old it is; or no longer.
    ///
    /// # Errors
    /// If there is no such artifact, or the database can't be written to.
    pub fn pin(&self, tenant: &str, id: &str, pinned: bool) -> Result<()> {
        let changed = self.inner.wait(async {
            let mut writing = self.inner.database.write("pin an artifact").await?;
            let sql = "UPDATE artifacts SET pinned = $1 WHERE tenant = $2 AND id = $3";
            let values = vec![pinned.into(), clean(tenant).into(), clean(id).into()];
            let changed = writing.execute("pin an artifact", sql, values).await?;
            writing.commit("pin an artifact").await?;
            Ok(changed)
        })?;
        if changed == 0 { Err(ArtifactError::not_found(id)) } else { Ok(()) }
    }

    /// Removes an artifact, pinned or not, and its contents if nothing else has the same.
    ///
    /// # Errors
    /// If there is no such artifact, or the database can't be written to.
    pub fn remove(&self, tenant: &str, id: &str) -> Result<()> {
        let artifact = self.artifact(tenant, id)?;
        if self.inner.wait(self.inner.forget(&[id.to_owned()]))?.is_empty() {
            return Err(ArtifactError::not_found(id));
        }
        // The artifact is gone, whatever happens now; contents that stay are garbage.
        if let Err(error) = self.inner.sweep(&[artifact.sha256]) {
            tracing::warn!(%error, "the contents of a removed artifact could not be removed");
        }
        Ok(())
    }

    /// Marks the artifacts of cells that were taken back, and says how many they are.
    ///
    /// # Errors
    /// If the database can't be written to.
    pub fn take_back(&self, tenant: &str, session: &str, cells: RangeInclusive<u32>) -> Result<u64> {
        const ACTION: &str = "mark artifacts as taken back";
        self.inner.wait(async {
            let mut writing = self.inner.database.write(ACTION).await?;
            let sql = "UPDATE artifacts SET taken_back = 1 WHERE tenant = $1 AND session = $2 \
                       AND taken_back = 0 AND cell >= $3 AND cell <= $4";
            let cells = [*cells.start(), *cells.end()].map(|cell| Value::from(u64::from(cell)));
            let mut values: Vec<Value> = vec![clean(tenant).into(), clean(session).into()];
            values.extend(cells);
            let changed = writing.execute(ACTION, sql, values).await?;
            writing.commit(ACTION).await?;
            Ok(changed)
        })
    }

    /// Whether a record is stored: what was before it needn't be given again.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn knows(&self, record: &str) -> Result<bool> {
        let sql = "SELECT id FROM records WHERE id = $1";
        let rows = self.inner.database.rows("look for a record", sql, vec![clean(record).into()]);
        Ok(!self.inner.wait(rows)?.is_empty())
    }

    /// Where an artifact comes from.
    ///
    /// # Errors
    /// If there is no such artifact, or the database can't be read. What is missing of its history is no error.
    pub fn provenance(&self, tenant: &str, id: &str) -> Result<Provenance> {
        self.inner.wait(self.inner.provenance(tenant, id))
    }

    /// What a tenant holds, or all do.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn usage(&self, tenant: Option<&str>) -> Result<StoreUsage> {
        let (condition, values) = match tenant {
            Some(tenant) => (" WHERE tenant = $1", vec![Value::from(clean(tenant))]),
            None => ("", Vec::new()),
        };
        let sql = format!(
            "SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT), COUNT(*), \
             CAST(COALESCE(SUM(pinned), 0) AS BIGINT), \
             (SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM blobs WHERE sha256 IN \
             (SELECT sha256 FROM artifacts{condition})) FROM artifacts{condition}"
        );
        let rows = self.inner.wait(self.inner.database.rows("look at usage", &sql, values))?;
        let Some(row) = rows.first() else { return Ok(StoreUsage::default()) };
        let (bytes, count, pinned, stored_bytes) =
            (row.number(0)?, row.number(1)?, row.number(2)?, row.number(3)?);
        Ok(StoreUsage { bytes, stored_bytes, count, pinned })
    }

    /// Reads an artifact's contents, to see that they are what was kept.
    ///
    /// # Errors
    /// [`ArtifactError::Gone`] or [`ArtifactError::Damaged`], if they aren't.
    pub fn verify(&self, tenant: &str, id: &str) -> Result<()> {
        let mut contents = self.read(tenant, id, None)?;
        std::io::copy(&mut contents, &mut std::io::sink()).map(drop).map_err(|error| {
            match error.downcast::<ArtifactError>() {
                Ok(error) => error,
                Err(source) => ArtifactError::Io { action: "read the contents of", path: id.into(), source },
            }
        })
    }

    /// A link to the contents by which the bucket itself gives them out, for a while; nothing if they are in a
    /// directory.
    ///
    /// # Errors
    /// If there is no such artifact, or the link can't be signed.
    pub fn presigned(
        &self,
        tenant: &str,
        id: &str,
        expires: Duration,
        disposition: Option<&str>,
    ) -> Result<Option<String>> {
        let Blobs::Bucket(bucket) = &self.inner.blobs else {
            return self.artifact(tenant, id).map(|_| None);
        };
        self.inner.wait(async {
            let (_, blob) = self.inner.located(tenant, id).await?;
            bucket.sign(&blob.place, expires, disposition).await.map(Some)
        })
    }
}

impl Inner {
    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken when this is dropped")
    }

    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime().block_on(future)
    }

    pub(crate) fn handle(&self) -> &tokio::runtime::Handle {
        self.runtime().handle()
    }

    /// Where contents are, in words.
    pub(crate) fn place(&self) -> String {
        match &self.blobs {
            Blobs::Directory(directory) => directory.root().display().to_string(),
            Blobs::Bucket(bucket) => bucket.name().to_owned(),
        }
    }

    pub(crate) fn gone(&self, sha256: &str) -> ArtifactError {
        ArtifactError::Gone { sha256: sha256.to_owned(), place: self.place() }
    }

    /// Where copies of contents are that are in a bucket.
    pub(crate) fn copies(&self) -> PathBuf {
        self.scratch.join("blobs")
    }

    /// Where copies are made. They are renamed from there, whole.
    pub(crate) fn copying(&self) -> Result<Directory> {
        Directory::open(&self.copies().join("new"))
    }

    /// What the database calls the store.
    async fn name(&self) -> Result<String> {
        const ACTION: &str = "name the store";
        const SELECT: &str = "SELECT value FROM store WHERE name = 'name'";
        if let Some(row) = self.database.rows(ACTION, SELECT, Vec::new()).await?.first() {
            return row.text(0);
        }
        let mut writing = self.database.write(ACTION).await?;
        let row = vec!["name".into(), format!("{}{}", clock::random_name(), clock::random_name()).into()];
        let conflict = "ON CONFLICT (name) DO NOTHING";
        writing.insert(ACTION, ("store", "name, value", conflict), vec![row]).await?;
        let rows = writing.rows(ACTION, SELECT, Vec::new()).await?;
        writing.commit(ACTION).await?;
        rows.first().map_or_else(|| Ok(String::new()), |row| row.text(0))
    }

    pub(crate) async fn artifact(&self, tenant: &str, id: &str) -> Result<Artifact> {
        let sql = format!("SELECT {} FROM artifacts WHERE tenant = $1 AND id = $2", rows::ARTIFACT);
        let values = vec![clean(tenant).into(), clean(id).into()];
        let rows = self.database.rows("look for an artifact", &sql, values).await?;
        rows.first().map_or_else(|| Err(ArtifactError::not_found(id)), rows::artifact)
    }

    /// An artifact, and where its contents are.
    pub(crate) async fn located(&self, tenant: &str, id: &str) -> Result<(Artifact, Blob)> {
        let artifact = self.artifact(tenant, id).await?;
        let mut blobs = rows::blobs(&self.database, &[&artifact.sha256]).await?;
        match blobs.remove(&artifact.sha256) {
            Some(blob) => Ok((artifact, blob)),
            // Removed in the meantime: the row goes before the contents.
            None => Err(ArtifactError::not_found(id)),
        }
    }

    /// Copies contents from the bucket, and sees that they are what they should be.
    fn bring(&self, bucket: &Bucket, artifact: &Artifact, blob: &Blob) -> Result<PathBuf> {
        let copies = self.copies();
        let path = copies.join(&artifact.sha256);
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() == artifact.size) {
            return Ok(path);
        }
        let directory = self.copying()?;
        let mut temporary = directory.temporary()?;
        let mut hasher = Hasher::default();
        self.wait(async {
            let mut contents = bucket.read(&blob.place, &artifact.sha256, 0..artifact.size).await?;
            while let Some(bytes) = contents.try_next().await? {
                hasher.update(&bytes);
                temporary.write(&bytes)?;
            }
            Ok::<_, ArtifactError>(())
        })?;
        if hasher.finish() != artifact.sha256 {
            return Err(ArtifactError::Damaged {
                what: format!("{} in {}", blob.place, bucket.name()),
                reason: "its bytes have another hash".into(),
            });
        }
        if let Some(file) = &mut temporary.file {
            file.flush().at("write", &path)?;
        }
        temporary.sync()?;
        fs::rename(&temporary.path, &path).at("make", &path)?;
        Ok(path)
    }

    async fn provenance(&self, tenant: &str, id: &str) -> Result<Provenance> {
        const ACTION: &str = "look for where an artifact comes from";
        let sql =
            format!("SELECT {}, origin, record FROM artifacts WHERE tenant = $1 AND id = $2", rows::ARTIFACT);
        let values = vec![clean(tenant).into(), clean(id).into()];
        let found = self.database.rows(ACTION, &sql, values).await?;
        let row = found.first().ok_or_else(|| ArtifactError::not_found(id))?;
        let artifact = rows::artifact(row)?;
        let (origin_id, record) = (row.text(12)?, row.optional_text(13)?);
        let mut missing = Vec::new();

        let sql = "SELECT body FROM origins WHERE id = $1";
        let found = self.database.rows(ACTION, sql, vec![origin_id.as_str().into()]).await?;
        let body = found.first().map(|row| row.text(0)).transpose()?;
        let origin = body.and_then(|body| read_record::<Origin>(&body, &origin_id));
        if origin.is_none() {
            missing.push("what the session was made from".to_owned());
        }

        let mut cells = Vec::new();
        match record {
            None => missing.push("the cell that made it: it wasn't recorded".to_owned()),
            Some(record) => {
                let sql = "WITH RECURSIVE chain (id, previous, body, depth) AS (\
                           SELECT id, previous, body, CAST(0 AS BIGINT) FROM records WHERE id = $1 \
                           UNION ALL \
                           SELECT records.id, records.previous, records.body, chain.depth + 1 \
                           FROM records JOIN chain ON records.id = chain.previous WHERE chain.depth < $2) \
                           SELECT id, body FROM chain ORDER BY depth";
                let values = vec![record.as_str().into(), LONGEST_HISTORY.into()];
                let mut next = Some(record);
                for row in self.database.rows(ACTION, sql, values).await? {
                    let cell_id = row.text(0)?;
                    let Some(cell) = read_record::<CellRecord>(&row.text(1)?, &cell_id) else { break };
                    next.clone_from(&cell.previous);
                    cells.push(cell);
                }
                if let Some(next) = next {
                    missing.push(format!("the record {next}, and what was before it"));
                }
            }
        }
        cells.reverse();
        Ok(Provenance { artifact, origin: origin.unwrap_or_default(), cells, missing })
    }
}

/// Reads a record, if it is the one that it is called.
fn read_record<T: serde::de::DeserializeOwned>(body: &str, id: &str) -> Option<T> {
    if crate::hash::of(body.as_bytes()) != id {
        return None;
    }
    serde_json::from_str(body).ok()
}

/// PostgreSQL can't even look for a NUL. No name that was ever stored is this.
pub(crate) fn clean(name: &str) -> &str {
    if name.contains('\0') { "" } else { name }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // It may be an asynchronous task that drops this, which must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
