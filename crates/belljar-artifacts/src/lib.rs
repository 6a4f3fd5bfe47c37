//! Artifacts: what came out of cells, kept by its hash, with where it came from.
//!
//! Metadata is in a database (SQLite or PostgreSQL), contents are in a directory or a bucket. Contents are there
//! before a row speaks of them, and go after it.
//!
//! ```
//! use belljar_artifacts::{Admission, ArtifactStore, Batch, BlobPlace, Database, NewFile, Origin};
//! use belljar_artifacts::{StoreLimits, StoreSettings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let store = ArtifactStore::open(StoreSettings {
//!     database: Database::Sqlite(directory.join("artifacts.db")),
//!     blobs: BlobPlace::Directory(directory.join("blobs")),
//!     scratch: directory.join("scratch"),
//!     limits: StoreLimits::default(),
//! })?;
//! let file = NewFile {
//!     name: "hello.txt".into(),
//!     open: Box::new(|| Ok(Box::new(&b"hello"[..]))),
//!     size: 5,
//! };
//! let ingested = store.ingest(Batch {
//!     tenant: "local",
//!     session: "s",
//!     cell: 1,
//!     tool_call: None,
//!     origin: &Origin::default(),
//!     cells: &[],
//!     parents: Vec::new(),
//!     files: vec![file],
//!     admission: &Admission::default(),
//! })?;
//! let text = std::io::read_to_string(store.read("local", ingested.kept[0].id.as_str(), None)?)?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod artifact;
mod batch;
mod blobs;
mod clock;
mod collect;
mod contents;
mod database;
mod error;
mod filter;
mod hash;
mod ingest;
mod keys;
mod link;
mod mime;
mod names;
mod percent;
mod quota;
mod record;
mod redact;
mod rows;
mod settings;
mod store;
mod streaming;
mod sweep;

pub use artifact::{Artifact, ArtifactId, Refusal, Refused};
pub use batch::{Admission, Batch, Candidate, Hook, Ingested, NewFile, Opener};
pub use collect::{CollectOptions, Collected};
pub use contents::Contents;
pub use error::{ArtifactError, Result};
pub use filter::Filter;
pub use keys::{KeyError, KeyInfo, LinkKeys};
pub use link::{Disposition, Grant, LinkError, LinkSigner, content_disposition};
pub use mime::{SNIFFED_BYTES, may_be_inline, sniff_mime};
pub use record::{CellRecord, DatasetUse, Origin, Provenance, RecordId, RecordKind};
pub use redact::Redactor;
pub use settings::{BlobPlace, Database, StoreLimits, StoreSettings};
pub use store::{ArtifactStore, StoreUsage};
