//! Where the cache is when nobody says so.
//!
//! The only place in the library that looks at the environment, and only for a builder that was given no
//! directory: `Sandbox::builder().build()` must work without any.

use std::env;
use std::path::{self, PathBuf};

/// `$BELLJAR_CACHE_DIR`, else `belljar` in the user's cache directory.
pub fn default_cache_dir() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let named = env::var_os("BELLJAR_CACHE_DIR").filter(|value| !value.is_empty());
    let named = named.and_then(|value| path::absolute(value).ok());
    named.or_else(|| Some(absolute("XDG_CACHE_HOME")?.join("belljar"))).or_else(|| {
        let home = absolute("HOME")?;
        let cache = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
        Some(home.join(cache).join("belljar"))
    })
}
