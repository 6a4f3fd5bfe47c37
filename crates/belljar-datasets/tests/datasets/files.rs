//! Files of this host, and damage in the cache.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;

use belljar_datasets::{DatasetError, FetchOptions, NewDataset, Source};

use crate::support::{Scratch, TENANT, bytes, options, sha256};

#[test]
fn a_file_is_copied_and_may_change_later() {
    let scratch = Scratch::new();
    let body = bytes(3_000_000, 1);
    let path = scratch.file("sales.csv", &body);
    let dataset = scratch.add("sales", Source::parse(path.to_str().unwrap()).unwrap());
    assert_eq!(dataset.file_name, "sales.csv");
    let fetched = scratch.fetch("sales").unwrap();
    fs::write(&path, "changed").unwrap();
    assert_eq!(fs::read(&fetched.path).unwrap(), body);
    assert_eq!(scratch.fetch("sales").unwrap().sha256, sha256(&body));
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let scratch = Scratch::new();
    let pipe = scratch.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    symlink(scratch.path("nowhere"), scratch.path("dangling")).unwrap();
    for (number, path) in
        [pipe, scratch.directory.path().to_owned(), scratch.path("dangling"), "/dev/zero".into()]
            .into_iter()
            .enumerate()
    {
        let name = format!("d{number}");
        scratch.add(&name, Source::File { path });
        let error = scratch.fetch(&name).unwrap_err();
        assert!(matches!(error, DatasetError::Refused { .. }), "{error}");
    }
    scratch.assert_nothing_was_kept();
}

#[test]
fn equal_contents_are_kept_once() {
    let scratch = Scratch::new();
    for name in ["a", "b", "c"] {
        let path = scratch.file(name, b"the same");
        scratch.add(name, Source::File { path });
    }
    let paths: Vec<_> = ["a", "b", "c"].map(|name| scratch.fetch(name).unwrap().path).into();
    assert!(paths.iter().all(|path| *path == paths[0]));
    assert_eq!(scratch.blobs().len(), 1);
}

#[test]
fn a_cached_file_that_was_changed_is_noticed_and_fetched_anew() {
    let scratch = Scratch::new();
    let body = bytes(100_000, 2);
    let path = scratch.file("a.csv", &body);
    scratch.add("a", Source::File { path });
    let fetched = scratch.fetch("a").unwrap();
    fs::set_permissions(&fetched.path, fs::Permissions::from_mode(0o644)).unwrap();

    let mut changed = body.clone();
    changed[5] ^= 1;
    fs::write(&fetched.path, &changed).unwrap();
    assert!(scratch.store.verify(&fetched.sha256).is_err());
    let again = scratch.fetch("a").unwrap();
    assert!(!again.was_cached);
    assert_eq!(fs::read(&again.path).unwrap(), body);
    scratch.store.verify(&fetched.sha256).unwrap();

    // Behind its time: only reading all of it helps.
    let time = fs::metadata(&again.path).unwrap().modified().unwrap();
    fs::set_permissions(&again.path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&again.path, &changed).unwrap();
    fs::File::options().write(true).open(&again.path).unwrap().set_modified(time).unwrap();
    assert!(scratch.fetch("a").unwrap().was_cached);
    let verified = scratch.fetch_with("a", &FetchOptions { verify: true, ..options() }).unwrap();
    assert!(!verified.was_cached);
    assert_eq!(fs::read(&verified.path).unwrap(), body);

    // A time that changed is no damage.
    fs::set_permissions(&verified.path, fs::Permissions::from_mode(0o644)).unwrap();
    let file = fs::File::options().write(true).open(&verified.path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert!(scratch.fetch("a").unwrap().was_cached);
}

#[test]
fn to_know_a_hash_is_not_to_have_what_is_behind_it() {
    let scratch = Scratch::new();
    let secret = scratch.file("secret.csv", b"of the first tenant");
    scratch.add("secret", Source::File { path: secret });
    let fetched = scratch.fetch("secret").unwrap();
    let other = scratch.file("other.csv", b"mine");
    let new = NewDataset::new("guess", Source::File { path: other }).sha256(&fetched.sha256);
    scratch.store.add("other", new).unwrap();
    let error =
        scratch.store.fetch("other", "guess", None, &options(), &belljar_datasets::Quiet).unwrap_err();
    assert!(matches!(error, DatasetError::Broken { .. }), "{error}");
    // The one whose it is needn't fetch it again.
    let gone = Source::File { path: scratch.path("gone.csv") };
    scratch.store.add(TENANT, NewDataset::new("mine", gone).sha256(&fetched.sha256)).unwrap();
    assert!(scratch.fetch("mine").unwrap().was_cached);
}
