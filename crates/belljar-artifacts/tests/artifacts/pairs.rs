//! The other pairs: PostgreSQL and a bucket in full, those with a half of SQLite and a directory in short.

use std::cell::RefCell;

use belljar_artifacts::{ArtifactStore, BlobPlace, Database, StoreLimits, StoreSettings};
use tempfile::TempDir;

use crate::bucket::TestBucket;
use crate::postgres;
use crate::suite::Maker;
use crate::support::settings;

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
