//! Who owns a session: a locked file, which says so to those who wait.
//!
//! The kernel's lock decides; it goes with the process that has it. The token in the file tells owners apart should
//! the file be replaced under one of them. The file is short while nobody has it, so that a listing needn't open it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::clock;
use crate::error::{At, Result};

pub(crate) const FILE: &str = "lease";
/// The first line: the token.
const TOKEN_LINE: usize = 32;
/// With the second line: the owner.
const HELD: usize = 256;
/// A file without a token was made anew, and its predecessor may have an owner whose token isn't in the record yet:
/// nobody opens a session this often between two commits.
const LEAP: u64 = 1 << 20;

/// Who has a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process.
    pub pid: u32,
    /// The machine.
    pub host: String,
    /// Since when, in milliseconds since 1970.
    pub since: u64,
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = clock::now_ms().saturating_sub(self.since) / 1000;
        write!(formatter, "process {} on {} for {seconds} s", self.pid, self.host)
    }
}

/// A lock that is held.
pub(crate) struct LeaseFile {
    file: File,
    path: PathBuf,
    token: u64,
}

/// What came of trying to lock.
pub(crate) enum Attempt {
    Locked(LeaseFile),
    Busy,
    /// The directory isn't there, or went away meanwhile.
    Gone,
}

impl LeaseFile {
    /// Tries to lock a session, without a token yet.
    pub(crate) fn try_lock(session: &Path) -> Result<Attempt> {
        let path = session.join(FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Attempt::Gone),
            result => result.at("open", &path)?,
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(Attempt::Busy),
            Err(error) => return Err(error).at("lock", &path),
        }
        let lease = Self { file, path, token: 0 };
        // The one who had it may have closed the session, or somebody replaced the file.
        Ok(if lease.same_file() { Attempt::Locked(lease) } else { Attempt::Gone })
    }

    /// Takes a token that is larger than all before it, and signs. Durable with the first commit that uses it.
    pub(crate) fn sign(&mut self, recorded: u64) -> Result<()> {
        let mut line = [0; TOKEN_LINE];
        let found = self.file.read_at(&mut line, 0).at("read", &self.path)?;
        self.token = match parse_token(&line[..found]) {
            Some(token) => token.max(recorded) + 1,
            None if recorded == 0 => 1,
            None => recorded.saturating_add(LEAP),
        };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host: String = host.trim().chars().filter(char::is_ascii_graphic).take(64).collect();
        let owner = format!("pid {} host {host} since {}", std::process::id(), clock::now_ms());
        let text = format!("{:<31}\n{owner:<223}\n", format!("token {}", self.token));
        self.file.write_all_at(text.as_bytes(), 0).at("write", &self.path)?;
        self.file.set_len(HELD as u64).at("write", &self.path)
    }

    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file that is locked is still the one that others would lock, with our token in it.
    pub(crate) fn is_ours(&self) -> bool {
        let mut line = [0; TOKEN_LINE];
        let read = self.file.read_exact_at(&mut line, 0);
        read.is_ok() && parse_token(&line) == Some(self.token) && self.same_file()
    }

    /// After its directory got another name.
    pub(crate) fn moved(&mut self, session: &Path) {
        self.path = session.join(FILE);
    }

    fn same_file(&self) -> bool {
        let (Ok(ours), Ok(theirs)) = (self.file.metadata(), std::fs::symlink_metadata(&self.path)) else {
            return false;
        };
        (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())
    }
}

impl Drop for LeaseFile {
    fn drop(&mut self) {
        if self.token != 0 {
            // Only a listing looks at this, and it asks the kernel if in doubt. The lock goes with the file.
            let _ = self.file.set_len(TOKEN_LINE as u64);
        }
    }
}

/// Who has a session, as far as its lease tells.
pub(crate) fn owner(session: &Path) -> Option<Owner> {
    let mut text = [0; HELD];
    File::open(session.join(FILE)).ok()?.read_exact_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text).ok()?;
    let mut words = text.lines().nth(1)?.split_whitespace();
    let mut word = |name| words.next().filter(|word| *word == name).and_then(|_| words.next());
    Some(Owner {
        pid: word("pid")?.parse().ok()?,
        host: word("host")?.to_owned(),
        since: word("since")?.parse().ok()?,
    })
}

/// Whether somebody has a session. Short files are released; for others the kernel knows.
pub(crate) fn in_use(session: &Path) -> bool {
    let path = session.join(FILE);
    let Ok(metadata) = std::fs::symlink_metadata(&path) else { return false };
    if metadata.len() != HELD as u64 {
        return false;
    }
    let Ok(file) = File::open(&path) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::AGAIN)
}

fn parse_token(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok().filter(|line| line.len() == TOKEN_LINE)?;
    line.strip_prefix("token ")?.trim_end().parse().ok()
}
