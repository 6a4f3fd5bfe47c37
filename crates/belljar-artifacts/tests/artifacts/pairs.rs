//! The other pairs: PostgreSQL and a bucket in full, those with a half of SQLite and a directory in short.

use std::cell::RefCell;
use std::thread;
use std::time::Duration;

use belljar_artifacts::{
    ArtifactStore, BlobPlace, CollectOptions, Database, Filter, StoreLimits, StoreSettings,
};
use tempfile::TempDir;

use crate::bucket::TestBucket;
use crate::local::files_below;
use crate::postgres;
use crate::suite::Maker;
use crate::support::{TENANT, file, keep, noise, read, settings};

/// Runs a check with stores that are made by `change` from what SQLite and a directory would be.
fn check(check: fn(Maker<'_>), change: fn(&TestBucket, &mut StoreSettings)) {
    let bucket = TestBucket::new();
    let directories: RefCell<Vec<TempDir>> = RefCell::default();
    check(&|limits: StoreLimits| {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = settings(directory.path(), limits);
        change(&bucket, &mut settings);
        if let BlobPlace::S3(place) = &mut settings.blobs {
            place.prefix = format!("store-{}", directories.borrow().len());
        }
        let store = ArtifactStore::open(settings).unwrap();
        directories.borrow_mut().push(directory);
        store
    });
}

fn on_server(settings: &mut StoreSettings) {
    settings.database = Database::Postgres(postgres::shared().database());
}

fn in_bucket(bucket: &TestBucket, settings: &mut StoreSettings) {
    settings.blobs = BlobPlace::S3(bucket.place(""));
}

mod postgres_and_bucket {
    use super::{Maker, in_bucket, on_server};
    use crate::suite;

    fn check(check: fn(Maker<'_>)) {
        super::check(check, |bucket, settings| {
            on_server(settings);
            in_bucket(bucket, settings);
        });
    }

    suite::tests!(check);
}

mod sqlite_and_bucket {
    use super::{Maker, in_bucket};
    use crate::suite;

    fn check(check: fn(Maker<'_>)) {
        super::check(check, in_bucket);
    }

    suite::tests! { check:
        what_is_kept_is_read_back
        contents_are_stored_once
        large_files_go_through
        the_quota_of_all_counts_what_is_stored
        removed_contents_come_back
        the_same_bytes_from_all_sides_at_once
        garbage_is_collected_while_others_write
    }
}

mod postgres_and_directory {
    use super::{Maker, on_server};
    use crate::suite;

    fn check(check: fn(Maker<'_>)) {
        super::check(check, |_, settings| on_server(settings));
    }

    suite::tests! { check:
        what_is_kept_is_read_back
        contents_are_stored_once
        large_files_go_through
        the_quota_of_all_counts_what_is_stored
        removed_contents_come_back
        the_same_bytes_from_all_sides_at_once
        garbage_is_collected_while_others_write
    }
}

/// Each writes through a store of its own, as processes do: nobody waits for another within this one. One collects
/// garbage all the time; in a directory, nothing needs any grace.
fn each_has_a_store_of_its_own(settings: &StoreSettings, grace: Duration) {
    const WRITERS: u64 = 4;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                scope.spawn(move || {
                    let store = ArtifactStore::open(settings.clone()).unwrap();
                    for round in 0..30_u64 {
                        // The same as others have, at about the same time.
                        let bytes = noise(round % 3, if round % 10 == 0 { 2 << 20 } else { 500 });
                        let own = noise(100 + number * 100 + round, 300);
                        let kept = keep(&store, vec![file("same", &bytes), file("own", &own)]);
                        assert!(read(&store, &kept[0]) == bytes);
                        assert_eq!(read(&store, &kept[1]), own);
                        store.remove(TENANT, kept[0].id.as_str()).unwrap();
                    }
                })
            })
            .collect();
        let store = ArtifactStore::open(settings.clone()).unwrap();
        while writers.iter().any(|writer| !writer.is_finished()) {
            store.collect(&CollectOptions { grace, ..CollectOptions::default() }).unwrap();
        }
    });
    let store = ArtifactStore::open(settings.clone()).unwrap();
    let left = store.list(TENANT, &Filter::default()).unwrap();
    assert_eq!(left.len() as u64, WRITERS * 30);
    for artifact in &left {
        store.verify(TENANT, artifact.id.as_str()).unwrap();
    }
    store.collect(&CollectOptions { grace: Duration::ZERO, ..CollectOptions::default() }).unwrap();
    let usage = store.usage(None).unwrap();
    assert_eq!((usage.count, usage.stored_bytes), (WRITERS * 30, WRITERS * 30 * 300));
}

#[test]
fn processes_share_sqlite_and_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    each_has_a_store_of_its_own(&settings(directory.path(), StoreLimits::default()), Duration::ZERO);
    assert_eq!(files_below(&directory.path().join("blobs/sha256")).len(), 120);
}

#[test]
fn processes_share_postgres_and_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path(), StoreLimits::default());
    on_server(&mut settings);
    each_has_a_store_of_its_own(&settings, Duration::ZERO);
    assert_eq!(files_below(&directory.path().join("blobs/sha256")).len(), 120);
}

#[test]
fn processes_share_postgres_and_a_bucket() {
    let (directory, bucket) = (tempfile::tempdir().unwrap(), TestBucket::new());
    let mut settings = settings(directory.path(), StoreLimits::default());
    on_server(&mut settings);
    in_bucket(&bucket, &mut settings);
    each_has_a_store_of_its_own(&settings, Duration::from_secs(600));
    assert_eq!(bucket.keys().iter().filter(|key| key.starts_with("sha256/")).count(), 120);
}
