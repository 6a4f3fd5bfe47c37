//! Which datasets there are.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, LATEST};
use crate::draft::{self, Lock, make_directory, sync_directory};
use crate::error::{DatasetError, Result};
use crate::layout::{Layout, PRIVATE};
use crate::names::{check, check_file};
use crate::sealed;
use crate::source::StoredSource;

/// A dataset, and what was said of it when it was added.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) dataset: Dataset,
    /// What whoever added it knew of its contents.
    pub(crate) promised: Promise,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Promise {
    pub(crate) sha256: Option<String>,
    pub(crate) size: Option<u64>,
}

impl Entry {
    /// What its contents have to be: what was promised, or for a version of its own, what they were before.
    pub(crate) fn due(&self) -> Promise {
        if self.dataset.version == LATEST {
            return self.promised.clone();
        }
        Promise { sha256: self.dataset.sha256.clone(), size: self.dataset.size }
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    name: String,
    version: String,
    reported_version: Option<String>,
    source: StoredSource,
    file_name: String,
    sha256: Option<String>,
    size: Option<u64>,
    promised: Promise,
    description: Option<String>,
    added_ms: u64,
    fetched_ms: Option<u64>,
}

/// What a listing found.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<Entry>,
    pub(crate) problems: Vec<DatasetError>,
}

#[derive(Clone, Debug)]
pub(crate) struct Registry {
    layout: Layout,
}

impl Registry {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout }
    }

    /// While this is held, nobody else changes what is said of a tenant's datasets.
    pub(crate) fn lock(&self, tenant: &str) -> Result<Lock> {
        let directory = self.layout.tenant(tenant);
        make_directory(&directory, PRIVATE)?;
        Lock::wait(&directory.join(".lock"), rustix::fs::FlockOperation::LockExclusive)
    }

    pub(crate) fn put(&self, entry: &Entry) -> Result<()> {
        let Entry { dataset, promised } = entry.clone();
        let directory = self.layout.versions(&dataset.tenant, &dataset.name);
        make_directory(&directory, PRIVATE)?;
        let path = directory.join(format!("{}.json", dataset.version));
        let stored = Stored {
            name: dataset.name,
            version: dataset.version,
            reported_version: dataset.reported_version,
            source: dataset.source.into(),
            file_name: dataset.file_name,
            sha256: dataset.sha256,
            size: dataset.size,
            promised,
            description: dataset.description,
            added_ms: dataset.added_ms,
            fetched_ms: dataset.fetched_ms,
        };
        sealed::write(&directory, &path, &stored)
    }

    /// One that is known by its version; the one that was added last, if no version is given.
    pub(crate) fn get(&self, tenant: &str, name: &str, version: Option<&str>) -> Result<Entry> {
        check("a tenant's name", tenant)?;
        check("a dataset's name", name)?;
        let missing =
            || DatasetError::NotFound { name: name.to_owned(), version: version.map(str::to_owned) };
        let directory = self.layout.versions(tenant, name);
        if let Some(version) = version {
            check("a dataset's version", version)?;
            return read(tenant, &directory.join(format!("{version}.json")))?.ok_or_else(missing);
        }
        let mut listing = Listing::default();
        list_versions(tenant, &directory, &mut listing)?;
        match listing.entries.into_iter().max_by_key(|entry| entry.dataset.added_ms) {
            // If the newest is damaged, an older one isn't what was asked for.
            Some(_) | None if !listing.problems.is_empty() => Err(listing.problems.remove(0)),
            Some(entry) => Ok(entry),
            None => Err(missing()),
        }
    }

    /// When the newest of its versions was added.
    pub(crate) fn newest(&self, tenant: &str, name: &str) -> Result<Option<u64>> {
        let mut listing = Listing::default();
        list_versions(tenant, &self.layout.versions(tenant, name), &mut listing)?;
        Ok(listing.entries.iter().map(|entry| entry.dataset.added_ms).max())
    }

    /// Removes what whoever was killed left behind. The lock makes sure that nobody else is at it.
    pub(crate) fn sweep(&self, _lock: &Lock, tenant: &str) -> Result<()> {
        for directory in draft::entries(&self.layout.tenant(tenant))? {
            if !directory.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            for file in draft::entries(&directory.path())? {
                if draft::is_unfinished(&file.file_name()) {
                    draft::remove_file(&file.path())?;
                }
            }
            // Something may be in it.
            let _ = fs::remove_dir(directory.path());
        }
        Ok(())
    }

    /// All of a tenant, sorted by name, then by when they were added.
    pub(crate) fn list(&self, tenant: &str) -> Result<Listing> {
        check("a tenant's name", tenant)?;
        let mut listing = Listing::default();
        for directory in draft::entries(&self.layout.tenant(tenant))? {
            if directory.file_type().is_ok_and(|kind| kind.is_dir()) {
                list_versions(tenant, &directory.path(), &mut listing)?;
            }
        }
        let key = |entry: &Entry| {
            (entry.dataset.name.clone(), entry.dataset.added_ms, entry.dataset.version.clone())
        };
        listing.entries.sort_by_cached_key(key);
        Ok(listing)
    }

    /// Everybody who has, or had, a dataset.
    pub(crate) fn tenants(&self) -> Result<Vec<String>> {
        let names = draft::entries(&self.layout.registry())?.into_iter().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        Ok(names.filter(|name| check("a tenant's name", name).is_ok()).collect())
    }

    pub(crate) fn remove(&self, tenant: &str, name: &str, version: &str) -> Result<bool> {
        let directory = self.layout.versions(tenant, name);
        if !draft::remove_file(&directory.join(format!("{version}.json")))? {
            return Ok(false);
        }
        sync_directory(&directory)?;
        // Another version may be in it.
        let _ = fs::remove_dir(&directory);
        Ok(true)
    }
}

fn list_versions(tenant: &str, directory: &Path, listing: &mut Listing) -> Result<()> {
    for file in draft::entries(directory)? {
        let name = file.file_name();
        if draft::is_unfinished(&name) || !name.as_encoded_bytes().ends_with(b".json") {
            continue;
        }
        match read(tenant, &file.path()) {
            Ok(Some(entry)) => listing.entries.push(entry),
            Ok(None) => {}
            Err(error) => listing.problems.push(error),
        }
    }
    Ok(())
}

fn read(tenant: &str, path: &Path) -> Result<Option<Entry>> {
    let Some(stored) = sealed::read::<Stored>(path)? else { return Ok(None) };
    let expected = |text: Option<&std::ffi::OsStr>, found: &str| text.is_some_and(|text| text == found);
    if !expected(path.file_stem(), &stored.version)
        || !expected(path.parent().and_then(Path::file_name), &stored.name)
    {
        return Err(DatasetError::damaged(path, "it speaks of another dataset"));
    }
    // What is in it becomes paths.
    check_file(&stored.file_name)
        .and_then(|()| stored.sha256.as_deref().map_or(Ok(String::new()), crate::names::check_hash))
        .map_err(|_| DatasetError::damaged(path, "what it says makes no sense"))?;
    let dataset = Dataset {
        tenant: tenant.to_owned(),
        name: stored.name,
        version: stored.version,
        reported_version: stored.reported_version,
        source: stored.source.into(),
        file_name: stored.file_name,
        sha256: stored.sha256,
        size: stored.size,
        description: stored.description,
        added_ms: stored.added_ms,
        fetched_ms: stored.fetched_ms,
    };
    Ok(Some(Entry { dataset, promised: stored.promised }))
}
