//! Objects in buckets.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use belljar_datasets::{DatasetError, FetchOptions, NewDataset, S3Credentials, Source};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;

use crate::server::{Answer, Server};
use crate::support::{Scratch, TENANT, bytes, options, sha256};

/// A service that speaks S3 and looks at signatures, with a directory for each bucket. It runs until the test ends.
struct Service {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Service {
    fn new(root: &Path) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
        builder.set_auth(SimpleAuth::from_single("key-id", "the-secret"));
        let service = builder.build();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            let executor = hyper_util::rt::TokioExecutor::new();
            let server = hyper_util::server::conn::auto::Builder::new(executor);
            while let Ok((stream, _)) = listener.accept().await {
                let connection = server
                    .serve_connection(hyper_util::rt::TokioIo::new(stream), service.clone())
                    .into_owned();
                tokio::spawn(async move {
                    let _ = connection.await;
                });
            }
        });
        Self { address, _runtime: runtime }
    }

    fn source(&self, url: &str) -> Source {
        Source::S3 { url: url.into(), endpoint: Some(format!("http://{}", self.address)), region: None }
    }
}

fn signed() -> FetchOptions {
    let credentials = S3Credentials { key_id: "key-id".into(), secret: "the-secret".into(), token: None };
    FetchOptions { s3_credentials: Some(credentials), ..options() }
}

#[test]
fn an_object_is_fetched_from_a_real_service() {
    let scratch = Scratch::new();
    let root = scratch.path("s3");
    std::fs::create_dir_all(root.join("bucket/some")).unwrap();
    let body = bytes(5_000_000, 1);
    std::fs::write(root.join("bucket/some/sales.csv"), &body).unwrap();
    std::fs::write(root.join("bucket/empty"), b"").unwrap();
    let service = Service::new(&root);
    let dataset = scratch.add("sales", service.source("s3://bucket/some/sales.csv"));
    assert_eq!(dataset.file_name, "sales.csv");
    assert_eq!(scratch.fetch_with("sales", &signed()).unwrap().sha256, sha256(&body));
    assert!(scratch.fetch("sales").unwrap().was_cached, "whoever has it needs no credentials");
    scratch.add("empty", service.source("s3://bucket/empty"));
    assert_eq!(scratch.fetch_with("empty", &signed()).unwrap().size, 0);

    scratch.add("missing", service.source("s3://bucket/missing"));
    let error = scratch.fetch_with("missing", &signed()).unwrap_err();
    assert!(matches!(error, DatasetError::Refused { .. }), "{error}");
    std::fs::write(root.join("bucket/secret"), b"x").unwrap();
    scratch.add("secret", service.source("s3://bucket/secret"));
    let mut forged = signed();
    forged.s3_credentials.as_mut().unwrap().secret = "another".into();
    let once = FetchOptions { attempts: 1, ..forged };
    let error = scratch.fetch_with("secret", &once).unwrap_err();
    assert!(!error.to_string().contains("another"), "{error}");
    assert!(scratch.fetch_with("secret", &FetchOptions { attempts: 1, ..options() }).is_err());
    let promised = NewDataset::new("liar", service.source("s3://bucket/secret")).sha256("0".repeat(64));
    scratch.store.add(TENANT, promised).unwrap();
    assert!(matches!(scratch.fetch_with("liar", &signed()), Err(DatasetError::Broken { .. })));
    let error = scratch.fetch_with("secret", &FetchOptions { allow_private: false, ..signed() }).unwrap_err();
    assert!(matches!(error, DatasetError::Private { .. }), "{error}");
    assert_eq!(scratch.partials(), Vec::<std::path::PathBuf>::new());
}

/// As a service would answer for one object.
fn object(asked: &crate::server::Asked, body: &[u8], etag: &str) -> Answer {
    let answer =
        match asked.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) {
            _ if asked.headers.get("if-match").is_some_and(|known| known != etag) => Answer::new(412, b""),
            Some((from, to)) => {
                let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
                let to = to.min(body.len() - 1);
                Answer::new(206, &body[from..=to])
                    .with("Content-Range", &format!("bytes {from}-{to}/{}", body.len()))
            }
            None => Answer::ok(body),
        };
    answer.with("ETag", etag).with("Last-Modified", "Sun, 01 Nov 2026 00:00:00 GMT")
}

#[test]
fn errors_and_half_bodies_of_a_bucket_are_gone_on_after() {
    let (scratch, body) = (Scratch::new(), bytes(3_000_000, 2));
    let served = body.clone();
    let server = Server::new(move |asked, before| match before {
        0 => Answer::new(500, b""),
        2 => object(asked, &served, "\"1\"").cut(1_000_000),
        3 => Answer::new(503, b""),
        _ => object(asked, &served, "\"1\""),
    });
    scratch.add(
        "a",
        Source::S3 {
            url: "s3://bucket/key.csv".into(),
            endpoint: Some(server.url("")),
            region: Some("auto".into()),
        },
    );
    assert_eq!(scratch.fetch_with("a", &signed()).unwrap().sha256, sha256(&body));
    let asked = server.asked.lock().unwrap();
    let ranges: Vec<_> = asked.iter().filter_map(|asked| asked.headers.get("range").cloned()).collect();
    assert!(ranges.iter().any(|range| !range.starts_with("bytes=0-")), "it went on: {ranges:?}");
}

#[test]
fn an_object_that_changes_in_between_is_fetched_from_the_beginning() {
    let (scratch, old, new) = (Scratch::new(), bytes(3_000_000, 3), bytes(3_000_000, 4));
    let expected = sha256(&new);
    let server = Server::new(move |asked, before| match before {
        0 => object(asked, &old, "\"old\""),
        1 => Answer { pause: Some((1_000_000, Duration::from_secs(60))), ..object(asked, &old, "\"old\"") },
        _ => object(asked, &new, "\"new\""),
    });
    let endpoint = Some(server.url(""));
    scratch.add("a", Source::S3 { url: "s3://bucket/key.csv".into(), endpoint, region: None });
    let options = FetchOptions { stall_timeout: Duration::from_millis(300), ..signed() };
    assert_eq!(scratch.fetch_with("a", &options).unwrap().sha256, expected);
}
