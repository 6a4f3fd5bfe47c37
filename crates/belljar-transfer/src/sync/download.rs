//! From a bucket to a workspace.

use belljar_engine::{FileError, FileKind, FileStat};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::{GetOptions, ObjectStore};

use crate::error::{Result, TransferError};
use crate::files::Files;
use crate::sync::bucket::{Bucket, Contents, Listed, entry, failed};
use crate::sync::inventory::Inventory;
use crate::sync::manifest::{Entry, EntryKind};
use crate::sync::{Run, Step, Synced};
use crate::walk::is_of_one;

/// Requests at a time.
const AT_ONCE: usize = 4;
/// Bytes of where a link leads.
const LONGEST_TARGET: usize = 4_095;

/// Something to fetch.
struct Wanted {
    path: String,
    listed: Listed,
    known: Option<Entry>,
}

/// What was fetched.
enum Fetched {
    File(u64),
    Link { target: String, modified_ns: i64 },
    Skipped(String),
}

impl Run<'_> {
    pub(super) fn download(mut self, bucket: &Bucket, to: Files<'_>) -> Result<Synced> {
        let contents = bucket.contents(self.options.most_files, &mut self.synced.skipped)?;
        let there = Inventory::take(to, self.options)?;
        self.sweep(to, &there);
        for (path, entry) in &contents.known {
            if entry.kind != EntryKind::Directory || !self.options.globs.wanted_anywhere(path, true) {
                continue;
            }
            self.advance(path)?;
            match self.make_way(to, path, &contents, &there) {
                Ok(true) if !self.replaced.contains(path) => self.put_directory(to, path, &there)?,
                Ok(_) => {}
                Err(error) => self.skip(path, error)?,
            }
        }
        let mut wanted = Vec::new();
        for (path, listed) in &contents.objects {
            if !self.options.globs.wanted_anywhere(path, false) {
                continue;
            }
            self.advance(path)?;
            match self.choose(bucket, to, path, listed, &contents, &there) {
                Ok(Some(known)) => wanted.push(Wanted { path: path.clone(), listed: listed.clone(), known }),
                Ok(None) => {}
                Err(error) => self.skip(path, error)?,
            }
        }
        self.fetch(bucket, to, wanted, &there)?;
        self.remove_gone(to, &there, &|path| !contents.has(path))?;
        Ok(self.synced)
    }

    /// Makes directories of what is something else here and a directory there, so that nothing is written through a
    /// link. If it is no directory there, nothing can be put below it.
    fn make_way(
        &mut self,
        to: Files<'_>,
        path: &str,
        contents: &Contents,
        there: &Inventory,
    ) -> Result<bool> {
        for (end, _) in path.match_indices('/') {
            let above = &path[..end];
            let is_other = there.kind(above).is_some_and(|kind| kind != FileKind::Directory);
            if !is_other || self.replaced.contains(above) {
                continue;
            }
            if contents.objects.contains_key(above) {
                self.synced.skipped.add(path, format!("{above} is a file as well"));
                return Ok(false);
            }
            self.put_directory(to, above, there)?;
        }
        Ok(true)
    }

    fn put_directory(&mut self, to: Files<'_>, path: &str, there: &Inventory) -> Result<()> {
        match self.directory(to, path, there.items.get(path)) {
            Ok(()) => {
                self.replaced.insert(path.to_owned());
                Ok(())
            }
            Err(error) => self.skip(path, error),
        }
    }

    /// Reports what is wrong with one path alone.
    fn skip(&mut self, path: &str, error: TransferError) -> Result<()> {
        match error {
            TransferError::Files(error) if is_of_one(&error) => {
                self.synced.skipped.add(path, error.message);
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Whether something is to be fetched, and what is known of it.
    fn choose(
        &mut self,
        bucket: &Bucket,
        to: Files<'_>,
        path: &str,
        listed: &Listed,
        contents: &Contents,
        there: &Inventory,
    ) -> Result<Option<Option<Entry>>> {
        if !self.make_way(to, path, contents, there)? {
            return Ok(None);
        }
        let mut known = contents.known.get(path).cloned();
        match there.items.get(path) {
            None => return Ok(Some(known)),
            Some(stat) if stat.kind == FileKind::Directory => {
                return Ok(self.clear(to, path, there)?.then_some(known));
            }
            Some(stat) => {
                if known.is_none() && (stat.size == listed.size || stat.kind == FileKind::Link) {
                    known = bucket.described(path, listed)?;
                }
                if self.is_same(to, path, stat, listed, known.as_ref())? {
                    let executable = known.as_ref().map_or(stat.executable, |entry| entry.executable);
                    let modified_ns = known.as_ref().map_or(stat.modified_ns, |entry| entry.modified_ns);
                    if stat.kind == FileKind::Link {
                        self.synced.unchanged += 1;
                    } else {
                        self.touch(to, path, &FileStat { modified_ns, executable, ..*stat }, stat)?;
                    }
                    return Ok(None);
                }
            }
        }
        Ok(Some(known))
    }

    fn is_same(
        &self,
        to: Files<'_>,
        path: &str,
        stat: &FileStat,
        listed: &Listed,
        known: Option<&Entry>,
    ) -> Result<bool, FileError> {
        let Some(known) = known else {
            // Somebody else put it there: the time of the object is all that is known.
            let same = stat.kind == FileKind::File && stat.size == listed.size;
            return Ok(same && stat.modified_ns == listed.modified_ns && !self.options.checksum);
        };
        Ok(match (known.kind, stat.kind) {
            (EntryKind::Link, FileKind::Link) => {
                blake3::hash(to.read_link(path)?.as_bytes()).to_hex().as_str() == known.blake3
            }
            (EntryKind::File, FileKind::File) if stat.size == known.size => {
                let as_known = stat.modified_ns == known.modified_ns && !self.options.checksum;
                as_known || to.hash(path, stat.size)?.0.to_hex().as_str() == known.blake3
            }
            _ => false,
        })
    }

    fn fetch(
        &mut self,
        bucket: &Bucket,
        to: Files<'_>,
        wanted: Vec<Wanted>,
        there: &Inventory,
    ) -> Result<()> {
        let mut total = self.synced.bytes;
        for one in &wanted {
            total = total.saturating_add(one.listed.size);
            if total > self.options.most_bytes {
                self.allow(&one.path, total)?;
            }
        }
        if self.options.dry_run {
            for one in &wanted {
                match one.known.as_ref().map(|entry| entry.kind) {
                    Some(EntryKind::Link) => self.act(&one.path, Step::Link, 0),
                    _ => self.act(&one.path, Step::Copy, one.listed.size),
                }
            }
            return Ok(());
        }
        bucket.wait(async {
            let mut fetching = stream::iter(wanted)
                .map(|one| async move {
                    let fetched = fetch(bucket, to, &one).await;
                    (one, fetched)
                })
                .buffer_unordered(AT_ONCE);
            while let Some((one, fetched)) = fetching.next().await {
                match fetched {
                    Ok(Fetched::File(bytes)) => self.act(&one.path, Step::Copy, bytes),
                    Ok(Fetched::Link { target, modified_ns }) => {
                        match self.link(to, &one.path, &target, modified_ns, there) {
                            Err(TransferError::Files(error)) if is_of_one(&error) => {
                                self.synced.skipped.add(&one.path, error.message);
                            }
                            other => other?,
                        }
                    }
                    Ok(Fetched::Skipped(reason)) => self.synced.skipped.add(&one.path, reason),
                    Err(TransferError::Files(error)) if is_of_one(&error) => {
                        self.synced.skipped.add(&one.path, error.message);
                    }
                    Err(error) => return Err(error),
                }
                self.advance(&one.path)?;
            }
            Ok(())
        })
    }
}

impl Contents {
    /// Whether something is below a path.
    fn is_directory(&self, path: &str) -> bool {
        let below = format!("{path}/");
        let begins = |found: Option<&String>| found.is_some_and(|found| found.starts_with(&below));
        self.known.get(path).is_some_and(|entry| entry.kind == EntryKind::Directory)
            || begins(self.objects.range(below.clone()..).next().map(|(path, _)| path))
    }

    fn has(&self, path: &str) -> bool {
        self.objects.contains_key(path) || self.is_directory(path)
    }
}

/// Fetches one object, and puts it in place if it is a file.
async fn fetch(bucket: &Bucket, to: Files<'_>, one: &Wanted) -> Result<Fetched> {
    let path = &one.path;
    let Some(key) = bucket.key(path) else { return Ok(Fetched::Skipped("it can't be a key".to_owned())) };
    let if_match =
        Some(one.listed.etag.clone()).filter(|etag| !etag.is_empty()).map(|etag| format!("\"{etag}\""));
    let options = GetOptions { if_match, ..GetOptions::default() };
    let found = match bucket.store.get_opts(&key, options).await {
        Ok(found) => found,
        Err(object_store::Error::NotFound { .. } | object_store::Error::Precondition { .. }) => {
            return Ok(Fetched::Skipped("it changed since it was listed".to_owned()));
        }
        Err(error) => return Err(failed("read", path, error)),
    };
    let known = one.known.clone().or_else(|| entry(&found.attributes, &one.listed));
    let is_link = known.as_ref().is_some_and(|entry| entry.kind == EntryKind::Link);
    let mut stream = found.into_stream();
    let mut hasher = blake3::Hasher::new();
    let mut file = to.begin(path);
    let mut target = Vec::new();
    let mut bytes = 0;
    while let Some(piece) = stream.try_next().await.map_err(|error| failed("read", path, error))? {
        bytes += piece.len() as u64;
        if bytes > one.listed.size || (is_link && bytes > LONGEST_TARGET as u64) {
            return Ok(Fetched::Skipped("it has more bytes than it should".to_owned()));
        }
        hasher.update(&piece);
        match is_link {
            true => target.extend_from_slice(&piece),
            false => file.write(&piece)?,
        }
    }
    let is_whole = bytes == one.listed.size;
    if !is_whole || known.as_ref().is_some_and(|entry| entry.blake3 != hasher.finalize().to_hex().as_str()) {
        return Ok(Fetched::Skipped("its contents aren't those that were put there".to_owned()));
    }
    let modified_ns = known.as_ref().map_or(one.listed.modified_ns, |entry| entry.modified_ns);
    if is_link {
        return Ok(match String::from_utf8(target) {
            Ok(target) if !target.is_empty() && !target.contains('\0') => {
                Fetched::Link { target, modified_ns }
            }
            _ => Fetched::Skipped("where it leads makes no sense".to_owned()),
        });
    }
    let executable = known.is_some_and(|entry| entry.executable);
    Ok(Fetched::File(file.finish(executable, Some(modified_ns))?))
}
