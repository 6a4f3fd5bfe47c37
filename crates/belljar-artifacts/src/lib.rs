//! Artifacts: what came out of cells, kept by its hash, with where it came from.
//!
//! Metadata is in a database (SQLite or PostgreSQL), contents are in a directory or a bucket. Contents are there
//! before a row speaks of them.
#![forbid(unsafe_code)]

mod artifact;
mod keys;
mod link;
mod mime;
mod percent;
mod record;
mod redact;

pub use artifact::{Artifact, ArtifactId, Refusal, Refused};
pub use keys::{KeyError, KeyInfo, LinkKeys};
pub use link::{Disposition, Grant, LinkError, LinkSigner, content_disposition};
pub use mime::{SNIFFED_BYTES, may_be_inline, sniff_mime};
pub use record::{CellRecord, DatasetUse, Origin, Provenance, RecordId, RecordKind};
pub use redact::Redactor;
