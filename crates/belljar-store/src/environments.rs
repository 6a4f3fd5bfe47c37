//! Environments that sessions need to be woken: opaque directories, named by their hash.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;

use crate::collect::Collected;
use crate::draft::{is_unfinished, make_directory, sync_directory, unfinished_name};
use crate::error::{At, Result, StoreError};
use crate::layout;
use crate::store::Store;

/// Whoever asked for an environment may be about to make a session with it.
const GRACE: Duration = Duration::from_secs(3600);
/// Filling an environment takes seconds; what is older was left by the dead.
const UNFINISHED_GRACE: Duration = Duration::from_secs(3600);

impl Store {
    /// Where an environment is, if it is pinned. It stays for an hour at least, and while a session names it.
    #[must_use]
    pub fn environment(&self, hash: &str) -> Option<PathBuf> {
        check_name(hash).ok()?;
        let path = self.layout.environments().join(hash);
        if !path.is_dir() {
            return None;
        }
        // A store that can't be written to can still be read.
        let lock = self.lock_environments(FlockOperation::LockShared).ok();
        let directory = File::open(&path).ok()?;
        let _ = directory.set_times(FileTimes::new().set_modified(SystemTime::now()));
        drop(lock);
        Some(path)
    }

    /// Keeps an environment. `fill` puts it into an empty directory; it isn't called if the environment is there.
    ///
    /// # Errors
    ///
    /// If it can't be filled or written; nothing is kept then.
    pub fn pin_environment(&self, hash: &str, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<PathBuf> {
        check_name(hash)?;
        if let Some(path) = self.environment(hash) {
            return Ok(path);
        }
        self.layout.establish()?;
        let environments = self.layout.environments();
        make_directory(&environments)?;
        let path = environments.join(hash);
        let aside = unfinished_name(&environments);
        DirBuilder::new().mode(0o700).create(&aside).at("create", &aside)?;
        let placed = fill(&aside).at("fill", &aside).and_then(|()| {
            sync_tree(&aside)?;
            let _lock = self.lock_environments(FlockOperation::LockShared)?;
            fs::rename(&aside, &path).at("create", &path)
        });
        if let Err(error) = placed {
            let _ = fs::remove_dir_all(&aside);
            // Whoever was faster made the same.
            return if path.is_dir() { Ok(path) } else { Err(error) };
        }
        sync_directory(&environments)?;
        Ok(path)
    }

    /// Keeps an environment in place of the one that has its name. Who uses that keeps what they have open.
    ///
    /// # Errors
    ///
    /// If it can't be filled or written; what was there stays then.
    pub fn replace_environment(&self, hash: &str, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
        check_name(hash)?;
        let environments = self.layout.environments();
        let path = environments.join(hash);
        let (aside, old) = (unfinished_name(&environments), unfinished_name(&environments));
        DirBuilder::new().mode(0o700).create(&aside).at("create", &aside)?;
        let placed = fill(&aside).at("fill", &aside).and_then(|()| {
            sync_tree(&aside)?;
            let _lock = self.lock_environments(FlockOperation::LockExclusive)?;
            fs::rename(&path, &old).at("replace", &path)?;
            fs::rename(&aside, &path).at("create", &path)
        });
        for left in [&aside, &old] {
            // What can't be removed now is collected later.
            let _ = fs::remove_dir_all(left);
        }
        placed?;
        sync_directory(&environments)
    }

    pub(crate) fn collect_environments(&self, needed: &HashSet<String>) -> Result<Collected> {
        let environments = self.layout.environments();
        let mut collected = Collected::default();
        if !environments.is_dir() {
            return Ok(collected);
        }
        let _lock = self.lock_environments(FlockOperation::LockExclusive)?;
        for entry in layout::entries(&environments)? {
            let name = entry.file_name();
            let Ok(metadata) = entry.metadata() else { continue };
            let age = metadata.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
            let garbage = if is_unfinished(&name) {
                age > UNFINISHED_GRACE
            } else {
                age > GRACE && metadata.is_dir() && name.to_str().is_none_or(|name| !needed.contains(name))
            };
            if garbage {
                let bytes = tree_bytes(&entry.path());
                fs::remove_dir_all(entry.path()).at("remove", &entry.path())?;
                collected.add(Collected { files: 1, bytes });
            }
        }
        Ok(collected)
    }

    fn lock_environments(&self, operation: FlockOperation) -> Result<File> {
        let path = self.layout.environments().join("lock");
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).at("open", &path)?;
        rustix::fs::flock(&file, operation).map(|()| file).at("lock", &path)
    }
}

fn check_name(hash: &str) -> Result<()> {
    let sound = (8..=128).contains(&hash.len())
        && hash.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if sound {
        return Ok(());
    }
    let reason = "it isn't 8 to 128 letters and digits";
    Err(StoreError::InvalidName { what: "an environment", given: hash.chars().take(80).collect(), reason })
}

/// Makes all of it durable. By one call for the whole file system: an environment has a thousand files.
fn sync_tree(directory: &Path) -> Result<()> {
    let handle = File::open(directory).at("open", directory)?;
    rustix::fs::syncfs(&handle).at("write", directory)
}

pub(crate) fn tree_bytes(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    layout::entries(path).unwrap_or_default().iter().map(|entry| tree_bytes(&entry.path())).sum()
}
