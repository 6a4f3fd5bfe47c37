//! All datasets of a host.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;

use crate::blobs::{Blobs, Cached, mark_of};
use crate::clock::now_ms;
use crate::dataset::{Dataset, LATEST, NewDataset};
use crate::draft::{self, Lock, make_directory, unfinished_name};
use crate::error::{At, DatasetError, Result};
use crate::fetch::{self, Fetcher, Run};
use crate::layout::{Layout, PRIVATE, hexadecimal, with_ending};
use crate::names::{check, check_hash};
use crate::options::FetchOptions;
use crate::partial::Partial;
use crate::progress::Progress;
use crate::registry::{Entry, Promise, Registry};
use crate::source::Source;

/// The registry of datasets, and their contents as far as they were fetched. Clones are the same store.
///
/// Processes and threads share a store as they like. Nothing is made on disk before it is needed.
#[derive(Clone)]
pub struct DatasetStore {
    inner: Arc<Inner>,
}

struct Inner {
    layout: Layout,
    fetchers: BTreeMap<String, Arc<dyn Fetcher>>,
    network: Arc<Network>,
}

/// What runs requests, made for the first one.
#[derive(Default)]
struct Network {
    runtime: OnceLock<Runtime>,
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Whoever drops the store may be on a thread that mustn't wait.
            runtime.shutdown_background();
        }
    }
}

/// All datasets of a tenant, and entries of the registry that can't be read.
#[derive(Debug, Default)]
pub struct Listing {
    /// Sorted by name, then by when they were added.
    pub datasets: Vec<Dataset>,
    /// Each names a file.
    pub problems: Vec<DatasetError>,
}

impl DatasetStore {
    /// The store in a directory, which is made when something is kept in it.
    pub fn open(root: impl Into<PathBuf>) -> Self {
        let layout = Layout::new(root.into());
        let inner = Inner { layout, fetchers: BTreeMap::new(), network: Arc::default() };
        Self { inner: Arc::new(inner) }
    }

    /// With a fetcher of the host's, for datasets of [`Source::Callback`].
    #[must_use]
    pub fn with_fetcher(self, name: impl Into<String>, fetcher: Arc<dyn Fetcher>) -> Self {
        let mut fetchers = self.inner.fetchers.clone();
        fetchers.insert(name.into(), fetcher);
        let (layout, network) = (self.inner.layout.clone(), Arc::clone(&self.inner.network));
        Self { inner: Arc::new(Inner { layout, fetchers, network }) }
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.inner.layout.root()
    }

    /// Adds a dataset; nothing is fetched yet. Adding the same again is fine.
    ///
    /// # Errors
    /// If something of it makes no sense, or if there is another one of that name and version.
    pub fn add(&self, tenant: &str, new: NewDataset) -> Result<Dataset> {
        let replace = new.replace;
        let dataset = new.checked(tenant, now_ms())?;
        let registry = self.registry();
        let _lock = registry.lock(tenant)?;
        let promised = Promise { sha256: dataset.sha256.clone(), size: dataset.size };
        let mut entry = Entry { dataset, promised };
        let known = registry.get(tenant, &entry.dataset.name, Some(&entry.dataset.version));
        // What is added later is newer, whatever the clock says.
        let newest = registry.newest(tenant, &entry.dataset.name)?;
        entry.dataset.added_ms =
            entry.dataset.added_ms.max(newest.map_or(0, |newest| newest.saturating_add(1)));
        match known {
            Ok(known) if is_same(&known, &entry) => return Ok(known.dataset),
            Ok(_) | Err(DatasetError::Damaged { .. }) if !replace => {
                let Dataset { name, version, .. } = entry.dataset;
                // A damaged one is named as such.
                known?;
                return Err(DatasetError::Exists { name, version });
            }
            Ok(known) if known.dataset.source.is_same_place(&entry.dataset.source) => {
                // What was learnt of it holds, unless it is known better now.
                let fits = entry.promised.sha256.is_none() || entry.promised.sha256 == known.dataset.sha256;
                if fits && entry.promised.size.is_none_or(|size| Some(size) == known.dataset.size) {
                    entry.dataset.sha256 = known.dataset.sha256;
                    entry.dataset.size = known.dataset.size;
                    entry.dataset.fetched_ms = known.dataset.fetched_ms;
                    entry.dataset.reported_version = known.dataset.reported_version;
                }
            }
            Ok(_) | Err(DatasetError::NotFound { .. } | DatasetError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
        registry.put(&entry)?;
        Ok(entry.dataset)
    }

    /// All datasets of a tenant that can be read, sorted by name, then by when they were added.
    ///
    /// # Errors
    /// If the registry can't be read at all. For single entries, see [`DatasetStore::listing`].
    pub fn list(&self, tenant: &str) -> Result<Vec<Dataset>> {
        Ok(self.listing(tenant)?.datasets)
    }

    /// All datasets of a tenant, and what is wrong with those that can't be read.
    ///
    /// # Errors
    /// If the registry can't be read at all.
    pub fn listing(&self, tenant: &str) -> Result<Listing> {
        let listing = self.registry().list(tenant)?;
        let datasets = listing.entries.into_iter().map(|entry| entry.dataset).collect();
        Ok(Listing { datasets, problems: listing.problems })
    }

    /// What is known of a dataset; of the version that was added last, if none is given.
    ///
    /// # Errors
    /// If there is none, or its entry is damaged.
    pub fn get(&self, tenant: &str, name: &str, version: Option<&str>) -> Result<Dataset> {
        Ok(self.registry().get(tenant, name, version)?.dataset)
    }

    /// Forgets a version of a dataset, or all of them. Sessions that have it on their shelf keep it; contents that
    /// nobody has are collected later.
    ///
    /// # Errors
    /// If there is none.
    pub fn remove(&self, tenant: &str, name: &str, version: Option<&str>) -> Result<()> {
        check("a tenant's name", tenant)?;
        check("a dataset's name", name)?;
        version.map_or(Ok(()), |version| check("a dataset's version", version))?;
        let registry = self.registry();
        let mut removed = false;
        if self.inner.layout.versions(tenant, name).exists() {
            let _lock = registry.lock(tenant)?;
            match version {
                Some(version) => removed = registry.remove(tenant, name, version)?,
                None => {
                    for file in draft::entries(&self.inner.layout.versions(tenant, name))? {
                        // Damaged ones as well.
                        let file = file.file_name();
                        if let Some(version) = file.to_str().and_then(|file| file.strip_suffix(".json")) {
                            removed |= registry.remove(tenant, name, version)?;
                        }
                    }
                }
            }
        }
        match removed {
            true => Ok(()),
            false => {
                Err(DatasetError::NotFound { name: name.to_owned(), version: version.map(str::to_owned) })
            }
        }
    }

    /// Has a dataset's contents here, fetched unless they are. Whoever asks at the same time waits for the first.
    ///
    /// What is fetched is checked against what was promised of it: when it was added, by its source, and for what has
    /// a version of its own, by what it was before.
    ///
    /// # Errors
    /// If there is no such dataset, if it can't be had within the bounds of `options`, or if it isn't as promised.
    pub fn fetch(
        &self,
        tenant: &str,
        name: &str,
        version: Option<&str>,
        options: &FetchOptions,
        progress: &dyn Progress,
    ) -> Result<Cached> {
        let begun = Instant::now();
        let begun_ms = now_ms();
        let registry = self.registry();
        let entry = registry.get(tenant, name, version)?;
        if !options.refresh
            && let Some(cached) = self.cached(&entry, options)?
        {
            return Ok(cached);
        }
        let layout = &self.inner.layout;
        make_directory(&layout.partials(), PRIVATE)?;
        let stem = layout.partial(tenant, name, &entry.dataset.version);
        let go_on = || !fetch::is_stopped(options, progress);
        let Some(lock) = Lock::within(&with_ending(&stem, ".lock"), options.timeout, &go_on)? else {
            let name = name.to_owned();
            return Err(match go_on() {
                true => DatasetError::Busy { name, after: options.timeout },
                false => DatasetError::Stopped { name },
            });
        };
        // Somebody else may just have done it.
        let entry = registry.get(tenant, name, Some(&entry.dataset.version))?;
        let is_new = entry.dataset.fetched_ms.is_some_and(|fetched| fetched > begun_ms);
        if (!options.refresh || is_new)
            && let Some(cached) = self.cached(&entry, options)?
        {
            return Ok(cached);
        }
        let mut partial = Partial::open(&stem, fetch::fingerprint(&entry.dataset), lock)?;
        let fetcher = match &entry.dataset.source {
            Source::Callback { fetcher } => self.inner.fetchers.get(fetcher).cloned(),
            _ => None,
        };
        let run = Run {
            dataset: &entry.dataset,
            due: entry.due(),
            options,
            progress,
            runtime: &|| self.runtime(),
            fetcher,
            begun,
        };
        let arrived = run.fetch(&mut partial)?;
        let _garbage = layout.hold_garbage()?;
        let path = self.blobs().place(&partial.path, &arrived.sha256)?;
        partial.placed();
        let reported = arrived.version;
        self.learn(&entry, &arrived.sha256, arrived.size, reported.clone())?;
        Ok(Cached {
            sha256: arrived.sha256,
            size: arrived.size,
            version: reported.unwrap_or(entry.dataset.version),
            path,
            was_cached: false,
        })
    }

    /// Takes a dataset's contents from a caller who has them: [`DatasetStore::import_reader`].
    ///
    /// # Errors
    /// As there.
    pub fn import_bytes(
        &self,
        tenant: &str,
        name: &str,
        version: Option<&str>,
        bytes: &[u8],
    ) -> Result<Cached> {
        self.import_reader(tenant, name, version, bytes, &FetchOptions::default())
    }

    /// Takes a dataset's contents from a caller who has them. A dataset that isn't known is added, as
    /// [`Source::Bytes`].
    ///
    /// # Errors
    /// If they aren't what was promised, or there are more than [`FetchOptions::max_bytes`].
    pub fn import_reader(
        &self,
        tenant: &str,
        name: &str,
        version: Option<&str>,
        reader: impl Read,
        options: &FetchOptions,
    ) -> Result<Cached> {
        let registry = self.registry();
        let entry = match registry.get(tenant, name, version) {
            Ok(entry) => entry,
            Err(DatasetError::NotFound { .. }) => {
                let new = NewDataset {
                    version: version.map(str::to_owned),
                    ..NewDataset::new(name, Source::Bytes)
                };
                let dataset = new.checked(tenant, now_ms())?;
                Entry { dataset, promised: Promise::default() }
            }
            Err(error) => return Err(error),
        };
        let due = entry.due();
        let layout = &self.inner.layout;
        make_directory(&layout.partials(), PRIVATE)?;
        let path = unfinished_name(&layout.partials());
        let _remove = RemoveOnDrop(&path);
        let (sha256, size) = take_in(&path, reader, name, options.max_bytes)?;
        let broken = |what, promised: String, found: String| {
            Err(DatasetError::Broken { name: name.to_owned(), what, promised, found })
        };
        if let Some(promised) = due.sha256.filter(|promised| *promised != sha256) {
            return broken("SHA-256", promised, sha256);
        }
        if let Some(promised) = due.size.filter(|promised| *promised != size) {
            return broken("size", promised.to_string(), size.to_string());
        }
        let _garbage = layout.hold_garbage()?;
        let was_cached = self.blobs().find(&sha256)?.is_some();
        let path = self.blobs().place(&path, &sha256)?;
        {
            let _lock = registry.lock(tenant)?;
            match registry.get(tenant, name, Some(&entry.dataset.version)) {
                Err(DatasetError::NotFound { .. }) => registry.put(&entry)?,
                other => drop(other?),
            }
        }
        self.learn(&entry, &sha256, size, None)?;
        Ok(Cached { sha256, size, version: entry.dataset.version, path, was_cached })
    }

    /// Reads all of some contents.
    ///
    /// # Errors
    /// If they aren't here, or were changed. Then the next fetch gets them anew.
    pub fn verify(&self, sha256: &str) -> Result<()> {
        let sha256 = check_hash(sha256)?;
        let verified = self.blobs().verify(&sha256);
        if verified.is_err() {
            let _ = draft::remove_file(&mark_of(&self.inner.layout.blob(&sha256)));
        }
        verified.map(|_| ())
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    pub(crate) fn blobs(&self) -> Blobs {
        Blobs::new(self.inner.layout.clone())
    }

    pub(crate) fn registry(&self) -> Registry {
        Registry::new(self.inner.layout.clone())
    }

    /// The contents, if they are here and this tenant has had them before. That others have them is no reason to hand
    /// them out: who knows a hash doesn't have to know what is behind it.
    /// Contents that are in the cache, by their hash, whatever dataset they are of now. Only for hosts that know the hash
    /// from a record of their own: whoever can name it gets them.
    ///
    /// # Errors
    /// If it isn't a hash, or the cache can't be read.
    pub fn contents(&self, sha256: &str) -> Result<Option<Cached>> {
        check_hash(sha256)?;
        let Some(size) = self.blobs().find(sha256)? else { return Ok(None) };
        let path = self.inner.layout.blob(sha256);
        Ok(Some(Cached {
            sha256: sha256.to_owned(),
            size,
            version: LATEST.to_owned(),
            path,
            was_cached: true,
        }))
    }

    fn cached(&self, entry: &Entry, options: &FetchOptions) -> Result<Option<Cached>> {
        let dataset = &entry.dataset;
        let Some(sha256) = &dataset.sha256 else { return Ok(None) };
        if dataset.fetched_ms.is_none() && !self.has_fetched(&dataset.tenant, sha256)? {
            return Ok(None);
        }
        let blobs = self.blobs();
        if options.verify && matches!(blobs.verify(sha256), Err(DatasetError::Damaged { .. })) {
            // It is looked at again, and removed.
            draft::remove_file(&mark_of(&self.inner.layout.blob(sha256)))?;
        }
        let Some(size) = blobs.find(sha256)? else { return Ok(None) };
        if dataset.fetched_ms.is_none() {
            self.learn(entry, sha256, size, None)?;
        }
        Ok(Some(Cached {
            sha256: sha256.clone(),
            size,
            version: dataset.reported_version.clone().unwrap_or_else(|| dataset.version.clone()),
            path: self.inner.layout.blob(sha256),
            was_cached: true,
        }))
    }

    fn has_fetched(&self, tenant: &str, sha256: &str) -> Result<bool> {
        let listing = self.registry().list(tenant)?;
        Ok(listing.entries.iter().any(|entry| {
            entry.dataset.fetched_ms.is_some() && entry.dataset.sha256.as_deref() == Some(sha256)
        }))
    }

    /// Notes what was fetched, unless the dataset became another one meanwhile.
    fn learn(&self, entry: &Entry, sha256: &str, size: u64, reported: Option<String>) -> Result<()> {
        let registry = self.registry();
        let _lock = registry.lock(&entry.dataset.tenant)?;
        let known = registry.get(&entry.dataset.tenant, &entry.dataset.name, Some(&entry.dataset.version));
        let mut known = match known {
            Err(DatasetError::NotFound { .. }) => return Ok(()),
            known => known?,
        };
        if !known.dataset.source.is_same_place(&entry.dataset.source) || known.promised != entry.promised {
            return Ok(());
        }
        known.dataset.sha256 = Some(sha256.to_owned());
        known.dataset.size = Some(size);
        known.dataset.fetched_ms = Some(now_ms());
        if known.dataset.version == LATEST || reported.is_some() {
            known.dataset.reported_version = reported;
        }
        registry.put(&known)
    }

    fn runtime(&self) -> Result<&Runtime> {
        let cell = &self.inner.network.runtime;
        if let Some(runtime) = cell.get() {
            return Ok(runtime);
        }
        let made = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(4)
            .thread_name("belljar-datasets")
            .enable_all()
            .build()
            .at("start a network thread for", self.root())?;
        // Another thread may have been faster; then this one isn't needed.
        if let Err(made) = cell.set(made) {
            made.shutdown_background();
        }
        cell.get().ok_or_else(|| io::Error::other("it was just made")).at("use", self.root())
    }
}

impl fmt::Debug for DatasetStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fetchers: Vec<_> = self.inner.fetchers.keys().collect();
        formatter
            .debug_struct("DatasetStore")
            .field("root", &self.root())
            .field("fetchers", &fetchers)
            .finish_non_exhaustive()
    }
}

/// Whether adding the second one again says nothing new.
fn is_same(known: &Entry, new: &Entry) -> bool {
    known.dataset.source == new.dataset.source
        && known.dataset.file_name == new.dataset.file_name
        && known.dataset.description == new.dataset.description
        && known.promised == new.promised
}

/// Writes what a reader has to a new file, durably.
fn take_in(path: &Path, mut reader: impl Read, name: &str, most: u64) -> Result<(String, u64)> {
    let mut file: File =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).at("create", path)?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    let mut size: u64 = 0;
    loop {
        let count = match reader.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let reason = format!("its bytes can't be read: {error}");
                return Err(DatasetError::Refused { name: name.to_owned(), reason });
            }
        };
        size += count as u64;
        if size > most {
            return Err(DatasetError::TooLarge { name: name.to_owned(), most });
        }
        hasher.update(&piece[..count]);
        file.write_all(&piece[..count]).at("write", path)?;
    }
    rustix::fs::fdatasync(&file).at("write", path)?;
    Ok((hexadecimal(&hasher.finalize()), size))
}

struct RemoveOnDrop<'a>(&'a Path);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}
