use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Instant,
};

use belljar_runtime::{Cache, MakeError, Maker, Quiet};
use tempfile::tempdir;

/// A program that answers like a Python: `version` when asked, and `otherwise` to all else.
fn fake_python(directory: &Path, version: &str, otherwise: &str) -> PathBuf {
    let path = directory.join("python3");
    let script =
        format!("#!/bin/sh\ncase \"$*\" in *version_info*) echo {version};; *) {otherwise};; esac\n");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

fn error(python: &str, otherwise: &str, offline: bool) -> MakeError {
    let directory = tempdir().expect("a directory");
    fake_python(directory.path(), python, otherwise);
    let cache = Cache::open(directory.path().join("cache"));
    let maker = Maker::new(cache.clone()).search([directory.path().to_owned()]).offline(offline);
    let error = maker.ensure(&Quiet).expect_err("it can't be made");
    assert!(!error.hint().is_empty(), "{error}");
    assert!(cache.entries().expect("listed").is_empty(), "{error} left something");
    error
}

#[test]
fn without_python_the_error_says_so() {
    let directory = tempdir().expect("a directory");
    let maker = Maker::new(Cache::open(directory.path()));
    assert!(matches!(maker.ensure(&Quiet), Err(MakeError::NoPython { .. })));
    let named = maker.python(Some(directory.path().join("no-such-python")));
    let error = named.ensure(&Quiet).expect_err("no such Python");
    assert!(error.to_string().contains("no-such-python"), "{error}");
}

#[test]
fn an_old_python_is_named_with_its_version() {
    let error = error("3 9", "false", false);
    assert!(matches!(&error, MakeError::PythonTooOld { version, .. } if version == "3.9"), "{error}");
}

#[test]
fn offline_and_not_cached_is_an_error_that_says_where_to_put_the_wheel() {
    let error = error("3 12", "false", true);
    assert!(matches!(error, MakeError::Offline { .. }), "{error}");
    assert!(error.hint().contains("cache/wheels"), "{}", error.hint());
}

#[test]
fn a_failed_download_shows_what_pip_said() {
    let error = error("3 12", "echo no route to index >&2; exit 1", false);
    assert!(matches!(error, MakeError::Download { tool: "pip", .. }), "{error}");
    assert!(error.to_string().contains("no route to index"), "{error}");
    assert!(error.hint().contains("PIP_INDEX_URL"), "{}", error.hint());
}

#[test]
fn without_pip_urllib_is_tried() {
    let error = error("3 12", "echo No module named pip >&2; exit 1", false);
    assert!(matches!(error, MakeError::Download { tool: "urllib", .. }), "{error}");
}

#[test]
fn finding_nothing_is_quick() {
    let directory = tempdir().expect("a directory");
    let maker = Maker::new(Cache::open(directory.path()));
    let start = Instant::now();
    for _ in 0..1000 {
        assert!(maker.find().is_none());
    }
    // A millisecond each would be ten times too slow; the machine may be busy.
    assert!(start.elapsed().as_millis() < 1000, "{:?}", start.elapsed());
}
