//! A prefix in a bucket, by the S3 protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, ClientOptions, GetOptions, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
};
use tokio::runtime::{Builder, Runtime};

use crate::error::{Result, TransferError};
use crate::names::fault;
use crate::skipped::SkippedList;
use crate::sync::manifest::{Entry, EntryKind, LARGEST, Manifest, NAME};

/// For one request; a part of a large file must be through by then.
const PATIENCE: Duration = Duration::from_secs(300);
const CONNECT: Duration = Duration::from_secs(15);
const RETRIES: usize = 6;
const RETRY_FOR: Duration = Duration::from_secs(90);

/// A prefix in a bucket, and how to get there. All of it is given; nothing is read from the environment, but for the
/// variables that name an HTTP proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Place {
    /// The bucket.
    pub bucket: String,
    /// Keys begin so, followed by `/`; empty for the whole bucket.
    pub prefix: String,
    /// Where the service is, if it isn't Amazon's: `https://…`, or `http://…` for one nearby.
    pub endpoint: Option<String>,
    /// The region. `us-east-1` unless given; services that have none take `auto`.
    pub region: Option<String>,
    /// Who asks. Nobody in particular, if there are none.
    pub credentials: Option<S3Credentials>,
}

/// Who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Credentials {
    /// The access key's identifier.
    pub key_id: String,
    /// Its secret.
    pub secret: String,
    /// The token of credentials that end some day.
    pub token: Option<String>,
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("S3Credentials").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl S3Place {
    /// Reads `s3://bucket/prefix`.
    ///
    /// # Errors
    /// If it isn't that.
    pub fn parse(address: &str) -> Result<Self> {
        let invalid = |reason: &str| TransferError::Invalid {
            what: "an address of the form s3://bucket/prefix",
            given: address.to_owned(),
            reason: reason.to_owned(),
        };
        let rest = address.strip_prefix("s3://").ok_or_else(|| invalid("it doesn't begin with s3://"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if bucket.is_empty() || bucket.len() > 255 || !bucket.bytes().all(allowed) {
            return Err(invalid("the bucket's name makes no sense"));
        }
        if !prefix.is_empty()
            && let Some(fault) = fault(prefix)
        {
            return Err(invalid(fault));
        }
        let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
        Ok(Self { bucket, prefix, endpoint: None, region: None, credentials: None })
    }

    /// A client of the bucket. Nothing is asked yet.
    ///
    /// # Errors
    /// If what is given can't be a bucket's place.
    pub fn connect(&self) -> Result<AmazonS3> {
        // Whoever embeds this may have chosen a provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = ClientOptions::new().with_timeout(PATIENCE).with_connect_timeout(CONNECT);
        let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_FOR, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::new()
            .with_client_options(options)
            .with_retry(retry)
            .with_bucket_name(&self.bucket)
            .with_region(self.region.as_deref().unwrap_or("us-east-1"));
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
        }
        builder = match &self.credentials {
            Some(credentials) => {
                builder = builder
                    .with_access_key_id(&credentials.key_id)
                    .with_secret_access_key(&credentials.secret);
                match &credentials.token {
                    Some(token) => builder.with_token(token),
                    None => builder,
                }
            }
            None => builder.with_skip_signature(true),
        };
        builder.build().map_err(|error| self.failed(error.to_string()))
    }

    fn failed(&self, reason: String) -> TransferError {
        TransferError::Bucket { action: "open", path: self.bucket.clone(), reason }
    }
}

/// An open bucket. Its requests run on the thread that asks.
pub(super) struct Bucket {
    pub(super) store: AmazonS3,
    runtime: Runtime,
    prefix: String,
}

/// What a listing says of an object.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) size: u64,
    pub(super) etag: String,
    pub(super) modified_ns: i64,
}

/// What is below the prefix.
pub(super) struct Contents {
    pub(super) objects: BTreeMap<String, Listed>,
    /// What is known of those objects, and of directories.
    pub(super) known: BTreeMap<String, Entry>,
    /// What the manifest said.
    pub(super) manifest: Manifest,
}

impl Bucket {
    pub(super) fn open(place: &S3Place) -> Result<Self> {
        let store = place.connect()?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| place.failed(error.to_string()))?;
        Ok(Self { store, runtime, prefix: place.prefix.clone() })
    }

    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// The key of a path; nothing if there can't be one.
    pub(super) fn key(&self, path: &str) -> Option<Path> {
        Path::parse(crate::names::join(&self.prefix, path)).ok()
    }

    /// Lists what is there, and reads what is known of it.
    pub(super) fn contents(&self, most: u64, skipped: &mut SkippedList) -> Result<Contents> {
        let mut objects = self.wait(self.list(most, skipped))?;
        let manifest = match objects.remove(NAME) {
            Some(listed) if listed.size <= LARGEST => self.wait(self.manifest(skipped))?,
            Some(_) => {
                skipped.add(NAME, "it is larger than it can be, and isn't believed");
                Manifest::default()
            }
            None => Manifest::default(),
        };
        // Consoles show directories by making empty objects of their names.
        let above: BTreeSet<String> = objects
            .keys()
            .flat_map(|path| path.match_indices('/').map(|(end, _)| path[..end].to_owned()))
            .collect();
        let is_directory = |path: &str| {
            let entry = manifest.entries.get(path);
            above.contains(path) || entry.is_some_and(|entry| entry.kind == EntryKind::Directory)
        };
        objects.retain(|path, listed| listed.size > 0 || !is_directory(path));
        let is_true = |path: &str, entry: &Entry| match objects.get(path) {
            Some(listed) => entry.kind != EntryKind::Directory && is_of(entry, listed),
            None => entry.kind == EntryKind::Directory,
        };
        let known = manifest.entries.iter().filter(|(path, entry)| is_true(path, entry));
        let known = known.map(|(path, entry)| (path.clone(), entry.clone())).collect();
        Ok(Contents { objects, known, manifest })
    }

    async fn list(&self, most: u64, skipped: &mut SkippedList) -> Result<BTreeMap<String, Listed>> {
        let prefix = self.key("").filter(|_| !self.prefix.is_empty());
        let mut stream = self.store.list(prefix.as_ref());
        let mut objects = BTreeMap::new();
        let begin = if self.prefix.is_empty() { String::new() } else { format!("{}/", self.prefix) };
        while let Some(found) =
            stream.try_next().await.map_err(|error| failed("list", &self.prefix, error))?
        {
            let Some(path) = found.location.as_ref().strip_prefix(&begin) else { continue };
            if path.is_empty() {
                continue;
            }
            if path != NAME
                && let Some(fault) = fault(path)
            {
                skipped.add(path, fault);
                continue;
            }
            if objects.len() as u64 >= most {
                let path = crate::skipped::printable(path);
                return Err(TransferError::TooMuch { what: "objects", most, path });
            }
            let listed = Listed {
                size: found.size,
                etag: etag(found.e_tag),
                modified_ns: found.last_modified.timestamp_nanos_opt().unwrap_or(0),
            };
            objects.insert(path.to_owned(), listed);
        }
        Ok(objects)
    }

    async fn manifest(&self, skipped: &mut SkippedList) -> Result<Manifest> {
        let Some(key) = self.key(NAME) else { return Ok(Manifest::default()) };
        let found = self.store.get(&key).await.map_err(|error| failed("read", NAME, error))?;
        let mut stream = found.into_stream();
        let mut bytes = Vec::new();
        while let Some(piece) = stream.try_next().await.map_err(|error| failed("read", NAME, error))? {
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > LARGEST {
                break;
            }
        }
        Ok(Manifest::read(&bytes).unwrap_or_else(|| {
            skipped.add(NAME, "it makes no sense, and is replaced by the next push");
            Manifest::default()
        }))
    }

    pub(super) fn write_manifest(&self, manifest: &Manifest) -> Result<()> {
        let Some(key) = self.key(NAME) else { return Ok(()) };
        self.wait(self.store.put(&key, PutPayload::from(manifest.write())))
            .map(drop)
            .map_err(|error| failed("write", NAME, error))
    }

    /// What an object says of itself, if it was put there by a push.
    pub(super) fn described(&self, path: &str, listed: &Listed) -> Result<Option<Entry>> {
        let Some(key) = self.key(path) else { return Ok(None) };
        let options = GetOptions { head: true, ..GetOptions::default() };
        match self.wait(self.store.get_opts(&key, options)) {
            Ok(found) if etag(found.meta.e_tag.clone()) == listed.etag => {
                Ok(entry(&found.attributes, listed))
            }
            Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed("look at", path, error)),
        }
    }
}

/// Whether an entry is about the object that is listed.
fn is_of(entry: &Entry, listed: &Listed) -> bool {
    !listed.etag.is_empty() && (entry.size, &entry.etag) == (listed.size, &listed.etag)
}

const BLAKE3: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("belljar-blake3"));
const KIND: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("belljar-kind"));
const MODIFIED: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("belljar-modified-ns"));
const EXECUTABLE: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("belljar-executable"));

/// What goes with an object.
pub(super) fn attributes(entry: &Entry) -> Attributes {
    let kind = if entry.kind == EntryKind::Link { "link" } else { "file" };
    Attributes::from_iter([
        (BLAKE3, entry.blake3.clone()),
        (KIND, kind.to_owned()),
        (MODIFIED, entry.modified_ns.to_string()),
        (EXECUTABLE, entry.executable.to_string()),
    ])
}

/// What went with an object.
pub(super) fn entry(attributes: &Attributes, listed: &Listed) -> Option<Entry> {
    let get = |attribute| attributes.get(&attribute).map(AsRef::<str>::as_ref);
    let blake3 = get(BLAKE3).filter(|hash| hash.len() == 64)?.to_owned();
    Some(Entry {
        kind: if get(KIND) == Some("link") { EntryKind::Link } else { EntryKind::File },
        size: listed.size,
        modified_ns: get(MODIFIED).and_then(|text| text.parse().ok()).unwrap_or(listed.modified_ns),
        executable: get(EXECUTABLE) == Some("true"),
        blake3,
        etag: listed.etag.clone(),
    })
}

/// Without the quotes that some services give in some answers.
pub(super) fn etag(given: Option<String>) -> String {
    given.unwrap_or_default().trim_matches('"').to_owned()
}

pub(super) fn failed(action: &'static str, path: &str, error: object_store::Error) -> TransferError {
    match error {
        object_store::Error::InvalidPath { source } => TransferError::Key { reason: source.to_string() },
        error => {
            TransferError::Bucket { action, path: crate::skipped::printable(path), reason: reason(&error) }
        }
    }
}

/// What an error and those behind it say, without what each says again.
fn reason(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        next = error.source();
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_bucket_and_a_prefix() {
        let place = S3Place::parse("s3://bucket/threads/7/").expect("it is an address");
        assert_eq!((place.bucket.as_str(), place.prefix.as_str()), ("bucket", "threads/7"));
        assert_eq!(S3Place::parse("s3://bucket").expect("it is an address").prefix, "");
        for address in ["", "bucket", "s3:/b", "s3://", "s3:///x", "s3://b/../c", "s3://b//c", "s3://b c/d"] {
            assert!(S3Place::parse(address).is_err(), "{address}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let credentials =
            S3Credentials { key_id: "id".into(), secret: "hidden".into(), token: Some("hidden".into()) };
        assert!(!format!("{credentials:?}").contains("hidden"));
    }
}
