//! Where sessions sleep: saved states on disk, and a registry of whose they are.
//!
//! A session's owner holds a [`Lease`]. It saves a [`belljar_engine::SavedGuest`] with [`Lease::commit`] or
//! [`Lease::checkpoint`], and any later process gets it back with [`Lease::load`]. What two states have in common is
//! kept once; what differs is written in one pass. Nothing that is read is trusted: a damaged file is an error that
//! names it, and harms no other session.
//!
//! ```
//! # fn main() -> Result<(), belljar_store::StoreError> {
//! # let directory = tempfile::tempdir().unwrap();
//! use belljar_store::{NewSession, Store, Tenant};
//!
//! let store = Store::open(directory.path())?;
//! let lease = store.create(&Tenant::local(), NewSession::default())?;
//! assert!(lease.load()?.is_none());
//! assert!(store.sessions(&Tenant::local())?.sessions[0].in_use);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod clock;
mod collect;
mod cool;
mod create;
mod definitions;
mod draft;
mod environments;
mod error;
mod fork;
mod gather;
mod hash;
mod history;
mod landing;
mod layout;
mod lease;
mod lease_file;
mod load;
mod pack;
mod parcel;
mod point;
mod prune;
mod record;
mod save;
mod session_id;
mod shares;
mod sharing;
mod store;
mod survey;
mod table;
mod unverified;
mod verify;

pub use collect::Collected;
pub use cool::Cooled;
pub use create::NewSession;
pub use error::{Result, StoreError};
pub use history::{History, HistoryEntry};
pub use lease::{CheckpointNote, Lease, Moment, Settings};
pub use lease_file::Owner;
pub use load::Loaded;
pub use prune::{Prune, Pruned};
pub use record::{CheckpointRecord, Facts, Parent, SessionRecord};
pub use session_id::{SessionId, Tenant};
pub use store::{Listed, Listing, Store};
pub use unverified::Unverified;
