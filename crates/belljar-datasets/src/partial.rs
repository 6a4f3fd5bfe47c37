//! What is here of a dataset that isn't here yet.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::draft::{Lock, remove_file};
use crate::error::{At, Result};
use crate::layout::{hexadecimal, with_ending};
use crate::sealed;

/// This much more, or this much later, what is here is made durable.
const CHECKPOINT: u64 = 8 << 20;
const CHECKPOINT_TIME: Duration = Duration::from_secs(2);

/// A file that grows, hashed as it does. Nobody else has it.
pub(crate) struct Partial {
    pub(crate) path: PathBuf,
    journal_path: PathBuf,
    directory: PathBuf,
    _lock: Lock,
    file: File,
    hasher: Sha256,
    length: u64,
    journal: Journal,
    synced_at: Instant,
    /// Some of it was fetched at another time than the rest.
    pub(crate) patched: bool,
}

/// What can be relied upon: so many bytes with this hash are durable, of a file that the source knows by a validator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Journal {
    source: String,
    validator: Option<String>,
    total: Option<u64>,
    length: u64,
    sha256: String,
}

impl Partial {
    /// Goes on with what is there, if it is of the same source and as it was.
    pub(crate) fn open(stem: &Path, source: String, lock: Lock) -> Result<Self> {
        let path = with_ending(stem, ".part");
        let journal_path = with_ending(stem, ".json");
        let directory = stem.parent().unwrap_or(stem).to_owned();
        let file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let file = file.at("open", &path)?;
        // A damaged one says nothing.
        let journal = sealed::read::<Journal>(&journal_path).unwrap_or_default().unwrap_or_default();
        let mut partial = Self {
            path,
            journal_path,
            directory,
            _lock: lock,
            file,
            hasher: Sha256::new(),
            length: 0,
            journal: Journal { source: source.clone(), ..Journal::default() },
            synced_at: Instant::now(),
            patched: false,
        };
        match journal.source == source && partial.resume(&journal)? {
            true => {
                partial.journal = journal;
                partial.patched = partial.length > 0;
            }
            false => partial.restart()?,
        }
        Ok(partial)
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn total(&self) -> Option<u64> {
        self.journal.total
    }

    pub(crate) fn validator(&self) -> Option<&str> {
        self.journal.validator.as_deref()
    }

    /// Everything is here, as far as the source said.
    pub(crate) fn is_whole(&self) -> bool {
        self.length > 0 && self.journal.total == Some(self.length)
    }

    pub(crate) fn know(&mut self, validator: Option<String>, total: Option<u64>) {
        (self.journal.validator, self.journal.total) = (validator, total);
    }

    pub(crate) fn restart(&mut self) -> Result<()> {
        remove_file(&self.journal_path)?;
        self.file.set_len(0).at("write", &self.path)?;
        rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Start(0)).at("write", &self.path)?;
        self.hasher = Sha256::new();
        self.length = 0;
        self.patched = false;
        self.journal = Journal { source: std::mem::take(&mut self.journal.source), ..Journal::default() };
        Ok(())
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).at("write", &self.path)?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        let due =
            self.length - self.journal.length >= CHECKPOINT || self.synced_at.elapsed() >= CHECKPOINT_TIME;
        if due { self.checkpoint() } else { Ok(()) }
    }

    /// What is here stays here.
    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        self.synced_at = Instant::now();
        if self.length == self.journal.length {
            return Ok(());
        }
        rustix::fs::fdatasync(&self.file).at("write", &self.path)?;
        self.journal.length = self.length;
        self.journal.sha256 = hexadecimal(&self.hasher.clone().finalize());
        sealed::write(&self.directory, &self.journal_path, &self.journal)
    }

    /// The hash of all of it, once it is durable.
    pub(crate) fn finish(&mut self) -> Result<String> {
        rustix::fs::fdatasync(&self.file).at("write", &self.path)?;
        Ok(hexadecimal(&self.hasher.clone().finalize()))
    }

    /// Nothing of it is kept.
    pub(crate) fn discard(&self) {
        // Collecting finds what stays.
        let _ = remove_file(&self.journal_path);
        let _ = remove_file(&self.path);
    }

    /// Its file is where it belongs; what was noted of it isn't needed.
    pub(crate) fn placed(&self) {
        let _ = remove_file(&self.journal_path);
    }

    /// Another way to have the first bytes: they are in the file already.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Hashes what is in the file. Whether that is as it was noted.
    fn resume(&mut self, journal: &Journal) -> Result<bool> {
        if self.file.metadata().at("read", &self.path)?.len() < journal.length {
            return Ok(false);
        }
        self.file.set_len(journal.length).at("write", &self.path)?;
        let hashed = self.hash_written()?;
        Ok(hashed == journal.length && hexadecimal(&self.hasher.clone().finalize()) == journal.sha256)
    }

    /// Goes on after what is in the file.
    pub(crate) fn hash_written(&mut self) -> Result<u64> {
        rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Start(self.length)).at("read", &self.path)?;
        let mut piece = vec![0; 1 << 20];
        loop {
            match (&self.file).read(&mut piece) {
                Ok(0) => return Ok(self.length),
                Ok(count) => {
                    self.hasher.update(&piece[..count]);
                    self.length += count as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).at("read", &self.path),
            }
        }
    }
}
