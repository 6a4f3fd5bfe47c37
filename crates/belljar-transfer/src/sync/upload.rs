//! From a workspace to a bucket.

use std::collections::BTreeMap;

use belljar_engine::{FileError, FileKind, FileStat};
use futures_util::stream::{self, StreamExt};
use object_store::{
    MultipartUpload, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, UploadPart,
};

use crate::error::{Result, TransferError};
use crate::files::{Files, PIECE};
use crate::sync::bucket::{Bucket, Contents, attributes, etag, failed};
use crate::sync::inventory::Inventory;
use crate::sync::manifest::{Entry, EntryKind, Manifest};
use crate::sync::{Run, Step, Synced};
use crate::walk::is_of_one;

/// Requests at a time.
const AT_ONCE: usize = 4;
/// Larger files are sent in parts of this size, or of a larger one if there would be too many.
const PART: u64 = 8 << 20;
const MOST_PARTS: u64 = 9_000;

/// Something to send.
struct Parcel {
    path: String,
    stat: FileStat,
}

/// What became of it.
enum Sent {
    Done(Entry),
    Skipped(String),
}

impl Run<'_> {
    pub(super) fn upload(mut self, from: Files<'_>, bucket: &Bucket) -> Result<Synced> {
        let source = Inventory::take(from, self.options)?;
        let contents = bucket.contents(self.options.most_files, &mut self.synced.skipped)?;
        let mut manifest = Manifest::of(contents.known.clone());

        let mut parcels = Vec::new();
        for (path, stat) in &source.items {
            self.advance(path)?;
            match self.compare(from, bucket, path, stat, &contents, &mut manifest) {
                Ok(true) => parcels.push(Parcel { path: path.clone(), stat: *stat }),
                Ok(false) => {}
                Err(TransferError::Files(error)) if is_of_one(&error) => {
                    self.synced.skipped.add(path, error.message);
                }
                Err(error) => return Err(error),
            }
        }
        let sent = self.send(from, bucket, parcels, &mut manifest.entries);
        let sent = sent.and_then(|()| self.remove_objects(bucket, &source, &contents, &mut manifest.entries));
        // Last, so that it never speaks of what isn't there; and after an error as well, for what is there by now.
        if !self.options.dry_run && manifest != contents.manifest {
            let written = bucket.write_manifest(&manifest);
            sent.and(written)?;
        } else {
            sent?;
        }
        self.synced.skipped.extend(source.skipped);
        Ok(self.synced)
    }

    /// Whether something is to be sent.
    fn compare(
        &mut self,
        from: Files<'_>,
        bucket: &Bucket,
        path: &str,
        stat: &FileStat,
        contents: &Contents,
        manifest: &mut Manifest,
    ) -> Result<bool> {
        if bucket.key(path).is_none() {
            self.synced.skipped.add(path, "its name has characters that keys can't have");
            return Ok(false);
        }
        if stat.kind == FileKind::Directory {
            let known = contents.known.get(path).is_some_and(|entry| entry.kind == EntryKind::Directory);
            match known {
                true => self.synced.unchanged += 1,
                false => {
                    manifest.entries.insert(path.to_owned(), directory());
                    self.act(path, Step::Directory, 0);
                }
            }
            return Ok(false);
        }
        let kind = if stat.kind == FileKind::Link { EntryKind::Link } else { EntryKind::File };
        let size = match kind {
            EntryKind::Link => from.read_link(path)?.len() as u64,
            _ => stat.size,
        };
        let Some(listed) = contents.objects.get(path).filter(|listed| listed.size == size) else {
            return Ok(true);
        };
        let known = match contents.known.get(path) {
            Some(known) => Some(known.clone()),
            None => bucket.described(path, listed)?,
        };
        let Some(known) = known.filter(|known| known.kind == kind) else { return Ok(true) };
        let as_known =
            kind == EntryKind::File && known.modified_ns == stat.modified_ns && !self.options.checksum;
        // An entry that only the object has may be of an interrupted run, whose time says nothing of the contents.
        if !(as_known && contents.known.contains_key(path)) && known.blake3 != hash(from, path, kind, size)? {
            return Ok(true);
        }
        let (modified_ns, executable) = (stat.modified_ns, stat.executable && kind == EntryKind::File);
        let now = Entry { modified_ns, executable, ..known };
        match contents.known.get(path) == Some(&now) {
            true => self.synced.unchanged += 1,
            false => self.act(path, Step::Touch, 0),
        }
        manifest.entries.insert(path.to_owned(), now);
        Ok(false)
    }

    fn send(
        &mut self,
        from: Files<'_>,
        bucket: &Bucket,
        parcels: Vec<Parcel>,
        entries: &mut BTreeMap<String, Entry>,
    ) -> Result<()> {
        let mut total = self.synced.bytes;
        for parcel in &parcels {
            total = total.saturating_add(parcel.stat.size);
            if total > self.options.most_bytes {
                self.allow(&parcel.path, total)?;
            }
        }
        if self.options.dry_run {
            for Parcel { path, stat } in &parcels {
                self.sent(path, stat.kind, stat.size);
            }
            return Ok(());
        }
        bucket.wait(async {
            let mut sending = stream::iter(parcels)
                .map(|parcel| async move {
                    let sent = send(from, bucket, &parcel).await;
                    (parcel, sent)
                })
                .buffer_unordered(AT_ONCE);
            while let Some((parcel, sent)) = sending.next().await {
                match sent {
                    Ok(Sent::Done(entry)) => {
                        self.sent(&parcel.path, parcel.stat.kind, entry.size);
                        entries.insert(parcel.path.clone(), entry);
                    }
                    Ok(Sent::Skipped(reason)) => {
                        entries.remove(&parcel.path);
                        self.synced.skipped.add(&parcel.path, reason);
                    }
                    Err(error) => return Err(error),
                }
                self.advance(&parcel.path)?;
            }
            Ok(())
        })
    }

    fn sent(&mut self, path: &str, kind: FileKind, bytes: u64) {
        match kind {
            FileKind::Link => self.act(path, Step::Link, 0),
            _ => self.act(path, Step::Copy, bytes),
        }
    }

    fn remove_objects(
        &mut self,
        bucket: &Bucket,
        source: &Inventory,
        contents: &Contents,
        entries: &mut BTreeMap<String, Entry>,
    ) -> Result<()> {
        let directories = contents.known.iter().filter(|(_, entry)| entry.kind == EntryKind::Directory);
        let objects = contents.objects.keys().map(|path| (path, false));
        for (path, is_directory) in objects.chain(directories.map(|(path, _)| (path, true))) {
            let kept = match source.kind(path) {
                Some(kind) => (kind == FileKind::Directory) == is_directory,
                None => false,
            };
            // An object where a directory is now would be in the way of what is in it.
            let is_replaced = !is_directory && source.kind(path) == Some(FileKind::Directory);
            let wanted = self.options.globs.wanted_anywhere(path, is_directory);
            if kept || !wanted || source.may_have(path) || !(self.options.delete || is_replaced) {
                continue;
            }
            self.advance(path)?;
            if !self.options.dry_run && !is_directory {
                let Some(key) = bucket.key(path) else { continue };
                match bucket.wait(bucket.store.delete(&key)) {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(failed("remove", path, error)),
                }
            }
            if source.kind(path).is_none() {
                entries.remove(path);
            }
            self.act(path, Step::Remove, 0);
        }
        Ok(())
    }
}

fn directory() -> Entry {
    Entry {
        kind: EntryKind::Directory,
        size: 0,
        modified_ns: 0,
        executable: false,
        blake3: String::new(),
        etag: String::new(),
    }
}

fn hash(from: Files<'_>, path: &str, kind: EntryKind, size: u64) -> Result<String, FileError> {
    Ok(match kind {
        EntryKind::Link => blake3::hash(from.read_link(path)?.as_bytes()),
        _ => from.hash(path, size)?.0,
    }
    .to_hex()
    .to_string())
}

/// Sends one file or link. What is wrong with it alone isn't an error.
async fn send(from: Files<'_>, bucket: &Bucket, parcel: &Parcel) -> Result<Sent> {
    let sent = match parcel.stat.kind {
        FileKind::Link => match from.read_link(&parcel.path) {
            Ok(target) => put(bucket, parcel, EntryKind::Link, target.into_bytes()).await,
            Err(error) => Err(error.into()),
        },
        _ if parcel.stat.size > PART => parts(from, bucket, parcel).await,
        _ => match whole(from, &parcel.path) {
            Ok(Some(contents)) => put(bucket, parcel, EntryKind::File, contents).await,
            Ok(None) => parts(from, bucket, parcel).await,
            Err(error) => Err(error.into()),
        },
    };
    match sent {
        Err(TransferError::Files(error)) if is_of_one(&error) => Ok(Sent::Skipped(error.message)),
        other => other,
    }
}

/// A small file; nothing if it isn't small any more.
fn whole(from: Files<'_>, path: &str) -> Result<Option<Vec<u8>>, FileError> {
    let mut contents = Vec::new();
    loop {
        let piece = from.read(path, contents.len() as u64, PIECE)?;
        if piece.is_empty() {
            return Ok(Some(contents));
        }
        contents.extend_from_slice(&piece);
        if contents.len() as u64 > PART {
            return Ok(None);
        }
    }
}

async fn put(bucket: &Bucket, parcel: &Parcel, kind: EntryKind, contents: Vec<u8>) -> Result<Sent> {
    let Some(key) = bucket.key(&parcel.path) else {
        return Ok(Sent::Skipped("it can't be a key".to_owned()));
    };
    let mut entry = Entry {
        kind,
        size: contents.len() as u64,
        modified_ns: parcel.stat.modified_ns,
        executable: kind == EntryKind::File && parcel.stat.executable,
        blake3: blake3::hash(&contents).to_hex().to_string(),
        etag: String::new(),
    };
    let options = PutOptions { attributes: attributes(&entry), ..PutOptions::default() };
    let put = bucket.store.put_opts(&key, PutPayload::from(contents), options).await;
    entry.etag = etag(put.map_err(|error| failed("write", &parcel.path, error))?.e_tag);
    Ok(Sent::Done(entry))
}

/// A large file: read once for its hash, which goes with it, and once more to send it.
async fn parts(from: Files<'_>, bucket: &Bucket, parcel: &Parcel) -> Result<Sent> {
    let path = &parcel.path;
    let Some(key) = bucket.key(path) else { return Ok(Sent::Skipped("it can't be a key".to_owned())) };
    let size = from.stat(path)?.map_or(parcel.stat.size, |stat| stat.size);
    let (hash, size) = from.hash(path, size)?;
    let mut entry = Entry {
        kind: EntryKind::File,
        size,
        modified_ns: parcel.stat.modified_ns,
        executable: parcel.stat.executable,
        blake3: hash.to_hex().to_string(),
        etag: String::new(),
    };
    let options = PutMultipartOptions { attributes: attributes(&entry), ..PutMultipartOptions::default() };
    let upload = bucket.store.put_multipart_opts(&key, options).await;
    let mut upload = upload.map_err(|error| failed("write", path, error))?;
    let sent = send_parts(from, path, size, upload.as_mut()).await;
    match sent {
        Ok(sent) if sent == hash => {
            let done = upload.complete().await.map_err(|error| failed("write", path, error))?;
            entry.etag = etag(done.e_tag);
            Ok(Sent::Done(entry))
        }
        other => {
            // Half a file isn't left to be paid for.
            let _ = upload.abort().await;
            other.map(|_| Sent::Skipped("it changed while it was read".to_owned()))
        }
    }
}

async fn send_parts(
    from: Files<'_>,
    path: &str,
    size: u64,
    upload: &mut dyn MultipartUpload,
) -> Result<blake3::Hash> {
    let length = PART.max(size.div_ceil(MOST_PARTS)).next_multiple_of(PIECE);
    let mut hasher = blake3::Hasher::new();
    let mut offset = 0;
    let mut before: Option<UploadPart> = None;
    while offset < size {
        let mut part = Vec::new();
        while (part.len() as u64) < length.min(size - offset) {
            let read = offset + part.len() as u64;
            let piece = from.read(path, read, PIECE.min(size - read))?;
            if piece.is_empty() {
                return Ok(hasher.finalize());
            }
            part.extend_from_slice(&piece);
        }
        hasher.update(&part);
        offset += part.len() as u64;
        // One part is on its way while the next is read.
        let next = upload.put_part(PutPayload::from(part));
        if let Some(before) = before.replace(next) {
            before.await.map_err(|error| failed("write", path, error))?;
        }
    }
    if let Some(last) = before {
        last.await.map_err(|error| failed("write", path, error))?;
    }
    Ok(hasher.finalize())
}
