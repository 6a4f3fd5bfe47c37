//! Writing a session into one file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::draft::{Draft, sync_directory};
use crate::error::{At, Result};
use crate::hash::Hash;
use crate::history;
use crate::layout::point_file;
use crate::lease::Lease;
use crate::pack::{Pack, write_cold};
use crate::parcel::{HEAD, Kind, MAGIC, VERSION, head, no_name, section_hash};
use crate::point::PointFile;

impl Lease {
    /// Writes the session with its history and all its states into one file, and returns how long that is.
    ///
    /// `attachment` travels along, and is given to whoever imports the file. `progress` hears how many bytes of how
    /// many are done.
    ///
    /// # Errors
    ///
    /// If something is damaged or can't be written; there is no such file then, or the one that was there before.
    pub fn export(
        &self,
        to: &Path,
        attachment: Option<&Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64> {
        let to = std::path::absolute(to).at("find", to)?;
        let parent = to.parent().unwrap_or(Path::new("/"));
        let draft = Draft::create(parent)?;
        let mut output = Output::new(&draft)?;
        output.section(Kind::Record, no_name(), |payload| {
            payload.write_all(&self.record.encode()).at("write", draft.path())
        })?;
        if let Some(path) = attachment {
            output.copy(Kind::Attachment, no_name(), File::open(path).at("open", path)?, path)?;
        }
        let history = self.path.join(history::FILE);
        match File::open(&history) {
            Ok(file) => output.copy(Kind::History, no_name(), file, &history)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).at("open", &history),
        }
        let mut points: Vec<Hash> = self.record.points().collect();
        points.sort_unstable();
        points.dedup();
        let mut packs = BTreeMap::new();
        for point in points {
            let path = self.path.join(point_file(point));
            // Read whole once, so that damage is found here and not on the other side.
            let whole = PointFile::open(&self.path, point)?.load()?;
            packs.extend(whole.summary.packs.into_iter().map(|pack| (pack.id, pack.length)));
            output.copy(Kind::Point, point, File::open(&path).at("open", &path)?, &path)?;
        }
        let total = packs.values().sum();
        let mut done = 0;
        progress(done, total);
        for (id, length) in packs {
            let pack = Pack::open(&self.directory.packs(), id)?;
            output.section(Kind::Pack, id, |payload| write_cold(&pack, payload, draft.path()))?;
            done += length;
            progress(done, total);
        }
        let length = output.finish()?;
        draft.sync()?;
        draft.place(&to)?.keep();
        sync_directory(parent)?;
        Ok(length)
    }
}

/// A parcel that is being written.
struct Output<'a> {
    file: BufWriter<&'a File>,
    path: &'a Path,
    all: blake3::Hasher,
    length: u64,
}

impl<'a> Output<'a> {
    fn new(draft: &'a Draft) -> Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 20, draft.file());
        file.write_all(&MAGIC).at("write", draft.path())?;
        file.write_all(&VERSION.to_le_bytes()).at("write", draft.path())?;
        let length = (MAGIC.len() + 4) as u64;
        Ok(Self { file, path: draft.path(), all: blake3::Hasher::new(), length })
    }

    /// How long a payload is, is known behind it: the head is written twice.
    fn section(
        &mut self,
        kind: Kind,
        name: Hash,
        write: impl FnOnce(&mut Payload<'_, 'a>) -> Result<()>,
    ) -> Result<()> {
        let start = self.length;
        self.file.write_all(&head(kind, name, 0)).at("write", self.path)?;
        let mut payload = Payload { file: &mut self.file, hasher: blake3::Hasher::new(), length: 0 };
        write(&mut payload)?;
        let (length, hash) = (payload.length, payload.hasher.finalize());
        let head = head(kind, name, length);
        let section = section_hash(&head, hash.as_bytes());
        self.all.update(section.as_bytes());
        self.file.write_all(section.as_bytes()).at("write", self.path)?;
        self.length = start + HEAD as u64 + length + Hash::LENGTH as u64;
        self.file.seek(SeekFrom::Start(start)).at("write", self.path)?;
        self.file.write_all(&head).at("write", self.path)?;
        self.file.seek(SeekFrom::Start(self.length)).at("write", self.path).map(drop)
    }

    fn copy(&mut self, kind: Kind, name: Hash, mut from: File, path: &Path) -> Result<()> {
        self.section(kind, name, |payload| {
            let mut buffer = vec![0; 256 << 10];
            loop {
                match from.read(&mut buffer).at("read", path)? {
                    0 => return Ok(()),
                    length => payload.write_all(&buffer[..length]).at("write", path)?,
                }
            }
        })
    }

    fn finish(mut self) -> Result<u64> {
        let all = self.all.finalize();
        let path = self.path;
        self.section(Kind::End, no_name(), |payload| payload.write_all(all.as_bytes()).at("write", path))?;
        self.file.flush().at("write", self.path)?;
        Ok(self.length)
    }
}

/// Counts and hashes what is written.
struct Payload<'b, 'a> {
    file: &'b mut BufWriter<&'a File>,
    hasher: blake3::Hasher,
    length: u64,
}

impl Write for Payload<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
