//! A server that speaks S3 and checks signatures, in this process, and what can go wrong on the way to it.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use belljar_transfer::{S3Credentials, S3Place};
use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::local::files_below;

const KEY_ID: &str = "belljar-tests";
const SECRET: &str = "a secret that is checked";
const BUCKET: &str = "artifacts";

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Such an answer, and nothing done.
    Status(u16),
    /// The connection is cut after half of the body that was asked for.
    HalfAnswer,
    /// The connection is cut after a part of what is sent has arrived.
    CutUpload,
    /// It is done, but nobody hears so.
    LostAnswer,
    /// Other bytes, as many of them.
    WrongBytes,
}

/// Which requests go wrong, and how often that still happens.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    method: &'static str,
    fault: Fault,
    left: u32,
}

/// A bucket.
pub(crate) struct TestBucket {
    directory: TempDir,
    address: SocketAddr,
    trouble: Arc<Mutex<Vec<Trouble>>>,
    /// Ends the server when it is dropped.
    _runtime: Runtime,
}

impl TestBucket {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join(BUCKET)).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let files = s3s_fs::FileSystem::new(directory.path()).unwrap();
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let service = service.build();
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let trouble = Arc::default();
        runtime.spawn(serve(listener, service, Arc::clone(&trouble)));
        Self { directory, address, trouble, _runtime: runtime }
    }

    /// How the store gets there.
    pub(crate) fn place(&self, prefix: &str) -> S3Place {
        place(&self.address.to_string(), prefix)
    }

    /// For other processes.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// The next `times` requests with this method go wrong.
    pub(crate) fn fail(&self, method: &'static str, fault: Fault, times: u32) {
        self.trouble.lock().unwrap().push(Trouble { method, fault, left: times });
    }

    /// Nothing goes wrong any more. Returns whether all that should have gone wrong has.
    pub(crate) fn recover(&self) -> bool {
        let mut trouble = self.trouble.lock().unwrap();
        let all = trouble.iter().all(|trouble| trouble.left == 0);
        trouble.clear();
        all
    }

    /// All keys, sorted.
    pub(crate) fn keys(&self) -> Vec<String> {
        let root = self.directory.path().join(BUCKET);
        let files = files_below(&root).into_iter();
        let mut keys: Vec<String> =
            files.map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect();
        keys.sort();
        keys
    }

    /// Where an object is, for those who want to harm it.
    pub(crate) fn file(&self, key: &str) -> PathBuf {
        self.directory.path().join(BUCKET).join(key)
    }
}

/// How to get to a bucket that another process has.
pub(crate) fn place(address: &str, prefix: &str) -> S3Place {
    let credentials = S3Credentials { key_id: KEY_ID.into(), secret: SECRET.into(), token: None };
    S3Place {
        bucket: BUCKET.to_owned(),
        prefix: prefix.to_owned(),
        endpoint: Some(format!("http://{address}")),
        region: None,
        credentials: Some(credentials),
    }
}

async fn serve(listener: TcpListener, service: S3Service, trouble: Arc<Mutex<Vec<Trouble>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (service, trouble) = (service.clone(), Arc::clone(&trouble));
        let answer = service_fn(move |request: Request<Incoming>| {
            let fault = next_fault(&trouble, request.method());
            answer(service.clone(), request, fault)
        });
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

fn next_fault(trouble: &Mutex<Vec<Trouble>>, method: &Method) -> Option<Fault> {
    let mut trouble = trouble.lock().unwrap();
    let found = trouble.iter_mut().find(|trouble| trouble.left > 0 && trouble.method == method.as_str())?;
    found.left -= 1;
    Some(found.fault)
}

type Answer = Response<http_body_util::combinators::UnsyncBoxBody<Bytes, io::Error>>;

/// Answers, or fails: then the connection is closed without a word.
async fn answer(service: S3Service, request: Request<Incoming>, fault: Option<Fault>) -> io::Result<Answer> {
    let cut = || io::Error::new(io::ErrorKind::ConnectionReset, "the connection is cut");
    match fault {
        Some(Fault::Status(status)) => {
            // What is sent is taken first, as most servers do.
            let _ = request.into_body().collect().await;
            let text =
                "<?xml version=\"1.0\"?><Error><Code>InternalError</Code><Message>a test</Message></Error>";
            let body =
                http_body_util::Full::from(text).map_err(|never: Infallible| match never {}).boxed_unsync();
            let mut response = Response::new(body);
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            return Ok(response);
        }
        Some(Fault::CutUpload) => {
            let _ = request.into_body().frame().await;
            return Err(cut());
        }
        _ => {}
    }
    let request = request.map(s3s::Body::from);
    let response = service.call(request).await.map_err(|error| io::Error::other(format!("{error:?}")))?;
    let other = |error: Box<dyn std::error::Error + Send + Sync>| io::Error::other(error);
    let (head, body) = response.into_parts();
    let pieces: Vec<io::Result<Frame<Bytes>>> = match fault {
        Some(Fault::LostAnswer) => return Err(cut()),
        Some(Fault::HalfAnswer) => {
            let whole = BodyExt::collect(body).await.map_err(other)?.to_bytes();
            vec![Ok(Frame::data(whole.slice(..whole.len() / 2))), Err(cut())]
        }
        Some(Fault::WrongBytes) => {
            let whole = BodyExt::collect(body).await.map_err(other)?.to_bytes();
            vec![Ok(Frame::data(whole.iter().map(|byte| byte ^ 1).collect::<Vec<u8>>().into()))]
        }
        _ => return Ok(Response::from_parts(head, body.map_err(other).boxed_unsync())),
    };
    Ok(Response::from_parts(head, StreamBody::new(futures_util::stream::iter(pieces)).boxed_unsync()))
}
