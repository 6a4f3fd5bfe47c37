//! Which datasets there are.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use belljar_datasets::{CollectOptions, DatasetError, DatasetStore, LATEST, NewDataset, Source};

use crate::support::{Scratch, TENANT};

#[test]
fn datasets_are_added_listed_found_and_removed() {
    let scratch = Scratch::new();
    let store = &scratch.store;
    assert!(store.list(TENANT).unwrap().is_empty());
    assert!(!scratch.path("store").exists(), "nothing is made before it is needed");
    let http = |path: &str| Source::http(format!("https://example.org/{path}"));
    store.add(TENANT, NewDataset::new("sales", http("1.csv")).version("1")).unwrap();
    store.add(TENANT, NewDataset::new("sales", http("0.csv")).version("0")).unwrap();
    store.add(TENANT, NewDataset::new("api", http("v1/datasets/7"))).unwrap();
    store.add("other", NewDataset::new("theirs", http("x"))).unwrap();
    let listed: Vec<_> =
        store.list(TENANT).unwrap().into_iter().map(|d| (d.name, d.version, d.file_name)).collect();
    let row = |name: &str, version: &str, file: &str| (name.to_owned(), version.to_owned(), file.to_owned());
    assert_eq!(
        listed,
        [row("api", LATEST, "api.parquet"), row("sales", "1", "sales.csv"), row("sales", "0", "sales.csv")]
    );
    assert_eq!(store.get(TENANT, "sales", None).unwrap().version, "0", "the one that was added last");
    assert_eq!(store.get(TENANT, "sales", Some("1")).unwrap().version, "1");
    store.remove(TENANT, "sales", Some("0")).unwrap();
    assert_eq!(store.get(TENANT, "sales", None).unwrap().version, "1");
    store.remove(TENANT, "sales", None).unwrap();
    for gone in [store.get(TENANT, "sales", None).err(), store.remove(TENANT, "sales", None).err()] {
        assert!(matches!(gone, Some(DatasetError::NotFound { .. })), "{gone:?}");
    }
    assert_eq!(DatasetStore::open(scratch.path("store")).list("other").unwrap().len(), 1);
}

#[test]
fn a_name_means_one_thing_unless_it_is_replaced() {
    let scratch = Scratch::new();
    let store = &scratch.store;
    let new =
        |path: &str| NewDataset::new("a", Source::http(format!("https://example.org/{path}"))).version("1");
    let first = store.add(TENANT, new("x")).unwrap();
    assert_eq!(store.add(TENANT, new("x")).unwrap(), first);
    assert!(matches!(store.add(TENANT, new("y")), Err(DatasetError::Exists { .. })));
    assert!(matches!(store.add(TENANT, new("x").sha256("0".repeat(64))), Err(DatasetError::Exists { .. })));
    assert_eq!(store.get(TENANT, "a", None).unwrap(), first);
    assert!(store.add(TENANT, new("z").version("2")).unwrap().added_ms > first.added_ms);
    let second = store.add(TENANT, new("y").replace()).unwrap();
    assert_eq!(store.get(TENANT, "a", None).unwrap(), second);
}

#[test]
fn another_key_for_the_same_address_forgets_nothing() {
    let scratch = Scratch::new();
    let server = crate::server::Server::new(|_, _| crate::server::Answer::ok(b"hello"));
    let new = |key: &str| {
        let headers = [("X-Key".to_owned(), key.to_owned())].into();
        NewDataset::new("a", Source::Http { url: server.url("/x"), headers }).version("1").replace()
    };
    scratch.store.add(TENANT, new("old")).unwrap();
    let fetched = scratch.fetch("a").unwrap();
    let renewed = scratch.store.add(TENANT, new("new")).unwrap();
    assert_eq!(renewed.sha256, Some(fetched.sha256));
    assert!(scratch.fetch("a").unwrap().was_cached);
    assert_eq!(server.requests(), 1);
}

#[test]
fn nonsense_is_refused_and_nothing_is_made() {
    let scratch = Scratch::new();
    let fine = || Source::http("https://example.org/x");
    let header = |name: &str, value: &str| Source::Http {
        url: "https://example.org/".into(),
        headers: [(name.to_owned(), value.to_owned())].into(),
    };
    let python = |file: &str, function: &str| Source::Python { file: file.into(), function: function.into() };
    let s3 = |url: &str| Source::S3 { url: url.into(), endpoint: None, region: None };
    for (tenant, new) in [
        (TENANT, NewDataset::new("../../x", fine())),
        (TENANT, NewDataset::new("", fine())),
        (TENANT, NewDataset::new("a\nb", fine())),
        ("..", NewDataset::new("a", fine())),
        ("a/b", NewDataset::new("a", fine())),
        (TENANT, NewDataset::new("a", fine()).version("../1")),
        (TENANT, NewDataset::new("a", fine()).version("")),
        (TENANT, NewDataset::new("a", fine()).sha256("abc")),
        (TENANT, NewDataset::new("a", fine()).format("../x")),
        (TENANT, NewDataset::new("a", fine()).format("x".repeat(33))),
        (TENANT, NewDataset::new("a", Source::http("ftp://example.org/"))),
        (TENANT, NewDataset::new("a", Source::http("file:///etc/passwd"))),
        (TENANT, NewDataset::new("a", Source::http("nonsense"))),
        (TENANT, NewDataset::new("a", header("a b", "x"))),
        (TENANT, NewDataset::new("a", header("Range", "bytes=5-"))),
        (TENANT, NewDataset::new("a", header("X-A", "x\r\nHost: evil"))),
        (TENANT, NewDataset::new("a", Source::File { path: "relative".into() })),
        (TENANT, NewDataset::new("a", python("relative.py", "f"))),
        (TENANT, NewDataset::new("a", python("/a.py", "f(); import os"))),
        (TENANT, NewDataset::new("a", s3("s3://bucket"))),
        (TENANT, NewDataset::new("a", s3("s3://bucket/../x"))),
        (TENANT, NewDataset::new("a", Source::Callback { fetcher: "../x".into() })),
    ] {
        let shown = format!("{tenant:?} {new:?}");
        let error = scratch.store.add(tenant, new).expect_err(&shown);
        assert!(matches!(error, DatasetError::Invalid { .. }), "{shown}: {error}");
    }
    assert!(!scratch.path("store").exists());
    for name in ["../x", "a/b", ".hidden"] {
        assert!(matches!(scratch.store.get(TENANT, name, None), Err(DatasetError::Invalid { .. })));
        assert!(matches!(scratch.store.get(TENANT, "a", Some(name)), Err(DatasetError::Invalid { .. })));
        assert!(matches!(scratch.store.remove(TENANT, name, None), Err(DatasetError::Invalid { .. })));
        assert!(matches!(scratch.fetch(name), Err(DatasetError::Invalid { .. })));
    }
}

#[test]
fn the_longest_name_with_the_longest_format_works() {
    let scratch = Scratch::new();
    let path = scratch.file("x", b"x");
    let name = "n".repeat(128);
    let new = NewDataset::new(&name, Source::File { path }).version("v".repeat(128)).format("f".repeat(32));
    let dataset = scratch.store.add(TENANT, new).unwrap();
    let cached = scratch.fetch(&name).unwrap();
    scratch.shelf("s").stage(&cached, &dataset).unwrap();
}

#[test]
fn a_damaged_entry_is_named_and_the_others_are_there() {
    let scratch = Scratch::new();
    for name in ["a", "b", "c"] {
        let path = scratch.file(name, name.as_bytes());
        scratch.add(name, Source::File { path });
        scratch.fetch(name).unwrap();
    }
    let path = scratch.path("store/registry/local/b/latest.json");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let whole = fs::read(&path).unwrap();
    for damage in [b"".to_vec(), whole[..whole.len() / 2].to_vec(), {
        let text = String::from_utf8(whole.clone()).unwrap();
        text.replace("\"size\":1", "\"size\":2").into_bytes()
    }] {
        fs::write(&path, damage).unwrap();
        let listing = scratch.store.listing(TENANT).unwrap();
        assert_eq!(listing.datasets.len(), 2);
        assert!(listing.problems[0].to_string().contains("b/latest.json"), "{}", listing.problems[0]);
        assert!(matches!(scratch.fetch("b"), Err(DatasetError::Damaged { .. })));
        let collected = scratch.store.collect(&CollectOptions::default()).unwrap();
        assert_eq!((collected.blobs, collected.problems.len()), (0, 1), "it may name any of them");
    }
    let text = String::from_utf8(whole.clone()).unwrap().replace("\"format\":1", "\"format\":9");
    fs::write(&path, text).unwrap();
    assert!(matches!(scratch.fetch("b"), Err(DatasetError::Future { version: 9, .. })));
    fs::write(&path, b"{").unwrap();
    let again = NewDataset::new("b", Source::File { path: scratch.path("b") });
    assert!(scratch.store.add(TENANT, again.clone()).is_err());
    scratch.store.add(TENANT, again.replace()).unwrap();
    scratch.fetch("b").unwrap();
    // An entry that was put in another's place isn't believed.
    fs::copy(&path, scratch.path("store/registry/local/a/latest.json")).unwrap();
    assert!(matches!(scratch.fetch("a"), Err(DatasetError::Damaged { .. })));
    scratch.store.remove(TENANT, "a", None).unwrap();
}

#[test]
fn what_nobody_has_is_collected_and_nothing_else() {
    let scratch = Scratch::new();
    let store = &scratch.store;
    assert_eq!(store.collect(&CollectOptions::default()).unwrap().blobs, 0);
    for name in ["named", "staged", "kept", "garbage"] {
        let path = scratch.file(name, name.as_bytes());
        scratch.add(name, Source::File { path });
    }
    let staged = scratch.fetch("staged").unwrap();
    scratch.shelf("s").stage(&staged, &store.get(TENANT, "staged", None).unwrap()).unwrap();
    let kept = scratch.fetch("kept").unwrap();
    let named = scratch.fetch("named").unwrap();
    let garbage = scratch.fetch("garbage").unwrap();
    for name in ["staged", "kept", "garbage"] {
        store.remove(TENANT, name, None).unwrap();
    }
    let partial = scratch.path("store/partial/0123.part");
    fs::write(&partial, b"abc").unwrap();
    fs::write(scratch.path("store/partial/0123.lock"), b"").unwrap();
    let options = CollectOptions { keep: vec![kept.sha256], ..CollectOptions::default() };
    let dry = store.collect(&CollectOptions { dry_run: true, ..options.clone() }).unwrap();
    assert_eq!((dry.blobs, dry.partials), (1, 0));
    assert!(garbage.path.exists());
    let collected = store.collect(&options).unwrap();
    assert_eq!((collected.blobs, collected.bytes, collected.partials), (1, 7, 0));
    assert!(!garbage.path.exists() && partial.exists());
    assert!(staged.path.exists() && kept.path.exists() && named.path.exists());
    let stale = CollectOptions { stale: Duration::ZERO, ..options };
    assert_eq!(store.collect(&stale).unwrap().partials, 1);
    assert!(!partial.exists());
    assert!(crate::support::files_below(&scratch.path("store/partial")).is_empty());
}
