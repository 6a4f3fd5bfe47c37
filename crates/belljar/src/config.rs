//! `belljar.toml`: what a sandbox is made of, in a file.

mod error;
mod kept;
mod reader;
mod sections;
mod suggestion;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use belljar_engine::Mount;
use belljar_packages::{Lock, LockedPackage, read_text};
use belljar_store::Tenant;
use toml_edit::Document;

pub use self::error::{ConfigError, Place};
pub(crate) use self::kept::ArtifactSection;
use self::kept::DatasetSection;
use self::reader::{Section, Source};
use self::sections::{EnvironmentSection, Head, PolicySection, TABLES, WorkspaceSection};
use crate::location::{home, python_on_path};
use crate::{
    ArtifactSettings, EngineKind, Environment, Environments, Error, FetchOptions, Policy, Runtimes, Sandbox,
    SandboxBuilder, default_state_dir,
};

/// What a `belljar.toml` says. What it doesn't say stays as it is.
///
/// ```
/// # fn main() -> Result<(), belljar::Error> {
/// use belljar::{Config, Policy};
///
/// let text = r#"
///     engine = "wasm"              # or "native"
///     python_version = "3.14"
///
///     [environment]
///     packages = ["jinja2>=3"]     # or paths, from the file's directory
///     preload = ["json"]
///     lock = "pylock.toml"         # `belljar env lock` writes it
///
///     [policy]
///     timeout = "5s"
///     memory = "512MiB"
///     env = { LANG = "C.UTF-8" }
///
///     [mounts]
///     "/data/input" = "./input"
///     "/out" = { host = "./out", access = "read-write" }
/// "#;
/// let config = Config::parse(text, "/srv/project")?;
/// let mut policy = Policy::default();
/// config.change(&mut policy);
/// assert_eq!(policy.memory, 512 << 20);
/// assert_eq!(policy.mounts[0].host.to_str(), Some("/srv/project/./input"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    file: PathBuf,
    cache_dir: Option<PathBuf>,
    /// And where the file says so, if it does.
    engine: Option<(EngineKind, Option<Place>)>,
    /// As far as there is a choice.
    python_version: Option<(String, Place)>,
    environment: Option<EnvironmentSection>,
    policy: PolicySection,
    workspace: WorkspaceSection,
    artifacts: ArtifactSection,
    datasets: DatasetSection,
    mounts: Vec<Mount>,
    /// Nobody named the file.
    confined: bool,
}

impl Config {
    /// What the file is called where nobody names it.
    pub const NAME: &str = "belljar.toml";

    /// Reads a file that somebody named, and so trusts.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let text = read_text(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::read(&text, path, false)
    }

    /// Reads the `belljar.toml` in a directory; `None` if there is none.
    ///
    /// Whoever wrote it may be the one whose code is to be run, and code that may write there can change it. So it
    /// can't name a cache, nor any file or directory outside of its own.
    pub fn find(directory: impl AsRef<Path>) -> Result<Option<Self>, ConfigError> {
        let path = directory.as_ref().join(Self::NAME);
        match read_text(&path) {
            Ok(text) => Self::read(&text, &path, true).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ConfigError::Read { path, source }),
        }
    }

    /// Reads a text; `base` is where relative paths begin.
    pub fn parse(text: &str, base: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::read(text, &base.as_ref().join(Self::NAME), false)
    }

    fn read(text: &str, file: &Path, confined: bool) -> Result<Self, ConfigError> {
        let base = file.parent().unwrap_or(Path::new(""));
        let source = Source { file, text, base, home: home(), confined };
        let document = Document::parse(text).map_err(|error| ConfigError::Syntax {
            place: source.place(error.span()),
            message: error.message().lines().collect::<Vec<_>>().join(", "),
        })?;
        let [(_, head), (_, environment), (_, policy), (_, workspace), (_, artifacts), (_, datasets)] =
            TABLES
        else {
            unreachable!("there are five tables")
        };
        let root = Section::open(&source, "", document.as_table()).knows(head)?;
        let Head { cache_dir, engine, python_version } = Head::read(&root)?;
        let engine = engine.map(|(engine, place)| (engine, Some(place)));
        let environment = match root.section("environment")? {
            Some(section) => Some(EnvironmentSection::read(&section.knows(environment)?, base)?),
            None => None,
        };
        let policy = match root.section("policy")? {
            Some(section) => PolicySection::read(&section.knows(policy)?)?,
            None => PolicySection::default(),
        };
        let workspace = match root.section("workspace")? {
            Some(section) => WorkspaceSection::read(&section.knows(workspace)?)?,
            None => WorkspaceSection::default(),
        };
        let artifacts = match root.section("artifacts")? {
            Some(section) => ArtifactSection::read(&section.knows(artifacts)?)?,
            None => ArtifactSection::default(),
        };
        let datasets = match root.section("datasets")? {
            Some(section) => DatasetSection::read(&section.knows(datasets)?)?,
            None => DatasetSection::default(),
        };
        let mounts = root.section("mounts")?.map(|section| sections::mounts(&section)).transpose()?;
        let (file, mounts) = (file.to_owned(), mounts.unwrap_or_default());
        Ok(Self {
            file,
            cache_dir,
            engine,
            python_version,
            environment,
            policy,
            workspace,
            artifacts,
            datasets,
            mounts,
            confined,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// The cache that it names.
    pub fn cache_dir(&self) -> Option<&Path> {
        self.cache_dir.as_deref()
    }

    /// The engine that it chooses. A file that nobody named can't choose the native one: it may come from whoever
    /// wrote the code, who would choose between the walls around it.
    pub fn engine(&self) -> Result<Option<EngineKind>, ConfigError> {
        match &self.engine {
            Some((EngineKind::Native, Some(place))) if self.confined => Err(ConfigError::Untrusted {
                place: place.clone(),
                problem: "it chooses the native engine, which `--engine native` allows".to_owned(),
            }),
            Some((engine, _)) => Ok(Some(*engine)),
            None => Ok(None),
        }
    }

    /// Says which engine counts, whatever the file says.
    pub fn with_engine(mut self, engine: EngineKind) -> Self {
        if self.engine.as_ref().is_none_or(|(named, _)| *named != engine) {
            // That was said of another one.
            self.python_version = None;
        }
        self.engine = Some((engine, None));
        self
    }

    /// The Python that the native engine is to run, if the file says which.
    pub fn python(&self) -> Result<Option<PathBuf>, ConfigError> {
        let Some((version, place)) = &self.python_version else { return Ok(None) };
        if !matches!(self.engine, Some((EngineKind::Native, _))) {
            return Ok(None);
        }
        python_on_path(version).map(Some).ok_or_else(|| ConfigError::Value {
            place: place.clone(),
            problem: format!("there is no python{version} on the path"),
            advice: Some("install it, or name another with --python or `Runtimes::python`".to_owned()),
        })
    }

    /// The packages that it names, as they are written there.
    pub fn packages(&self) -> Vec<String> {
        let packages = self.environment.iter().flat_map(|section| &section.packages);
        packages.map(|(text, _)| text.clone()).collect()
    }

    /// The lock that it names; the file needn't be there.
    pub fn lock_file(&self) -> Option<&Path> {
        self.environment.as_ref()?.lock.as_deref()
    }

    /// Changes what the file says of a policy, and adds its mounts in place of those with the same guest path.
    pub fn change(&self, policy: &mut Policy) {
        self.policy.change(policy);
        self.workspace.change(policy);
        self.artifacts.change(&mut policy.artifacts);
        self.datasets.change(&mut policy.datasets);
        if let Some(inject) = self.environment.as_ref().and_then(|section| section.inject_setup) {
            policy.inject_setup = inject;
        }
        policy.mounts.retain(|other| self.mounts.iter().all(|mount| mount.guest != other.guest));
        policy.mounts.extend(self.mounts.iter().cloned());
    }

    /// Changes what the file says of where artifacts are, and how much is kept. A bucket has no credentials in it.
    pub fn change_artifacts(&self, settings: &mut ArtifactSettings) {
        self.artifacts.change_settings(settings);
    }

    /// Changes what the file says of how datasets are fetched.
    pub fn change_fetching(&self, options: &mut FetchOptions) {
        self.datasets.change_options(options);
    }

    /// The named environment that it wants.
    pub fn environment_name(&self) -> Option<&str> {
        self.environment.as_ref()?.name.as_deref()
    }

    /// The environment that it describes, whatever is locked; `None` if it describes none, or wants a named one.
    pub fn unlocked_environment(&self) -> Option<Environment> {
        let section = self.environment.as_ref().filter(|section| section.name.is_none())?;
        Some(Environment {
            packages: section.packages.iter().map(|(_, spec)| spec.clone()).collect(),
            preload: section.preload.clone(),
            setup: section.setup.clone(),
            stdlib: section.stdlib.clone(),
            engine: self.engine.as_ref().map(|(engine, _)| *engine).unwrap_or_default(),
            ..Environment::default()
        })
    }

    /// The environment that it describes, with what is locked, if its lock is there. `runtimes` says which Python the
    /// lock is for, if it is the native engine's.
    pub fn environment(&self, runtimes: &Runtimes) -> Result<Option<Environment>, Error> {
        match (self.unlocked_environment(), self.lock_file()) {
            (Some(environment), Some(lock)) if lock.exists() => {
                let environment = environment.locked_by(lock, runtimes)?;
                self.confine(&environment)?;
                Ok(Some(environment))
            }
            (environment, _) => Ok(environment),
        }
    }

    /// Refuses a lock that names files outside of the directory, if nobody named the file.
    fn confine(&self, environment: &Environment) -> Result<(), ConfigError> {
        let base = self.file.parent().unwrap_or(Path::new(""));
        let locked = environment.lock.iter().flat_map(Lock::packages).filter_map(LockedPackage::file);
        match locked.into_iter().find(|path| self.confined && !reader::is_inside(base, path)) {
            None => Ok(()),
            Some(path) => {
                let place = Place { file: self.file.clone(), line: 1, column: 1 };
                Err(ConfigError::Untrusted { place, problem: format!("its lock: {}", reader::outside(path)) })
            }
        }
    }

    /// Sets up a sandbox as the file says. What is set later counts more. A named environment is looked for in the
    /// builder's state directory, else in the user's.
    pub fn apply(mut self, mut builder: SandboxBuilder) -> Result<SandboxBuilder, Error> {
        match (self.engine()?, builder.said_engine()) {
            (Some(engine), _) => builder = builder.engine(engine),
            (None, Some(said)) => self = self.with_engine(said),
            (None, None) => {}
        }
        if let Some(directory) = &self.cache_dir {
            builder = builder.cache_dir(directory);
        }
        if let Some(python) = self.python()? {
            builder.runtimes_mut().python.get_or_insert(python);
        }
        let environment = match self.environment_name() {
            Some(name) => {
                let (state_dir, tenant) = builder.keeps();
                let directory = state_dir.or_else(default_state_dir).ok_or(Error::NoStateDirectory)?;
                let environments = Environments::open(directory, tenant.unwrap_or_else(Tenant::local))?;
                Some(environments.get(name)?.environment()?.for_engine(name, self.engine()?)?)
            }
            None => self.environment(builder.runtimes_mut())?,
        };
        if let Some(environment) = environment {
            builder = builder.environment(environment);
        }
        builder.configure_kept(self.artifacts.clone(), |options| self.datasets.change_options(options));
        Ok(builder.change(move |policy| self.change(policy)))
    }
}

impl Environment {
    /// The environment of this name, if it is for the engine that was asked for.
    fn for_engine(self, name: &str, wanted: Option<EngineKind>) -> Result<Self, Error> {
        match wanted {
            Some(wanted) if wanted != self.engine => {
                Err(Error::OtherEngine { name: name.to_owned(), found: self.engine, wanted })
            }
            _ => Ok(self),
        }
    }
}

impl Sandbox {
    /// A sandbox as a `belljar.toml` describes it. [`SandboxBuilder::config`] is for when more is to be set.
    pub async fn from_config(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().config(path)?.build().await
    }

    /// [`Sandbox::from_config`] without async.
    pub fn from_config_blocking(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().config(path)?.build_blocking()
    }
}

impl SandboxBuilder {
    /// Sets what a `belljar.toml` says, and nothing else. What is set later counts more.
    pub fn config(self, path: impl AsRef<Path>) -> Result<Self, Error> {
        Config::load(path)?.apply(self)
    }
}

#[cfg(test)]
mod tests;
