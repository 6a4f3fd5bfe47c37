//! Environments of the native engine: a Python of this machine, and wheels that it can load.

use std::path::{Path, PathBuf};

use belljar_native::NativeEnvironment;
use belljar_packages::{HostPython, Lock, PackageError, Resolver, Site, Spec};
use belljar_runtime::{Cache, Progress, Quiet};

use super::{EngineKind, Environment, EnvironmentInfo, PackageInfo};
use crate::{Error, Runtimes};

/// What the environment `science` has.
const SCIENCE: [&str; 6] = ["numpy", "pandas", "scikit-learn", "pyarrow", "rdkit", "matplotlib"];
/// What takes long to import.
const SCIENCE_PRELOAD: [&str; 9] = [
    "numpy",
    "pandas",
    "sklearn",
    "sklearn.linear_model",
    "sklearn.ensemble",
    "pyarrow",
    "pyarrow.parquet",
    "rdkit.Chem",
    "matplotlib.pyplot",
];

/// An environment of the native engine that is installed.
struct Installed {
    python: HostPython,
    site: Site,
}

impl Environment {
    /// The usual tools of data science, imported ahead of time, for the native engine. It is called `science` wherever
    /// an environment is named, unless another one has that name.
    pub fn science() -> Self {
        Self {
            packages: SCIENCE.iter().map(|name| Spec::Requirement((*name).to_owned())).collect(),
            preload: SCIENCE_PRELOAD.map(str::to_owned).to_vec(),
            engine: EngineKind::Native,
            ..Self::default()
        }
    }

    /// Refuses what only the native engine can have, before the package index says so in other words.
    pub(super) fn check_wasm(&self) -> Result<(), Error> {
        match self.lock.is_none() && self.packages == Self::science().packages {
            true => Err(PackageError::NativeOnly { what: "the environment science".to_owned() }.into()),
            false => Ok(()),
        }
    }

    /// All that the native engine needs; in about a millisecond if it was made before.
    pub(crate) fn assemble_native(
        &self,
        runtimes: &Runtimes,
        progress: &dyn Progress,
    ) -> Result<NativeEnvironment, Error> {
        Ok(self.install(runtimes, progress)?.environment(self))
    }

    pub(super) fn make_native(
        &self,
        runtimes: &Runtimes,
        progress: &dyn Progress,
    ) -> Result<EnvironmentInfo, Error> {
        let installed = self.install(runtimes, progress)?;
        let id = installed.environment(self).id;
        let Site { directory, bytes, packages, .. } = installed.site;
        Ok(EnvironmentInfo {
            id,
            directory: Some(directory),
            bytes,
            packages: packages.iter().map(PackageInfo::from).collect(),
            native_modules: Vec::new(),
            preload: self.preload.clone(),
        })
    }

    pub(super) fn lock_native(&self, runtimes: &Runtimes, progress: &dyn Progress) -> Result<Lock, Error> {
        let cache = runtimes.cache()?;
        let python = runtimes.host_python(&cache)?;
        self.locked_for(&runtimes.native_resolver(cache, &python), progress)
    }

    /// What is locked, if it is installed. One whose interpreter is gone isn't.
    pub(super) fn find_native_site(&self, runtimes: &Runtimes) -> Result<Option<Site>, Error> {
        let Some(lock) = &self.lock else { return Ok(None) };
        let cache = runtimes.cache()?;
        let Ok(python) = runtimes.host_python(&cache) else { return Ok(None) };
        let resolver = runtimes.native_resolver(cache, &python).offline(true).upgrade(false);
        let Ok(lock) = resolver.complete(lock, &Quiet) else { return Ok(None) };
        Ok(resolver.find(&lock, &python))
    }

    /// Reads a `pylock.toml` that lies in `directory`, for the environment's engine.
    pub fn read_lock(&self, text: &str, directory: &Path, runtimes: &Runtimes) -> Result<Lock, Error> {
        match self.engine {
            EngineKind::Wasm => Ok(Lock::parse_in(text, directory)?),
            EngineKind::Native => {
                let python = runtimes.host_python(&runtimes.cache()?)?;
                Ok(Lock::parse_for(text, directory, &python.target())?)
            }
        }
    }

    fn locked_for(&self, resolver: &Resolver, progress: &dyn Progress) -> Result<Lock, Error> {
        match &self.lock {
            Some(lock) => Ok(resolver.complete(lock, progress)?),
            None => Ok(resolver.lock(&self.packages, progress)?),
        }
    }

    fn install(&self, runtimes: &Runtimes, progress: &dyn Progress) -> Result<Installed, Error> {
        if self.stdlib.is_some() {
            return Err(PackageError::WasmOnly { what: "a standard library of one's own".to_owned() }.into());
        }
        let cache = runtimes.cache()?;
        let python = runtimes.host_python(&cache)?;
        let resolver = runtimes.native_resolver(cache, &python);
        let lock = self.locked_for(&resolver, progress)?;
        let site = match resolver.find(&lock, &python) {
            Some(site) => site,
            None => resolver.install(&lock, &python, progress)?,
        };
        Ok(Installed { python, site })
    }
}

impl Installed {
    fn environment(&self, asked: &Environment) -> NativeEnvironment {
        let Self { python, site } = self;
        NativeEnvironment {
            id: id(&python.id, &site.id, &asked.preload, &asked.setup),
            prefix: python.prefix.clone(),
            executable: python.executable.clone(),
            packages: Some(site.directory.clone()),
            preload: asked.preload.clone(),
            setup: asked.setup.clone(),
        }
    }
}

/// Names an environment by all that is in it.
fn id(python: &str, site: &str, preload: &[String], setup: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    let parts = ["native", python, site].into_iter().chain(preload.iter().map(String::as_str));
    for part in parts.chain([";", setup]) {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

impl Runtimes {
    /// The Python that the native engine runs.
    pub(crate) fn host_python(&self, cache: &Cache) -> Result<HostPython, Error> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
        Ok(HostPython::find(self.python.as_deref(), &directories, cache)?)
    }

    pub(super) fn native_resolver(&self, cache: Cache, python: &HostPython) -> Resolver {
        self.resolver(cache).target(python.target())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NamedEnvironment;

    #[test]
    fn names_tell_environments_apart() {
        let preload = ["a".to_owned(), "b".to_owned()];
        let one = id("python", "site", &preload, "x = 1");
        assert_eq!(one, id("python", "site", &preload, "x = 1"));
        assert_eq!(one.len(), 32);
        for other in [
            id("other", "site", &preload, "x = 1"),
            id("python", "other", &preload, "x = 1"),
            id("python", "site", &preload[..1], "x = 1"),
            id("python", "site", &["ab".to_owned()], "x = 1"),
            id("python", "site", &preload, "x = 2"),
        ] {
            assert_ne!(one, other);
        }
    }

    /// A cache and an environment that needs no package index: it has what all of them need.
    fn fixture() -> (tempfile::TempDir, Runtimes, Environment) {
        let directory = tempfile::tempdir().expect("a directory");
        let package = directory.path().join("cloudpickle");
        std::fs::create_dir(&package).expect("made");
        std::fs::write(package.join("__init__.py"), "x = 1\n").expect("written");
        let cache_dir = Some(directory.path().join("cache"));
        let runtimes = Runtimes { cache_dir, offline: true, ..Runtimes::default() };
        let packages = vec![Spec::Directory(package)];
        let environment = Environment { packages, engine: EngineKind::Native, ..Environment::default() };
        (directory, runtimes, environment)
    }

    #[test]
    fn environments_are_made_once() {
        let (_directory, runtimes, environment) = fixture();
        let made = environment.assemble_native(&runtimes, &Quiet).expect("made");
        assert!(made.prefix.join(&made.executable).is_file());
        let packages = made.packages.clone().expect("packages");
        assert!(packages.join("cloudpickle/__init__.py").is_file());
        assert_eq!(environment.assemble_native(&runtimes, &Quiet).expect("found").id, made.id);
        let preloading = Environment { preload: vec!["cloudpickle".into()], ..environment.clone() };
        let other = preloading.assemble_native(&runtimes, &Quiet).expect("found");
        assert_ne!(other.id, made.id);
        assert_eq!(other.packages, Some(packages));
        let info = environment.make(&runtimes, &Quiet).expect("found");
        assert_eq!((info.id, info.packages.len()), (made.id, 1));
        let odd = Environment { stdlib: Some("/lib".into()), ..environment };
        assert!(odd.assemble_native(&runtimes, &Quiet).expect_err("wasm only").hint().is_some());
    }

    #[test]
    fn a_name_keeps_engine_and_lock() {
        let (_directory, runtimes, mut environment) = fixture();
        let made = environment.assemble_native(&runtimes, &Quiet).expect("made");
        environment.lock = Some(environment.lock(&runtimes, &Quiet).expect("locked"));
        let named = NamedEnvironment::new("mine", Vec::new(), &environment);
        let again = named.environment().expect("an environment");
        assert_eq!(again.engine, EngineKind::Native);
        assert_eq!(again.assemble_native(&runtimes, &Quiet).expect("found").id, made.id);
        assert!(again.installed_bytes(&runtimes).expect("looked").is_some_and(|bytes| bytes > 0));
        let elsewhere = Environment { engine: EngineKind::Wasm, ..again };
        let error = elsewhere.lock(&runtimes, &Quiet).expect_err("for the other engine");
        assert!(error.hint().is_some_and(|hint| hint.contains("--engine")), "{error}");
    }

    #[test]
    fn science_needs_the_native_engine() {
        let environment = Environment { engine: EngineKind::Wasm, ..Environment::science() };
        let error = environment.check_wasm().expect_err("it has native code");
        assert!(error.hint().is_some_and(|hint| hint.contains("--engine native")), "{error}");
        assert!(Environment::default().check_wasm().is_ok());
    }
}
