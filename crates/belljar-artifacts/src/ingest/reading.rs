//! Reading one file, and deciding about it.

use std::io::Read;

use super::{Entry, Intake, SMALL, Written};
use crate::artifact::{Refusal, Refused};
use crate::batch::{Candidate, NewFile};
use crate::blobs::{Blobs, Bucket, Directory};
use crate::error::Result;
use crate::hash;
use crate::mime;
use crate::names;
use crate::quota;
use crate::rows;
use crate::streaming::{Streamed, stream};

/// How much of a file tells what it is.
const TELLING: usize = 16 << 10;

/// A file of which the beginning was read.
struct Begun<'r> {
    first: Vec<u8>,
    rest: Box<dyn Read + 'r>,
    mime: String,
}

impl Intake<'_, '_> {
    /// Reads a file to its end, and writes it if it is large and new.
    pub(super) fn read(&mut self, number: usize, file: &mut NewFile<'_>) -> Result<Result<Entry, Refused>> {
        if let Some(refused) = self.refused_unread(file) {
            return Ok(Err(refused));
        }
        let most = self.batch.admission.max_bytes.unwrap_or(u64::MAX).min(self.quota.room());
        let begun = match self.begin(file, most) {
            Ok(begun) => begun,
            Err(refused) => return Ok(Err(refused)),
        };
        if begun.first.len() <= SMALL {
            return Ok(self.read_small(number, file, begun, most));
        }
        match &self.store.blobs {
            Blobs::Directory(directory) => self.read_into_directory(number, file, begun, most, directory),
            Blobs::Bucket(bucket) => self.read_into_bucket(number, file, begun, most, bucket),
        }
    }

    /// Why a file isn't even opened.
    fn refused_unread(&self, file: &NewFile<'_>) -> Option<Refused> {
        let admission = self.batch.admission;
        if let Some(fault) = names::fault(&file.name) {
            return Some(self.refuse(
                file,
                file.size,
                Refusal::Name,
                format!("it can't be called that: {fault}"),
            ));
        }
        if let Some(most) = admission.max_count
            && self.entries.len() as u64 >= most
        {
            let reason = format!("a cell may leave {} files", quota::number(most));
            return Some(self.refuse(file, file.size, Refusal::TooMany, reason));
        }
        self.refused_size(file, file.size)
    }

    /// Why a file of a size isn't kept.
    fn refused_size(&self, file: &NewFile<'_>, size: u64) -> Option<Refused> {
        if let Some(most) = self.batch.admission.max_bytes
            && size > most
        {
            let reason = format!("a file may have {}, and this has more", quota::bytes(most));
            return Some(self.refuse(file, size, Refusal::TooLarge, reason));
        }
        let (why, reason) = self.quota.refuses(size, 0)?;
        Some(self.refuse(file, size, why, reason))
    }

    /// Opens a file, and reads so much of it that it is known what it is, and whether it is small.
    fn begin<'r>(&self, file: &mut NewFile<'r>, most: u64) -> Result<Begun<'r>, Refused> {
        let unreadable = |error: std::io::Error| format!("it could not be read: {error}");
        let mut rest = match (file.open)() {
            Ok(reader) => reader,
            Err(error) => return Err(self.refuse(file, file.size, Refusal::Failed, unreadable(error))),
        };
        let wanted = (SMALL as u64).min(most).saturating_add(1);
        let mut first = Vec::with_capacity(file.size.saturating_add(1).min(wanted) as usize);
        if let Err(error) = rest.by_ref().take(wanted).read_to_end(&mut first) {
            return Err(self.refuse(file, file.size, Refusal::Failed, unreadable(error)));
        }
        // Memory isn't given away because somebody told of more than there was.
        if first.capacity() / 2 > first.len() {
            first.shrink_to_fit();
        }
        let mime = mime::sniff(&file.name, &first[..first.len().min(TELLING)]);
        if let Some(reason) = self.batch.admission.refuses_kind(&mime) {
            return Err(self.refuse(file, file.size, Refusal::Mime, reason));
        }
        Ok(Begun { first, rest, mime })
    }

    fn read_small(
        &mut self,
        number: usize,
        file: &NewFile<'_>,
        begun: Begun<'_>,
        most: u64,
    ) -> Result<Entry, Refused> {
        let size = begun.first.len() as u64;
        if size > most {
            return Err(self.too_long(file, size));
        }
        let entry = Entry { number, size, sha256: hash::of(&begun.first), mime: begun.mime };
        self.ask(file, &entry)?;
        if !self.written.contains_key(&entry.sha256) && !self.small.contains_key(&entry.sha256) {
            self.small_bytes += begun.first.len();
            self.small.insert(entry.sha256.clone(), begun.first);
        }
        Ok(entry)
    }

    fn read_into_directory(
        &mut self,
        number: usize,
        file: &mut NewFile<'_>,
        begun: Begun<'_>,
        most: u64,
        directory: &Directory,
    ) -> Result<Result<Entry, Refused>> {
        let mut begun = begun;
        // Something of that size is stored. It costs less to read it twice than to write it in vain.
        if self.sizes.contains(&file.size) {
            let most = self.worth_reading(file, most);
            let mime = begun.mime.clone();
            let streamed = stream(begun.first, &mut begun.rest, most, |_| Ok(()))?;
            let (size, sha256) = match self.whole(file, streamed, most) {
                Ok(whole) => whole,
                Err(refused) => return Ok(Err(refused)),
            };
            if self.is_stored(&sha256, size)? {
                let entry = Entry { number, size, sha256, mime };
                return Ok(self.ask(file, &entry).map(|()| entry));
            }
            drop(begun.rest);
            begun = match self.begin(file, most) {
                Ok(begun) => begun,
                Err(refused) => return Ok(Err(refused)),
            };
        }
        let most = most.min(self.quota.room_in_all());
        let mut temporary = directory.temporary()?;
        let streamed = stream(begun.first, &mut begun.rest, most, |piece| temporary.write(piece))?;
        let (size, sha256) = match self.whole(file, streamed, most) {
            Ok(whole) => whole,
            Err(refused) => return Ok(Err(refused)),
        };
        let entry = Entry { number, size, sha256, mime: begun.mime };
        if let Err(refused) = self.ask(file, &entry) {
            return Ok(Err(refused));
        }
        temporary.sync()?;
        let place = Directory::place(&entry.sha256);
        let written = Written { size, place, temporary: Some(temporary) };
        self.written.entry(entry.sha256.clone()).or_insert(written);
        self.sizes.insert(size);
        Ok(Ok(entry))
    }

    /// The key has the hash in it, so that all is read twice: what is the same isn't sent again, either.
    fn read_into_bucket(
        &mut self,
        number: usize,
        file: &mut NewFile<'_>,
        mut begun: Begun<'_>,
        most: u64,
        bucket: &Bucket,
    ) -> Result<Result<Entry, Refused>> {
        let most = self.worth_reading(file, most);
        let streamed = stream(begun.first, &mut begun.rest, most, |_| Ok(()))?;
        let (size, sha256) = match self.whole(file, streamed, most) {
            Ok(whole) => whole,
            Err(refused) => return Ok(Err(refused)),
        };
        let entry = Entry { number, size, sha256, mime: begun.mime };
        if let Err(refused) = self.ask(file, &entry) {
            return Ok(Err(refused));
        }
        if self.is_stored(&entry.sha256, size)? {
            return Ok(Ok(entry));
        }
        drop(begun.rest);
        let most = most.min(self.quota.room_in_all());
        if size > most {
            return Ok(Err(self.too_long(file, size)));
        }
        let mut begun = match self.begin(file, most) {
            Ok(begun) => begun,
            Err(refused) => return Ok(Err(refused)),
        };
        let place = Bucket::new_place(&entry.sha256);
        let mut upload = self.store.wait(bucket.begin(&place))?;
        let streamed =
            stream(begun.first, &mut begun.rest, most, |piece| self.store.wait(upload.write(piece)));
        let whole = match streamed {
            Ok(streamed) => self.whole(file, streamed, most),
            Err(error) => {
                self.store.wait(upload.give_up());
                return Err(error);
            }
        };
        if !whole.as_ref().is_ok_and(|(_, sha256)| *sha256 == entry.sha256) {
            self.store.wait(upload.give_up());
            let changed = || self.refuse(file, size, Refusal::Failed, "it changed while it was read");
            return Ok(Err(whole.err().unwrap_or_else(changed)));
        }
        self.store.wait(upload.finish())?;
        self.written.insert(entry.sha256.clone(), Written { size, place, temporary: None });
        Ok(Ok(entry))
    }

    /// How much of a file is read to see whether it is stored: as much as can be written, or as what is stored of the
    /// size that it seems to have. A file may have no end.
    fn worth_reading(&self, file: &NewFile<'_>, most: u64) -> u64 {
        let stored = if self.sizes.contains(&file.size) { file.size } else { 0 };
        most.min(self.quota.room_in_all().max(stored))
    }

    /// Whether contents were written for this batch, or for an earlier one.
    fn is_stored(&self, sha256: &str, size: u64) -> Result<bool> {
        if self.written.contains_key(sha256) {
            return Ok(true);
        }
        if self.missed.contains(sha256) {
            return Ok(false);
        }
        let stored = self.store.wait(rows::blobs(&self.store.database, &[sha256]))?;
        match &self.store.blobs {
            Blobs::Directory(directory) => Ok(!stored.is_empty() && directory.has(sha256, size)?),
            Blobs::Bucket(_) => Ok(!stored.is_empty()),
        }
    }

    fn whole(&self, file: &NewFile<'_>, streamed: Streamed, most: u64) -> Result<(u64, String), Refused> {
        match streamed {
            Streamed::Whole { size, sha256 } => Ok((size, sha256)),
            Streamed::TooLong => Err(self.too_long(file, file.size.max(most.saturating_add(1)))),
            Streamed::Unreadable(error) => {
                Err(self.refuse(file, file.size, Refusal::Failed, format!("it could not be read: {error}")))
            }
        }
    }

    /// It turned out to be longer than there is room for.
    fn too_long(&self, file: &NewFile<'_>, size: u64) -> Refused {
        self.refused_size(file, size).unwrap_or_else(|| {
            let reason = self.quota.refuses(size, size);
            let (why, reason) =
                reason.unwrap_or_else(|| (Refusal::StoreQuota, "the store has no room for it".to_owned()));
            self.refuse(file, size, why, reason)
        })
    }

    fn ask(&self, file: &NewFile<'_>, entry: &Entry) -> Result<(), Refused> {
        let candidate = Candidate {
            tenant: self.batch.tenant,
            session: self.batch.session,
            cell: self.batch.cell,
            name: &file.name,
            size: entry.size,
            mime: &entry.mime,
            sha256: &entry.sha256,
        };
        match self.batch.admission.refuses(&candidate) {
            Some(reason) => Err(self.refuse(file, entry.size, Refusal::Hook, reason)),
            None => Ok(()),
        }
    }
}
