//! A service that speaks S3, for all tests of this process. It is fetched once, and kept in the user's cache.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use belljar_runtime::{Cache, CacheError, Quiet};
use belljar_transfer::{Place, S3Credentials, S3Place};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transfer/server");
/// Where it is kept in the cache, and the version that `requirements.txt` names.
const KEPT: (&str, &str) = ("test-s3", "moto-5.2.5");

/// Its port. It ends when this process does, however that ends: then nobody holds its standard input.
fn port() -> u16 {
    static SERVER: OnceLock<(Child, u16)> = OnceLock::new();
    SERVER.get_or_init(start).1
}

fn start() -> (Child, u16) {
    let packages = packages();
    let mut server = python("serve.py")
        .env("PYTHONPATH", packages)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed for an S3 service to test with");
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().parse().unwrap_or_else(|_| panic!("the S3 service didn't start: {line:?}"));
    (server, port)
}

fn packages() -> PathBuf {
    let cache = Cache::open(cache_directory());
    let version = Command::new("python3").args(["-c", "import sys; print(*sys.version_info[:2])"]).output();
    let version = version.expect("python3 is needed for an S3 service to test with").stdout;
    let key = format!("{}-{}", KEPT.1, String::from_utf8_lossy(&version).trim().replace(' ', "."));
    let entry = cache.make(KEPT.0, &key, &Quiet, |directory| {
        let finished = python("install.py").arg(directory.join("packages")).output().unwrap();
        assert!(finished.status.success(), "{}", String::from_utf8_lossy(&finished.stderr));
        Ok::<(), CacheError>(())
    });
    entry.unwrap().join("packages")
}

fn cache_directory() -> PathBuf {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let users = || absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    absolute("BELLJAR_CACHE_DIR")
        .or_else(|| Some(users()?.join("belljar")))
        .unwrap_or_else(|| env::temp_dir().join("belljar-test-cache"))
}

fn python(script: &str) -> Command {
    let mut command = Command::new("python3");
    // An entry of the cache never changes, not even by bytecode.
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(format!("{SCRIPTS}/{script}"));
    command
}

/// A bucket of its own for a test, as others see it: by plain HTTP.
pub(crate) struct TestBucket {
    pub(crate) name: String,
}

impl TestBucket {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let bucket = Self { name: format!("bucket-{}", NEXT.fetch_add(1, Ordering::Relaxed)) };
        assert_eq!(bucket.request("PUT", "", &[], b"").0, 200);
        bucket
    }

    pub(crate) fn endpoint() -> String {
        format!("http://127.0.0.1:{}", port())
    }

    pub(crate) fn place(&self, prefix: &str) -> Place<'static> {
        Place::S3(place(&self.name, prefix, &Self::endpoint()))
    }

    /// Puts an object there; the key is as it is in an address.
    pub(crate) fn put(&self, key: &str, contents: &[u8]) {
        assert_eq!(self.request("PUT", key, &[], contents).0, 200, "{key}");
    }

    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let (status, body) = self.request("GET", key, &[], b"");
        (status == 200).then_some(body)
    }

    pub(crate) fn remove(&self, key: &str) {
        assert_eq!(self.request("DELETE", key, &[], b"").0, 204);
    }

    /// The keys, sorted.
    pub(crate) fn keys(&self) -> Vec<String> {
        let listing = String::from_utf8(self.request("GET", "?list-type=2", &[], b"").1).unwrap();
        let keys = listing.split("<Key>").skip(1).map(|rest| rest.split("</Key>").next().unwrap());
        keys.map(str::to_owned).collect()
    }

    pub(crate) fn request(
        &self,
        method: &str,
        key: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", port())).unwrap();
        let mut head = format!(
            "{method} /{}/{key} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n",
            self.name,
            body.len()
        );
        // Signatures aren't looked at, but strangers may not read.
        head += "Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, \
                 SignedHeaders=host, Signature=0\r\n";
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
        (status, answer[end + 4..].to_vec())
    }
}

pub(crate) fn place(bucket: &str, prefix: &str, endpoint: &str) -> S3Place {
    let credentials = S3Credentials { key_id: "test".into(), secret: "test".into(), token: None };
    S3Place {
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        region: None,
        credentials: Some(credentials),
    }
}
