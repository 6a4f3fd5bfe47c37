//! Where the cache and the sessions are when nobody says so.
//!
//! The only place in the library that looks at the environment, but for the path on which programs are found, and only
//! for a builder that was given no directory: `Sandbox::builder().build()` must work without any.

use std::env;
use std::path::{self, PathBuf};

/// `$BELLJAR_CACHE_DIR`, else `belljar` in the user's cache directory.
pub fn default_cache_dir() -> Option<PathBuf> {
    let mac = cfg!(target_os = "macos");
    find("BELLJAR_CACHE_DIR", "XDG_CACHE_HOME", if mac { "Library/Caches" } else { ".cache" })
}

/// `$BELLJAR_STATE_DIR`, else `belljar` in the user's data directory.
pub fn default_state_dir() -> Option<PathBuf> {
    let mac = cfg!(target_os = "macos");
    find(
        "BELLJAR_STATE_DIR",
        "XDG_DATA_HOME",
        if mac { "Library/Application Support" } else { ".local/share" },
    )
}

/// The directory that a variable names, else ours in the one that another names, else below the home directory.
fn find(ours: &str, users: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let named = env::var_os(ours).filter(|value| !value.is_empty());
    let named = named.and_then(|value| path::absolute(value).ok());
    let users = || Some(absolute(users)?.join("belljar"));
    named.or_else(users).or_else(|| Some(absolute("HOME")?.join(below_home).join("belljar")))
}

/// A Python of this version, such as `3.12`, that is on the path. Nothing in the working directory is.
pub(crate) fn python_on_path(version: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut candidates = env::split_paths(&path).map(|directory| directory.join(format!("python{version}")));
    candidates.find(|candidate| candidate.is_absolute() && candidate.is_file())
}

/// The user's home directory.
pub(crate) fn home() -> Option<PathBuf> {
    env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
}
