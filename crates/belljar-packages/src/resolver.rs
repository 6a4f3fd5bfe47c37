use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use belljar_runtime::{Cache, Progress, Quiet};
use tempfile::TempDir;

use crate::{
    compiler::Compiler,
    error::PackageError,
    limits::Limits,
    lock::{Lock, LockedPackage, Source},
    resolution::{NEEDED_BY_NATIVE, Wanted},
    site::{self, Site, UnpackedPackage},
    spec::Spec,
    steps::Steps,
    target::Target,
    uv::{Search, Uv},
    wheel::{self, Shop, Wheel},
};

/// Where locks are kept, by what they are the answer to.
const RESOLUTION: &str = "resolution";
const LOCK: &str = "pylock.toml";

/// Temporary directories in the cache, and when nobody can be using them any more.
pub(crate) const SCRATCH: &str = ".scratch.";
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// How many packages are fetched at once.
const AT_ONCE: usize = 4;

/// Settles what specs mean, and installs it into a cache.
///
/// By default it may use the network, and knows no directory to find uv or Python in.
#[derive(Clone, Debug)]
pub struct Resolver {
    cache: Cache,
    python: Option<PathBuf>,
    uv: Option<PathBuf>,
    search: Vec<PathBuf>,
    offline: bool,
    upgrade: bool,
    limits: Limits,
    target: Target,
    until: Option<Instant>,
}

impl Resolver {
    /// A resolver for `cache`.
    pub fn new(cache: Cache) -> Self {
        let (search, limits) = (Vec::new(), Limits::default());
        Self {
            cache,
            python: None,
            uv: None,
            search,
            offline: false,
            upgrade: false,
            limits,
            target: Target::Wasm,
            until: None,
        }
    }

    /// Where to look for uv and for a Python if none is named: usually the directories of `PATH`.
    #[must_use]
    pub fn search(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.search = directories.into_iter().collect();
        self
    }

    /// The Python that uv and pip need. No package is installed into it, nor run in it.
    #[must_use]
    pub fn python(mut self, python: Option<PathBuf>) -> Self {
        self.python = python;
        self
    }

    /// The uv to ask.
    #[must_use]
    pub fn uv(mut self, uv: Option<PathBuf>) -> Self {
        self.uv = uv;
        self
    }

    /// Whether to do without the network.
    #[must_use]
    pub fn offline(mut self, offline: bool) -> Self {
        self.offline = offline;
        self
    }

    /// Whether to ask the index again, though the same specs were locked before.
    #[must_use]
    pub fn upgrade(mut self, upgrade: bool) -> Self {
        self.upgrade = upgrade;
        self
    }

    /// How large a package may be.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// When to give up; by default never.
    #[must_use]
    pub fn until(mut self, until: Option<Instant>) -> Self {
        self.until = until;
        self
    }

    /// What packages are for; by default the guest of the `wasm` engine.
    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    /// Settles which packages the specs mean. The same specs, with the same contents of all files that they name, give
    /// the same lock again, until [`upgrade`](Self::upgrade).
    ///
    /// # Errors
    /// See [`PackageError`].
    pub fn lock(&self, specs: &[Spec], progress: &dyn Progress) -> Result<Lock, PackageError> {
        let scratch = self.scratch()?;
        let wanted = Wanted::gather(specs, scratch.path(), &self.limits, &self.target)?;
        for (sha256, bytes) in &wanted.extensions {
            wheel::keep_extension(&self.cache, sha256, bytes)?;
        }
        if !self.upgrade
            && let Some(entry) = self.cache.find(RESOLUTION, &wanted.key)
            && let Ok(text) = fs::read_to_string(entry.join(LOCK))
        {
            self.cache.touch(RESOLUTION, &wanted.key);
            let lock = self.parse(&text)?;
            wanted.check(&lock)?;
            return Ok(lock);
        }
        let uv = match wanted.needs_index() {
            true => Some(self.find_uv(&scratch, progress)?),
            false => None,
        };
        progress.begin("resolving", Duration::from_secs(2));
        let text = wanted.resolve(uv.as_ref(), scratch.path(), &self.limits, progress)?;
        progress.end();
        // Before it is kept: an answer that can't be used shouldn't be found again.
        let lock = self.parse(&text)?;
        wanted.check(&lock)?;
        if self.upgrade {
            self.cache.remove(RESOLUTION, &wanted.key)?;
        }
        self.cache.make(RESOLUTION, &wanted.key, &Quiet, |directory| -> Result<(), PackageError> {
            let path = directory.join(LOCK);
            fs::write(&path, &text).map_err(|error| PackageError::write(&path, error))
        })?;
        Ok(lock)
    }

    /// The lock as it is for the target, with what all environments of the `native` engine have.
    ///
    /// # Errors
    /// If it was made for something else, and those of [`lock`](Self::lock).
    pub fn complete(&self, lock: &Lock, progress: &dyn Progress) -> Result<Lock, PackageError> {
        let lock = lock.for_target(&self.target)?;
        if !self.target.is_native() {
            return Ok(lock);
        }
        let has_needed = lock.packages().any(|package| package.name == NEEDED_BY_NATIVE.0);
        match has_needed {
            true if lock.says_for_whom() => Ok(lock),
            // Where it is read again it must be known.
            true => lock.with(&lock),
            false => lock.with(&self.lock(&[], progress)?),
        }
    }

    /// The site of a lock, if it was installed before. Takes about a millisecond.
    pub fn find(&self, lock: &Lock, compiler: &dyn Compiler) -> Option<Site> {
        let lock = lock.for_target(&self.target).ok()?;
        site::find(&self.cache, &site::id(&lock, compiler))
    }

    /// The site of a lock, made if need be. Unlike [`find`](Self::find) it looks at every file that is there already.
    ///
    /// # Errors
    /// See [`PackageError`].
    pub fn install(
        &self,
        lock: &Lock,
        compiler: &dyn Compiler,
        progress: &dyn Progress,
    ) -> Result<Site, PackageError> {
        let lock = &lock.for_target(&self.target)?;
        let id = site::id(lock, compiler);
        if let Some(site) = site::find_whole(&self.cache, &id) {
            return Ok(site);
        }
        let packages: Vec<&LockedPackage> = lock.packages().collect();
        let mut wheels: Vec<Option<Wheel>> = packages
            .iter()
            .map(|package| wheel::find(&self.cache, package, compiler, &self.target))
            .collect();
        let missing: Vec<usize> = (0..packages.len()).filter(|index| wheels[*index].is_none()).collect();
        if !missing.is_empty() {
            let wanted: Vec<&LockedPackage> = missing.iter().map(|index| packages[*index]).collect();
            for (index, made) in missing.iter().zip(self.make_all(&wanted, compiler, progress)?) {
                wheels[*index] = Some(made);
            }
        }
        let parts: Vec<(&LockedPackage, Wheel)> =
            packages.into_iter().zip(wheels).filter_map(|(package, wheel)| Some((package, wheel?))).collect();
        site::assemble(&self.cache, &id, &parts, &self.target, progress)
    }

    /// The packages of a lock, each in a directory of its own in the cache, which never changes. Those of `except` are
    /// left out. All together may have so many bytes; `fetched` is told how many were fetched, also if it fails.
    ///
    /// # Errors
    /// See [`PackageError`].
    pub fn unpack(
        &self,
        lock: &Lock,
        except: &dyn Fn(&LockedPackage) -> bool,
        most_bytes: u64,
        compiler: &dyn Compiler,
        progress: &dyn Progress,
        fetched: &AtomicU64,
    ) -> Result<Vec<UnpackedPackage>, PackageError> {
        let lock = &lock.for_target(&self.target)?;
        let packages: Vec<&LockedPackage> = lock.packages().filter(|package| !except(package)).collect();
        let mut wheels: Vec<Option<Wheel>> = packages
            .iter()
            .map(|package| wheel::find(&self.cache, package, compiler, &self.target))
            .collect();
        let missing: Vec<usize> = (0..packages.len()).filter(|index| wheels[*index].is_none()).collect();
        let present: u64 = wheels.iter().flatten().map(|wheel| wheel.facts.bytes).sum();
        let budget = Budget { most: most_bytes.saturating_sub(present), used: fetched };
        if !missing.is_empty() {
            let wanted: Vec<&LockedPackage> = missing.iter().map(|index| packages[*index]).collect();
            for (index, made) in
                missing.iter().zip(self.make_within(&wanted, compiler, progress, Some(&budget))?)
            {
                wheels[*index] = Some(made);
            }
        }
        let parts = packages.into_iter().zip(wheels).filter_map(|(package, wheel)| Some((package, wheel?)));
        Ok(parts
            .map(|(package, wheel)| UnpackedPackage {
                name: package.name.clone(),
                version: package.version.clone(),
                bytes: wheel.facts.bytes,
                directory: wheel.files,
            })
            .collect())
    }

    fn make_all(
        &self,
        packages: &[&LockedPackage],
        compiler: &dyn Compiler,
        progress: &dyn Progress,
    ) -> Result<Vec<Wheel>, PackageError> {
        self.make_within(packages, compiler, progress, None)
    }

    /// Makes packages, a few at once, in the order given. After a failure no further one is begun.
    fn make_within(
        &self,
        packages: &[&LockedPackage],
        compiler: &dyn Compiler,
        progress: &dyn Progress,
        budget: Option<&Budget<'_>>,
    ) -> Result<Vec<Wheel>, PackageError> {
        let fetched = |package: &&LockedPackage| matches!(package.source, Source::Fetched { .. });
        if self.offline
            && let Some(package) = packages.iter().copied().find(|package| fetched(package))
        {
            return Err(PackageError::Offline { what: package.release() });
        }
        let scratch = self.scratch()?;
        let uv = match packages.iter().any(fetched) {
            true => Some(self.find_uv(&scratch, progress)?),
            false => None,
        };
        let steps = Steps::begin(progress, packages.len());
        let (cache, target, limits) = (&self.cache, &self.target, self.limits);
        let shop = Shop { cache, uv: uv.as_ref(), compiler, target, limits, steps: &steps };
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, Result<Wheel, PackageError>)>> = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(packages.len()) {
                scope.spawn(|| {
                    while let Some((index, package)) = take(&next, packages) {
                        let made = shop.make(package).and_then(|made| match budget {
                            Some(budget) => budget.spend(package, &made).map(|()| made),
                            None => Ok(made),
                        });
                        if made.is_err() {
                            next.store(packages.len(), Ordering::Relaxed);
                        }
                        done.lock().unwrap_or_else(PoisonError::into_inner).push((index, made));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(index, _)| *index);
        let made = done.into_iter().map(|(_, made)| made).collect::<Result<Vec<_>, _>>()?;
        steps.end();
        Ok(made)
    }

    fn parse(&self, text: &str) -> Result<Lock, PackageError> {
        Lock::parse_for(text, Path::new(""), &self.target)
    }

    fn find_uv(&self, scratch: &TempDir, progress: &dyn Progress) -> Result<Uv, PackageError> {
        let search = Search {
            cache: &self.cache,
            named: self.uv.as_deref(),
            python: self.python.as_deref(),
            directories: &self.search,
            offline: self.offline,
            until: self.until,
        };
        Uv::find(&search, scratch.path(), progress)
    }

    /// A directory beside the cache's entries, out of their sight.
    fn scratch(&self) -> Result<TempDir, PackageError> {
        let root = self.cache.root();
        sweep(root);
        let made =
            fs::create_dir_all(root).and_then(|()| tempfile::Builder::new().prefix(SCRATCH).tempdir_in(root));
        made.map_err(|error| PackageError::write(root, error))
    }
}

/// Bytes that packages may have together.
struct Budget<'f> {
    most: u64,
    used: &'f AtomicU64,
}

impl Budget<'_> {
    fn spend(&self, package: &LockedPackage, made: &Wheel) -> Result<(), PackageError> {
        let used = self.used.fetch_add(made.facts.bytes, Ordering::Relaxed).saturating_add(made.facts.bytes);
        if used <= self.most {
            return Ok(());
        }
        let reason = format!("with it the packages are larger than {} bytes", self.most);
        Err(PackageError::refused(Path::new(&package.release()), reason))
    }
}

/// Removes what killed processes left. Nothing that is still in use is that old.
fn sweep(root: &Path) {
    for found in fs::read_dir(root).into_iter().flatten().flatten() {
        let modified = found.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = modified.and_then(|modified| modified.elapsed().ok()).unwrap_or_default();
        if age > ABANDONED && found.file_name().to_string_lossy().starts_with(SCRATCH) {
            drop(fs::remove_dir_all(found.path()));
        }
    }
}

fn take<'l>(next: &AtomicUsize, packages: &[&'l LockedPackage]) -> Option<(usize, &'l LockedPackage)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    packages.get(index).map(|package| (index, *package))
}
