//! Datasets: named inputs with a version and a hash, fetched once for all sessions and shared read-only.
//!
//! - A [`DatasetStore`] knows which datasets there are, and where they come from: HTTP, a bucket, a file, a
//!   [`Fetcher`] of the host's, a Python function, or bytes that a caller has. [`DatasetStore::fetch`] gets their
//!   contents: tried again, gone on with after a cut, bounded in time and size, and held to what was promised. They
//!   are kept by their hash, once.
//! - A [`Shelf`] is what one session can read. Datasets are on it as hard links of what is in the store.
//!
//! Sources aren't trusted: what they send is checked, and what isn't as promised leaves nothing behind. Secrets
//! (headers, credentials) are in no error, no `Debug` and no JSON. Nothing here prints or reads the environment.
//!
//! ```
//! use belljar_datasets::{DatasetStore, FetchOptions, NewDataset, Quiet, Shelf, Source};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let file = directory.path().join("sales.csv");
//! # std::fs::write(&file, "a,b\n1,2\n")?;
//! let store = DatasetStore::open(directory.path().join("datasets"));
//! let sales = store.add("local", NewDataset::new("sales", Source::File { path: file }).version("2024"))?;
//! let cached = store.fetch("local", "sales", None, &FetchOptions::default(), &Quiet)?;
//!
//! let shelf = Shelf::open(directory.path().join("shelf/session"))?;
//! shelf.stage(&cached, &sales)?;
//! assert_eq!(std::fs::read(shelf.path().join("data/sales.csv"))?, b"a,b\n1,2\n");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod blobs;
pub mod cache_list;
mod clock;
mod collect;
mod dataset;
mod draft;
mod error;
mod fetch;
mod layout;
mod names;
mod options;
mod partial;
mod progress;
mod registry;
mod sealed;
mod shelf;
mod source;
mod store;

pub use belljar_transfer::S3Credentials;
pub use blobs::Cached;
pub use collect::{CollectOptions, Collected};
pub use dataset::{Dataset, LATEST, NewDataset};
pub use error::{DatasetError, Result};
pub use fetch::{FetchFailure, FetchRequest, Fetched, Fetcher};
pub use options::FetchOptions;
pub use progress::{Progress, Quiet};
pub use shelf::{Problem, Shelf, Staged};
pub use source::Source;
pub use store::{DatasetStore, Listing};
