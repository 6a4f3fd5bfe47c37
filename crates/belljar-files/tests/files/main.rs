//! What a session's files promise, shown from outside.

#![allow(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

mod changes;
mod door;
mod door_attacks;
mod escape;
mod hostile;
mod links;
mod model;
mod moments;
mod mounts;
mod nested;
mod operations;
mod quota;
mod semantics;
mod snapshot;
mod state;
mod tracked;
mod tracked_model;
mod tree_door;

use belljar_files::{Access, Dir, FileSystem, Handle, OpenOptions, Quota};
use tempfile::TempDir;

const READ: OpenOptions = OpenOptions {
    read: true,
    write: false,
    create: false,
    exclusive: false,
    truncate: false,
    directory: false,
    follow_symlinks: true,
};

const WRITE: OpenOptions = OpenOptions { write: true, create: true, ..READ };

/// A file system with `/workspace`, and its root handle.
fn memory() -> (FileSystem, Handle) {
    let mut files = FileSystem::new(Quota::default());
    files.make_directories("/workspace").unwrap();
    let root = files.root().unwrap();
    (files, root)
}

/// A file system with a temporary host directory mounted at `/mount`.
fn mounted(access: Access) -> (FileSystem, Handle, TempDir) {
    let host = scratch();
    let mut files = FileSystem::new(Quota::default());
    files.mount_directory("/mount", open_host(&host), access).unwrap();
    let root = files.root().unwrap();
    (files, root, host)
}

/// A directory of the host, in memory where it can be: the suite makes many.
fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn open_host(directory: &TempDir) -> Dir {
    Dir::open_ambient_dir(directory.path(), cap_std::ambient_authority()).unwrap()
}

fn names(files: &mut FileSystem, directory: Handle) -> Vec<String> {
    let stream = files.read_directory(directory).unwrap();
    stream.map(|entry| entry.name).collect()
}
