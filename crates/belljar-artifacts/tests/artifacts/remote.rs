//! What can go wrong with servers elsewhere, and what is true after that.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_artifacts::{
    Artifact, ArtifactError, ArtifactStore, BlobPlace, CollectOptions, Database, Filter, NewFile,
    StoreLimits, StoreSettings,
};
use tempfile::TempDir;

use crate::bucket::{self, Fault, TestBucket};
use crate::local::files_below;
use crate::postgres::{self, Server};
use crate::support::{self, TENANT, file, try_keep};
use crate::wire::Wire;

/// A store in a database on a server, and in a bucket.
struct Remote {
    store: ArtifactStore,
    bucket: TestBucket,
    settings: StoreSettings,
    scratch: TempDir,
}

impl Remote {
    fn new(server: &Server) -> Self {
        let (bucket, scratch) = (TestBucket::new(), tempfile::tempdir().unwrap());
        let settings = settings(&server.database(), &bucket.address(), scratch.path());
        let store = ArtifactStore::open(settings.clone()).unwrap();
        Self { store, bucket, settings, scratch }
    }

    /// One that nobody looks for in a server of its own.
    fn shared() -> Self {
        Self::new(postgres::shared())
    }

    /// One whose database is reached by a wire.
    fn by_wire() -> (Wire, Self) {
        let server = postgres::shared();
        let (bucket, scratch) = (TestBucket::new(), tempfile::tempdir().unwrap());
        let wire = Wire::to(server.socket());
        let address = wire.address(server.database().rsplit('/').next().unwrap());
        let settings = settings(&address, &bucket.address(), scratch.path());
        let store = ArtifactStore::open(settings.clone()).unwrap();
        (wire, Self { store, bucket, settings, scratch })
    }

    /// Keys of contents.
    fn keys(&self) -> Vec<String> {
        self.bucket.keys().into_iter().filter(|key| key.starts_with("prefix/sha256/")).collect()
    }

    /// Collects all garbage, however new it is, and sees that rows and contents are one for one.
    fn assert_whole(&self) {
        self.store.collect(&CollectOptions { grace: Duration::ZERO, ..CollectOptions::default() }).unwrap();
        let artifacts = self.store.list(TENANT, &Filter::default()).unwrap();
        for artifact in &artifacts {
            self.store.verify(TENANT, artifact.id.as_str()).unwrap();
        }
        let mut hashes: Vec<&str> = artifacts.iter().map(|artifact| artifact.sha256.as_str()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let keys = self.keys();
        let stored: Vec<String> = keys
            .iter()
            .map(|key| key["prefix/sha256/".len()..].split('.').next().unwrap().replace('/', ""))
            .collect();
        assert_eq!(stored, hashes, "there are contents for all rows, and no others");
    }

    /// The name of the database.
    fn database(&self) -> String {
        let Database::Postgres(address) = &self.settings.database else { panic!("it is on a server") };
        let name = address.rsplit('/').next().unwrap();
        name.split('?').next().unwrap().to_owned()
    }
}

fn settings(database: &str, bucket: &str, scratch: &Path) -> StoreSettings {
    StoreSettings {
        database: Database::Postgres(database.to_owned()),
        blobs: BlobPlace::S3(bucket::place(bucket, "prefix")),
        scratch: scratch.to_owned(),
        limits: StoreLimits::default(),
    }
}

/// Keeps one file.
fn keep(store: &ArtifactStore, name: &str, bytes: &[u8]) -> Artifact {
    support::keep(store, vec![file(name, bytes)]).remove(0)
}

fn contents(store: &ArtifactStore, artifact: &Artifact) -> Result<Vec<u8>, ArtifactError> {
    let mut contents = store.read(TENANT, artifact.id.as_str(), None)?;
    let mut bytes = Vec::new();
    match contents.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(error.downcast::<ArtifactError>().unwrap()),
    }
}

fn count(store: &ArtifactStore) -> usize {
    store.list(TENANT, &Filter::default()).unwrap().len()
}

/// So much that it is sent in parts.
fn large() -> Vec<u8> {
    (0..20_u32 << 18).flat_map(u32::to_le_bytes).collect()
}

// The bucket.

#[test]
fn a_bucket_that_fails_now_and_then_is_asked_again() {
    let remote = Remote::shared();
    for (number, fault) in
        [Fault::Status(500), Fault::Status(503), Fault::CutUpload, Fault::LostAnswer].into_iter().enumerate()
    {
        remote.bucket.fail("PUT", fault, 2);
        let bytes = format!("contents {number}");
        let artifact = keep(&remote.store, "a.txt", bytes.as_bytes());
        assert!(remote.bucket.recover(), "{fault:?} has happened");
        if !matches!(fault, Fault::CutUpload) {
            remote.bucket.fail("GET", fault, 2);
        }
        assert_eq!(contents(&remote.store, &artifact).unwrap(), bytes.as_bytes());
        assert!(remote.bucket.recover(), "{fault:?} has happened");
    }
    remote.assert_whole();
}

#[test]
fn a_bucket_that_does_not_recover_is_an_error_and_nothing_was_kept() {
    let remote = Remote::shared();
    let before = keep(&remote.store, "before.txt", b"before");
    let large = large();
    for (fault, bytes) in [
        (Fault::Status(403), &b"small"[..]),
        (Fault::Status(403), &large),
        (Fault::Status(500), b"small"),
        (Fault::CutUpload, b"small"),
    ] {
        remote.bucket.fail("PUT", fault, u32::MAX);
        let error = try_keep(&remote.store, vec![file("one.txt", b"one"), file("a.bin", bytes)]).unwrap_err();
        assert!(matches!(error, ArtifactError::Bucket { .. }), "{fault:?}: {error}");
        assert!(error.hint().is_some());
        remote.bucket.recover();
        assert_eq!(count(&remote.store), 1, "{fault:?}");
        remote.assert_whole();
    }
    let after = try_keep(&remote.store, vec![file("one.txt", b"one"), file("a.bin", &large)]).unwrap();
    assert_eq!(after.kept.len(), 2);
    assert_eq!(contents(&remote.store, &after.kept[1]).unwrap(), large);
    assert_eq!(contents(&remote.store, &before).unwrap(), b"before");
    remote.assert_whole();
}

#[test]
fn a_large_file_whose_parts_fail_now_and_then_is_kept_whole() {
    let remote = Remote::shared();
    let large = large();
    remote.bucket.fail("PUT", Fault::CutUpload, 1);
    remote.bucket.fail("PUT", Fault::Status(500), 1);
    let artifact = keep(&remote.store, "large.bin", &large);
    assert!(remote.bucket.recover());
    assert_eq!(contents(&remote.store, &artifact).unwrap(), large);
    // The end of it fails for good: nothing is kept, and nothing stays.
    let other: Vec<u8> = large.iter().map(|byte| byte ^ 7).collect();
    remote.bucket.fail("POST", Fault::Status(403), u32::MAX);
    let error = try_keep(&remote.store, vec![file("other.bin", &other)]).unwrap_err();
    assert!(matches!(error, ArtifactError::Bucket { .. }), "{error}");
    remote.bucket.recover();
    assert_eq!(count(&remote.store), 1);
    remote.assert_whole();
}

#[test]
fn half_an_answer_is_never_taken_for_the_whole() {
    let remote = Remote::shared();
    let bytes: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
    let artifact = keep(&remote.store, "a.bin", &bytes);
    for times in [1, 2, u32::MAX] {
        remote.bucket.fail("GET", Fault::HalfAnswer, times);
        match contents(&remote.store, &artifact) {
            Ok(found) => assert!(found == bytes && times < u32::MAX),
            Err(error) => assert!(
                matches!(error, ArtifactError::Bucket { .. } | ArtifactError::Damaged { .. }),
                "{error}"
            ),
        }
        match remote.store.local(TENANT, artifact.id.as_str()) {
            // Once it was brought here, nobody is asked any more.
            Ok(path) => assert_eq!(fs::read(path).unwrap(), bytes),
            Err(error) => assert!(error.hint().is_some(), "{error}"),
        }
        remote.bucket.recover();
    }
    assert_eq!(contents(&remote.store, &artifact).unwrap(), bytes);
    assert_eq!(fs::read(remote.store.local(TENANT, artifact.id.as_str()).unwrap()).unwrap(), bytes);
}

#[test]
fn wrong_bytes_are_noticed_and_no_copy_of_them_stays() {
    let remote = Remote::shared();
    let bytes = b"what was kept".repeat(1_000);
    let artifact = keep(&remote.store, "a.txt", &bytes);
    let id = artifact.id.as_str();
    remote.bucket.fail("GET", Fault::WrongBytes, u32::MAX);
    for error in [
        contents(&remote.store, &artifact).unwrap_err(),
        remote.store.verify(TENANT, id).unwrap_err(),
        remote.store.local(TENANT, id).unwrap_err(),
    ] {
        assert!(matches!(error, ArtifactError::Damaged { .. }), "{error}");
        assert!(error.hint().is_some());
    }
    remote.bucket.recover();
    assert_eq!(fs::read(remote.store.local(TENANT, id).unwrap()).unwrap(), bytes);
    // The copy stays good when the object doesn't.
    let key = remote.keys().remove(0);
    fs::write(remote.bucket.file(&key), b"shorter").unwrap();
    let error = remote.store.verify(TENANT, id).unwrap_err();
    assert!(matches!(error, ArtifactError::Damaged { .. } | ArtifactError::Bucket { .. }), "{error}");
    fs::remove_file(remote.bucket.file(&key)).unwrap();
    let error = remote.store.verify(TENANT, id).unwrap_err();
    assert!(matches!(error, ArtifactError::Gone { .. }), "{error}");
    assert!(error.hint().is_some());
    assert_eq!(fs::read(remote.store.local(TENANT, id).unwrap()).unwrap(), bytes);
}

#[test]
fn what_could_not_be_deleted_is_collected_later() {
    let remote = Remote::shared();
    let (one, two) = (keep(&remote.store, "1", b"one"), keep(&remote.store, "2", b"two"));
    for method in ["POST", "DELETE"] {
        remote.bucket.fail(method, Fault::Status(403), u32::MAX);
    }
    remote.store.remove(TENANT, one.id.as_str()).unwrap();
    assert!(matches!(remote.store.artifact(TENANT, one.id.as_str()), Err(ArtifactError::NotFound { .. })));
    assert_eq!(remote.keys().len(), 2);
    remote.bucket.recover();
    remote.assert_whole();
    assert_eq!(contents(&remote.store, &two).unwrap(), b"two");
    // What was removed can be kept again.
    let again = keep(&remote.store, "1", b"one");
    assert_eq!(contents(&remote.store, &again).unwrap(), b"one");
    remote.assert_whole();
}

#[test]
fn a_bucket_that_lets_nobody_in_is_an_error_at_once() {
    let remote = Remote::shared();
    let mut settings = remote.settings.clone();
    let BlobPlace::S3(place) = &mut settings.blobs else { panic!("it is in a bucket") };
    place.credentials.as_mut().unwrap().secret = "another".into();
    let error = ArtifactStore::open(settings).err().unwrap();
    assert!(matches!(error, ArtifactError::Bucket { .. }), "{error}");
    assert!(error.hint().is_some());
    assert!(!error.to_string().contains("another"), "{error}");
    keep(&remote.store, "a", b"a");
    remote.assert_whole();
}

#[test]
fn a_presigned_link_is_good_as_it_is_and_for_a_while_only() {
    let remote = Remote::shared();
    let (one, two) = (keep(&remote.store, "1", b"one"), keep(&remote.store, "2", b"two"));
    let sign = |artifact: &Artifact, expires| {
        let disposition = Some("attachment; filename=\"a b.txt\"");
        remote
            .store
            .presigned(TENANT, artifact.id.as_str(), Duration::from_secs(expires), disposition)
            .unwrap()
            .unwrap()
    };
    let link = sign(&one, 60);
    let (status, head, body) = fetch(&link);
    assert_eq!((status, body.as_slice()), (200, &b"one"[..]), "{head}");
    assert!(head.to_lowercase().contains("content-disposition: attachment; filename=\"a b.txt\""), "{head}");
    let other = sign(&two, 60);
    let (path, query) = (other.split_once('?').unwrap().0, link.split_once('?').unwrap().1);
    assert_eq!(fetch(&format!("{path}?{query}")).0, 403);
    assert_eq!(fetch(&link.replace("a%20b", "a%20c").replace("a+b", "a+c")).0, 403);
    assert_eq!(fetch(&link.replace("X-Amz-Expires=60", "X-Amz-Expires=600")).0, 403);
    assert_eq!(fetch(path).0, 403);
    let short = sign(&one, 1);
    std::thread::sleep(Duration::from_millis(2_100));
    assert_eq!(fetch(&short).0, 403);
}

/// The status, the head and the body that a link leads to.
fn fetch(link: &str) -> (u16, String, Vec<u8>) {
    let (host, path) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head[9..12].parse().unwrap(), head, answer[end + 4..].to_vec())
}

// The database.

#[test]
fn a_server_that_fails_in_the_middle_loses_nothing_and_is_found_again() {
    let server = Server::private();
    let remote = Remote::new(&server);
    let before = keep(&remote.store, "before", b"before");
    let crashed = AtomicBool::new(false);
    let crashing = NewFile {
        name: "during".into(),
        open: Box::new(|| {
            if !crashed.swap(true, Ordering::Relaxed) {
                server.crash();
            }
            Ok(Box::new(&b"during"[..]))
        }),
        size: 6,
    };
    let error = try_keep(&remote.store, vec![file("first", b"first"), crashing]).unwrap_err();
    assert!(matches!(error, ArtifactError::Unreachable { .. }), "{error}");
    assert!(error.hint().is_some());
    let error = remote.store.list(TENANT, &Filter::default()).unwrap_err();
    assert!(matches!(error, ArtifactError::Unreachable { .. }), "{error}");
    let Err(error) = ArtifactStore::open(remote.settings.clone()) else { panic!("there is no server") };
    assert!(matches!(error, ArtifactError::Unreachable { .. }), "{error}");
    server.start();
    assert_eq!(count(&remote.store), 1);
    remote.assert_whole();
    let after = try_keep(&remote.store, vec![file("first", b"first"), file("during", b"during")]).unwrap();
    assert_eq!(after.kept.len(), 2);
    assert_eq!(contents(&remote.store, &before).unwrap(), b"before");
    remote.assert_whole();
}

#[test]
fn what_was_acknowledged_before_a_crash_is_there_after_it() {
    let server = Server::private();
    let remote = Remote::new(&server);
    let acknowledged = Mutex::new(Vec::new());
    let stop = AtomicBool::new(false);
    let (store, kept, stopped) = (&remote.store, &acknowledged, &stop);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for number in 0.. {
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    // Half of them are the same in all threads.
                    let own = if number % 2 == 0 { thread } else { 9 };
                    let bytes = format!("{own} {number}").into_bytes();
                    if let Ok(ingested) = try_keep(store, vec![file("a", &bytes)]) {
                        kept.lock()
                            .unwrap()
                            .extend(ingested.kept.into_iter().map(|artifact| (artifact, bytes.clone())));
                    }
                }
            });
        }
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(300));
            server.crash();
            server.start();
        }
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() > 8, "{}", acknowledged.len());
    for (artifact, bytes) in &acknowledged {
        assert_eq!(contents(&remote.store, artifact).unwrap(), *bytes);
    }
    remote.assert_whole();
    let held = remote.store.usage(Some(TENANT)).unwrap();
    let rows =
        server.ask(&remote.database(), "SELECT files FROM held WHERE tenant = 'tenant' AND session = ''");
    assert_eq!(rows, held.count.to_string(), "quotas count what is there");
}

#[test]
fn a_commit_that_nobody_heard_of_has_its_contents_and_can_be_made_again() {
    let (wire, remote) = Remote::by_wire();
    wire.lose_a_commit();
    let error = try_keep(&remote.store, vec![file("a", b"a"), file("b", b"b")]).unwrap_err();
    assert!(wire.has_lost_it());
    assert!(matches!(error, ArtifactError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("may have finished"), "{error}");
    // It has: what was thought to be in vain isn't removed.
    assert_eq!(count(&remote.store), 2);
    remote.assert_whole();
    support::keep(&remote.store, vec![file("a", b"a"), file("b", b"b")]);
    assert_eq!(count(&remote.store), 4);
    remote.assert_whole();
    // The same for a removal.
    let artifact = remote.store.list(TENANT, &Filter::default()).unwrap().remove(0);
    wire.lose_a_commit();
    assert!(remote.store.remove(TENANT, artifact.id.as_str()).is_err());
    assert_eq!(count(&remote.store), 3);
    remote.assert_whole();
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    let (wire, remote) = Remote::by_wire();
    let before = keep(&remote.store, "before", b"before");
    wire.silence(true);
    let opened = ArtifactStore::open(remote.settings.clone()).map(drop);
    let listed = remote.store.list(TENANT, &Filter::default()).map(drop);
    for error in [opened.unwrap_err(), listed.unwrap_err()] {
        assert!(matches!(error, ArtifactError::Unreachable { .. }), "{error}");
        assert!(error.hint().is_some());
    }
    wire.silence(false);
    assert_eq!(contents(&remote.store, &before).unwrap(), b"before");
    keep(&remote.store, "after", b"after");
    remote.assert_whole();
}

#[test]
fn a_database_that_can_only_be_read_says_so() {
    let server = postgres::shared();
    let remote = Remote::new(server);
    let before = keep(&remote.store, "before", b"before");
    let database = remote.database();
    let read_only = |how: &str| {
        server
            .ask("postgres", &format!("ALTER DATABASE {database} SET default_transaction_read_only = {how}"));
        server.ask(
            "postgres",
            &format!(
                "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE datname = '{database}' AND pid <> pg_backend_pid()"
            ),
        );
    };
    read_only("on");
    // Connections that were there are gone; whoever has one of those is told, and asks again.
    let error = (0..20).find_map(|_| match try_keep(&remote.store, vec![file("a", b"a")]).unwrap_err() {
        ArtifactError::Unreachable { .. } => None,
        error => Some(error),
    });
    let error = error.unwrap();
    assert!(matches!(error, ArtifactError::ReadOnly { .. }), "{error}");
    assert!(error.hint().is_some());
    assert_eq!(contents(&remote.store, &before).unwrap(), b"before");
    read_only("off");
    let kept = (0..20).find_map(|_| try_keep(&remote.store, vec![file("a", b"a")]).ok()).unwrap();
    assert_eq!(kept.kept.len(), 1);
    remote.assert_whole();
}

#[test]
fn a_database_that_somebody_else_holds_is_waited_for_but_not_for_ever() {
    let server = postgres::shared();
    let remote = Remote::new(server);
    let database = remote.database();
    let mut holder =
        server.hold(&database, "BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)");
    let held = format!(
        "SELECT COUNT(*) FROM pg_locks JOIN pg_class ON relation = pg_class.oid \
         WHERE relname = 'held' AND mode = 'AccessExclusiveLock' AND granted \
         AND database = (SELECT oid FROM pg_database WHERE datname = '{database}')"
    );
    while server.ask(&database, &held) != "1" {
        std::thread::sleep(Duration::from_millis(10));
    }
    let error = try_keep(&remote.store, vec![file("a", b"a")]).unwrap_err();
    assert!(matches!(error, ArtifactError::Busy { .. }), "{error}");
    assert!(error.hint().is_some());
    assert_eq!(count(&remote.store), 0);
    holder.kill().unwrap();
    holder.wait().unwrap();
    // The server notices some time later that nobody listens any more.
    server.ask(
        "postgres",
        &format!(
            "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE datname = '{database}' AND query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()"
        ),
    );
    keep(&remote.store, "a", b"a");
    remote.assert_whole();
}

#[test]
fn one_waits_for_another_and_both_are_kept() {
    let remote = Remote::shared();
    let other = ArtifactStore::open(remote.settings.clone()).unwrap();
    let same = b"the same bytes".repeat(100);
    std::thread::scope(|scope| {
        for store in [&remote.store, &other] {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..5_u8 {
                        keep(store, "same", &same);
                        keep(store, "own", &[number; 100]);
                    }
                });
            }
        }
    });
    assert_eq!(count(&remote.store), 80);
    remote.assert_whole();
    assert_eq!(remote.keys().len(), 6);
}

#[test]
fn an_address_with_a_password_is_in_no_message() {
    let (bucket, scratch) = (TestBucket::new(), tempfile::tempdir().unwrap());
    for address in [
        "postgres://belljar:hidden-word@127.0.0.1:1/x",
        "postgres://belljar:hidden-word@host:not-a-port/x",
        "postgres://belljar:hidden-word@/tmp/nowhere/x",
    ] {
        let Err(error) = ArtifactStore::open(settings(address, &bucket.address(), scratch.path())) else {
            panic!("there is no such server")
        };
        assert!(!format!("{error} {error:?}").contains("hidden-word"), "{error}");
        assert!(!matches!(error, ArtifactError::Busy { .. }), "{error}");
    }
}

// Processes that are killed.

#[test]
fn copies_that_a_dead_process_had_begun_are_collected() {
    let remote = Remote::shared();
    let artifact = keep(&remote.store, "a", b"contents");
    let copy = remote.store.local(TENANT, artifact.id.as_str()).unwrap();
    // Where the copy was made, there are now files that nobody has open.
    let mut begun = Vec::new();
    let mut directories = vec![remote.settings.scratch.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            }
        }
        if directory.ends_with(".new") {
            fs::create_dir(directory.join("dead")).unwrap();
            begun.push(directory.join("dead/0"));
            fs::write(begun.last().unwrap(), b"half").unwrap();
        }
    }
    assert!(!begun.is_empty(), "copies are made elsewhere than this test looks for them");
    remote.assert_whole();
    for path in begun {
        assert!(!path.exists(), "{}", path.display());
    }
    assert!(copy.exists(), "it is needed still");
    remote.store.remove(TENANT, artifact.id.as_str()).unwrap();
    remote.assert_whole();
    assert!(!copy.exists(), "nothing needs it any more");
}

/// Run by `processes_that_are_killed_lose_nothing` in a process of its own.
#[test]
#[ignore = "a part of another test"]
fn child() {
    let Ok(log) = std::env::var("BELLJAR_ARTIFACTS_TEST_LOG") else { return };
    let variable = |name: &str| std::env::var(name).unwrap();
    let scratch = variable("BELLJAR_ARTIFACTS_TEST_SCRATCH");
    let (database, bucket) =
        (variable("BELLJAR_ARTIFACTS_TEST_DATABASE"), variable("BELLJAR_ARTIFACTS_TEST_BUCKET"));
    let store = ArtifactStore::open(settings(&database, &bucket, Path::new(&scratch))).unwrap();
    let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
    for number in 0_u32.. {
        let own = format!("{} {number}", std::process::id()).into_bytes();
        let shared = vec![(number % 5) as u8; 20_000];
        let large: Vec<u8> = if number % 3 == 0 { vec![number as u8; 9 << 20] } else { Vec::new() };
        let files = vec![file("own", &own), file("shared", &shared), file("large", &large)];
        let ingested = try_keep(&store, files).unwrap();
        let lines: String =
            ingested.kept.iter().map(|artifact| format!("{} {}\n", artifact.id, artifact.sha256)).collect();
        log.write_all(lines.as_bytes()).unwrap();
        if number % 4 == 1 {
            // It is said first that it may be gone.
            let old = &ingested.kept[2].id;
            log.write_all(format!("gone {old}\n").as_bytes()).unwrap();
            store.remove(TENANT, old.as_str()).unwrap();
            store.collect(&CollectOptions::default()).unwrap();
        }
        store.local(TENANT, ingested.kept[1].id.as_str()).unwrap();
    }
}

#[test]
fn processes_that_are_killed_lose_nothing() {
    let remote = Remote::shared();
    let log = remote.scratch.path().join("log");
    let Database::Postgres(database) = &remote.settings.database else { panic!("it is on a server") };
    let rounds = std::env::var("BELLJAR_KILL_ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["remote::child", "--exact", "--ignored"])
            .env("BELLJAR_ARTIFACTS_TEST_LOG", &log)
            .env("BELLJAR_ARTIFACTS_TEST_DATABASE", database)
            .env("BELLJAR_ARTIFACTS_TEST_BUCKET", remote.bucket.address())
            .env("BELLJAR_ARTIFACTS_TEST_SCRATCH", remote.scratch.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // From its first acknowledgement on, at any moment.
        let length = || fs::metadata(&log).map_or(0, |metadata| metadata.len());
        let before = length();
        while length() == before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(round * 79_193 % 600_000_u64));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "it ended by itself");
    }
    let text = fs::read_to_string(&log).unwrap();
    // A line that was being written wasn't said.
    let lines: Vec<&str> = text[..text.rfind('\n').unwrap()].lines().collect();
    let gone: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("gone ")).collect();
    let mut seen = 0;
    for line in lines.iter().filter(|line| !line.starts_with("gone ")) {
        let (id, sha256) = line.split_once(' ').unwrap();
        if !gone.contains(&id) {
            assert_eq!(remote.store.artifact(TENANT, id).unwrap().sha256, sha256);
            remote.store.verify(TENANT, id).unwrap();
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen}");
    remote.assert_whole();
    // Nor is anything half done left here.
    let left = files_below(&remote.settings.scratch.join("blobs/new"));
    assert!(left.is_empty(), "{left:?}");
}
