//! Packages for Node, by npm.
//!
//! What is wanted is a [`NodeProject`]: the dependencies of a `package.json`, perhaps with a lock, as somebody untrusted
//! wrote them. Only what is understood is taken from it, and written anew: npm never sees a file of theirs, nor their
//! `.npmrc`. npm then settles the versions (a lock), and fetches and unpacks them, in a directory of its own. **It runs
//! no script of a package**, and asks nobody but the registry: packages that depend on addresses, repositories or files
//! are refused. What it made is looked at file by file before anybody else sees it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use belljar_runtime::{Cache, Progress};
use tempfile::TempDir;

pub use self::{modules::NodeModules, npm::node_directory, project::NodeProject};
use self::{npm::Npm, project::Locked};
use crate::{error::PackageError, limits::Limits};

mod modules;
mod names;
mod npm;
mod project;

/// Where locks are kept, by what they are the answer to.
const RESOLUTION: &str = "node-resolution";
/// Where modules are kept, by their lock.
const MODULES: &str = "node-modules";
const LOCK: &str = "package-lock.json";
const MANIFEST: &str = "package.json";
/// How long the same words mean the same versions.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);
/// Raised when modules are made differently.
const FORMAT: u32 = 1;

/// Gets packages for Node into a cache. By default it may use the network, and knows no directory to find npm in.
#[derive(Clone, Debug)]
pub struct NodeResolver {
    cache: Cache,
    search: Vec<PathBuf>,
    python: Option<PathBuf>,
    pinned: bool,
    registry: Option<String>,
    offline: bool,
    limits: Limits,
    until: Option<Instant>,
}

impl NodeResolver {
    /// A resolver for `cache`.
    pub fn new(cache: Cache) -> Self {
        let (search, limits) = (Vec::new(), Limits::default());
        Self {
            cache,
            search,
            python: None,
            pinned: false,
            registry: None,
            offline: false,
            limits,
            until: None,
        }
    }

    /// Where to look for npm, and for a Python to fetch it with: usually the directories of `PATH`.
    #[must_use]
    pub fn search(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.search = directories.into_iter().collect();
        self
    }

    /// The Python that fetches npm, where this machine has none that is new enough.
    #[must_use]
    pub fn python(mut self, python: Option<PathBuf>) -> Self {
        self.python = python;
        self
    }

    /// Whether the pinned npm is used, whatever this machine has.
    #[must_use]
    pub fn pinned(mut self, pinned: bool) -> Self {
        self.pinned = pinned;
        self
    }

    /// The registry that is asked, if not the one that npm's user has set.
    #[must_use]
    pub fn registry(mut self, registry: Option<String>) -> Self {
        self.registry = registry;
        self
    }

    /// Whether nothing may be fetched.
    #[must_use]
    pub fn offline(mut self, offline: bool) -> Self {
        self.offline = offline;
        self
    }

    /// How large all packages together may be.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// When it must be done.
    #[must_use]
    pub fn until(mut self, until: Option<Instant>) -> Self {
        self.until = until;
        self
    }

    /// The modules of a project, unpacked.
    ///
    /// # Errors
    /// If the registry has no such packages or isn't reached, or they are too large or hostile.
    pub fn install(
        &self,
        project: &NodeProject,
        progress: &dyn Progress,
    ) -> Result<NodeModules, PackageError> {
        let locked = match project.frozen {
            true => project.locked()?,
            false => self.lock(project, progress)?,
        };
        let key = locked.key(FORMAT, project.production);
        let entry = match self.cache.find(MODULES, &key) {
            Some(entry) => entry,
            None => {
                let npm = self.npm(progress)?;
                self.cache.make(MODULES, &key, progress, |directory| {
                    progress.begin("fetching", Duration::from_secs(3));
                    self.fetch(&npm, &locked, project.production, directory, progress)?;
                    progress.end();
                    Ok::<(), PackageError>(())
                })?
            }
        };
        self.cache.touch(MODULES, &key);
        let modules = modules::open(&entry)?;
        match modules.bytes > self.limits.bytes || modules.files > self.limits.entries {
            true => Err(too_large(&self.limits)),
            false => Ok(modules),
        }
    }

    /// Settles versions; what was settled shortly before stays so.
    fn lock(&self, project: &NodeProject, progress: &dyn Progress) -> Result<Locked, PackageError> {
        let key = project.key(FORMAT);
        let known = self.cache.find(RESOLUTION, &key).map(|entry| entry.join(LOCK));
        if let Some(file) = known {
            let age = fs::metadata(&file).and_then(|found| found.modified());
            let age = age.ok().and_then(|made| SystemTime::now().duration_since(made).ok());
            if self.offline || (!project.upgrade && age.is_some_and(|age| age < FRESH)) {
                let text = fs::read(&file).map_err(|error| PackageError::unreadable(&file, error))?;
                return Locked::parse(&text);
            }
            self.cache.remove(RESOLUTION, &key)?;
        }
        let npm = self.npm(progress)?;
        progress.begin("resolving", Duration::from_secs(2));
        let scratch = self.scratch()?;
        project.write(scratch.path())?;
        npm.lock(scratch.path(), &self.limits, progress)?;
        let file = scratch.path().join(LOCK);
        let text = fs::read(&file).map_err(|error| PackageError::unreadable(&file, error))?;
        // What packages say of themselves is nobody's word either.
        let locked = Locked::parse(&text)?;
        progress.end();
        self.cache.make(RESOLUTION, &key, progress, |directory| {
            let file = directory.join(LOCK);
            fs::write(&file, locked.text()).map_err(|error| PackageError::write(&file, error))
        })?;
        Ok(locked)
    }

    fn fetch(
        &self,
        npm: &Npm,
        locked: &Locked,
        production: bool,
        directory: &Path,
        progress: &dyn Progress,
    ) -> Result<(), PackageError> {
        let scratch = directory.join("scratch");
        fs::create_dir_all(&scratch).map_err(|error| PackageError::write(&scratch, error))?;
        locked.write(&scratch)?;
        npm.fetch(&scratch, production, &self.limits, progress)?;
        modules::take(&scratch, directory, locked, &self.limits)?;
        fs::remove_dir_all(&scratch).map_err(|error| PackageError::write(&scratch, error))
    }

    fn npm(&self, progress: &dyn Progress) -> Result<Npm, PackageError> {
        let scratch = self.scratch()?;
        let search = npm::Search {
            cache: &self.cache,
            directories: &self.search,
            python: self.python.as_deref(),
            pinned: self.pinned,
            registry: self.registry.as_deref(),
            offline: self.offline,
            until: self.until,
        };
        Npm::find(&search, scratch.path(), progress)
    }

    fn scratch(&self) -> Result<TempDir, PackageError> {
        let root = self.cache.root();
        fs::create_dir_all(root).map_err(|error| PackageError::write(root, error))?;
        let made = tempfile::Builder::new().prefix(crate::resolver::SCRATCH).tempdir_in(root);
        made.map_err(|error| PackageError::write(root, error))
    }
}

fn too_large(limits: &Limits) -> PackageError {
    let reason =
        format!("the packages are larger than {} bytes or {} files together", limits.bytes, limits.entries);
    PackageError::Npm { doing: "fetching".to_owned(), reason }
}
