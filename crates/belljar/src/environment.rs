//! What sessions are made with: packages, and what is imported before they start.

mod bytecode;
mod installs;
mod kind;
mod named;
mod native;

use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_packages::{InstalledPackage, Lock, Resolver, Site, Spec};
use belljar_runtime::{Cache, CacheError, LinkedExtension, Maker, Progress, Runtime, hash_tree};
use belljar_wasm::{Layer, Preload, Tree, WasmEngine};
use serde::Serialize;

use self::bytecode::Bytecode;
pub(crate) use self::installs::SessionInstaller;
pub use self::kind::EngineKind;
pub use self::named::{Environments, NamedEnvironment};
use crate::{Error, Runtimes};

/// Which packages sessions have, and what is run before they start. By default none, and nothing.
///
/// ```no_run
/// # fn main() -> Result<(), belljar::Error> {
/// use belljar::{Environment, Sandbox};
///
/// let mut environment = Environment::default();
/// environment.add("jinja2>=3")?;
/// environment.preload.push("jinja2".into());
/// let sandbox = Sandbox::builder().environment(environment).build_blocking()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// What was asked for.
    pub packages: Vec<Spec>,
    /// What that was resolved to. Without it the packages are resolved when the environment is first made, and
    /// the answer is remembered in the cache.
    pub lock: Option<Lock>,
    /// Modules that are imported once, when the environment is made: every session starts with them in memory.
    pub preload: Vec<String>,
    /// Code that is run once after that. Every session starts with its variables and files.
    pub setup: String,
    /// How long both may take; by default two minutes.
    pub setup_timeout: Option<Duration>,
    /// Bytes of memory that both may use; by default as much as the sandbox's sessions, and 1 GiB where there is no
    /// sandbox.
    pub setup_memory: Option<u64>,
    /// A standard library instead of the interpreter's own.
    pub stdlib: Option<PathBuf>,
    /// What runs sessions.
    pub engine: EngineKind,
}

/// An environment that is there.
#[derive(Clone, Debug, Serialize)]
pub struct EnvironmentInfo {
    /// Names it by what is in it.
    pub id: String,
    /// Where the packages are on the host, if there are any.
    pub directory: Option<PathBuf>,
    /// Bytes of all packages.
    pub bytes: u64,
    /// The packages.
    pub packages: Vec<PackageInfo>,
    /// Native modules that were linked into the interpreter.
    pub native_modules: Vec<String>,
    /// Modules that are in memory from the start.
    pub preload: Vec<String>,
}

/// A package of an environment.
#[derive(Clone, Debug, Serialize)]
pub struct PackageInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// It has native parts for other platforms, which were left out because it works without.
    pub without_native: bool,
}

impl Environment {
    /// Adds a package: a requirement such as `jinja2>=3`, or the path of a wheel, an archive, a directory, a
    /// requirements file or a `pyproject.toml`.
    pub fn add(&mut self, spec: &str) -> Result<(), Error> {
        self.packages.push(Spec::parse(spec, Path::new(""))?);
        Ok(())
    }

    /// Whether it is the interpreter and nothing else.
    pub fn is_plain(&self) -> bool {
        self.packages.is_empty()
            && self.lock.is_none()
            && self.preload.is_empty()
            && self.setup.is_empty()
            && self.stdlib.is_none()
    }

    /// Which packages exactly, with their hashes: resolved now, if that hasn't been done.
    pub fn lock(&self, runtimes: &Runtimes, progress: &dyn Progress) -> Result<Lock, Error> {
        if self.engine == EngineKind::Native {
            return self.lock_native(runtimes, progress);
        }
        self.check_wasm()?;
        let resolver = runtimes.resolver(runtimes.cache()?);
        match &self.lock {
            Some(lock) => Ok(resolver.complete(lock, progress)?),
            None => Ok(resolver.lock(&self.packages, progress)?),
        }
    }

    /// Makes it, if it isn't there: resolves and fetches packages, links native ones, runs what is to be run.
    pub fn make(&self, runtimes: &Runtimes, progress: &dyn Progress) -> Result<EnvironmentInfo, Error> {
        if self.engine == EngineKind::Native {
            return self.make_native(runtimes, progress);
        }
        let made = self.assemble(runtimes, progress)?;
        let builder = WasmEngine::builder(made.runtime.clone(), made.cache.clone());
        let engine = builder.layer(made.layer.clone()).progress(progress).load()?;
        Ok(made.info(belljar_engine::Engine::environment(&engine), &self.preload))
    }

    /// All that an engine needs; in about a millisecond if it was made before.
    pub(crate) fn assemble(&self, runtimes: &Runtimes, progress: &dyn Progress) -> Result<Assembled, Error> {
        let cache = runtimes.cache()?;
        let (site, lock) = self.site(runtimes, &cache, progress)?.unzip();
        let runtime = runtimes.maker(cache.clone()).extensions(linked(site.as_ref())).ensure(progress)?;
        let layer = self.layer(&cache, site.as_ref())?;
        Ok(Assembled { runtime, cache, layer, site, lock })
    }

    fn layer(&self, cache: &Cache, site: Option<&Site>) -> Result<Layer, Error> {
        Ok(Layer {
            packages: site.map(|site| tree(cache, site)).transpose()?,
            library: self.stdlib.as_deref().map(library).transpose()?,
            preload: Preload {
                modules: self.preload.clone(),
                setup: self.setup.clone(),
                time: self.setup_timeout.unwrap_or(Preload::default().time),
                memory: self.setup_memory.unwrap_or(Preload::default().memory),
            },
        })
    }

    /// Names of the interpreter and of the image that it has in the cache, whether they are there or not.
    pub(crate) fn names_in_cache(
        &self,
        runtimes: &Runtimes,
        site: Option<&Site>,
    ) -> Result<(String, String), Error> {
        if self.engine == EngineKind::Native {
            // It has nothing there but its packages. These are names that nothing has.
            return Ok(("native".to_owned(), "native".to_owned()));
        }
        let cache = runtimes.cache()?;
        let runtime = runtimes.maker(cache.clone()).extensions(linked(site)).runtime_id().to_owned();
        let image = WasmEngine::image_key(&runtime, &self.layer(&cache, site)?);
        Ok((runtime, image))
    }

    /// Bytes of its packages in the cache; `None` if they aren't all there. Nothing is made.
    pub fn installed_bytes(&self, runtimes: &Runtimes) -> Result<Option<u64>, Error> {
        match &self.lock {
            None if self.packages.is_empty() && self.engine == EngineKind::Wasm => Ok(Some(0)),
            _ => Ok(self.find_site(runtimes)?.map(|site| site.bytes)),
        }
    }

    /// What is locked, if it is installed.
    pub(crate) fn find_site(&self, runtimes: &Runtimes) -> Result<Option<Site>, Error> {
        if self.engine == EngineKind::Native {
            return self.find_native_site(runtimes);
        }
        let Some(lock) = &self.lock else { return Ok(None) };
        Ok(runtimes.resolver(runtimes.cache()?).find(lock, &Bytecode { runtimes }))
    }

    fn site(
        &self,
        runtimes: &Runtimes,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<Option<(Site, Lock)>, Error> {
        if self.packages.is_empty() && self.lock.is_none() {
            return Ok(None);
        }
        self.check_wasm()?;
        let resolver: Resolver = runtimes.resolver(cache.clone());
        let lock = match &self.lock {
            Some(lock) => resolver.complete(lock, progress)?,
            None => resolver.lock(&self.packages, progress)?,
        };
        let compiler = Bytecode { runtimes };
        match resolver.find(&lock, &compiler) {
            Some(site) => Ok(Some((site, lock))),
            None => Ok(Some((resolver.install(&lock, &compiler, progress)?, lock))),
        }
    }
}

/// An environment, ready for an engine.
pub(crate) struct Assembled {
    pub(crate) runtime: Runtime,
    pub(crate) cache: Cache,
    pub(crate) layer: Layer,
    site: Option<Site>,
    /// Which packages exactly.
    pub(crate) lock: Option<Lock>,
}

impl Assembled {
    fn info(&self, id: &str, preload: &[String]) -> EnvironmentInfo {
        let site = self.site.as_ref();
        let packages = site.map(|site| site.packages.iter().map(PackageInfo::from).collect());
        let native = site.map(|site| site.extensions.iter().map(|module| module.path.clone()).collect());
        EnvironmentInfo {
            id: id.to_owned(),
            directory: site.map(|site| site.directory.clone()),
            bytes: site.map_or(0, |site| site.bytes),
            packages: packages.unwrap_or_default(),
            native_modules: native.unwrap_or_default(),
            preload: preload.to_vec(),
        }
    }
}

impl From<&InstalledPackage> for PackageInfo {
    fn from(package: &InstalledPackage) -> Self {
        Self {
            name: package.name.clone(),
            version: package.version.clone(),
            bytes: package.bytes,
            without_native: package.without_native,
        }
    }
}

/// The native modules, as the maker of interpreters wants them.
fn linked(site: Option<&Site>) -> Vec<LinkedExtension> {
    let extensions = site.into_iter().flat_map(|site| &site.extensions);
    let linked = extensions.map(|extension| LinkedExtension {
        path: extension.path.clone(),
        file: extension.file.clone(),
        hash: extension.hash.clone(),
    });
    linked.collect()
}

/// The packages' directory, named by what was in it when it was made.
fn tree(cache: &Cache, site: &Site) -> Result<Tree, Error> {
    let directory = site.directory.clone();
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let id = directory.parent().and_then(|entry| cache.tree_id(entry, name));
    let what = "manifest.json".to_owned();
    let id = id.ok_or_else(|| CacheError::Damaged { entry: directory.clone(), what })?;
    Ok(Tree { directory, id })
}

/// A standard library of the user's own.
fn library(directory: &Path) -> Result<Tree, Error> {
    if !directory.join("encodings/__init__.py").is_file() || !directory.join("os.py").is_file() {
        return Err(Error::NoStandardLibrary { directory: directory.to_owned() });
    }
    Ok(Tree { directory: directory.to_owned(), id: hash_tree(directory)? })
}

impl Runtimes {
    pub(crate) fn resolver(&self, cache: Cache) -> Resolver {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Resolver::new(cache)
            .search(std::env::split_paths(&path))
            .python(self.python.clone())
            .offline(self.offline)
            .upgrade(self.upgrade)
    }

    pub(crate) fn maker(&self, cache: Cache) -> Maker {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Maker::new(cache)
            .python(self.python.clone())
            .search(std::env::split_paths(&path))
            .offline(self.offline)
    }
}
