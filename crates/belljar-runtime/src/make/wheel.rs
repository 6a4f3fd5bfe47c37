//! Gets pinned wheels: from the cache, where they may have been put by hand, or from the package index.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use sha2::{Digest, Sha256};

use super::{error::MakeError, pins::Pin, process, python::Python};
use crate::{
    cache::{Cache, CacheError},
    progress::Progress,
};

/// For systems whose Python comes without pip.
const FETCH: &str = include_str!("fetch.py");

/// Where wheels are kept in the cache. They need no manifest: their hashes are pinned.
const KIND: &str = "wheels";

/// Where the cache keeps its wheels.
pub(super) fn shelf(cache: &Cache) -> Result<PathBuf, MakeError> {
    Ok(cache.kind(KIND)?)
}

/// The wheel on the shelf, if there is one; whichever platform it is for, since a shelf is one machine's.
pub(super) fn find(shelf: &Path, pin: &Pin) -> Result<Option<PathBuf>, MakeError> {
    let known = pin.wheels.iter().map(|(file, hash)| (shelf.join(file), hash));
    match known.into_iter().find(|(path, _)| path.is_file()) {
        Some((path, hash)) => check(&path, hash).map(|()| Some(path)),
        None => Ok(None),
    }
}

/// Fetches the wheel and puts it on the shelf.
pub(super) fn fetch(
    shelf: &Path,
    pin: &Pin,
    python: &Python,
    scratch: &Path,
    progress: &dyn Progress,
    expected: Duration,
) -> Result<PathBuf, MakeError> {
    let release = format!("{}=={}", pin.project, pin.version);
    let directory = scratch.join(pin.project);
    fs::create_dir_all(&directory).map_err(|error| CacheError::io(&directory, error))?;
    let mut pip = python.as_configured();
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"]);
    pip.arg(&directory).arg(&release).current_dir(scratch);
    pip.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("PIP_NO_INPUT", "1");
    let mut tool = "pip";
    let mut finished = process::run(&mut pip, scratch, progress, expected)?;
    if !finished.status.success() && finished.stderr.contains("No module named pip") {
        let mut urllib = python.as_configured();
        urllib.args(["-c", FETCH]).arg(&directory).arg(pin.project);
        urllib.args(pin.wheels.iter().map(|(file, _)| file)).current_dir(scratch);
        tool = "urllib";
        finished = process::run(&mut urllib, scratch, progress, expected)?;
    }
    if !finished.status.success() {
        let (output, place) = (finished.last_lines(), shelf.to_owned());
        return Err(MakeError::Download { release, tool, output, place });
    }
    take(&directory, shelf, pin, release)
}

/// Checks the one file in `directory` and moves it to the shelf.
fn take(directory: &Path, shelf: &Path, pin: &Pin, release: String) -> Result<PathBuf, MakeError> {
    let failed = |error| CacheError::io(directory, error);
    let fetched = fs::read_dir(directory).map_err(failed)?.next().transpose().map_err(failed)?;
    let file = fetched.map(|file| file.file_name().to_string_lossy().into_owned()).unwrap_or_default();
    let Some((_, hash)) = pin.wheels.iter().find(|(wheel, _)| *wheel == file) else {
        return Err(MakeError::NotPinned { release, file });
    };
    let (from, to) = (directory.join(&file), shelf.join(&file));
    check(&from, hash)?;
    let moved = fs::create_dir_all(shelf).and_then(|()| fs::rename(&from, &to));
    moved.map_err(|error| CacheError::io(&to, error))?;
    Ok(to)
}

fn check(file: &Path, expected: &str) -> Result<(), MakeError> {
    let mut hasher = Sha256::new();
    let read = File::open(file).and_then(|mut wheel| io::copy(&mut wheel, &mut hasher));
    read.map_err(|error| CacheError::io(file, error))?;
    let found = format!("{:x}", hasher.finalize());
    match found == expected {
        true => Ok(()),
        false => Err(MakeError::Hash { file: file.to_owned(), expected: expected.to_owned(), found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: Pin = Pin {
        project: "thing",
        version: "1",
        wheels: &[("thing-1.whl", "d8af3c9bc4ff9b4b5ba2e2a1ad0b5a9ee5b8b2ad4c7ec6d9f2e5d9e1c2a4f6b8")],
    };

    #[test]
    fn a_wheel_with_another_hash_is_refused() {
        let shelf = tempfile::tempdir().expect("a directory");
        fs::write(shelf.path().join("thing-1.whl"), "tampered").expect("written");
        let error = find(shelf.path(), &PIN).expect_err("the hash differs");
        assert!(matches!(error, MakeError::Hash { .. }), "{error}");
        assert!(error.hint().contains("thing-1.whl"), "{}", error.hint());
    }

    #[test]
    fn a_wheel_that_is_not_pinned_is_refused() {
        let (fetched, shelf) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        fs::write(fetched.path().join("thing-1-other.whl"), "other").expect("written");
        let error =
            take(fetched.path(), shelf.path(), &PIN, "thing==1".into()).expect_err("the name differs");
        assert!(matches!(error, MakeError::NotPinned { .. }), "{error}");
    }

    #[test]
    fn an_empty_shelf_is_no_error() {
        let shelf = tempfile::tempdir().expect("a directory");
        assert!(find(&shelf.path().join("missing"), &PIN).expect("no error").is_none());
    }
}
