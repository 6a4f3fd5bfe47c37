//! Artifacts: what came out of cells, kept by its hash, with where it came from.
//!
//! Metadata is in a database (SQLite or PostgreSQL), contents are in a directory or a bucket. Contents are there
//! before a row speaks of them.
#![forbid(unsafe_code)]

mod artifact;
mod record;

pub use artifact::{Artifact, ArtifactId, Refusal, Refused};
pub use record::{CellRecord, DatasetUse, Origin, Provenance, RecordId, RecordKind};
