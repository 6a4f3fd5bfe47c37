//! The packages of a lock in one directory: hard links to their files in the cache.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use belljar_runtime::{Cache, CacheError, Progress};
use serde::{Deserialize, Serialize};

use self::clash::{Clash, compare};
use crate::{
    compiler::Compiler,
    error::PackageError,
    limits::Limits,
    lock::{Lock, LockedPackage},
    target::Target,
    tree::{open_directories, walk},
    wheel::{Wheel, short},
};

mod clash;

const KIND: &str = "packages";
const FACTS: &str = "site.json";
const FILES: &str = "site";
/// Raised when sites are made differently.
const FORMAT: u32 = 1;

/// A directory for the guest's `sys.path`, in the cache. It never changes.
#[derive(Clone, Debug)]
pub struct Site {
    /// Names what is in it, bytecode included.
    pub id: String,
    /// Where the packages are.
    pub directory: PathBuf,
    /// The size of all files. Environments that have a package in common share its files.
    pub bytes: u64,
    /// What is installed, by name.
    pub packages: Vec<InstalledPackage>,
    /// Native modules for the guest.
    pub extensions: Vec<Extension>,
}

/// A package in a [`Site`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledPackage {
    /// Its normalised name.
    pub name: String,
    /// Its version; `0` if it has none.
    pub version: String,
    /// The size of its files.
    pub bytes: u64,
    /// Whether native parts that only make it faster were left out.
    pub without_native: bool,
}

/// A package by itself, in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedPackage {
    /// Its normalised name.
    pub name: String,
    /// Its version; `0` if it has none.
    pub version: String,
    /// The size of its files.
    pub bytes: u64,
    /// Its files, as they lie in site-packages.
    pub directory: PathBuf,
}

/// A native module in a [`Site`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Its path in site-packages.
    pub path: String,
    /// The file.
    pub file: PathBuf,
    /// BLAKE3 of its contents, in hex: what is linked into an interpreter is known by it.
    pub hash: String,
}

#[derive(Serialize, Deserialize)]
struct Facts {
    count: u64,
    bytes: u64,
    packages: Vec<InstalledPackage>,
    /// Paths and hashes.
    extensions: BTreeMap<String, String>,
}

/// Names the site of a lock.
pub(crate) fn id(lock: &Lock, compiler: &dyn Compiler) -> String {
    format!("{}-{}-{FORMAT}", lock.id(), short(&compiler.version()))
}

/// The site, if it is in the cache. Only its directory is looked at, not what is in it.
pub(crate) fn find(cache: &Cache, id: &str) -> Option<Site> {
    let site = open(id, &cache.find(KIND, id)?)?.0;
    cache.touch(KIND, id);
    Some(site)
}

/// The site, if it is in the cache and as large as it was. A damaged one is removed.
pub(crate) fn find_whole(cache: &Cache, id: &str) -> Option<Site> {
    let (site, count) = open(id, &cache.find(KIND, id)?)?;
    let sizes = || -> Option<(u64, u64)> {
        let files = walk(&site.directory, &without_limits(), &|_| true).ok()?;
        let bytes = files.iter().map(|(_, file)| Some(file.metadata().ok()?.len())).sum::<Option<u64>>()?;
        Some((files.len() as u64, bytes))
    };
    if sizes() == Some((count, site.bytes)) {
        return Some(site);
    }
    tracing::warn!(id, "a damaged site is made anew");
    drop(cache.remove(KIND, id));
    None
}

/// Puts packages together.
pub(crate) fn assemble(
    cache: &Cache,
    id: &str,
    packages: &[(&LockedPackage, Wheel)],
    target: &Target,
    progress: &dyn Progress,
) -> Result<Site, PackageError> {
    let entry = cache.make(KIND, id, progress, |directory| -> Result<(), PackageError> {
        progress.begin("assembling", Duration::from_millis(50 + 10 * packages.len() as u64));
        let files = directory.join(FILES);
        let facts = link(packages, &files, progress)?;
        if target.is_native() {
            open_directories(&files).map_err(|error| PackageError::write(&files, error))?;
        }
        let path = directory.join(FACTS);
        let written = serde_json::to_vec(&facts).map_err(Into::into).and_then(|json| fs::write(&path, json));
        written.map_err(|error| PackageError::write(&path, error))?;
        progress.end();
        Ok(())
    })?;
    let damaged = || CacheError::Damaged { entry: entry.clone(), what: FACTS.into() };
    Ok(open(id, &entry).ok_or_else(damaged)?.0)
}

fn link(
    packages: &[(&LockedPackage, Wheel)],
    into: &Path,
    progress: &dyn Progress,
) -> Result<Facts, PackageError> {
    fs::create_dir_all(into).map_err(|error| PackageError::write(into, error))?;
    let mut facts = Facts { count: 0, bytes: 0, packages: Vec::new(), extensions: BTreeMap::new() };
    let mut owners: HashMap<String, (&LockedPackage, PathBuf)> = HashMap::new();
    for (done, (package, wheel)) in packages.iter().enumerate() {
        for (name, file) in walk(&wheel.files, &without_limits(), &|_| true)? {
            let to = into.join(&name);
            if let Some((other, first)) = owners.get(&name) {
                match compare(&name, first, &file).map_err(|error| PackageError::write(&file, error))? {
                    Clash::Harmless => continue,
                    Clash::Differ => {
                        let (first, second) = (other.release(), package.release());
                        return Err(PackageError::Clash { file: name, first, second });
                    }
                }
            }
            hard_link(&file, &to).map_err(|error| PackageError::write(&to, error))?;
            facts.count += 1;
            facts.bytes += to.metadata().map_err(|error| PackageError::write(&to, error))?.len();
            owners.insert(name, (package, file));
        }
        for path in &wheel.facts.extensions {
            let hash = hash(&into.join(path)).map_err(|error| PackageError::write(into, error))?;
            facts.extensions.insert(path.clone(), hash);
        }
        facts.packages.push(InstalledPackage {
            name: package.name.clone(),
            version: package.version.clone(),
            bytes: wheel.facts.bytes,
            without_native: wheel.facts.without_native,
        });
        progress.advance((done + 1) as f32 / packages.len() as f32);
    }
    Ok(facts)
}

fn hash(file: &Path) -> std::io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(file)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Copies where links can't be: on another file system, or when a file has too many.
fn hard_link(from: &Path, to: &Path) -> std::io::Result<()> {
    let linked = fs::hard_link(from, to);
    match linked {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            to.parent().map_or(Ok(()), fs::create_dir_all)?;
            hard_link_or_copy(from, to)
        }
        Err(_) => hard_link_or_copy(from, to),
        Ok(()) => Ok(()),
    }
}

fn hard_link_or_copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop))
}

fn open(id: &str, entry: &Path) -> Option<(Site, u64)> {
    let facts: Facts = serde_json::from_slice(&fs::read(entry.join(FACTS)).ok()?).ok()?;
    let directory = entry.join(FILES);
    let located = |(path, hash): (String, String)| Extension { file: directory.join(&path), path, hash };
    let extensions = facts.extensions.into_iter().map(located).collect();
    let site =
        Site { id: id.to_owned(), bytes: facts.bytes, packages: facts.packages, extensions, directory };
    Some((site, facts.count))
}

/// Packages in the cache were within limits when they were made.
fn without_limits() -> Limits {
    Limits { entries: u64::MAX, bytes: u64::MAX, file_bytes: u64::MAX, depth: usize::MAX }
}
