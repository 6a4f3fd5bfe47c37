//! State directories, and other processes that use them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use belljar::{Sandbox, SandboxBuilder};
use belljar_tests::builder;
use tempfile::TempDir;

/// Says to a child where its state directory is.
pub(crate) const STATE: &str = "BELLJAR_TEST_STATE";

pub(crate) fn keeping(state: &Path) -> SandboxBuilder {
    builder().state_dir(state).wait(Duration::from_secs(60))
}

pub(crate) fn sandbox(state: &Path) -> Sandbox {
    keeping(state).build_blocking().unwrap()
}

/// A directory where waiting for the disk takes time, and one where it takes none.
pub(crate) fn on_disk_and_in_memory() -> [TempDir; 2] {
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    [tempfile::tempdir().unwrap(), memory.unwrap()]
}

/// The test of this name in a process of its own. It is one that is ignored otherwise.
pub(crate) fn child(name: &str, state: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--ignored", "--nocapture"]).env(STATE, state);
    command
}

/// The state directory of a child; nothing in a process that isn't one.
pub(crate) fn childs_state() -> Option<PathBuf> {
    std::env::var_os(STATE).map(PathBuf::from)
}

/// All files below a directory, sorted.
pub(crate) fn files(below: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![below.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() { pending.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// Fails unless closing everything and collecting gives all space back but for pinned environments.
pub(crate) fn assert_gives_all_back(sandbox: &Sandbox) {
    let registry = sandbox.registry().unwrap();
    for session in registry.sessions().unwrap().sessions {
        registry.close(session.id.as_str()).unwrap();
    }
    registry.collect().unwrap();
    assert_eq!(registry.disk_bytes().unwrap(), 0);
    let left: Vec<_> = files(&registry.directory().join("tenants"))
        .into_iter()
        .filter(|path| !["lock", "sharing"].contains(&path.file_name().unwrap().to_str().unwrap()))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let environments: Vec<_> = fs::read_dir(registry.directory().join("environments"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != "lock")
        .collect();
    assert!(environments.len() <= 1, "{environments:?}");
}
