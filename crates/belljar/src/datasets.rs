//! What goes into cells: named inputs, fetched once, checked, and shared read-only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use belljar_datasets::{
    Cached, CollectOptions as DatasetCollectOptions, Collected as CollectedDatasets, Dataset, DatasetError,
    FetchFailure, FetchOptions, FetchRequest, Fetched, Fetcher, NewDataset, Problem as DatasetProblem,
    Progress as FetchProgress, Source as DatasetSource, Staged,
};
use belljar_datasets::{DatasetStore, Quiet};
use belljar_store::Tenant;
use serde::{Deserialize, Serialize};

use crate::{Error, PolicyError};

/// Which datasets a session has, and how they come to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatasetPolicy {
    /// How.
    pub access: DatasetAccess,
    /// The directory of the host that is seen at `/data`, where the access is local.
    pub directory: Option<PathBuf>,
    /// Those that may be staged; `None` is all that the tenant has.
    pub allow: Option<Vec<String>>,
    /// Below this, `{session}/cache_datasets.txt` lists what was staged into a session, one id in each line.
    pub cache_lists: Option<PathBuf>,
}

/// How datasets come to a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetAccess {
    /// Not at all.
    #[default]
    None,
    /// A directory of the host is seen, read-only, at `/data`.
    LocalRo,
    /// Those of the registry are fetched and staged into `data/`.
    Api,
    /// Both.
    Hybrid,
}

impl DatasetAccess {
    /// Whether a directory of the host is seen.
    pub fn is_local(self) -> bool {
        matches!(self, Self::LocalRo | Self::Hybrid)
    }

    /// Whether datasets are staged.
    pub fn is_staged(self) -> bool {
        matches!(self, Self::Api | Self::Hybrid)
    }
}

/// Where a directory of the host is seen.
pub(crate) const LOCAL: &str = "/data";

impl DatasetPolicy {
    /// Refuses what can't be.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        match (self.access.is_local(), &self.directory) {
            (true, None) => Err(PolicyError::NoDatasets),
            (true, Some(directory)) if !directory.is_dir() => {
                Err(PolicyError::DatasetDirectory(directory.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a dataset may be staged.
    pub(crate) fn allows(&self, name: &str) -> bool {
        self.access.is_staged() && self.allow.as_ref().is_none_or(|all| all.iter().any(|one| one == name))
    }
}

/// The datasets of a tenant. Nothing is opened or made before it is needed.
///
/// The functions block, and must not be called from async code.
///
/// ```no_run
/// # fn main() -> Result<(), belljar::Error> {
/// use belljar::{DatasetAccess, DatasetSource, NewDataset};
///
/// let sandbox = belljar::Sandbox::builder()
///     .state_dir("state")
///     .dataset_access(DatasetAccess::Api)
///     .build_blocking()?;
/// let source = DatasetSource::File { path: "sales.csv".into() };
/// sandbox.datasets()?.add(NewDataset::new("sales", source))?;
/// let session = sandbox.session_blocking()?;
/// session.stage_blocking("sales", None)?;
/// session.run_blocking("print(open('data/sales.csv').readline())")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Datasets {
    store: DatasetStore,
    tenant: Tenant,
    options: FetchOptions,
}

impl Datasets {
    /// The datasets of the local user in a directory.
    pub fn open(directory: impl Into<PathBuf>) -> Self {
        Self::of_tenant(directory, Tenant::local())
    }

    /// The datasets of a tenant.
    pub fn of_tenant(directory: impl Into<PathBuf>, tenant: Tenant) -> Self {
        Self { store: DatasetStore::open(directory), tenant, options: FetchOptions::default() }
    }

    /// Where a state directory has them.
    pub fn directory_of(state: &Path) -> PathBuf {
        state.join("datasets")
    }

    /// With other bounds, or with what a bucket wants to know.
    pub fn fetch_options(mut self, options: FetchOptions) -> Self {
        self.options = options;
        self
    }

    /// With a function of the host that gives the contents of datasets whose source names it.
    pub fn fetcher(mut self, name: impl Into<String>, fetcher: Arc<dyn Fetcher>) -> Self {
        self.store = self.store.with_fetcher(name, fetcher);
        self
    }

    /// The same for another tenant.
    pub(crate) fn for_tenant(self, tenant: &Tenant) -> Self {
        Self { tenant: tenant.clone(), ..self }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        self.store.root()
    }

    pub(crate) fn store(&self) -> &DatasetStore {
        &self.store
    }

    pub(crate) fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    /// Adds one, or a version of one. Nothing is fetched yet.
    pub fn add(&self, new: NewDataset) -> Result<Dataset, Error> {
        Ok(self.store.add(self.tenant(), new)?)
    }

    /// All of them, with all their versions.
    pub fn list(&self) -> Result<Vec<Dataset>, Error> {
        Ok(self.store.list(self.tenant())?)
    }

    /// One; the version that was added last, if none is named.
    pub fn get(&self, name: &str, version: Option<&str>) -> Result<Dataset, Error> {
        Ok(self.store.get(self.tenant(), name, version)?)
    }

    /// Forgets one, or one version of it. Sessions that have it keep it.
    pub fn remove(&self, name: &str, version: Option<&str>) -> Result<(), Error> {
        self.store.remove(self.tenant(), name, version)?;
        Ok(())
    }

    /// Fetches one into the cache, unless it is there.
    pub fn fetch(&self, name: &str, version: Option<&str>) -> Result<Cached, Error> {
        self.fetch_with(name, version, &Quiet)
    }

    /// Fetches one and shows how far it is.
    pub fn fetch_with(
        &self,
        name: &str,
        version: Option<&str>,
        progress: &dyn FetchProgress,
    ) -> Result<Cached, Error> {
        Ok(self.store.fetch(self.tenant(), name, version, &self.options, progress)?)
    }

    /// Reads all of what is in the cache of a dataset, if it was fetched, and says whether it was. What isn't as it
    /// was is fetched anew the next time.
    pub fn check(&self, name: &str, version: Option<&str>) -> Result<bool, Error> {
        let dataset = self.get(name, version)?;
        match (&dataset.sha256, dataset.fetched_ms) {
            (Some(sha256), Some(_)) => Ok(self.store.verify(sha256).map(|()| true)?),
            _ => Ok(false),
        }
    }

    /// Removes contents from the cache that no dataset and no session has, of all tenants, and what is left of fetches
    /// that nobody went on with.
    pub fn collect(&self, options: &DatasetCollectOptions) -> Result<CollectedDatasets, Error> {
        Ok(self.store.collect(options)?)
    }

    pub(crate) fn options(&self) -> &FetchOptions {
        &self.options
    }
}
