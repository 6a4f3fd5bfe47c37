//! Reading contents.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, TryStreamExt};
use tokio::sync::mpsc;

use crate::artifact::Artifact;
use crate::blobs::Blobs;
use crate::error::{ArtifactError, At, Result};
use crate::hash::Hasher;
use crate::rows::Blob;
use crate::store::{ArtifactStore, Inner};

/// What is read at once for a stream, and how much of it waits.
const PIECE: usize = 256 << 10;
const PIECES: usize = 4;

/// An artifact's contents, or a part of them.
///
/// If all is read, its hash is compared at the end: where it is another one, the last read fails. That less is there
/// than there should be is an error too.
pub struct Contents {
    artifact: Artifact,
    source: Source,
    /// What is still to come.
    left: u64,
    /// Of all that was read, if that will be all there is.
    hasher: Option<Hasher>,
}

enum Source {
    File(File),
    /// What is read is waited for by the runtime of the store.
    Bucket {
        store: Arc<Inner>,
        pieces: BoxStream<'static, Result<Bytes>>,
        piece: Bytes,
    },
}

impl ArtifactStore {
    /// Begins to read an artifact's contents, or those bytes of them that are in a range: of one that goes beyond the
    /// end, what there is.
    ///
    /// # Errors
    /// If there is no such artifact, or its contents are gone or can't be read.
    pub fn read(&self, tenant: &str, id: &str, range: Option<Range<u64>>) -> Result<Contents> {
        let (artifact, blob) = self.inner.wait(self.inner.located(tenant, id))?;
        self.contents(artifact, &blob, range)
    }

    /// The contents piece by piece, for asynchronous code. What goes wrong on the way comes as an error in place of a
    /// piece, as with [`Contents`].
    ///
    /// # Errors
    /// If there is no such artifact, or its contents are gone or can't be read.
    pub async fn stream(
        &self,
        tenant: &str,
        id: &str,
        range: Option<Range<u64>>,
    ) -> Result<(Artifact, impl Stream<Item = Result<Bytes>> + Send + Unpin + use<>)> {
        let (store, tenant, id) = (self.clone(), tenant.to_owned(), id.to_owned());
        // It is the store's own runtime that reads, whatever runtime this is called from.
        let (told, opened) = tokio::sync::oneshot::channel();
        let (send, mut receive) = mpsc::channel(PIECES);
        self.inner.handle().spawn_blocking(move || {
            let mut contents = match store.read(&tenant, &id, range) {
                Ok(contents) => contents,
                Err(error) => return drop(told.send(Err(error))),
            };
            if told.send(Ok(contents.artifact.clone())).is_err() {
                return;
            }
            loop {
                let mut piece = vec![0; PIECE.min(usize::try_from(contents.left).unwrap_or(PIECE).max(1))];
                let piece = match contents.read(&mut piece) {
                    Ok(0) => return,
                    Ok(length) => {
                        piece.truncate(length);
                        Ok(Bytes::from(piece))
                    }
                    Err(error) => Err(told_again(error, contents.artifact.id.as_str())),
                };
                // Whoever asked may have gone.
                if send.blocking_send(piece).is_err() {
                    return;
                }
            }
        });
        let lost = |_| ArtifactError::Unreachable { reason: "the store was closed".into() };
        let artifact = opened.await.map_err(lost)??;
        Ok((artifact, stream::poll_fn(move |context| receive.poll_recv(context))))
    }

    fn contents(&self, artifact: Artifact, blob: &Blob, range: Option<Range<u64>>) -> Result<Contents> {
        let end = range.as_ref().map_or(artifact.size, |range| range.end.min(artifact.size));
        let start = range.as_ref().map_or(0, |range| range.start.min(end));
        let is_whole = start == 0 && end == artifact.size;
        let source = match &self.inner.blobs {
            Blobs::Directory(directory) => {
                let path = directory.path(&artifact.sha256);
                let mut file = File::open(&path).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => self.inner.gone(&artifact.sha256),
                    _ => ArtifactError::Io { action: "open", path: path.clone(), source: error },
                })?;
                file.seek(SeekFrom::Start(start)).at("read", &path)?;
                Source::File(file)
            }
            Blobs::Bucket(bucket) => {
                let pieces = self.inner.wait(bucket.read(&blob.place, &artifact.sha256, start..end))?;
                Source::Bucket { store: Arc::clone(&self.inner), pieces, piece: Bytes::new() }
            }
        };
        Ok(Contents { artifact, source, left: end - start, hasher: is_whole.then(Hasher::default) })
    }
}

impl Contents {
    /// Whose contents they are.
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    /// How many bytes are still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    fn damaged(&self, reason: &str) -> io::Error {
        let what = format!("what is stored of {}", self.artifact.id);
        ArtifactError::Damaged { what, reason: reason.to_owned() }.into_io()
    }

    /// Compares the hash, once.
    fn end(&mut self) -> io::Result<usize> {
        match self.hasher.take().map(Hasher::finish) {
            Some(sha256) if sha256 != self.artifact.sha256 => {
                Err(self.damaged("its bytes have another hash"))
            }
            _ => Ok(0),
        }
    }
}

impl Read for Contents {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            return self.end();
        }
        let most = room.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let room = &mut room[..most];
        let length = match &mut self.source {
            Source::File(file) => file.read(room)?,
            Source::Bucket { store, pieces, piece } => {
                while piece.is_empty() {
                    match store.wait(pieces.try_next()).map_err(ArtifactError::into_io)? {
                        Some(next) => *piece = next,
                        None => break,
                    }
                }
                let length = piece.len().min(room.len());
                room[..length].copy_from_slice(&piece[..length]);
                piece.advance(length);
                length
            }
        };
        if length == 0 {
            self.hasher = None;
            return Err(self.damaged("there is less of it than there should be"));
        }
        self.left -= length as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&room[..length]);
        }
        Ok(length)
    }
}

/// The error that was made an [`io::Error`] for [`Read`].
fn told_again(error: io::Error, id: &str) -> ArtifactError {
    match error.downcast::<ArtifactError>() {
        Ok(error) => error,
        Err(source) => ArtifactError::Io { action: "read the contents of", path: id.into(), source },
    }
}
