//! Fetchers that the host brings along.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use belljar_datasets::{
    DatasetError, DatasetStore, FetchFailure, FetchOptions, FetchRequest, Fetched, Fetcher, NewDataset,
    Quiet, Source,
};

use crate::support::{Scratch, TENANT, bytes, options, sha256};

type Answer = Result<Fetched, FetchFailure>;

struct Function<F> {
    function: F,
    resumes: bool,
    calls: AtomicU32,
}

impl<F: Fn(&FetchRequest, u32, &mut dyn Write) -> Answer + Send + Sync> Fetcher for Function<F> {
    fn fetch(&self, request: &FetchRequest, to: &mut dyn Write) -> Answer {
        (self.function)(request, self.calls.fetch_add(1, Ordering::Relaxed), to)
    }

    fn resumes(&self) -> bool {
        self.resumes
    }
}

fn store(
    scratch: &Scratch,
    resumes: bool,
    function: impl Fn(&FetchRequest, u32, &mut dyn Write) -> Answer + Send + Sync + 'static,
) -> DatasetStore {
    let fetcher = Function { function, resumes, calls: AtomicU32::new(0) };
    let store = scratch.store.clone().with_fetcher("api", Arc::new(fetcher));
    store.add(TENANT, NewDataset::new("a", Source::Callback { fetcher: "api".into() }).version("7")).unwrap();
    store
}

fn fetch(store: &DatasetStore, options: &FetchOptions) -> Result<String, DatasetError> {
    store.fetch(TENANT, "a", None, options, &Quiet).map(|cached| cached.sha256)
}

#[test]
fn a_fetcher_is_held_to_what_it_says() {
    let body = bytes(1_000_000, 1);
    for (sha256_said, version, expected) in [
        (None, None, None),
        (Some(sha256(&body).to_uppercase()), Some("7"), None),
        (Some("00".repeat(32)), None, Some("SHA-256")),
        (None, Some("8"), Some("version")),
    ] {
        let (scratch, body) = (Scratch::new(), body.clone());
        let expected_hash = sha256(&body);
        let store = store(&scratch, false, move |request, _, to| {
            assert_eq!((request.name.as_str(), request.version.as_str(), request.offset), ("a", "7", 0));
            to.write_all(&body)?;
            Ok(Fetched { sha256: sha256_said.clone(), version: version.map(str::to_owned) })
        });
        match (fetch(&store, &options()), expected) {
            (Ok(found), None) => assert_eq!(found, expected_hash),
            (Err(DatasetError::Broken { what, .. }), Some(expected)) => {
                assert_eq!(what, expected);
                scratch.assert_nothing_was_kept();
            }
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_fetcher_is_asked_again_from_where_it_can_go_on() {
    let body = bytes(1_000_000, 2);
    for resumes in [false, true] {
        let (scratch, served) = (Scratch::new(), body.clone());
        let store = store(&scratch, resumes, move |request, before, to| {
            assert_eq!(request.offset > 0, resumes && before > 0);
            let rest = &served[request.offset as usize..];
            if before < 2 {
                to.write_all(&rest[..300_000])?;
                return Err(FetchFailure::again("a hiccup"));
            }
            to.write_all(rest)?;
            Ok(Fetched::default())
        });
        assert_eq!(fetch(&store, &options()).unwrap(), sha256(&body));
    }
}

#[test]
fn what_may_change_is_never_put_together_from_parts_without_a_hash() {
    let scratch = Scratch::new();
    let function = |request: &FetchRequest, before: u32, to: &mut dyn Write| {
        assert_eq!(request.offset, 0);
        let body = bytes(200_000, u64::from(before));
        if before == 0 {
            to.write_all(&body[..100_000])?;
            return Err(FetchFailure::again("a hiccup"));
        }
        to.write_all(&body)?;
        Ok(Fetched::default())
    };
    let fetcher = Function { function, resumes: true, calls: AtomicU32::new(0) };
    let store = scratch.store.clone().with_fetcher("api", Arc::new(fetcher));
    store.add(TENANT, NewDataset::new("a", Source::Callback { fetcher: "api".into() })).unwrap();
    assert_eq!(fetch(&store, &options()).unwrap(), sha256(&bytes(200_000, 1)));
}

#[test]
fn fetchers_that_fail_panic_or_hang_are_reported() {
    let failed = |function: fn(&mut dyn Write) -> Answer, options: &FetchOptions| {
        let scratch = Scratch::new();
        let store = store(&scratch, false, move |_, _, to| function(to));
        let error = fetch(&store, options).unwrap_err();
        scratch.assert_nothing_was_kept();
        error
    };
    let error = failed(|_| Err(FetchFailure::fatal("no such dataset")), &options());
    assert!(matches!(&error, DatasetError::Refused { reason, .. } if reason == "no such dataset"), "{error}");
    let error = failed(|_| panic!("oh no"), &options());
    assert!(matches!(&error, DatasetError::Refused { reason, .. } if reason.contains("panicked")), "{error}");
    let hang: fn(&mut dyn Write) -> Answer = |to| {
        to.write_all(b"a")?;
        std::thread::sleep(Duration::from_secs(3));
        Ok(Fetched::default())
    };
    let hurried = FetchOptions { stall_timeout: Duration::from_millis(100), attempts: 1, ..options() };
    assert!(matches!(failed(hang, &hurried), DatasetError::Failed { .. }));
    let ponder: fn(&mut dyn Write) -> Answer = |_| {
        std::thread::sleep(Duration::from_secs(3));
        Ok(Fetched::default())
    };
    let hurried = FetchOptions { timeout: Duration::from_millis(200), ..options() };
    assert!(matches!(failed(ponder, &hurried), DatasetError::TimedOut { .. }));
    let flood: fn(&mut dyn Write) -> Answer = |to| {
        let piece = vec![7; 1 << 16];
        loop {
            to.write_all(&piece)?;
        }
    };
    let small = FetchOptions { max_bytes: 1 << 20, ..options() };
    assert!(matches!(failed(flood, &small), DatasetError::TooLarge { .. }));
}

#[test]
fn a_fetcher_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    scratch.add("a", Source::Callback { fetcher: "warehouse".into() });
    let error = scratch.fetch("a").unwrap_err();
    assert!(matches!(&error, DatasetError::NoFetcher { fetcher, .. } if fetcher == "warehouse"), "{error}");
}

#[test]
fn bytes_that_a_caller_has_are_taken_and_checked() {
    let scratch = Scratch::new();
    let store = &scratch.store;
    let cached = store.import_bytes(TENANT, "given", None, b"parquet").unwrap();
    assert_eq!((cached.size, cached.version.as_str(), cached.was_cached), (7, "latest", false));
    assert!(scratch.fetch("given").unwrap().was_cached);
    assert_eq!(store.get(TENANT, "given", None).unwrap().source, Source::Bytes);
    assert!(store.import_bytes(TENANT, "given", None, b"parquet").unwrap().was_cached);
    assert!(store.import_bytes(TENANT, "given", None, b"newer").is_ok(), "the latest may change");

    store.import_bytes(TENANT, "fixed", Some("1"), b"one").unwrap();
    let error = store.import_bytes(TENANT, "fixed", Some("1"), b"two").unwrap_err();
    assert!(matches!(error, DatasetError::Broken { .. }), "{error}");
    assert!(store.import_bytes(TENANT, "../x", None, b"").is_err());
    let small = FetchOptions { max_bytes: 2, ..options() };
    let error = store.import_reader(TENANT, "big", None, &b"abc"[..], &small).unwrap_err();
    assert!(matches!(error, DatasetError::TooLarge { .. }), "{error}");
    assert!(matches!(store.get(TENANT, "big", None), Err(DatasetError::NotFound { .. })));
    assert_eq!(scratch.partials(), Vec::<std::path::PathBuf>::new());

    std::fs::remove_file(cached.path).unwrap();
    std::fs::remove_file(scratch.fetch("given").unwrap().path).unwrap();
    let error = scratch.fetch("given").unwrap_err();
    assert!(matches!(error, DatasetError::Gone { .. }), "{error}");
}
