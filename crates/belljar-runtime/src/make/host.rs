//! What runs on the host to make things for the guest: pinned tools from the package index, a Python, and
//! programs under watch.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::wheel;
pub use super::{
    archive::unzip,
    pins::Pin,
    process::{Finished, run, run_watched},
    python::Python,
};
use crate::{cache::Cache, make::MakeError, progress::Progress};

/// The pinned wheel, if it was fetched before.
///
/// # Errors
/// If what is there isn't what was pinned.
pub fn find_wheel(cache: &Cache, pin: &Pin) -> Result<Option<PathBuf>, MakeError> {
    wheel::find(&wheel::shelf(cache)?, pin)
}

/// Fetches the pinned wheel into the cache.
///
/// # Errors
/// If the index isn't reached, or has something else.
pub fn fetch_wheel(
    cache: &Cache,
    pin: &Pin,
    python: &Python,
    scratch: &Path,
    progress: &dyn Progress,
    expected: Duration,
) -> Result<PathBuf, MakeError> {
    wheel::fetch(&wheel::shelf(cache)?, pin, python, scratch, progress, expected)
}
