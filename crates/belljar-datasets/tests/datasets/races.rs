//! Several at once.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use belljar_datasets::{DatasetError, DatasetStore, FetchOptions, Quiet, Source};

use crate::server::{Answer, Server};
use crate::support::{Scratch, TENANT, bytes, options, sha256};

const ROOT: &str = "BELLJAR_DATASETS_TEST_ROOT";

#[test]
#[ignore = "it is started by other tests"]
fn child() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    let store = DatasetStore::open(root);
    store.fetch(TENANT, "a", None, &options(), &Quiet).unwrap();
}

/// Another process that fetches dataset `a`.
pub(crate) fn start_child(scratch: &Scratch) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["races::child", "--exact", "--ignored"])
        .env(ROOT, scratch.path("store"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn many_processes_and_threads_that_want_the_same_fetch_it_once() {
    let (scratch, body) = (Scratch::new(), bytes(2_000_000, 1));
    let served = body.clone();
    let server = Server::new(move |_, _| Answer {
        pause: Some((500_000, Duration::from_millis(500))),
        ..Answer::ok(&served)
    });
    scratch.add("a", server.source());
    let children: Vec<_> = (0..3).map(|_| start_child(&scratch)).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| scratch.fetch("a").unwrap())).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap().sha256, sha256(&body));
        }
    });
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(server.requests(), 1);
    assert_eq!(scratch.blobs().len(), 1);
}

#[test]
fn waiting_for_somebody_else_has_a_bound() {
    let scratch = Scratch::new();
    let server = Server::new(|_, _| Answer {
        pause: Some((1, Duration::from_secs(3))),
        ..Answer::ok(&bytes(1_000, 1))
    });
    scratch.add("a", server.source());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| scratch.fetch("a"));
        while server.requests() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let error = scratch
            .fetch_with("a", &FetchOptions { timeout: Duration::from_millis(100), ..options() })
            .unwrap_err();
        assert!(matches!(error, DatasetError::Busy { .. }), "{error}");
        first.join().unwrap().unwrap();
    });
}

#[test]
fn different_datasets_with_equal_contents_at_once_are_one_blob() {
    let scratch = Scratch::new();
    let path = scratch.file("x", &bytes(300_000, 5));
    for number in 0..8 {
        scratch.add(&format!("d{number}"), Source::File { path: path.clone() });
    }
    std::thread::scope(|scope| {
        for number in 0..8 {
            let scratch = &scratch;
            scope.spawn(move || scratch.fetch(&format!("d{number}")).unwrap());
            scope.spawn(move || scratch.store.collect(&Default::default()).unwrap());
        }
    });
    assert_eq!(scratch.blobs().len(), 1);
    assert_eq!(scratch.store.list(TENANT).unwrap().iter().filter(|d| d.fetched_ms.is_some()).count(), 8);
}

#[test]
fn a_dataset_that_is_removed_while_it_is_fetched_does_not_come_back() {
    let scratch = Scratch::new();
    let server = Server::new(|_, _| Answer {
        pause: Some((10, Duration::from_millis(300))),
        ..Answer::ok(&bytes(1_000, 1))
    });
    scratch.add("a", server.source());
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| scratch.fetch("a"));
        while server.requests() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        scratch.store.remove(TENANT, "a", None).unwrap();
        assert_eq!(fetching.join().unwrap().unwrap().size, 1_000);
    });
    assert!(matches!(scratch.fetch("a"), Err(DatasetError::NotFound { .. })));
    assert_eq!(scratch.store.collect(&Default::default()).unwrap().blobs, 1);
}
