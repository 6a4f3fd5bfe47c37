//! Files to keep, and how they are kept.

use std::io::Read;
use std::path::Path;

use belljar_artifacts::{
    Admission, Artifact, ArtifactStore, Batch, BlobPlace, CellRecord, Database, Ingested, NewFile, Origin,
    Result, StoreLimits, StoreSettings,
};

pub(crate) const TENANT: &str = "tenant";
pub(crate) const SESSION: &str = "session";

/// A file that is in memory.
pub(crate) fn file<'a>(name: &str, bytes: &'a [u8]) -> NewFile<'a> {
    NewFile { name: name.into(), open: Box::new(move || Ok(Box::new(bytes))), size: bytes.len() as u64 }
}

/// A file that is read by whatever this makes.
pub(crate) fn read_by<'a, R: Read + 'a>(
    name: &str,
    size: u64,
    mut make: impl FnMut() -> R + 'a,
) -> NewFile<'a> {
    NewFile { name: name.into(), open: Box::new(move || Ok(Box::new(make()))), size }
}

/// Keeps files of a cell of a session.
pub(crate) fn try_keep_as(
    store: &ArtifactStore,
    (tenant, session, cell): (&str, &str, u32),
    files: Vec<NewFile<'_>>,
    admission: &Admission,
) -> Result<Ingested> {
    let origin = Origin { engine: "wasm".into(), ..Origin::default() };
    let record = CellRecord {
        origin: origin.id(),
        session: session.into(),
        number: cell,
        code: "…".into(),
        ..CellRecord::default()
    };
    store.ingest(Batch {
        tenant,
        session,
        cell,
        tool_call: Some("call".into()),
        origin: &origin,
        cells: &[record],
        parents: Vec::new(),
        files,
        admission,
    })
}

pub(crate) fn try_keep(store: &ArtifactStore, files: Vec<NewFile<'_>>) -> Result<Ingested> {
    try_keep_as(store, (TENANT, SESSION, 1), files, &Admission::default())
}

/// Keeps files, none of which is refused.
pub(crate) fn keep(store: &ArtifactStore, files: Vec<NewFile<'_>>) -> Vec<Artifact> {
    let ingested = try_keep(store, files).unwrap();
    assert!(ingested.refused.is_empty(), "{:?}", ingested.refused);
    ingested.kept
}

pub(crate) fn read(store: &ArtifactStore, artifact: &Artifact) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.read(TENANT, artifact.id.as_str(), None).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

/// Bytes that nothing else has.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
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

/// SQLite and a directory.
pub(crate) fn settings(directory: &Path, limits: StoreLimits) -> StoreSettings {
    StoreSettings {
        database: Database::Sqlite(directory.join("artifacts.db")),
        blobs: BlobPlace::Directory(directory.join("blobs")),
        scratch: directory.join("scratch"),
        limits,
    }
}

pub(crate) fn open(directory: &Path) -> ArtifactStore {
    ArtifactStore::open(settings(directory, StoreLimits::default())).unwrap()
}
