//! What an environment adds to the interpreter: packages, and what is imported before its guests start.

use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_files::{Access, FileSystem};
use belljar_runtime::Runtime;

use crate::error::LoadError;
use crate::prepared::open_directory;

/// Where guests see their packages.
pub(crate) const PACKAGES: &str = "/data/site-packages";
/// Where older code expects them: they are there unless the workspace, of which `/app` is a name, has such a
/// directory itself.
pub(crate) const PACKAGES_ALIAS: &str = "/app/site-packages";

/// What an environment adds to the interpreter. By default nothing.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// Packages, at `/data/site-packages`.
    pub packages: Option<Tree>,
    /// A standard library instead of the runtime's own.
    pub library: Option<Tree>,
    /// What is run before the first guest.
    pub preload: Preload,
}

/// A directory that never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Where it is on the host.
    pub directory: PathBuf,
    /// A hash over all that is in it ([`belljar_runtime::hash_tree`]).
    pub id: String,
}

/// What is run once, when an environment is made, in a guest whose memory and files all later guests start
/// with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preload {
    /// Modules to import.
    pub modules: Vec<String>,
    /// Code to run after that. Its names are there in each guest.
    pub setup: String,
    /// How long it may take.
    pub time: Duration,
    /// Bytes of memory that it may use.
    pub memory: u64,
}

impl Default for Preload {
    fn default() -> Self {
        Self { modules: Vec::new(), setup: String::new(), time: Duration::from_secs(120), memory: 1 << 30 }
    }
}

impl Preload {
    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty() && self.setup.is_empty()
    }
}

impl Layer {
    /// Names the image of guests that start with it; `None` if it is the interpreter's own.
    pub(crate) fn image_key(&self) -> Option<String> {
        if self.preload.is_empty() {
            return None;
        }
        let Preload { modules, setup, time: _, memory: _ } = &self.preload;
        let modules = modules.iter().flat_map(|module| [module.as_str(), ","]);
        let parts = self.ids().chain(modules).chain([";", setup]);
        Some(digest(parts))
    }

    /// Names an environment: the one without this, and this.
    pub(crate) fn environment(&self, bare: &str) -> String {
        match self.packages.is_some() || self.library.is_some() {
            true => digest([bare].into_iter().chain(self.ids())),
            false => bare.to_owned(),
        }
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        [&self.packages, &self.library]
            .map(|tree| tree.as_ref().map_or("-", |tree| tree.id.as_str()))
            .into_iter()
    }

    /// Mounts the packages where they aren't mounted, and gives them their directory where they have none.
    pub(crate) fn attach(&self, files: &mut FileSystem) -> Result<(), LoadError> {
        let Some(packages) = &self.packages else { return Ok(()) };
        files.set_fallback(PACKAGES_ALIAS, PACKAGES);
        let known = files.mounts().into_iter().find(|mount| mount.guest_path == PACKAGES);
        if known.as_ref().is_some_and(|mount| mount.attached) {
            return Ok(());
        }
        let directory = open_directory(&packages.directory)?;
        let mounted = match known {
            Some(_) => files.attach(PACKAGES, directory, Access::ReadOnly),
            None => files.mount_directory(PACKAGES, directory, Access::ReadOnly),
        };
        mounted.map_err(|error| LoadError::Mount(error.to_string()))
    }

    /// Whether a guest path is where the packages are, or in them.
    pub(crate) fn covers(&self, guest: &str) -> bool {
        let guest = Path::new(guest);
        self.packages.is_some() && (guest.starts_with(PACKAGES) || guest.starts_with(PACKAGES_ALIAS))
    }

    /// Where the standard library is on the host.
    pub(crate) fn stdlib(&self, runtime: &Runtime) -> PathBuf {
        self.library.as_ref().map_or_else(|| runtime.stdlib(), |library| library.directory.clone())
    }
}

fn digest<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}
