//! A store to try things with.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use belljar_datasets::{
    Cached, Dataset, DatasetError, DatasetStore, FetchOptions, NewDataset, Progress, Quiet, Shelf, Source,
};
use sha2::{Digest, Sha256};

pub(crate) const TENANT: &str = "local";

pub(crate) struct Scratch {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) store: DatasetStore,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = DatasetStore::open(directory.path().join("store"));
        Self { directory, store }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    pub(crate) fn add(&self, name: &str, source: Source) -> Dataset {
        self.store.add(TENANT, NewDataset::new(name, source)).unwrap()
    }

    pub(crate) fn fetch(&self, name: &str) -> Result<Cached, DatasetError> {
        self.fetch_with(name, &options())
    }

    pub(crate) fn fetch_with(&self, name: &str, options: &FetchOptions) -> Result<Cached, DatasetError> {
        self.store.fetch(TENANT, name, None, options, &Quiet)
    }

    pub(crate) fn shelf(&self, name: &str) -> Shelf {
        Shelf::open(self.path("shelves").join(name)).unwrap()
    }

    /// Contents in the cache, by their paths below it.
    pub(crate) fn blobs(&self) -> Vec<PathBuf> {
        files_below(&self.path("store/blobs")).into_iter().filter(|path| path.extension().is_none()).collect()
    }

    /// What is unfinished, but for locks.
    pub(crate) fn partials(&self) -> Vec<PathBuf> {
        files_below(&self.path("store/partial"))
            .into_iter()
            .filter(|path| path.extension().is_none_or(|ending| ending != "lock"))
            .collect()
    }

    pub(crate) fn assert_nothing_was_kept(&self) {
        assert_eq!(self.blobs(), Vec::<PathBuf>::new());
        assert_eq!(self.partials(), Vec::<PathBuf>::new());
    }
}

pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(files_below(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files.sort();
    files
}

/// As they are, but for this host's own servers, and in a hurry.
pub(crate) fn options() -> FetchOptions {
    FetchOptions { allow_private: true, backoff: Duration::from_millis(5), ..FetchOptions::default() }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that don't repeat, so that parts in a wrong order or place are noticed.
pub(crate) fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Remembers what it heard.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) retries: Mutex<Vec<(String, Duration)>>,
    pub(crate) last: Mutex<(u64, Option<u64>)>,
}

impl Progress for Heard {
    fn advance(&self, _: &str, bytes: u64, total: Option<u64>) {
        *self.last.lock().unwrap() = (bytes, total);
    }

    fn retry(&self, _: &str, reason: &str, after: Duration) {
        self.retries.lock().unwrap().push((reason.to_owned(), after));
    }
}
