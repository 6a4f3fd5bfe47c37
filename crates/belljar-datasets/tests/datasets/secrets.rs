//! What nobody must be told.

use std::sync::Arc;
use std::sync::Mutex;

use belljar_datasets::{FetchOptions, S3Credentials, Source};

use crate::server::{Answer, Server};
use crate::support::{Scratch, TENANT, options};

#[test]
fn secrets_are_in_no_error_no_debug_and_no_json() {
    let scratch = Scratch::new();
    let mut told = Vec::new();
    // It says again what it was told.
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&seen);
    let server = Server::new(move |asked, _| {
        log.lock().unwrap().push(format!("{asked:?}"));
        let location = format!("ftp://{}/{}", asked.headers["authorization"].replace(' ', ""), asked.path);
        Answer::new(302, asked.path.as_bytes()).with("Location", &location)
    });
    let source = Source::Http {
        url: format!("http://user:pa55word@127.0.0.1:{}/x.csv?signature=s1gnature&plain=1", server.port),
        headers: [
            ("Authorization".to_owned(), "Bearer t0ken-value".to_owned()),
            ("X-Key".to_owned(), "k3y-value".to_owned()),
        ]
        .into(),
    };
    let dataset = scratch.add("a", source.clone());
    told.push(format!("{dataset:?} {source:?} {:?} {:?}", scratch.store, options()));
    told.push(serde_json::to_string(&dataset).unwrap());
    told.push(scratch.fetch("a").unwrap_err().to_string());
    assert!(seen.lock().unwrap()[0].contains("t0ken-value"), "it is sent all the same");
    scratch.store.add(TENANT, belljar_datasets::NewDataset::new("a", source).replace()).unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://user:pa55word@{nobody}/x.csv?signature=s1gnature");
    scratch.add("nobody", Source::http(url));
    let error = scratch.fetch_with("nobody", &FetchOptions { attempts: 1, ..options() }).unwrap_err();
    told.push(format!("{error} {error:?}"));
    let credentials =
        S3Credentials { key_id: "k3y-id-1".into(), secret: "s3cret".into(), token: Some("t0ken".into()) };
    let with = FetchOptions { s3_credentials: Some(credentials), attempts: 1, ..options() };
    told.push(format!("{with:?}"));
    let refusing = Server::new(|asked, _| Answer::new(403, format!("{asked:?}").as_bytes()));
    let endpoint = Some(refusing.url(""));
    scratch.add("s3", Source::S3 { url: "s3://bucket/key".into(), endpoint, region: None });
    let error = scratch.fetch_with("s3", &with).unwrap_err();
    told.push(format!("{error} {error:?}"));
    for told in &told {
        for secret in ["pa55word", "s1gnature", "t0ken", "k3y", "s3cret"] {
            assert!(!told.contains(secret), "{secret} in {told}");
        }
    }
    let json: serde_json::Value = serde_json::from_str(&told[1]).unwrap();
    assert_eq!(json["source"]["headers"], serde_json::json!(["Authorization", "X-Key"]));
    assert!(json["source"]["address"].as_str().unwrap().contains("/x.csv?signature=…"), "{json}");
}
