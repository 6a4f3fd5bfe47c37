//! Guests to save, and a place to save them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use belljar_engine::{BLOCK, EXTENT, Known, PageRun, SavedChunk, SavedGuest, SavedMemory, Tag};
use belljar_store::{Facts, Lease, Loaded, NewSession, SessionId, Store, StoreError, Tenant};

pub(crate) const MEMORY: u64 = 64 * EXTENT;

pub(crate) struct Scratch {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) store: Store,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("state")).unwrap();
        Self { directory, store }
    }

    pub(crate) fn create(&self, name: &str) -> Lease {
        create(&self.store, name)
    }

    pub(crate) fn acquire(&self, name: &str) -> Result<Lease, StoreError> {
        self.store.acquire(&Tenant::local(), &id(name), Duration::from_secs(20), &|| false)
    }

    pub(crate) fn tenant_path(&self) -> PathBuf {
        self.store.root().join("tenants/local")
    }

    pub(crate) fn session_path(&self, name: &str) -> PathBuf {
        self.tenant_path().join("sessions").join(name)
    }

    pub(crate) fn packs(&self) -> Vec<PathBuf> {
        files(&self.tenant_path().join("packs"), |name| name.ends_with(".hot") || name.ends_with(".cold"))
    }

    pub(crate) fn points(&self, name: &str) -> Vec<PathBuf> {
        files(&self.session_path(name), |name| name.ends_with(".point"))
    }
}

pub(crate) fn create(store: &Store, name: &str) -> Lease {
    let new = NewSession { id: Some(id(name)), environment: "environment".into(), ..NewSession::default() };
    store.create(&Tenant::local(), new).unwrap()
}

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

fn files(directory: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| wanted(path.file_name().unwrap().to_str().unwrap()))
        .collect();
    files.sort();
    files
}

/// What a guest has: blocks of memory by number, made from seeds, and contents of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) blocks: BTreeMap<u64, u64>,
    pub(crate) files: Vec<Vec<u8>>,
    pub(crate) undo: Vec<u8>,
}

/// A guest that is alive, as an engine would have it.
#[derive(Clone, Default)]
pub(crate) struct Live {
    pub(crate) contents: Contents,
    pub(crate) tag: Option<Tag>,
    pub(crate) changed: BTreeSet<u32>,
    pub(crate) chunks: Vec<SavedChunk>,
}

impl Live {
    pub(crate) fn write(&mut self, block: u64, seed: u64) {
        self.contents.blocks.insert(block, seed);
        self.changed.insert((block * BLOCK / EXTENT) as u32);
    }

    pub(crate) fn write_file(&mut self, bytes: Vec<u8>) {
        self.chunks.push(SavedChunk { bytes: Arc::new(bytes.clone()), tag: Arc::default() });
        self.contents.files.push(bytes);
    }

    pub(crate) fn saved(&self) -> SavedGuest {
        let known = self.tag.clone().map(|tag| Known { tag, changed: self.changed.clone() });
        SavedGuest {
            environment: "environment".to_owned(),
            state: format!("state of {} blocks", self.contents.blocks.len()).into_bytes(),
            undo: self.contents.undo.clone(),
            memory: SavedMemory { length: MEMORY, runs: runs(&self.contents.blocks), known },
            chunks: self.chunks.clone(),
        }
    }

    pub(crate) fn commit(&mut self, lease: &mut Lease) -> Result<(), StoreError> {
        let tag = lease.commit(&self.saved(), self.facts())?;
        self.now_known(tag);
        Ok(())
    }

    pub(crate) fn now_known(&mut self, tag: Tag) {
        self.tag = Some(tag);
        self.changed.clear();
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts { cells: 1, memory_bytes: self.contents.blocks.len() as u64 * BLOCK, file_bytes: 0 }
    }

    /// As a process would have it that loaded this.
    pub(crate) fn from_loaded(loaded: &Loaded, contents: &Contents) -> Self {
        let known = loaded.guest.memory.known.as_ref().unwrap();
        assert!(known.changed.is_empty());
        Self {
            contents: contents.clone(),
            tag: Some(known.tag.clone()),
            changed: BTreeSet::new(),
            chunks: loaded.guest.chunks.clone(),
        }
    }
}

pub(crate) fn live(blocks: impl IntoIterator<Item = (u64, u64)>) -> Live {
    let mut live = Live::default();
    blocks.into_iter().for_each(|(block, seed)| live.write(block, seed));
    live
}

/// Noise, or something that can be compressed.
pub(crate) fn block(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    let mut noise = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    noise.fill(if seed.is_multiple_of(2) { &mut bytes[..64] } else { &mut bytes });
    bytes
}

fn runs(blocks: &BTreeMap<u64, u64>) -> Vec<PageRun> {
    let file = File::from(rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    let file = Arc::new(file);
    let mut runs: Vec<PageRun> = Vec::new();
    for (place, (number, seed)) in blocks.iter().enumerate() {
        (&*file).write_all(&block(*seed)).unwrap();
        match runs.last_mut() {
            Some(run) if run.start + run.length == number * BLOCK => run.length += BLOCK,
            _ => runs.push(PageRun {
                start: number * BLOCK,
                length: BLOCK,
                file: file.clone(),
                offset: place as u64 * BLOCK,
            }),
        }
    }
    runs
}

/// Fails unless this is what was saved.
pub(crate) fn assert_loaded(loaded: &Loaded, contents: &Contents) {
    loaded.unverified.verify().unwrap();
    let guest = &loaded.guest;
    assert_eq!(guest.environment, "environment");
    assert_eq!(guest.state, format!("state of {} blocks", contents.blocks.len()).into_bytes());
    assert_eq!(guest.undo, contents.undo);
    assert_eq!(guest.memory.length, MEMORY);
    let mut blocks = contents.blocks.iter();
    let mut end = 0;
    for run in &guest.memory.runs {
        assert!(run.start >= end && run.length > 0, "runs overlap");
        end = run.start + run.length;
        for at in (0..run.length).step_by(BLOCK as usize) {
            let (number, seed) = blocks.next().expect("a block that was never written");
            assert_eq!(*number, (run.start + at) / BLOCK);
            let mut bytes = vec![0; BLOCK as usize];
            run.file.read_exact_at(&mut bytes, run.offset + at).unwrap();
            assert!(bytes == block(*seed), "block {number} has other bytes");
        }
    }
    assert_eq!(blocks.next(), None, "a block is missing");
    let files: Vec<&Vec<u8>> = guest.chunks.iter().map(|chunk| &*chunk.bytes).collect();
    assert!(files == contents.files.iter().collect::<Vec<_>>(), "files differ");
    assert!(guest.chunks.iter().all(|chunk: &SavedChunk| OnceLock::get(&chunk.tag).is_some()));
}

pub(crate) fn assert_head(lease: &Lease, contents: &Contents) {
    assert_loaded(&lease.load().unwrap().unwrap(), contents);
}
