//! One package in the cache: its files as they lie in site-packages, with their bytecode. Made once, and shared by
//! all sites.

use std::{
    fs,
    path::{Path, PathBuf},
};

use belljar_runtime::{Cache, Quiet};
use serde::{Deserialize, Serialize};

use crate::{
    archive,
    compiler::Compiler,
    error::PackageError,
    fetch::{self, fetch},
    limits::Limits,
    local,
    lock::{LockedPackage, Source},
    native::{self, Native},
    scripts,
    steps::Steps,
    target::{self, Target},
    tree::{open_directories, walk},
    uv::Uv,
};

const KIND: &str = "wheel";
const FACTS: &str = "wheel.json";
const FILES: &str = "files";

/// Where native modules that were given as bytes wait.
const EXTENSIONS: &str = "extension";
const EXTENSION: &str = "module.so";

/// A package in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Wheel {
    pub(crate) files: PathBuf,
    pub(crate) facts: Facts,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) without_native: bool,
    /// Paths of native modules for the guest.
    pub(crate) extensions: Vec<String>,
}

/// What making one takes.
pub(crate) struct Shop<'r> {
    pub(crate) cache: &'r Cache,
    pub(crate) uv: Option<&'r Uv>,
    pub(crate) compiler: &'r dyn Compiler,
    pub(crate) target: &'r Target,
    pub(crate) limits: Limits,
    pub(crate) steps: &'r Steps<'r>,
}

/// The package, if it is in the cache and whole: as many bytes as there were.
pub(crate) fn find(
    cache: &Cache,
    package: &LockedPackage,
    compiler: &dyn Compiler,
    target: &Target,
) -> Option<Wheel> {
    let key = key(package, compiler, target);
    let wheel = open(&cache.find(KIND, &key)?)?;
    let measured = measure(&wheel.files).ok();
    if measured != Some((wheel.facts.count, wheel.facts.bytes)) {
        tracing::warn!(package = package.release(), "damaged in the cache, made anew");
        drop(cache.remove(KIND, &key));
        return None;
    }
    cache.touch(KIND, &key);
    Some(wheel)
}

/// Keeps the bytes of a native module, since no file has them.
pub(crate) fn keep_extension(cache: &Cache, sha256: &str, bytes: &[u8]) -> Result<(), PackageError> {
    cache.make(EXTENSIONS, sha256, &Quiet, |directory| -> Result<(), PackageError> {
        let path = directory.join(EXTENSION);
        fs::write(&path, bytes).map_err(|error| PackageError::write(&path, error))
    })?;
    Ok(())
}

impl Shop<'_> {
    /// The package, made if need be.
    pub(crate) fn make(&self, package: &LockedPackage) -> Result<Wheel, PackageError> {
        let key = key(package, self.compiler, self.target);
        let entry = self.cache.make(KIND, &key, &Quiet, |directory| self.fill(package, directory))?;
        open(&entry).ok_or_else(|| {
            let what = FACTS.to_owned();
            PackageError::Cache(belljar_runtime::CacheError::Damaged { entry, what })
        })
    }

    fn fill(&self, package: &LockedPackage, directory: &Path) -> Result<(), PackageError> {
        let (files, scratch) = (directory.join(FILES), directory.join("scratch"));
        for new in [&files, &scratch] {
            fs::create_dir_all(new).map_err(|error| PackageError::write(new, error))?;
        }
        self.unpack(package, &files, &scratch)?;
        fs::remove_dir_all(&scratch).map_err(|error| PackageError::write(&scratch, error))?;
        let (extensions, dropped) = match self.target {
            Target::Wasm => sort_native(package, &files, &self.limits)?,
            Target::Native(_) => {
                scripts::finish(&files).map_err(|error| PackageError::write(&files, error))?;
                (Vec::new(), false)
            }
        };
        self.steps.compiling(&package.name);
        if let Err(error) = self.compiler.compile(&files, &Quiet) {
            tracing::warn!(package = package.release(), error, "used without bytecode");
        }
        if self.target.is_native() {
            open_directories(&files).map_err(|error| PackageError::write(&files, error))?;
        }
        let (count, bytes) = measure(&files)?;
        let facts = Facts { count, bytes, without_native: package.without_native || dropped, extensions };
        let path = directory.join(FACTS);
        let written = serde_json::to_vec(&facts).map_err(Into::into).and_then(|json| fs::write(&path, json));
        written.map_err(|error| PackageError::write(&path, error))
    }

    fn unpack(&self, package: &LockedPackage, files: &Path, scratch: &Path) -> Result<(), PackageError> {
        let limits = &self.limits;
        let changed =
            |path: &Path| PackageError::Changed { path: path.to_owned(), package: package.release() };
        let same = |path: &Path, found: String| match found == package.sha256 {
            true => Ok(()),
            false => Err(changed(path)),
        };
        let hashed =
            |path: &Path| archive::sha256(path).map_err(|error| PackageError::unreadable(path, error));
        match &package.source {
            Source::Fetched { url, file, fit } => {
                let uv = self.uv.ok_or_else(|| PackageError::Offline { what: package.release() })?;
                let wheel = fetch::Wheel { package, url, file, fit: *fit, target: self.target };
                fetch(&wheel, uv, files, &scratch.join("uv"), limits)
            }
            Source::Wheel(path) => {
                same(path, hashed(path)?)?;
                archive::unpack_wheel(path, files, limits, self.target)
            }
            Source::Archive(path) => {
                same(path, hashed(path)?)?;
                let contents = local::archive(path, &scratch.join("tar"), limits, self.target)?;
                contents.write(files, limits).map(drop)
            }
            Source::Directory(path) => {
                same(path, local::directory(path, limits, self.target)?.write(files, limits)?)
            }
            Source::SitePackages(path) => {
                same(path, local::site_packages(path, limits, self.target)?.write(files, limits)?)
            }
            Source::Extension(path) => {
                let reason =
                    || format!("the bytes of {path} aren't in this cache; give the module itself again");
                let missing = || PackageError::Lock { reason: reason() };
                let kept = self.cache.find(EXTENSIONS, &package.sha256).ok_or_else(missing)?.join(EXTENSION);
                same(&kept, hashed(&kept)?)?;
                let to = files.join(path);
                let copied =
                    to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(&kept, &to));
                copied.map(drop).map_err(|error| PackageError::write(&to, error))
            }
        }
    }
}

/// Finds native modules for the guest, and removes or refuses those for others. Says whether it removed any.
fn sort_native(
    package: &LockedPackage,
    files: &Path,
    limits: &Limits,
) -> Result<(Vec<String>, bool), PackageError> {
    let optional = package.without_native || target::native_is_optional(&package.name);
    let mut extensions = Vec::new();
    let mut dropped = false;
    for (name, file) in walk(files, limits, &|_| true)? {
        let kind = native::of(&name, &file).map_err(|error| PackageError::write(&file, error))?;
        let in_libraries =
            package.without_native && name.split('/').next().is_some_and(|top| top.ends_with(".libs"));
        match kind {
            Some(Native::Extension) => extensions.push(name),
            Some(Native::OtherWasm | Native::Machine) if optional => {
                fs::remove_file(&file).map_err(|error| PackageError::write(&file, error))?;
                dropped = true;
            }
            Some(Native::OtherWasm | Native::Machine) => {
                return Err(PackageError::Native { package: package.release(), what: name });
            }
            Some(Native::Fake) => {
                let reason =
                    format!("`{name}` isn't WebAssembly, though it is named like a module for the guest");
                return Err(PackageError::refused(Path::new(&package.release()), reason));
            }
            None if in_libraries => {
                fs::remove_file(&file).map_err(|error| PackageError::write(&file, error))?
            }
            None => {}
        }
    }
    Ok((extensions, dropped))
}

fn key(package: &LockedPackage, compiler: &dyn Compiler, target: &Target) -> String {
    let kind = match &package.source {
        // The same bytes may be a module under two names.
        Source::Extension(path) => format!("-extension-{}", short(path)),
        Source::SitePackages(_) if target.is_native() => "-native-site".to_owned(),
        Source::SitePackages(_) => "-site".to_owned(),
        // With all that it has, whatever it is called.
        _ if target.is_native() => "-native".to_owned(),
        _ if package.without_native => "-without-native".to_owned(),
        // The name decides what is left out, and a lock may call a wheel what it likes.
        _ if target::native_is_optional(&package.name) => "-optional".to_owned(),
        _ => String::new(),
    };
    format!("{}{kind}-{}", package.sha256, short(&compiler.version()))
}

pub(crate) fn short(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

fn open(entry: &Path) -> Option<Wheel> {
    let facts = serde_json::from_slice(&fs::read(entry.join(FACTS)).ok()?).ok()?;
    Some(Wheel { files: entry.join(FILES), facts })
}

/// How many files there are, and their size.
fn measure(files: &Path) -> Result<(u64, u64), PackageError> {
    let limits = Limits { entries: u64::MAX, depth: usize::MAX, ..Limits::default() };
    let mut bytes = 0;
    let found = walk(files, &limits, &|_| true)?;
    for (_, file) in &found {
        bytes += file.metadata().map_err(|error| PackageError::unreadable(file, error))?.len();
    }
    Ok((found.len() as u64, bytes))
}
