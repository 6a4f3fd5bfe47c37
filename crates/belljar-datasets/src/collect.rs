//! What nobody needs any more.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::blobs::mark_of;
use crate::draft::{self, Lock, is_unfinished, remove_file};
use crate::error::{DatasetError, Result};
use crate::layout::with_ending;
use crate::names::check_hash;
use crate::store::DatasetStore;

/// What is collected.
#[derive(Clone, Debug)]
pub struct CollectOptions {
    /// What was begun and not gone on with for this long is given up: a day.
    pub stale: Duration,
    /// Hashes of contents that are needed, beside those that the registry and shelves name.
    pub keep: Vec<String>,
    /// Only say what would be removed.
    pub dry_run: bool,
}

impl Default for CollectOptions {
    fn default() -> Self {
        Self { stale: Duration::from_secs(86_400), keep: Vec::new(), dry_run: false }
    }
}

/// What was removed.
#[derive(Debug, Default)]
pub struct Collected {
    /// Contents.
    pub blobs: u64,
    /// Fetches that nobody went on with, and other unfinished files.
    pub partials: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Entries of the registry that can't be read. As long as there are any, all contents stay.
    pub problems: Vec<DatasetError>,
}

impl DatasetStore {
    /// Removes contents that no dataset and no shelf has, and what is left of fetches that nobody went on with.
    ///
    /// A shelf has contents by a hard link, so it needn't be known where the shelves are.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn collect(&self, options: &CollectOptions) -> Result<Collected> {
        let mut collected = Collected::default();
        if !self.root().exists() {
            return Ok(collected);
        }
        let _lock = self.layout().stop_placing()?;
        self.collect_partials(options, &mut collected)?;
        let mut needed: BTreeSet<String> = options.keep.iter().cloned().collect();
        let registry = self.registry();
        for tenant in registry.tenants()? {
            if !options.dry_run {
                registry.sweep(&registry.lock(&tenant)?, &tenant)?;
            }
            let listing = registry.list(&tenant)?;
            needed.extend(listing.entries.into_iter().filter_map(|entry| entry.dataset.sha256));
            collected.problems.extend(listing.problems);
        }
        if !collected.problems.is_empty() {
            return Ok(collected);
        }
        for directory in draft::entries(&self.layout().blobs())? {
            for file in draft::entries(&directory.path())? {
                let (path, name) = (file.path(), file.file_name());
                let Ok(found) = file.metadata() else { continue };
                let name = name.to_str().unwrap_or_default();
                if is_unfinished(&file.file_name()) {
                    collected.give_up(&path, &found, options)?;
                } else if let Some(blob) = name.strip_suffix(".mark") {
                    let blob = path.with_file_name(blob);
                    if !blob.exists() && !options.dry_run {
                        remove_file(&path)?;
                    }
                } else if check_hash(name).is_ok() && !needed.contains(name) && found.nlink() == 1 {
                    if !options.dry_run {
                        remove_file(&path)?;
                        remove_file(&mark_of(&path))?;
                    }
                    collected.blobs += 1;
                    collected.bytes += found.len();
                }
            }
        }
        Ok(collected)
    }

    fn collect_partials(&self, options: &CollectOptions, collected: &mut Collected) -> Result<()> {
        for file in draft::entries(&self.layout().partials())? {
            let (path, name) = (file.path(), file.file_name());
            let Ok(found) = file.metadata() else { continue };
            if is_unfinished(&name) {
                collected.give_up(&path, &found, options)?;
                continue;
            }
            let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(".lock")) else { continue };
            let stem = path.with_file_name(stem);
            // Whoever has it is at work.
            let Some(_lock) = Lock::within(&path, Duration::ZERO, &|| false)? else { continue };
            let (part, journal) = (with_ending(&stem, ".part"), with_ending(&stem, ".json"));
            match std::fs::metadata(&part) {
                Ok(found) if age(&found) < options.stale => continue,
                Ok(found) => {
                    collected.partials += 1;
                    collected.bytes += found.len();
                }
                Err(_) => {}
            }
            if !options.dry_run {
                for path in [&part, &journal, &path] {
                    remove_file(path)?;
                }
            }
        }
        Ok(())
    }
}

impl Collected {
    fn give_up(&mut self, path: &Path, found: &Metadata, options: &CollectOptions) -> Result<()> {
        if age(found) >= options.stale {
            if !options.dry_run {
                remove_file(path)?;
            }
            self.partials += 1;
            self.bytes += found.len();
        }
        Ok(())
    }
}

/// How long ago it was written to; not at all, if that is in the future.
fn age(found: &Metadata) -> Duration {
    found.modified().ok().and_then(|modified| modified.elapsed().ok()).unwrap_or(Duration::ZERO)
}
