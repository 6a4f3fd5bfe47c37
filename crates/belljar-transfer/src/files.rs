//! The operations of a door, with answers of the right kind.

use belljar_engine::{FileDoor, FileEntry, FileError, FileErrorCode, FileOp, FileReply, FileStat, WriteHow};
use blake3::Hasher;

/// Bytes that are read or written at once.
pub(crate) const PIECE: u64 = 1 << 20;

/// A door, and what is made of its operations.
#[derive(Clone, Copy)]
pub(crate) struct Files<'d>(&'d dyn FileDoor);

impl<'d> Files<'d> {
    pub(crate) fn new(door: &'d dyn FileDoor) -> Self {
        Self(door)
    }

    /// What is there, links not followed.
    pub(crate) fn stat(self, path: &str) -> Result<Option<FileStat>, FileError> {
        match self.0.file(FileOp::Stat { path: path.to_owned(), follow: false }) {
            Ok(FileReply::Stat(stat)) => Ok(Some(stat)),
            Err(error) if error.code == FileErrorCode::FileNotFound => Ok(None),
            Err(error) => Err(error),
            Ok(_) => Err(unexpected(path)),
        }
    }

    pub(crate) fn list(self, path: &str) -> Result<Vec<FileEntry>, FileError> {
        match self.0.file(FileOp::List { path: path.to_owned() })? {
            FileReply::List(mut entries) => {
                // A door may be a guest's: it isn't trusted to sort, nor to give names.
                entries.retain(|entry| {
                    !entry.name.is_empty()
                        && !entry.name.contains(['/', '\0'])
                        && entry.name != "."
                        && entry.name != ".."
                });
                entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
                entries.dedup_by(|left, right| left.name == right.name);
                Ok(entries)
            }
            _ => Err(unexpected(path)),
        }
    }

    pub(crate) fn read(self, path: &str, offset: u64, length: u64) -> Result<Vec<u8>, FileError> {
        match self.0.file(FileOp::Read { path: path.to_owned(), offset, length })? {
            FileReply::Contents(mut bytes) => {
                bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
                Ok(bytes)
            }
            _ => Err(unexpected(path)),
        }
    }

    pub(crate) fn read_link(self, path: &str) -> Result<String, FileError> {
        match self.0.file(FileOp::ReadLink { path: path.to_owned() })? {
            FileReply::Contents(bytes) => String::from_utf8(bytes)
                .map_err(|_| FileError::told(FileErrorCode::InvalidText, path, "where it leads isn't UTF-8")),
            _ => Err(unexpected(path)),
        }
    }

    pub(crate) fn write(self, path: &str, contents: Vec<u8>, how: WriteHow) -> Result<(), FileError> {
        self.0.file(FileOp::Write { path: path.to_owned(), contents, how }).map(drop)
    }

    pub(crate) fn make_directory(self, path: &str) -> Result<(), FileError> {
        self.0.file(FileOp::MakeDirectory { path: path.to_owned() }).map(drop)
    }

    pub(crate) fn make_link(self, path: &str, target: &str) -> Result<(), FileError> {
        self.0.file(FileOp::MakeLink { path: path.to_owned(), target: target.to_owned() }).map(drop)
    }

    pub(crate) fn rename(self, from: &str, to: &str) -> Result<(), FileError> {
        self.0.file(FileOp::Rename { from: from.to_owned(), to: to.to_owned() }).map(drop)
    }

    pub(crate) fn remove(self, path: &str) -> Result<(), FileError> {
        self.0.file(FileOp::Remove { path: path.to_owned() }).map(drop)
    }

    pub(crate) fn set(
        self,
        path: &str,
        executable: Option<bool>,
        modified_ns: Option<i64>,
    ) -> Result<(), FileError> {
        self.0.file(FileOp::Set { path: path.to_owned(), executable, modified_ns }).map(drop)
    }

    /// The hash of a file's contents, and their size, as far as `most` bytes.
    pub(crate) fn hash(self, path: &str, most: u64) -> Result<(blake3::Hash, u64), FileError> {
        let mut hasher = Hasher::new();
        let mut offset = 0;
        while offset < most {
            let piece = self.read(path, offset, PIECE.min(most - offset))?;
            if piece.is_empty() {
                break;
            }
            hasher.update(&piece);
            offset += piece.len() as u64;
        }
        Ok((hasher.finalize(), offset))
    }

    /// Removes what is there, with everything below it. Links are removed, not followed.
    pub(crate) fn remove_all(self, path: &str) -> Result<(), FileError> {
        use belljar_engine::FileKind::Directory;
        let mut pending = vec![(path.to_owned(), false)];
        while let Some((path, emptied)) = pending.pop() {
            let is_directory = self.stat(&path)?.is_some_and(|stat| stat.kind == Directory);
            if is_directory && !emptied {
                let entries = self.list(&path)?;
                pending.push((path.clone(), true));
                pending
                    .extend(entries.into_iter().map(|entry| (crate::names::join(&path, &entry.name), false)));
                continue;
            }
            match self.remove(&path) {
                Err(error) if error.code != FileErrorCode::FileNotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// A file that appears whole: its pieces are written under another name first.
    pub(crate) fn begin(self, path: &str) -> NewFile<'d> {
        NewFile { files: self, path: path.to_owned(), part: None, held: Vec::new(), bytes: 0 }
    }
}

/// A file that is being written.
pub(crate) struct NewFile<'d> {
    files: Files<'d>,
    path: String,
    /// Its name until it is whole; a small one needs none.
    part: Option<String>,
    held: Vec<u8>,
    bytes: u64,
}

impl NewFile<'_> {
    pub(crate) fn write(&mut self, piece: &[u8]) -> Result<(), FileError> {
        self.bytes += piece.len() as u64;
        self.held.extend_from_slice(piece);
        if self.held.len() as u64 >= 2 * PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), FileError> {
        let contents = std::mem::take(&mut self.held);
        match &self.part {
            Some(part) => self.files.write(part, contents, WriteHow::Append),
            None => {
                let part = crate::names::beside(&self.path);
                self.files.write(&part, contents, WriteHow::Create)?;
                self.part = Some(part);
                Ok(())
            }
        }
    }

    /// Puts it in place.
    pub(crate) fn finish(mut self, executable: bool, modified_ns: Option<i64>) -> Result<u64, FileError> {
        // Under another name even if it is small: then it has its mode and its time from the first moment.
        if self.part.is_none() || !self.held.is_empty() {
            self.flush()?;
        }
        let Some(part) = self.part.as_deref() else { return Ok(self.bytes) };
        self.files.set(part, Some(executable), modified_ns)?;
        self.files.rename(part, &self.path)?;
        self.part = None;
        Ok(self.bytes)
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = self.files.remove(part);
        }
    }
}

fn unexpected(path: &str) -> FileError {
    FileError::told(FileErrorCode::Failed, path, "the answer makes no sense")
}
