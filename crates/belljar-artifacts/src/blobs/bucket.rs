//! Contents in a bucket: `sha256/ab/cd….<random>`.
//!
//! No key is ever used twice, so that a deletion that arrives late can't hit what was written since: which key has
//! some contents is said by the database alone.

use std::ops::Range;
use std::time::Duration;

use belljar_transfer::S3Place;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::signer::{Method, SignedUrlOptions, Signer};
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};

use super::Found;
use crate::clock;
use crate::error::{ArtifactError, Result};
use crate::hash;

const CONTENTS: &str = "sha256";
const STORE: &str = ".store";
/// What is sent at once of a large file, and how often at the same time.
const PART: usize = 8 << 20;
const PARTS: usize = 2;

pub(crate) struct Bucket {
    pub(crate) store: AmazonS3,
    prefix: String,
    name: String,
}

impl Bucket {
    pub(crate) fn open(place: &S3Place) -> Result<Self> {
        let store = place.connect().map_err(|error| ArtifactError::Bucket {
            action: "open",
            key: place.bucket.clone(),
            reason: error.to_string(),
        })?;
        let name = format!("s3://{}/{}", place.bucket, place.prefix);
        Ok(Self { store, prefix: place.prefix.clone(), name })
    }

    /// For messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sees that the contents belong to a store, and says so for others.
    pub(crate) async fn claim(&self, store: &str) -> Result<()> {
        let key = self.key(STORE)?;
        let failed = |action| move |error: object_store::Error| ArtifactError::bucket(action, STORE, &error);
        match self.store.get(&key).await {
            Ok(found) => {
                let found = found.bytes().await.map_err(failed("read"))?;
                if found.trim_ascii() != store.as_bytes() {
                    return Err(ArtifactError::Foreign { place: self.name.clone() });
                }
                Ok(())
            }
            Err(object_store::Error::NotFound { .. }) => {
                let payload = PutPayload::from(format!("{store}\n").into_bytes());
                self.store.put(&key, payload).await.map(drop).map_err(failed("write"))
            }
            Err(error) => Err(failed("read")(error)),
        }
    }

    /// A place for contents that nobody had before.
    pub(crate) fn new_place(sha256: &str) -> String {
        format!("{CONTENTS}/{}/{}.{}", &sha256[..2], &sha256[2..], clock::random_name())
    }

    pub(crate) fn key(&self, place: &str) -> Result<Path> {
        let key = if self.prefix.is_empty() { place.to_owned() } else { format!("{}/{place}", self.prefix) };
        Path::parse(&key).map_err(|error| ArtifactError::invalid("a key", &key, error.to_string()))
    }

    pub(crate) async fn put(&self, place: &str, bytes: Vec<u8>) -> Result<()> {
        self.store
            .put(&self.key(place)?, PutPayload::from(bytes))
            .await
            .map(drop)
            .map_err(|error| ArtifactError::bucket("write", place, &error))
    }

    /// Begins to write something large. The caller is inside of the runtime.
    pub(crate) async fn begin(&self, place: &str) -> Result<Upload> {
        let upload = self
            .store
            .put_multipart(&self.key(place)?)
            .await
            .map_err(|error| ArtifactError::bucket("write", place, &error))?;
        Ok(Upload { parts: WriteMultipart::new_with_chunk_size(upload, PART), place: place.to_owned() })
    }

    /// Reads contents, or a part of them.
    pub(crate) async fn read(
        &self,
        place: &str,
        sha256: &str,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<bytes::Bytes>>> {
        if range.is_empty() {
            return Ok(futures_util::stream::empty().boxed());
        }
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let found = self.store.get_opts(&self.key(place)?, options).await.map_err(|error| match error {
            object_store::Error::NotFound { .. } => {
                ArtifactError::Gone { sha256: sha256.to_owned(), place: self.name.clone() }
            }
            error => ArtifactError::bucket("read", place, &error),
        })?;
        let place = place.to_owned();
        Ok(found.into_stream().map_err(move |error| ArtifactError::bucket("read", &place, &error)).boxed())
    }

    /// Deletes what nothing names. What can't be deleted now is found again later.
    pub(crate) async fn delete(&self, places: &[String]) -> Result<()> {
        let keys: Vec<_> = places.iter().map(|place| self.key(place)).collect::<Result<_>>()?;
        let keys = futures_util::stream::iter(keys.into_iter().map(Ok)).boxed();
        let mut deleted = self.store.delete_stream(keys);
        while let Some(deleted) = deleted.next().await {
            match deleted {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(ArtifactError::bucket("delete", CONTENTS, &error)),
            }
        }
        Ok(())
    }

    /// All contents that are there.
    pub(crate) fn list(&self) -> Result<BoxStream<'static, Result<Found>>> {
        let key = self.key(CONTENTS)?;
        let begin = key.as_ref().len() - CONTENTS.len();
        let found =
            self.store.list(Some(&key)).map_err(|error| ArtifactError::bucket("list", CONTENTS, &error));
        Ok(found
            .try_filter_map(move |object| async move {
                let Some(place) = object.location.as_ref().get(begin..) else { return Ok(None) };
                let digits: String = place.split('.').next().unwrap_or_default().split('/').skip(1).collect();
                // What has no such name is none of ours.
                let modified_ms = u64::try_from(object.last_modified.timestamp_millis()).unwrap_or(0);
                Ok(hash::is_one(&digits).then(|| Found {
                    place: place.to_owned(),
                    sha256: digits,
                    size: object.size,
                    modified_ms,
                }))
            })
            .boxed())
    }

    /// A link to contents that works for a while.
    pub(crate) async fn sign(
        &self,
        place: &str,
        expires: Duration,
        disposition: Option<&str>,
    ) -> Result<String> {
        let mut options = SignedUrlOptions::default();
        if let Some(disposition) = disposition {
            options = options.with_query([("response-content-disposition", disposition)]);
        }
        self.store
            .signed_url_opts(Method::GET, &self.key(place)?, expires, &options)
            .await
            .map(String::from)
            .map_err(|error| ArtifactError::bucket("sign a link to", place, &error))
    }
}

/// Something large on its way.
pub(crate) struct Upload {
    parts: WriteMultipart,
    place: String,
}

impl Upload {
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.parts
            .wait_for_capacity(PARTS)
            .await
            .map_err(|error| ArtifactError::bucket("write", &self.place, &error))?;
        self.parts.write(bytes);
        Ok(())
    }

    pub(crate) async fn finish(self) -> Result<()> {
        let place = self.place;
        self.parts.finish().await.map(drop).map_err(|error| ArtifactError::bucket("write", &place, &error))
    }

    /// What was sent is forgotten there.
    pub(crate) async fn give_up(self) {
        let _ = self.parts.abort().await;
    }
}
