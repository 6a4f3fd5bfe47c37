//! What a session has beyond its own state: artifacts that it can read back, and datasets.
//!
//! Both are on its shelf, a directory of the host that it sees read-only at `/shelf`. What is put there while a cell
//! runs is seen at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use belljar_artifacts::{Artifact, ArtifactError, ArtifactId, DatasetUse, Filter, Redactor};
use belljar_datasets::{Dataset, DatasetError, Problem, Quiet, Shelf, Source, Staged, cache_list};
use belljar_engine::{GuestSpec, Mount, MountAccess, ToolCall, ToolFailure, ToolSpec};
use belljar_store::SessionId;
use serde_json::{Value, json};

use crate::artifacts::{ArtifactHook, ArtifactPolicy, ArtifactScope, Artifacts};
use crate::datasets::{DatasetPolicy, Datasets, LOCAL};
use crate::tool::ToolResult;
use crate::{Error, Policy};

/// Where a session sees its shelf.
pub(crate) const SHELF: &str = "/shelf";
/// What guests call, instead of a tool.
const ARTIFACTS: &str = "__artifacts__";
const DATASETS: &str = "__datasets__";
/// Artifacts and files that a guest is told of at once.
const MOST_LISTED: usize = 1000;

/// Artifacts that one is said to come from.
const MOST_PARENTS: usize = 64;

/// Where a sandbox has what sessions may read and leave.
#[derive(Clone, Default)]
pub(crate) struct KeptPlaces {
    pub(crate) artifacts: Option<Artifacts>,
    pub(crate) datasets: Option<Datasets>,
    /// A directory with a shelf for each session.
    pub(crate) shelves: Option<PathBuf>,
    pub(crate) hook: Option<ArtifactHook>,
    /// Texts that are never recorded.
    pub(crate) secrets: Vec<String>,
}

/// The same for one session.
pub(crate) struct Kept {
    pub(crate) artifacts: Option<Artifacts>,
    datasets: Option<Datasets>,
    pub(crate) artifact_policy: ArtifactPolicy,
    dataset_policy: DatasetPolicy,
    pub(crate) hook: Option<ArtifactHook>,
    /// Texts that are never recorded.
    hidden: (BTreeMap<String, String>, Vec<String>),
    redactor: OnceLock<Redactor>,
    shelf: Option<Shelf>,
    session: SessionId,
    /// When it was made, in milliseconds since 1970: what is older was another's of the same name.
    since_ms: u64,
    /// The sessions that it was forked from.
    pub(crate) ancestors: Vec<String>,
    /// Artifacts that were read since this was last asked.
    read: Mutex<Vec<ArtifactId>>,
    /// Calls of its guest, likewise.
    calls: AtomicU64,
}

impl KeptPlaces {
    /// What a session has of it; nothing, if its policy says so.
    pub(crate) fn of(
        &self,
        policy: &Policy,
        session: &SessionId,
        since_ms: u64,
        ancestors: Vec<String>,
    ) -> Result<Option<Arc<Kept>>, Error> {
        let wanted = policy.artifacts.keep || policy.artifacts.read != ArtifactScope::None;
        let artifacts = self.artifacts.clone().filter(|_| wanted);
        let staged = policy.datasets.access.is_staged();
        if staged && self.datasets.is_none() {
            return Err(Error::NoDatasets);
        }
        let datasets = self.datasets.clone().filter(|_| staged);
        if artifacts.is_none() && datasets.is_none() && !policy.datasets.access.is_local() {
            return Ok(None);
        }
        let reads = artifacts.is_some() && policy.artifacts.read != ArtifactScope::None;
        let shelf = match &self.shelves {
            Some(shelves) if staged => Some(Shelf::open(shelves.join(session.as_str()))?),
            // Without one it can't read back what it made, and all else works.
            Some(shelves) if reads => Shelf::open(shelves.join(session.as_str()))
                .inspect_err(|error| tracing::warn!(%session, %error, "a session has no shelf"))
                .ok(),
            _ => None,
        };
        Ok(Some(Arc::new(Kept {
            artifacts,
            datasets,
            artifact_policy: policy.artifacts.clone(),
            dataset_policy: policy.datasets.clone(),
            hook: self.hook.clone(),
            hidden: (policy.env.clone(), self.secrets.clone()),
            redactor: OnceLock::new(),
            shelf,
            session: session.clone(),
            since_ms,
            ancestors,
            read: Mutex::default(),
            calls: AtomicU64::new(0),
        })))
    }

    /// Forgets the shelf of a session that is over. One that can't be removed costs a few names.
    pub(crate) fn clear(&self, session: &SessionId) {
        let Some(shelf) = self.shelves.as_ref().map(|shelves| shelves.join(session.as_str())) else { return };
        if shelf.exists()
            && let Err(error) = Shelf::open(shelf).and_then(Shelf::remove)
        {
            tracing::warn!(%session, %error, "a shelf could not be removed");
        }
    }
}

impl Kept {
    /// What keeps secrets out of records.
    pub(crate) fn redactor(&self) -> &Redactor {
        self.redactor.get_or_init(|| {
            let secrets = self.hidden.1.iter().enumerate();
            let secrets = secrets.map(|(index, text)| (format!("secret {}", index + 1), text.clone()));
            Redactor::new(self.hidden.0.clone(), secrets)
        })
    }

    /// Where its shelf is on the host.
    pub(crate) fn shelf_path(&self) -> Option<&Path> {
        self.shelf.as_ref().map(Shelf::path)
    }

    /// Adds what its guest sees and calls.
    pub(crate) fn show(&self, spec: &mut GuestSpec) {
        if let Some(shelf) = &self.shelf {
            let host = shelf.path().to_owned();
            spec.mounts.push(Mount { host, guest: SHELF.to_owned(), access: MountAccess::ReadOnly });
        }
        let reads = self.artifacts.is_some() && self.shelf.is_some();
        for (name, is_there) in [(ARTIFACTS, reads), (DATASETS, self.has_datasets())] {
            if is_there {
                let (name, description) = (name.to_owned(), String::new());
                spec.tools.push(ToolSpec { name, description, parameters: Value::Null });
            }
        }
    }

    fn has_datasets(&self) -> bool {
        self.datasets.is_some() || self.dataset_policy.access.is_local()
    }

    /// Whether a guest's call is one of these.
    pub(crate) fn answers(&self, name: &str) -> bool {
        name == ARTIFACTS || name == DATASETS
    }

    /// Answers a guest's call. Blocks.
    pub(crate) fn call(&self, call: &ToolCall) -> ToolResult {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let word = |index: usize| call.args.get(index).and_then(Value::as_str);
        if call.args.iter().any(|argument| !argument.is_string() && !argument.is_null()) {
            return Err(ToolFailure::new("TypeError", "ids and versions are strings"));
        }
        match (call.name.as_str(), word(0)) {
            (ARTIFACTS, Some("list")) => self.list_artifacts(),
            (ARTIFACTS, Some("info")) => self.artifact(word(1)).map(|artifact| described(&artifact)),
            (ARTIFACTS, Some("path")) => self.artifact(word(1)).and_then(|artifact| self.lay(&artifact)),
            (DATASETS, Some("list")) => self.list_datasets().map_err(failure),
            (DATASETS, Some("path")) => self.dataset_path(word(1), word(2)),
            _ => Err(ToolFailure::new("ValueError", "there is no such call")),
        }
    }

    fn artifacts(&self) -> Result<&Artifacts, ToolFailure> {
        let readable = self.artifact_policy.read != ArtifactScope::None;
        let found = self.artifacts.as_ref().filter(|_| readable);
        found.ok_or_else(|| ToolFailure::new("PermissionError", "this session cannot read artifacts"))
    }

    fn is_readable(&self, artifact: &Artifact) -> bool {
        match self.artifact_policy.read {
            ArtifactScope::None => false,
            ArtifactScope::Session => {
                let is_own =
                    artifact.session == self.session.as_str() && artifact.id.time_ms() >= self.since_ms;
                is_own || self.ancestors.contains(&artifact.session)
            }
            ArtifactScope::Tenant => true,
        }
    }

    fn artifact(&self, id: Option<&str>) -> Result<Artifact, ToolFailure> {
        let id = id.ok_or_else(|| ToolFailure::new("TypeError", "an artifact's id is a string"))?;
        // Whether there is one that isn't for this session is nothing to be told.
        let missing = || {
            let shown: String = id.chars().take(64).collect();
            ToolFailure::new("FileNotFoundError", format!("there is no artifact {shown:?} for this session"))
        };
        let found = self.artifacts()?.store().and_then(|store| {
            store.artifact(self.artifacts.as_ref().map_or("", Artifacts::tenant), id).map_err(Error::from)
        });
        match found {
            Ok(artifact) if self.is_readable(&artifact) => Ok(artifact),
            Ok(_) => Err(missing()),
            Err(Error::Artifact(ArtifactError::NotFound { .. } | ArtifactError::Invalid { .. })) => {
                Err(missing())
            }
            Err(error) => Err(failure(error)),
        }
    }

    fn list_artifacts(&self) -> ToolResult {
        let artifacts = self.artifacts()?;
        let mut sessions = vec![Some(self.session.to_string())];
        match self.artifact_policy.read {
            ArtifactScope::Tenant => sessions = vec![None],
            _ => sessions.extend(self.ancestors.iter().cloned().map(Some)),
        }
        let mut found = Vec::new();
        for session in sessions {
            let filter = Filter { session, limit: Some(MOST_LISTED as u64), ..Filter::default() };
            let listed = artifacts.store().and_then(|store| Ok(store.list(artifacts.tenant(), &filter)?));
            found.extend(listed.map_err(failure)?.into_iter().filter(|artifact| self.is_readable(artifact)));
        }
        found.truncate(MOST_LISTED);
        Ok(found.iter().map(described).collect())
    }

    /// Puts an artifact on the shelf.
    fn lay(&self, artifact: &Artifact) -> ToolResult {
        let (artifacts, shelf) = (self.artifacts()?, self.shelf()?);
        let laid = artifacts.store().and_then(|store| {
            let blob = store.local(artifacts.tenant(), artifact.id.as_str())?;
            Ok(shelf.lay(artifact.id.as_str(), &artifact.name, &blob)?)
        });
        let path = format!("{SHELF}/{}", laid.map_err(failure)?);
        self.read.lock().unwrap_or_else(PoisonError::into_inner).push(artifact.id.clone());
        let mut answer = described(artifact);
        answer["path"] = path.into();
        Ok(answer)
    }

    fn shelf(&self) -> Result<&Shelf, ToolFailure> {
        self.shelf.as_ref().ok_or_else(|| ToolFailure::new("PermissionError", "this session has no shelf"))
    }

    /// The artifacts that were read since this was last asked.
    pub(crate) fn take_read(&self) -> Vec<ArtifactId> {
        let mut read = std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner));
        read.sort();
        read.dedup();
        // Each thing that the cell leaves names all of them.
        read.truncate(MOST_PARENTS);
        read
    }

    /// The calls of its guest since this was last asked; to the engine they are calls of tools.
    pub(crate) fn take_calls(&self) -> u64 {
        self.calls.swap(0, Ordering::Relaxed)
    }

    fn list_datasets(&self) -> Result<Value, Error> {
        let mut listed = self.local_files();
        let Some(datasets) = &self.datasets else { return Ok(listed.into()) };
        let staged = self.staged()?;
        for dataset in datasets.list()? {
            if !self.dataset_policy.allows(&dataset.name) || listed.len() >= MOST_LISTED {
                continue;
            }
            let here =
                staged.iter().find(|one| one.name == dataset.name && one.registered == dataset.version);
            listed.push(json!({
                "id": dataset.name,
                "version": dataset.version,
                "size": here.map(|one| one.size).or(dataset.size),
                "sha256": here.map(|one| one.sha256.clone()).or(dataset.sha256),
                "path": here.map(|one| shelf_path(&one.file_name)),
                "staged": here.is_some(),
            }));
        }
        Ok(listed.into())
    }

    /// The files of the host's directory.
    fn local_files(&self) -> Vec<Value> {
        let Some(directory) = self.local() else { return Vec::new() };
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<(String, u64)> = entries
            .filter_map(|entry| {
                let metadata = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
                Some((entry.file_name().into_string().ok()?, metadata.len()))
            })
            .filter(|(name, _)| !name.starts_with('.'))
            .take(MOST_LISTED)
            .collect();
        names.sort();
        let described = |(name, size): (String, u64)| {
            let id = Path::new(&name).file_stem().and_then(|stem| stem.to_str()).unwrap_or(&name);
            json!({
                "id": id, "version": null, "size": size, "sha256": null,
                "path": format!("{LOCAL}/{name}"), "staged": true,
            })
        };
        names.into_iter().map(described).collect()
    }

    fn local(&self) -> Option<&PathBuf> {
        self.dataset_policy.directory.as_ref().filter(|_| self.dataset_policy.access.is_local())
    }

    fn dataset_path(&self, name: Option<&str>, version: Option<&str>) -> ToolResult {
        let name = name.ok_or_else(|| ToolFailure::new("TypeError", "a dataset's id is a string"))?;
        let shown: String = name.chars().take(64).collect();
        let local = self.local_files().into_iter().find(|file| {
            let path = file["path"].as_str().unwrap_or_default();
            version.is_none() && (file["id"] == name || path.strip_prefix("/data/") == Some(name))
        });
        if let Some(file) = local {
            return Ok(json!({ "path": file["path"] }));
        }
        if self.datasets.is_none() || !self.dataset_policy.allows(name) {
            let message = format!("there is no dataset {shown:?} for this session");
            return Err(ToolFailure::new("FileNotFoundError", message));
        }
        let staged = self.stage(name, version).map_err(failure)?;
        Ok(json!({ "path": shelf_path(&staged.file_name) }))
    }

    /// Fetches a dataset, unless it is there, and puts it on the shelf.
    pub(crate) fn stage(&self, name: &str, version: Option<&str>) -> Result<Staged, Error> {
        let (Some(datasets), Some(shelf)) = (&self.datasets, &self.shelf) else {
            return Err(Error::NotStaged);
        };
        if !self.dataset_policy.allows(name) {
            return Err(Error::DatasetRefused { name: name.to_owned() });
        }
        let dataset = datasets.get(name, version)?;
        let cached = datasets.fetch(name, Some(&dataset.version))?;
        let staged = shelf.stage(&cached, &dataset)?;
        if let Some(lists) = &self.dataset_policy.cache_lists {
            let directory = lists.join(self.session.as_str());
            // A session in memory has none of its own.
            std::fs::create_dir_all(&directory)
                .map_err(|source| Error::Workspace { path: directory.clone(), source })?;
            cache_list::append(&directory.join(cache_list::FILE_NAME), name)?;
        }
        Ok(staged)
    }

    /// Stages a dataset as it was for a cell that is run again: also if it has changed since, or isn't one any more, as
    /// long as the contents are here.
    pub(crate) fn restage(&self, wanted: &DatasetUse) -> Result<(), Error> {
        let staged = self.stage(&wanted.name, Some(&wanted.version));
        if staged.as_ref().is_ok_and(|staged| staged.sha256 == wanted.sha256) {
            return Ok(());
        }
        let (Some(datasets), Some(shelf)) = (&self.datasets, &self.shelf) else {
            return Err(Error::NotStaged);
        };
        let Some(cached) = datasets.store().contents(&wanted.sha256)? else {
            let found = staged?.sha256;
            let (name, promised) = (wanted.name.clone(), wanted.sha256.clone());
            return Err(DatasetError::Broken { name, what: "SHA-256", promised, found }.into());
        };
        let dataset = Dataset {
            tenant: datasets.tenant().to_owned(),
            name: wanted.name.clone(),
            version: wanted.version.clone(),
            reported_version: None,
            source: Source::Bytes,
            file_name: wanted.file.clone(),
            sha256: Some(wanted.sha256.clone()),
            size: Some(cached.size),
            description: None,
            added_ms: 0,
            fetched_ms: None,
        };
        shelf.stage(&cached, &dataset)?;
        Ok(())
    }

    /// Takes a dataset from the shelf.
    pub(crate) fn unstage(&self, name: &str) -> Result<bool, Error> {
        let Some(shelf) = &self.shelf else { return Ok(false) };
        Ok(shelf.unstage(name)?)
    }

    /// What is on the shelf.
    pub(crate) fn staged(&self) -> Result<Vec<Staged>, Error> {
        match (&self.datasets, &self.shelf) {
            (Some(_), Some(shelf)) => Ok(shelf.staged()?),
            _ => Ok(Vec::new()),
        }
    }

    /// Brings back what should be on the shelf and isn't. Returns what is there, and what can't be had, in words.
    pub(crate) fn sync(&self) -> Result<(Vec<Staged>, Vec<String>), Error> {
        let (Some(datasets), Some(shelf)) = (&self.datasets, &self.shelf) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let staged = shelf.staged()?;
        if staged.is_empty() {
            return Ok((staged, Vec::new()));
        }
        let problems = shelf.sync_with(datasets.store(), datasets.options(), &Quiet)?;
        let told =
            |problem: &Problem| format!("the dataset {:?} is missing: {}", problem.name, problem.error);
        Ok((staged, problems.iter().map(told).collect()))
    }

    /// What a cell could read.
    pub(crate) fn uses(&self) -> Vec<DatasetUse> {
        let used = |one: Staged| DatasetUse {
            name: one.name,
            version: one.registered,
            sha256: one.sha256,
            file: one.file_name,
        };
        self.staged().unwrap_or_default().into_iter().map(used).collect()
    }

    /// Gives a child what is staged here.
    pub(crate) fn hand_down(&self, child: &Self) -> Result<(), Error> {
        let (Some(own), Some(its)) = (&self.shelf, &child.shelf) else { return Ok(()) };
        let has_artifacts =
            std::fs::read_dir(own.path().join("artifacts")).is_ok_and(|mut found| found.next().is_some());
        if has_artifacts || !own.staged()?.is_empty() {
            own.copy_to(its.path())?;
        }
        Ok(())
    }
}

/// Where a state directory has shelves, those of each tenant below its name.
pub(crate) fn shelves_of(state: &Path) -> PathBuf {
    state.join("shelves")
}

/// Where a dataset on the shelf is seen.
pub(crate) fn shelf_path(file_name: &str) -> String {
    format!("{SHELF}/data/{file_name}")
}

/// What a guest is told of an artifact.
fn described(artifact: &Artifact) -> Value {
    json!({
        "id": artifact.id, "name": artifact.name, "size": artifact.size, "mime": artifact.mime,
        "sha256": artifact.sha256, "created_at": artifact.created_at, "cell": artifact.cell,
        "session": artifact.session,
    })
}

/// What a guest is told of a failure of the host's: nothing of the host's paths.
fn failure(error: Error) -> ToolFailure {
    match error {
        Error::Dataset(error) => match error {
            DatasetError::NotFound { .. } => ToolFailure::new("FileNotFoundError", error.to_string()),
            DatasetError::Broken { .. }
            | DatasetError::TooLarge { .. }
            | DatasetError::TimedOut { .. }
            | DatasetError::Busy { .. } => ToolFailure::new("ToolError", error.to_string()),
            // The others may name paths and addresses.
            _ => {
                tracing::error!(%error, "a dataset could not be staged");
                ToolFailure::new("ToolError", "the host could not get the dataset")
            }
        },
        Error::DatasetRefused { name } => {
            ToolFailure::new("FileNotFoundError", format!("there is no dataset {name:?} for this session"))
        }
        error => {
            tracing::error!(%error, "a guest's call failed");
            ToolFailure::new("ToolError", "the host could not do it")
        }
    }
}
