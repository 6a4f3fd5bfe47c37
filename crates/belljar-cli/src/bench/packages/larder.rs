//! Caches that have some of what the user's has, and are gone afterwards.

use std::cell::Cell;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;

use anyhow::Context;
use belljar::Runtimes;

use super::super::scene::Scene;

/// Kinds of entries. The interpreter, ready to start, and uv:
pub(super) const INTERPRETER: &[&str] = &["runtime", "code", "image", "tool", "uv"];
/// Packages, unpacked and compiled:
pub(super) const WHEELS: &[&str] = &["wheel"];
/// What requirements were resolved to:
pub(super) const RESOLVED: &[&str] = &["resolution"];
/// All of an environment but what is imported ahead of time:
pub(super) const PACKAGES: &[&str] = &["wheel", "resolution", "packages"];

/// Makes caches.
pub(super) struct Larder<'s> {
    scene: &'s Scene,
    made: Cell<usize>,
}

impl<'s> Larder<'s> {
    pub(super) fn new(scene: &'s Scene) -> Self {
        Self { scene, made: Cell::new(0) }
    }

    /// A new cache with all entries of these kinds that the user's has, and no others. They are links: what is made
    /// is made here.
    pub(super) fn cache(&self, kinds: &[&str]) -> anyhow::Result<Runtimes> {
        let runtimes = self.scene.runtimes();
        let directory =
            self.scene.directory().join(format!("cache-{}", self.made.replace(self.made.get() + 1)));
        let users = runtimes.cache()?;
        for kind in kinds {
            let (from, to) = (users.root().join(kind), directory.join(kind));
            let entries = match fs::read_dir(&from) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                entries => entries.with_context(|| format!("reading {}", from.display()))?,
            };
            fs::create_dir_all(&to)?;
            for entry in entries {
                let entry = entry?;
                // Locks, and what is being made.
                if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                    symlink(entry.path(), to.join(entry.file_name()))?;
                }
            }
        }
        Ok(Runtimes { cache_dir: Some(directory), ..runtimes.clone() })
    }
}
