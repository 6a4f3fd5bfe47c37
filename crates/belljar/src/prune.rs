//! Removes from the cache what was made for environments that nobody uses any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use belljar_runtime::{Entry, Maker};
use serde::Serialize;

use crate::{Environments, Error, Runtimes};

/// What `belljar-packages` and the engine put into the cache for environments.
const KINDS: [&str; 8] = ["packages", "wheel", "extension", "resolution", "uv", "image", "code", "runtime"];
/// Those whose keys begin with the interpreter's.
const OF_INTERPRETERS: [&str; 3] = ["image", "code", "runtime"];

/// What may be removed from the cache.
#[derive(Clone, Debug)]
pub struct CachePrune {
    /// What was used since then stays.
    pub older_than: Duration,
    /// Only say what would be removed.
    pub dry_run: bool,
}

/// What was removed from the cache, or would be.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CachePruned {
    /// Each entry.
    pub removed: Vec<RemovedEntry>,
    /// What the disk gains. Environments share the files of packages, so this may be less than the sum.
    pub freed_bytes: u64,
    /// Nothing was removed.
    pub dry_run: bool,
}

/// An entry of the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemovedEntry {
    /// What it is, for example `packages` or `image`.
    pub kind: String,
    /// Which one.
    pub key: String,
    /// The size of its files.
    pub bytes: u64,
}

impl Environments {
    /// Removes packages, images with preloaded modules, linked interpreters and answers of the package index that
    /// no named environment needs, and that nobody used for a while. All of it can be had again; sessions have what
    /// they need elsewhere.
    pub fn prune(&self, runtimes: &Runtimes, prune: &CachePrune) -> Result<CachePruned, Error> {
        let needed = self.needed(runtimes)?;
        let cache = runtimes.cache()?;
        let since = SystemTime::now().checked_sub(prune.older_than);
        // One whose age nobody knows stays.
        let is_old = |entry: &Entry| entry.used.zip(since).is_some_and(|(used, since)| used <= since);
        let entries = cache.entries()?.into_iter();
        let doomed: Vec<Entry> = entries
            .filter(|entry| KINDS.contains(&entry.kind.as_str()) && is_old(entry) && !needed.has(entry))
            .collect();
        let mut links = Links::default();
        let mut pruned = CachePruned { dry_run: prune.dry_run, ..CachePruned::default() };
        for Entry { kind, key, bytes, .. } in doomed {
            links.count(&cache.root().join(&kind).join(&key));
            if prune.dry_run || cache.remove(&kind, &key)? > 0 {
                pruned.removed.push(RemovedEntry { kind, key, bytes });
            }
        }
        pruned.freed_bytes = links.freed();
        Ok(pruned)
    }

    fn needed(&self, runtimes: &Runtimes) -> Result<Needed, Error> {
        let mut needed = Needed { interpreters: [Maker::id().to_owned()].into(), ..Needed::default() };
        for tenant in self.tenants()? {
            for name in tenant.names()? {
                let environment = tenant.get(&name)?.environment()?;
                let site = environment.find_site(runtimes)?;
                let (interpreter, image) = environment.names_in_cache(runtimes, site.as_ref())?;
                needed.interpreters.insert(interpreter);
                needed.images.insert(image);
                needed.packages.extend(site.map(|site| site.id));
                needed.locks.extend(environment.lock.map(|lock| lock.text().to_owned()));
            }
        }
        Ok(needed)
    }
}

/// What the named environments are made of.
#[derive(Default)]
struct Needed {
    packages: BTreeSet<String>,
    /// Packages are known by a hash that is in one of these.
    locks: Vec<String>,
    interpreters: BTreeSet<String>,
    images: BTreeSet<String>,
}

impl Needed {
    fn has(&self, Entry { kind, key, .. }: &Entry) -> bool {
        match kind.as_str() {
            "packages" => self.packages.contains(key),
            "image" if self.images.contains(key) => true,
            "wheel" | "extension" => {
                let hash = key.split('-').next().unwrap_or(key);
                self.locks.iter().any(|lock| lock.contains(hash))
            }
            kind if OF_INTERPRETERS.contains(&kind) => self.is_plain(kind, key),
            _ => false,
        }
    }

    /// Whether it is the interpreter's own: images with preloaded modules have one more part in their name.
    fn is_plain(&self, kind: &str, key: &str) -> bool {
        let rest = self.interpreters.iter().find_map(|id| key.strip_prefix(id.as_str()));
        rest.is_some_and(|rest| match kind {
            "runtime" => rest.is_empty(),
            _ => rest.matches('-').count() == 1,
        })
    }
}

/// Files that have several names are only gone with the last of them.
#[derive(Default)]
struct Links {
    files: BTreeMap<(u64, u64), Names>,
}

struct Names {
    bytes: u64,
    all: u64,
    seen: u64,
}

impl Links {
    fn count(&mut self, path: &Path) {
        let Ok(found) = fs::symlink_metadata(path) else { return };
        if found.is_dir() {
            for child in fs::read_dir(path).into_iter().flatten().flatten() {
                self.count(&child.path());
            }
            return;
        }
        let names = Names { bytes: found.len(), all: found.nlink(), seen: 0 };
        self.files.entry((found.dev(), found.ino())).or_insert(names).seen += 1;
    }

    fn freed(&self) -> u64 {
        self.files.values().filter(|names| names.seen >= names.all).map(|names| names.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use belljar_runtime::{Cache, CacheError, Quiet};
    use belljar_store::Tenant;

    use super::*;

    fn fill(cache: &Cache, kind: &str, key: &str) {
        let write = |directory: &Path| -> Result<(), CacheError> {
            fs::write(directory.join("file"), [0; 1000]).expect("written");
            Ok(())
        };
        cache.make(kind, key, &Quiet, write).expect("made");
    }

    #[test]
    fn only_what_nobody_needs_goes() {
        let (directory, state) = (tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made"));
        let cache = Cache::open(directory.path());
        let runtimes = Runtimes { cache_dir: Some(directory.path().into()), ..Runtimes::default() };
        let environments = Environments::open(state.path(), Tenant::local()).expect("opened");
        let id = Maker::id();
        let (plain, preloaded) = (format!("{id}-8"), format!("{id}-8-0123abcd"));
        for (kind, key) in [
            ("runtime", id),
            ("runtime", "another"),
            ("image", &plain),
            ("image", &preloaded),
            ("packages", "some"),
            ("peers", "other"),
        ] {
            fill(&cache, kind, key);
        }
        let prune = |older_than, dry_run| {
            let pruned = environments.prune(&runtimes, &CachePrune { older_than, dry_run }).expect("pruned");
            pruned
                .removed
                .into_iter()
                .map(|entry| format!("{}/{}", entry.kind, entry.key))
                .collect::<Vec<_>>()
        };
        assert_eq!(prune(Duration::from_secs(60), false), [""; 0]);
        let expected =
            [format!("image/{preloaded}"), "packages/some".to_owned(), "runtime/another".to_owned()];
        assert_eq!(prune(Duration::ZERO, true), expected);
        assert_eq!(prune(Duration::ZERO, false), expected);
        assert_eq!(prune(Duration::ZERO, false), [""; 0]);
        assert_eq!(cache.entries().expect("listed").len(), 3);
    }

    #[test]
    fn shared_files_are_freed_with_their_last_name() {
        let directory = tempfile::tempdir().expect("made");
        let path = |name: &str| directory.path().join(name);
        fs::write(path("one"), [0; 10]).expect("written");
        fs::hard_link(path("one"), path("two")).expect("linked");
        let mut links = Links::default();
        links.count(&path("one"));
        assert_eq!(links.freed(), 0);
        links.count(&path("two"));
        assert_eq!(links.freed(), 10);
    }
}
