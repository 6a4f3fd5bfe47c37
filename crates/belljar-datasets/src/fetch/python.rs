//! Fetchers in Python: a function of the host's operator, which runs on the host.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use super::channel::{Event, Failure, Incoming};
use crate::dataset::Dataset;
use crate::error::{DatasetError, Result};

const DRIVER: &str = include_str!("driver.py");
/// How the driver ends if another attempt makes no sense.
const UNFIT: i32 = 3;
const PIECES: usize = 16;
const LARGEST_FRAME: u32 = 1 << 20;
/// Of what it printed, the end.
const TOLD: usize = 4_096;

/// What the driver says in the end.
#[derive(Deserialize)]
struct Said {
    sha256: Option<String>,
    version: Option<String>,
}

/// A process and all that it started. They are ended when this is dropped.
struct Running {
    child: Arc<Mutex<Child>>,
    group: Option<Pid>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        // Its number is its own until it was waited for.
        if let (Ok(None), Some(group)) = (child.try_wait(), self.group) {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}

pub(super) fn start(python: &Path, file: &Path, function: &str, dataset: &Dataset) -> Result<Incoming> {
    let refused = |reason: String| DatasetError::Refused { name: dataset.name.clone(), reason };
    let mut child = Command::new(python)
        .args(["-I", "-B", "-c", DRIVER])
        .arg(file)
        .args([function, &dataset.name, &dataset.version])
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| refused(format!("{} doesn't start: {error}", python.display())))?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let child = Arc::new(Mutex::new(child));
    let running = Running { child: Arc::clone(&child), group };
    let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
        return Err(refused(format!("{} has no output", python.display())));
    };
    let (sender, receiver) = mpsc::sync_channel(PIECES);
    let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let no_thread = |error: io::Error| refused(format!("there is no thread to listen with: {error}"));
    let listening = spawn("belljar-python-said").spawn(move || last_words(stderr)).map_err(no_thread)?;
    spawn("belljar-python").spawn(move || bring(stdout, listening, &child, &sender)).map_err(no_thread)?;
    Ok(Incoming::from_thread(receiver, running))
}

/// Passes on what comes, until that ends one way or another.
fn bring(
    mut stdout: impl Read,
    listening: JoinHandle<String>,
    child: &Mutex<Child>,
    sender: &SyncSender<Event>,
) {
    if sender.send(Event::Begin { offset: 0, total: None, validator: None }).is_err() {
        return;
    }
    let failure = loop {
        match frame(&mut stdout) {
            Ok(Some(bytes)) => {
                if sender.send(Event::Bytes(bytes)).is_err() {
                    return;
                }
            }
            Ok(None) => {
                match frame(&mut stdout).map(|said| serde_json::from_slice(&said.unwrap_or_default())) {
                    Ok(Ok(Said { sha256, version })) => {
                        let _ = sender.send(Event::End { sha256, version });
                        return;
                    }
                    _ => break "it ended in the middle".to_owned(),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break String::new(),
            Err(error) => break error.to_string(),
        }
    };
    let status = wait(child);
    // Somebody that it started may still hold its output, and then there are no last words.
    let said = if status.is_some() && listening.is_finished_soon() { listening.join().ok() } else { None };
    let said = said.unwrap_or_default();
    let code = status.and_then(|status| status.code());
    let ended = status.map_or_else(|| "it doesn't end".to_owned(), |status| status.to_string());
    let reason = match (said.trim(), failure.as_str()) {
        ("", "") => format!("the Python function failed ({ended})"),
        ("", failure) => format!("the Python function failed ({ended}): {failure}"),
        (said, _) => format!("the Python function failed ({ended}): {said}"),
    };
    let _ = sender.send(Event::Failed(Failure { retry: code != Some(UNFIT), ..Failure::fatal(reason) }));
}

/// A frame, or nothing if it has no bytes.
fn frame(stdout: &mut impl Read) -> io::Result<Option<Bytes>> {
    let mut length = [0; 4];
    stdout.read_exact(&mut length)?;
    match u32::from_be_bytes(length) {
        0 => Ok(None),
        length if length > LARGEST_FRAME => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "something else wrote where its data goes"))
        }
        length => {
            let mut bytes = vec![0; length as usize];
            stdout.read_exact(&mut bytes)?;
            Ok(Some(bytes.into()))
        }
    }
}

/// How it ended, if it ends soon: its output has.
fn wait(child: &Mutex<Child>) -> Option<std::process::ExitStatus> {
    for _ in 0..200 {
        if let Ok(Some(status)) = lock(child).try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

trait FinishedSoon {
    fn is_finished_soon(&self) -> bool;
}

impl<T> FinishedSoon for JoinHandle<T> {
    fn is_finished_soon(&self) -> bool {
        (0..50).any(|_| {
            let finished = self.is_finished();
            if !finished {
                std::thread::sleep(Duration::from_millis(10));
            }
            finished
        })
    }
}

/// The end of what it printed; the rest is read and forgotten, so that it never waits for a reader.
fn last_words(mut stderr: impl Read) -> String {
    let mut last = VecDeque::with_capacity(2 * TOLD);
    let mut piece = [0; 4_096];
    while let Ok(count @ 1..) = stderr.read(&mut piece) {
        last.extend(&piece[..count]);
        let excess = last.len().saturating_sub(TOLD);
        last.drain(..excess);
    }
    let bytes: Vec<u8> = last.into();
    let text = String::from_utf8_lossy(&bytes);
    text.chars().filter(|letter| !letter.is_control() || *letter == '\n').collect()
}

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}
