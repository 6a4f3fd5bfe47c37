//! A session's files, below both engines and the host's own file API.
//!
//! A [`FileSystem`] is one guest-visible tree: directories and files in memory, and host directories
//! mounted into it. The guest is hostile, so everything it can say is bounded: names, paths, sizes,
//! offsets, open handles, bytes, files.
//!
//! - **A clone is a snapshot**, with its open handles. The tree is persistent: a clone shares
//!   everything, and each side then copies only what it changes.
//! - **A file system is data**: it can be serialised, open handles included. What can't be (host
//!   descriptors and mounted directories) is opened again on use, after [`FileSystem::attach`].
//! - **Host directories are reached through [`Dir`] handles only**, so that no path, symbolic link or
//!   race leads out; a mount inside another has a handle of its own. Read-write mounts are outside
//!   snapshots: a clone doesn't copy host files.
//! - **What changed** is noted as it passes ([`FileSystem::take_changes`]), never searched for.
//!
//! `file_system.rs` holds the operations, by topic; `tree.rs` the memory, `host.rs` the host; `handle.rs`,
//! `mount.rs`, `quota.rs` and `changes.rs` the four small tables beside them.
//!
//! Hosts get at files through a [`FileDoor`](belljar_engine::FileDoor): [`DirDoor`] is the one of a host directory
//! (`door.rs`), and [`operations`] is what can be done through any.
//!
//! ```
//! use belljar_files::{FileSystem, OpenOptions, Quota};
//!
//! let mut files = FileSystem::new(Quota::default());
//! files.make_directories("/workspace")?;
//! files.write_file("/workspace/a.txt", b"one")?;
//!
//! let mut fork = files.clone();
//! let root = fork.root()?;
//! let file = fork.open_at(root, "workspace/a.txt", OpenOptions::writing())?;
//! fork.write(file, 0, b"two")?;
//!
//! assert_eq!(files.read_file("/workspace/a.txt")?, b"one");
//! assert_eq!(fork.read_file("/workspace/a.txt")?, b"two");
//! # Ok::<(), belljar_files::Errno>(())
//! ```

#![forbid(unsafe_code)]

mod cautious;
mod changes;
mod directory_stream;
#[cfg(target_os = "linux")]
mod door;
mod errno;
mod file_system;
mod handle;
mod host;
mod metadata;
mod mount;
pub mod operations;
mod options;
mod path;
mod quota;
mod tree;

pub use cap_std::fs::Dir;
pub use changes::Changes;
pub use directory_stream::{DirectoryEntry, DirectoryStream};
#[cfg(target_os = "linux")]
pub use door::{DirDoor, Room, RunAs};
pub use errno::{Errno, Result};
pub use file_system::FileSystem;
pub use handle::Handle;
pub use metadata::{FileType, Metadata, SetTime, Timestamp};
pub use mount::{MountError, MountInfo};
pub use options::{Access, HandleAccess, OpenOptions};
pub use quota::{Quota, Usage};
pub use tree::{Chunk, with_chunks_apart, with_chunks_from};
