//! A server of HTTP that does what it is told, wrong things as well.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use belljar_datasets::Source;

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Asked {
    /// Where a part begins that was asked for.
    pub(crate) fn from(&self) -> Option<usize> {
        self.headers.get("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Say how long the body is: unless something else is said, as long as it is.
    pub(crate) length: Option<usize>,
    /// Hang up after so many bytes of the body.
    pub(crate) cut: Option<usize>,
    /// After so many bytes of the body, do nothing for so long.
    pub(crate) pause: Option<(usize, Duration)>,
    /// In chunks, rather than with a length.
    pub(crate) chunked: bool,
}

impl Answer {
    pub(crate) fn new(status: u16, body: &[u8]) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.to_vec(),
            length: Some(body.len()),
            cut: None,
            pause: None,
            chunked: false,
        }
    }

    pub(crate) fn ok(body: &[u8]) -> Self {
        Self::new(200, body)
    }

    /// As servers of files do: all of it, or the rest that was asked for if it is still the same file.
    pub(crate) fn file(asked: &Asked, body: &[u8], etag: &str) -> Self {
        let same = asked.headers.get("if-range").is_none_or(|known| known == etag);
        match asked.from().filter(|_| same) {
            Some(from) if from >= body.len() => {
                Self::new(416, b"").with("Content-Range", &format!("bytes */{}", body.len()))
            }
            Some(from) => Self::new(206, &body[from..])
                .with("Content-Range", &format!("bytes {from}-{}/{}", body.len() - 1, body.len())),
            None => Self::ok(body),
        }
        .with("ETag", etag)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn cut(mut self, after: usize) -> Self {
        self.cut = Some(after);
        self
    }
}

/// Listens on a port of its own until the process ends.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Answers are made from what is asked, and from how many asked before.
    pub(crate) fn new(answer: impl Fn(&Asked, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (answer, log) = (Arc::new(answer), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                thread::spawn(move || serve(&stream, &*answer, &log));
            }
        });
        Self { port, asked }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn source(&self) -> Source {
        Source::http(self.url("/data.parquet"))
    }

    pub(crate) fn requests(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn serve(
    stream: &TcpStream,
    answer: &(dyn Fn(&Asked, usize) -> Answer + Send + Sync),
    log: &Mutex<Vec<Asked>>,
) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let line = lines.next()?.ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let asked = Asked { method, path, headers };
    let before = {
        let mut log = log.lock().unwrap();
        log.push(asked.clone());
        log.len() - 1
    };
    let answer = answer(&asked, before);
    let mut head = format!("HTTP/1.1 {} Whatever\r\nConnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    match (answer.chunked, answer.length) {
        (true, _) => head += "Transfer-Encoding: chunked\r\n",
        (false, Some(length)) => head += &format!("Content-Length: {length}\r\n"),
        (false, None) => {}
    }
    let mut stream = stream;
    stream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
    if asked.method == "HEAD" {
        return Some(());
    }
    let end = answer.cut.unwrap_or(usize::MAX).min(answer.body.len());
    let mut sent = 0;
    while sent < end {
        let mut next = (sent + 65_536).min(end);
        if let Some((at, how_long)) = answer.pause {
            if sent == at {
                thread::sleep(how_long);
            } else if sent < at {
                next = next.min(at);
            }
        }
        let piece = &answer.body[sent..next];
        if answer.chunked {
            stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).ok()?;
        }
        stream.write_all(piece).ok()?;
        if answer.chunked {
            stream.write_all(b"\r\n").ok()?;
        }
        sent = next;
    }
    if let Some((at, how_long)) = answer.pause
        && at >= end
    {
        thread::sleep(how_long);
    }
    if answer.chunked && answer.cut.is_none() {
        stream.write_all(b"0\r\n\r\n").ok()?;
    }
    Some(())
}
