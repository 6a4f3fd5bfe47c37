//! Which packages, exactly.
//!
//! A lock is for every platform, as uv writes it: each package lists all its wheels, with markers. Reading it means
//! choosing what the guest gets. What PEP 751 has no words for is in `[packages.tool.belljar]`.

use std::path::{Path, PathBuf};

pub use self::lacks::Lacking;
pub(crate) use self::write::{Local, LocalKind, compose};
use self::{read::Document, select::select};
use crate::{
    error::PackageError,
    file_name::normalised,
    target::{self, Target},
};

mod lacks;
mod read;
mod relative;
mod select;
mod write;

/// A new number gives all sites new names.
const FORMAT: u32 = 1;

/// Which packages, exactly: a `pylock.toml`, with a hash for everything.
#[derive(Clone, Debug)]
pub struct Lock {
    text: String,
    /// Where relative paths in it begin.
    base: PathBuf,
    target: Target,
    id: String,
    packages: Vec<LockedPackage>,
}

/// A package of a [`Lock`] that the guest gets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockedPackage {
    /// Its normalised name.
    pub name: String,
    /// Its version; `0` if it has none.
    pub version: String,
    /// Whether native parts that only make it faster are left out.
    pub without_native: bool,
    /// SHA-256 of the wheel or archive, in hex; of a directory, over all that is in it.
    pub sha256: String,
    pub(crate) source: Source,
}

impl LockedPackage {
    /// Where it is on this machine, if it isn't fetched.
    pub fn file(&self) -> Option<&Path> {
        match &self.source {
            Source::Wheel(path)
            | Source::Archive(path)
            | Source::Directory(path)
            | Source::SitePackages(path) => Some(path),
            Source::Fetched { .. } | Source::Extension(_) => None,
        }
    }
}

/// Where a package comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A wheel that is fetched. The minor version of Python is the one it was built for.
    Fetched {
        url: String,
        file: String,
        fit: target::Fit,
    },
    /// A wheel in a file.
    Wheel(PathBuf),
    Archive(PathBuf),
    Directory(PathBuf),
    SitePackages(PathBuf),
    /// Its path in site-packages. The bytes are in the cache, by their hash.
    Extension(String),
}

impl Lock {
    /// Reads a `pylock.toml` that Belljar, uv or pip wrote. Relative paths in it begin at the current directory; see
    /// [`parse_in`](Self::parse_in).
    ///
    /// # Errors
    /// If it isn't a lock, or holds a package that the guest can't have.
    pub fn parse(text: &str) -> Result<Self, PackageError> {
        Self::parse_in(text, Path::new(""))
    }

    /// Reads a `pylock.toml` that lies in `directory`, for what it says to be for: the guest of the `wasm` engine, unless
    /// Belljar wrote it for the `native` one.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_in(text: &str, directory: &Path) -> Result<Self, PackageError> {
        let document = Document::parse(text)?;
        let target = document.target()?.unwrap_or_default();
        Self::read(text, directory, document, target)
    }

    /// Reads a `pylock.toml` that lies in `directory`, for `target`.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), and if Belljar wrote it for something else: [`PackageError::OtherTarget`].
    pub fn parse_for(text: &str, directory: &Path, target: &Target) -> Result<Self, PackageError> {
        let document = Document::parse(text)?;
        if let Some(locked) = document.target()? {
            check(&locked, target)?;
        }
        Self::read(text, directory, document, target.clone())
    }

    /// The lock as it is for `target`.
    ///
    /// # Errors
    /// As [`parse_for`](Self::parse_for).
    pub fn for_target(&self, target: &Target) -> Result<Self, PackageError> {
        match self.target == *target {
            true => Ok(self.clone()),
            false => Self::parse_for(&self.text, &self.base, target),
        }
    }

    fn read(text: &str, directory: &Path, document: Document, target: Target) -> Result<Self, PackageError> {
        document.admit(&target)?;
        let mut packages: Vec<LockedPackage> = Vec::new();
        let mut native = Vec::new();
        for entry in &document.packages {
            let wrong = |reason| PackageError::Lock { reason: format!("{}: {reason}", entry.name) };
            if let Some(marker) = &entry.marker
                && !target.holds(marker).map_err(wrong)?
            {
                continue;
            }
            let package = match select(entry, directory, &target) {
                // All of them are told at once.
                Err(PackageError::Native { package, what }) => {
                    native.push((package, what));
                    continue;
                }
                selected => selected?,
            };
            if packages.iter().any(|other| other.name == package.name) {
                return Err(wrong("it is there twice".into()));
            }
            packages.push(package);
        }
        refuse_native(native)?;
        packages.sort_by(|one, other| one.name.cmp(&other.name));
        let id = id(&packages, &target);
        Ok(Self { text: text.to_owned(), base: directory.to_owned(), target, id, packages })
    }

    /// The lock as a `pylock.toml`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it is for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether its text has what it is for.
    pub(crate) fn says_for_whom(&self) -> bool {
        Document::parse(&self.text)
            .and_then(|document| document.target())
            .is_ok_and(|target| target.is_some())
    }

    /// Names what gets installed into the guest. Locks that differ only for other platforms have the same.
    pub fn id(&self) -> String {
        self.id.clone()
    }

    /// What gets installed into the guest, by name.
    pub fn packages(&self) -> impl Iterator<Item = &LockedPackage> {
        self.packages.iter()
    }
}

impl LockedPackage {
    /// Name and version, for people.
    pub(crate) fn release(&self) -> String {
        release(&self.name, &self.version)
    }
}

fn refuse_native(mut native: Vec<(String, String)>) -> Result<(), PackageError> {
    match (native.pop(), native.is_empty()) {
        (None, _) => Ok(()),
        (Some((package, what)), true) => Err(PackageError::Native { package, what }),
        (Some(last), false) => {
            let all = native.into_iter().chain([last]);
            Err(PackageError::Natives {
                packages: all.map(|(package, what)| format!("{package} ({what})")).collect(),
            })
        }
    }
}

fn release(name: &str, version: &str) -> String {
    match version {
        "0" => name.to_owned(),
        version => format!("{name} {version}"),
    }
}

fn check(locked: &Target, used: &Target) -> Result<(), PackageError> {
    let (same, same_engine) = match (locked, used) {
        (Target::Wasm, Target::Wasm) => (true, true),
        (Target::Native(locked), Target::Native(used)) => {
            (locked.minor == used.minor && locked.machine == used.machine, true)
        }
        _ => (false, false),
    };
    let error =
        || PackageError::OtherTarget { locked: locked.to_string(), used: used.to_string(), same_engine };
    if same { Ok(()) } else { Err(error()) }
}

fn id(packages: &[LockedPackage], target: &Target) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    };
    match target {
        Target::Wasm => add(&format!("{FORMAT} {}", target.python())),
        // What else is known of the machine counts only for what is chosen.
        Target::Native(platform) => {
            add(&format!("{FORMAT} native {} {}", platform.python(), platform.machine))
        }
    }
    for package in packages {
        let kind = match &package.source {
            Source::Fetched { .. } | Source::Wheel(_) => "wheel",
            Source::Archive(_) => "archive",
            Source::Directory(_) => "directory",
            Source::SitePackages(_) => "site-packages",
            Source::Extension(path) => path,
        };
        for part in [&package.name, &package.version, kind, &package.sha256] {
            add(part);
        }
        add(if package.without_native { "without native parts" } else { "" });
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// The name under which a package is known, whoever spelled it.
fn known_as(name: &str) -> Result<String, PackageError> {
    let normal = normalised(name);
    match !normal.is_empty() && normal.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        true => Ok(normal),
        false => {
            Err(PackageError::Lock { reason: format!("`{}` can't name a package", name.escape_debug()) })
        }
    }
}
