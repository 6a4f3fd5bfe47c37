//! Databases and contents that are held, gone, or not what they were.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use belljar_artifacts::{ArtifactError, ArtifactStore, CollectOptions, Filter, Refusal, StoreLimits};
use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::children::{Process, child, say};
use crate::local::files_below;
use crate::support::{TENANT, file, keep, noise, open, read, read_by, settings, try_keep};

/// Says something to the database of a store behind its back.
fn tell(directory: &Path, statements: &[&str]) -> sqlx::SqliteConnection {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(directory.join("artifacts.db"));
        let mut connection = options.connect().await.unwrap();
        for statement in statements {
            sqlx::query(AssertSqlSafe((*statement).to_owned())).execute(&mut connection).await.unwrap();
        }
        connection
    })
}

fn say_and_leave(directory: &Path, statements: &[&str]) {
    let connection = tell(directory, statements);
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(connection.close()).unwrap();
}

/// Run by `a_database_that_another_process_holds` in a process of its own.
#[test]
#[ignore = "a part of another test"]
fn holder() {
    let Some((directory, _)) = child() else { return };
    let _held = tell(&directory, &["BEGIN IMMEDIATE"]);
    say("ready");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_database_that_another_process_holds() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let kept = keep(&store, vec![file("a", b"a")]).remove(0);
    let holder = Process::start("faults::holder", directory.path(), 0);
    let error = try_keep(&store, vec![file("b", b"b")]).unwrap_err();
    assert!(matches!(error, ArtifactError::Busy { .. }), "{error:?}");
    assert!(error.to_string().contains("in use") && error.hint().is_some());
    // Who only reads doesn't wait.
    assert_eq!(read(&store, &kept), b"a");
    holder.kill();
    keep(&store, vec![file("b", b"b")]);
    store.collect(&CollectOptions { grace: Duration::ZERO, ..CollectOptions::default() }).unwrap();
    assert_eq!(files_below(&directory.path().join("blobs/sha256")).len(), 2);
}

#[test]
fn a_database_that_is_gone_takes_nothing_in() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    keep(&store, vec![file("a", b"a")]);
    let aside = directory.path().join("aside");
    fs::create_dir(&aside).unwrap();
    let files = ["artifacts.db", "artifacts.db-wal", "artifacts.db-shm"];
    for name in files {
        fs::rename(directory.path().join(name), aside.join(name)).unwrap();
    }
    let results = [
        try_keep(&store, vec![file("b", b"b")]).map(drop),
        store.list(TENANT, &Filter::default()).map(drop),
        store.collect(&CollectOptions::default()).map(drop),
    ];
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(error, ArtifactError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains("removed") && error.hint().is_some());
    }
    // A new one doesn't know what is there: nothing of it may be taken for garbage.
    let error =
        ArtifactStore::open(settings(directory.path(), StoreLimits::default())).map(drop).unwrap_err();
    assert!(matches!(error, ArtifactError::Foreign { .. }), "{error:?}");
    assert!(error.hint().is_some());
    for name in files {
        let _ = fs::remove_file(directory.path().join(name));
        fs::rename(aside.join(name), directory.path().join(name)).unwrap();
    }
    assert_eq!(store.usage(None).unwrap().count, 1, "it is back");
    drop(store);
    let store = open(directory.path());
    assert_eq!(store.usage(None).unwrap().count, 1);
}

#[test]
fn databases_that_are_something_else() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("artifacts.db"), noise(1, 50_000)).unwrap();
    let error =
        ArtifactStore::open(settings(directory.path(), StoreLimits::default())).map(drop).unwrap_err();
    assert!(matches!(error, ArtifactError::Damaged { .. }), "{error:?}");

    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    let version = "INSERT INTO belljar_artifacts_versions (version, description, success, checksum, execution_time) \
                   VALUES (99, 'later', 1, x'00', 0)";
    say_and_leave(directory.path(), &[version]);
    let error =
        ArtifactStore::open(settings(directory.path(), StoreLimits::default())).map(drop).unwrap_err();
    assert!(matches!(error, ArtifactError::Newer { version: 99 }), "{error:?}");
    assert!(error.hint().is_some());
}

#[test]
fn contents_that_are_gone_come_back_when_they_are_kept_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let large = noise(2, 2 << 20);
    let kept = keep(&store, vec![file("a", b"small"), file("b", &large)]);
    for artifact in &kept {
        let (id, path) = (artifact.id.as_str(), store.local(TENANT, artifact.id.as_str()).unwrap());
        for damage in [None, Some(&b"smal"[..])] {
            fs::remove_file(&path).unwrap();
            if let Some(bytes) = damage {
                fs::write(&path, bytes).unwrap();
            }
            let gone = store.local(TENANT, id).unwrap_err();
            assert!(matches!(gone, ArtifactError::Gone { .. }) && gone.hint().is_some(), "{gone:?}");
            let error = store.verify(TENANT, id).unwrap_err();
            let is_told = matches!(error, ArtifactError::Gone { .. } | ArtifactError::Damaged { .. });
            assert!(is_told, "{error:?}");
            keep(&store, vec![file("a", b"small"), file("b", &large)]);
            store.verify(TENANT, id).unwrap();
        }
    }
    assert_eq!(store.usage(None).unwrap().stored_bytes, 5 + large.len() as u64);
}

#[test]
fn contents_that_were_replaced_are_not_passed_on_as_whole() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let bytes = noise(3, 700_000);
    let artifact = keep(&store, vec![file("a", &bytes)]).remove(0);
    let id = artifact.id.as_str();
    let path = store.local(TENANT, id).unwrap();
    let mut other = bytes.clone();
    other[699_999] ^= 1;
    for (damage, is_shorter) in [(&other[..], false), (&bytes[..699_999], true)] {
        fs::remove_file(&path).unwrap();
        fs::write(&path, damage).unwrap();
        let error = store.verify(TENANT, id).unwrap_err();
        assert!(matches!(error, ArtifactError::Damaged { .. }), "{error:?}");
        let mut read = Vec::new();
        let error = store.read(TENANT, id, None).unwrap().read_to_end(&mut read).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let streamed = runtime.block_on(async {
            let (_, pieces) = store.stream(TENANT, id, None).await.unwrap();
            pieces.try_collect::<Vec<_>>().await
        });
        assert!(matches!(streamed, Err(ArtifactError::Damaged { .. })), "{streamed:?}");
        let mut part = [0; 10];
        let end = store.read(TENANT, id, Some(699_990..700_000)).unwrap().read_exact(&mut part);
        assert_eq!(end.is_err(), is_shorter);
    }
}

#[test]
fn records_that_were_changed_are_not_told() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let artifact = keep(&store, vec![file("a", b"a")]).remove(0);
    let before = store.provenance(TENANT, artifact.id.as_str()).unwrap();
    assert_eq!((before.cells.len(), before.missing.len()), (1, 0));
    say_and_leave(directory.path(), &["UPDATE records SET body = replace(body, '…', 'lies')"]);
    let after = store.provenance(TENANT, artifact.id.as_str()).unwrap();
    assert_eq!((after.cells.len(), after.missing.len()), (0, 1));
}

#[test]
fn a_directory_has_one_database() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let artifact = keep(&store, vec![file("a", b"a")]).remove(0);
    let mut other = settings(directory.path(), StoreLimits::default());
    other.database = belljar_artifacts::Database::Sqlite(directory.path().join("other.db"));
    let error = ArtifactStore::open(other).map(drop).unwrap_err();
    assert!(matches!(error, ArtifactError::Foreign { .. }), "{error:?}");
    // The right one may have it as often as it likes.
    let again = open(directory.path());
    assert_eq!(read(&again, &artifact), b"a");
}

#[test]
fn many_open_a_new_store_at_once() {
    let directory = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for number in 0..6_u64 {
            let directory = directory.path();
            scope.spawn(move || {
                let store = open(directory);
                keep(&store, vec![file("a", &noise(number, 100))]);
            });
        }
    });
    assert_eq!(open(directory.path()).usage(None).unwrap().count, 6);
}

/// Run by `processes_keep_the_same_bytes_at_once` in processes of their own.
#[test]
#[ignore = "a part of another test"]
fn twin() {
    let Some((directory, _)) = child() else { return };
    let store = open(&directory);
    say("ready");
    for round in 0..15 {
        let (large, small) = (noise(round, (1 << 20) + 5), noise(round, 800));
        let kept = keep(&store, vec![file("a", &large), file("b", &small)]);
        assert!(read(&store, &kept[0]) == large && read(&store, &kept[1]) == small);
    }
}

#[test]
fn processes_keep_the_same_bytes_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let twins: Vec<_> = (0..3).map(|seed| Process::start("faults::twin", directory.path(), seed)).collect();
    twins.into_iter().for_each(Process::wait);
    let usage = store.usage(None).unwrap();
    assert_eq!((usage.count, usage.stored_bytes), (90, 15 * ((1 << 20) + 5 + 800)));
    assert_eq!(files_below(&directory.path().join("blobs/sha256")).len(), 30);
    assert!(files_below(&directory.path().join("blobs/.new")).is_empty());
}

#[test]
fn what_dead_processes_left_is_collected_and_what_others_write_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let new = directory.path().join("blobs/.new");
    fs::create_dir(new.join("dead")).unwrap();
    fs::write(new.join("dead/7"), "half").unwrap();
    fs::write(new.join("stray"), "half").unwrap();
    let orphan = directory.path().join("blobs/sha256/ab").join("c".repeat(62));
    fs::create_dir_all(orphan.parent().unwrap()).unwrap();
    fs::write(&orphan, "orphan").unwrap();
    let foreign = directory.path().join("blobs/sha256/ab/README");
    fs::write(&foreign, "somebody's").unwrap();

    let dry = CollectOptions { dry_run: true, grace: Duration::ZERO, ..CollectOptions::default() };
    let collected = store.collect(&dry).unwrap();
    assert_eq!((collected.temporaries, collected.blobs, collected.bytes), (2, 1, 6));
    assert_eq!(store.collect(&CollectOptions::default()).unwrap().blobs, 0, "it is too young");
    // While it is read, another one collects.
    let other = open(directory.path());
    let reader = read_by("slow", 2 << 20, || {
        let collected = other.collect(&CollectOptions { dry_run: false, ..dry.clone() }).unwrap();
        assert!(collected.blobs <= 1);
        io::repeat(9).take(2 << 20)
    });
    let kept = keep(&store, vec![file("small", b"small"), reader]);
    for artifact in &kept {
        store.verify(TENANT, artifact.id.as_str()).unwrap();
    }
    assert!(
        !orphan.exists() && foreign.exists() && !new.join("dead").exists() && !new.join("stray").exists()
    );
}

#[test]
fn twenty_thousand_tiny_files() {
    let directory = tempfile::tempdir().unwrap();
    let limits = StoreLimits { session_count: Some(19_990), ..StoreLimits::default() };
    let store = ArtifactStore::open(settings(directory.path(), limits)).unwrap();
    let names: Vec<String> = (0..20_000_u32).map(|number| number.to_string()).collect();
    // It is told to be much, so that nobody makes room for it.
    let files = names.iter().map(|name| read_by(name, 1 << 20, || &name.as_bytes()[..1]));
    let ingested = try_keep(&store, files.collect()).unwrap();
    assert_eq!(ingested.kept.len() + ingested.refused.len(), 20_000);
    assert!(ingested.refused.iter().all(|refused| refused.why == Refusal::SessionQuota));
    assert!(files_below(&directory.path().join("blobs/sha256")).len() <= 10);
}

/// Run by `memory_does_not_grow_with_what_is_kept` in a process of its own.
#[test]
#[ignore = "a part of another test"]
fn hoarder() {
    let Some((directory, _)) = child() else { return };
    let store = open(&directory);
    say("ready");
    let small = (0..70).map(|number| read_by("small", 900_000, move || io::repeat(number).take(900_000)));
    let large = read_by("large", 40 << 20, || io::repeat(200).take(40 << 20));
    let count = keep(&store, small.chain([large]).collect()).len();
    assert_eq!(count, 71);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    say(peak.trim().trim_end_matches(" kB"));
}

#[test]
fn memory_does_not_grow_with_what_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = Process::start("faults::hoarder", directory.path(), 0);
    let peak: u64 = process.hear().unwrap().parse().unwrap();
    process.wait();
    assert!(peak < 72 << 10, "{peak} KiB for 100 MiB of files");
}
