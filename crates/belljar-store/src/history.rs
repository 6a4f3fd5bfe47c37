//! The history of a session: one line for each thing that happened, only ever appended to.
//!
//! A line is 16 hexadecimal digits of a checksum, a space, and JSON.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{At, Result, StoreError};

pub(crate) const FILE: &str = "history";
const DIGITS: usize = 16;
const LONGEST_LINE: u64 = 256 << 20;

/// One thing that happened in a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The number of the cell.
    pub number: u32,
    /// What it was: `cell`, `undo`, `rollback`, `wake`, …
    pub kind: String,
    /// The code, if it was a cell.
    pub code: String,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it took.
    pub wall_ms: f64,
    /// How it ended; the store doesn't look inside.
    pub outcome: Option<serde_json::Value>,
    /// What else there is to say.
    pub note: Option<String>,
}

/// What happened in a session, as far as it can be read.
#[derive(Debug, Default)]
pub struct History {
    /// In the order in which it happened.
    pub entries: Vec<HistoryEntry>,
    /// Names the first lines that can't be read; the others were.
    pub damaged: Option<StoreError>,
}

/// Reads a history; it is empty if there is none. A last line that was never finished is passed over.
pub(crate) fn read(session: &Path) -> Result<History> {
    let path = session.join(FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(History::default()),
        Err(error) => return Err(error).at("open", &path),
    };
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let mut history = History::default();
    let mut bad_lines = Vec::new();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        io::Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line).at("read", &path)?;
        if line.pop() != Some(b'\n') {
            break;
        }
        match parse(&line) {
            Some(entry) => history.entries.push(entry),
            None => bad_lines.push(number),
        }
    }
    if let Some(first) = bad_lines.first() {
        let reason = format!("{} of its lines can't be read, the first is {first}", bad_lines.len());
        history.damaged = Some(StoreError::damaged(&path, reason));
    }
    Ok(history)
}

/// Appends to a history.
pub(crate) struct HistoryWriter {
    path: PathBuf,
    file: File,
    unsynced: bool,
}

impl HistoryWriter {
    /// Opens or makes a history, and drops what a former owner didn't finish writing.
    pub(crate) fn open(session: &Path) -> Result<Self> {
        let path = session.join(FILE);
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .at("open", &path)?;
        let length = file.metadata().at("read", &path)?.len();
        let whole = whole_lines(&file, length).at("read", &path)?;
        if whole < length {
            file.set_len(whole).at("write", &path)?;
        }
        Ok(Self { path, file, unsynced: false })
    }

    /// In the hands of the kernel when this returns, on disk with the next commit.
    pub(crate) fn append(&mut self, entry: &HistoryEntry) -> Result<()> {
        let json = serde_json::to_string(entry).map_err(io::Error::other).at("write", &self.path)?;
        let line = format!("{} {json}\n", checksum(json.as_bytes()));
        let before = self.file.metadata().at("read", &self.path)?.len();
        self.unsynced = true;
        if let Err(error) = (&self.file).write_all(line.as_bytes()) {
            // Half a line in the middle would be damage.
            let _ = self.file.set_len(before);
            return Err(error).at("write", &self.path);
        }
        Ok(())
    }

    pub(crate) fn needs_sync(&self) -> bool {
        self.unsynced
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn synced(&mut self) {
        self.unsynced = false;
    }
}

/// How much of the file is whole lines.
fn whole_lines(file: &File, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut buffer = [0; 4096];
    while end > 0 {
        let start = end.saturating_sub(buffer.len() as u64);
        let part = &mut buffer[..(end - start) as usize];
        file.read_exact_at(part, start)?;
        if let Some(newline) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + newline as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn parse(line: &[u8]) -> Option<HistoryEntry> {
    let (digits, rest) = line.split_at_checked(DIGITS)?;
    let json = rest.strip_prefix(b" ")?;
    if digits != checksum(json).as_bytes() {
        return None;
    }
    serde_json::from_slice(json).ok()
}

fn checksum(json: &[u8]) -> String {
    blake3::hash(json).to_hex()[..DIGITS].to_owned()
}
