//! Where a dataset comes from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use belljar_transfer::S3Place;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::error::Result;
use crate::names::{check, invalid};

/// Bytes of an address, at most.
const LONGEST_ADDRESS: usize = 8_192;
/// Headers of a request, at most.
const MOST_HEADERS: usize = 64;
/// Headers that aren't a caller's to choose.
const OURS: [&str; 7] =
    ["accept-encoding", "connection", "content-length", "host", "if-range", "range", "transfer-encoding"];

/// Where a dataset comes from.
///
/// `Debug` and JSON show neither the values of headers nor what in an address may be a secret: a user's name and
/// password, and what parameters are set to.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A file that is served by HTTP.
    Http {
        /// `https://…`, or `http://…`.
        url: String,
        /// Sent with each request, to this host only.
        headers: BTreeMap<String, String>,
    },
    /// An object in a bucket. Who asks is in [`FetchOptions`](crate::FetchOptions), and is never stored.
    S3 {
        /// `s3://bucket/key`.
        url: String,
        /// Where the service is, if it isn't Amazon's.
        endpoint: Option<String>,
        /// The region; `us-east-1` unless given.
        region: Option<String>,
    },
    /// A file of this host. It is copied, because it may change later.
    File {
        /// Where it is; an absolute path.
        path: PathBuf,
    },
    /// A [`Fetcher`](crate::Fetcher) that the host registered under this name.
    Callback {
        /// Its name.
        fetcher: String,
    },
    /// A function in a Python file of the host's operator, which runs on the host and isn't confined.
    Python {
        /// The file; an absolute path.
        file: PathBuf,
        /// The function: `fetch_dataset`, say.
        function: String,
    },
    /// Whoever added it gave the bytes. They are in the cache and nowhere else.
    Bytes,
}

impl Source {
    /// By HTTP, without any headers.
    pub fn http(url: impl Into<String>) -> Self {
        Self::Http { url: url.into(), headers: BTreeMap::new() }
    }

    /// Reads an address: `http://…`, `https://…`, `s3://bucket/key`, `file:///path`, or an absolute path.
    ///
    /// # Errors
    /// If it is nothing of that.
    pub fn parse(address: &str) -> Result<Self> {
        let source = if address.starts_with("s3://") {
            Self::S3 { url: address.to_owned(), endpoint: None, region: None }
        } else if address.starts_with("http://") || address.starts_with("https://") {
            Self::http(address)
        } else {
            let path = address.strip_prefix("file://").unwrap_or(address);
            Self::File { path: path.into() }
        };
        source.check()?;
        Ok(source)
    }

    /// What kind it is, in one word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Http { .. } => "http",
            Self::S3 { .. } => "s3",
            Self::File { .. } => "file",
            Self::Callback { .. } => "callback",
            Self::Python { .. } => "python",
            Self::Bytes => "bytes",
        }
    }

    /// The address, without secrets.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::Http { url, .. } => shown(url),
            Self::S3 { url, .. } => url.clone(),
            Self::File { path } => path.display().to_string(),
            Self::Callback { fetcher } => fetcher.clone(),
            Self::Python { file, function } => format!("{}:{function}", file.display()),
            Self::Bytes => String::new(),
        }
    }

    /// Whether both lead to the same contents. Who asks for them may be another.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Http { url, .. }, Self::Http { url: other, .. }) => url == other,
            _ => self == other,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Http { url, headers } => {
                check_address(url)?;
                if headers.len() > MOST_HEADERS {
                    return Err(invalid("headers", &headers.len().to_string(), "there are too many"));
                }
                for (name, value) in headers {
                    let lower = name.to_ascii_lowercase();
                    if HeaderName::from_bytes(name.as_bytes()).is_err() || OURS.contains(&lower.as_str()) {
                        return Err(invalid("the name of a header", name, "it isn't one that can be set"));
                    }
                    if HeaderValue::from_str(value).is_err() {
                        return Err(invalid("a header", name, "its value can't be sent"));
                    }
                }
                Ok(())
            }
            Self::S3 { url, endpoint, .. } => {
                let place = S3Place::parse(url).map_err(|error| {
                    let belljar_transfer::TransferError::Invalid { reason, .. } = error else {
                        return invalid("an address of the form s3://bucket/key", url, error.to_string());
                    };
                    invalid("an address of the form s3://bucket/key", url, reason)
                })?;
                if place.prefix.is_empty() {
                    return Err(invalid("an address of the form s3://bucket/key", url, "there is no key"));
                }
                endpoint.as_deref().map_or(Ok(()), check_address)
            }
            Self::File { path } => check_path(path),
            Self::Callback { fetcher } => check("the name of a fetcher", fetcher),
            Self::Python { file, function } => {
                let is_name = function.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                    && function.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
                if !is_name {
                    return Err(invalid("the name of a function", function, "it isn't one"));
                }
                check_path(file)
            }
            Self::Bytes => Ok(()),
        }
    }

    /// What the file's name ends with at the source, if that says what it is.
    pub(crate) fn ending(&self) -> Option<String> {
        match self {
            Self::Http { url, .. } => ending(Url::parse(url).ok()?.path()),
            Self::S3 { url, .. } => ending(url),
            Self::File { path } => ending(path.to_str()?),
            _ => None,
        }
    }

    /// What must not be told to anybody.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let Self::Http { url, headers } = self else { return Vec::new() };
        let mut secrets: Vec<String> = headers.values().cloned().collect();
        secrets.extend(headers.values().filter_map(|value| Some(value.split_once(' ')?.1.to_owned())));
        if let Ok(parsed) = Url::parse(url) {
            secrets.extend(parsed.password().map(str::to_owned));
            secrets.extend(parsed.query().map(str::to_owned));
            secrets.extend(parsed.query_pairs().map(|(_, value)| value.into_owned()));
        }
        secrets
    }
}

/// An address without what may be secret in it.
pub(crate) fn shown(address: &str) -> String {
    let Ok(mut url) = Url::parse(address) else { return "an address that makes no sense".to_owned() };
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    let names: Vec<String> = url.query_pairs().map(|(name, _)| format!("{name}=…")).collect();
    url.set_query(None);
    match names.is_empty() {
        true => url.to_string(),
        false => format!("{url}?{}", names.join("&")),
    }
}

fn check_address(address: &str) -> Result<()> {
    let fault = if address.len() > LONGEST_ADDRESS {
        "it is too long"
    } else {
        match Url::parse(address) {
            Ok(url) if !matches!(url.scheme(), "http" | "https") => "it is neither http:// nor https://",
            Ok(url) if url.host_str().is_none_or(str::is_empty) => "it names no host",
            Ok(_) => return Ok(()),
            Err(_) => "it isn't one",
        }
    };
    Err(invalid("an address", &shown(address), fault))
}

fn check_path(path: &std::path::Path) -> Result<()> {
    if path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&0) {
        return Ok(());
    }
    Err(invalid("a file's place", &path.display().to_string(), "it isn't an absolute path"))
}

fn ending(path: &str) -> Option<String> {
    const KNOWN: [&str; 29] = [
        "parquet", "csv", "tsv", "json", "jsonl", "ndjson", "txt", "arrow", "feather", "orc", "avro", "xlsx",
        "xls", "ods", "npy", "npz", "h5", "hdf5", "nc", "pkl", "sqlite", "db", "xml", "yaml", "toml", "zip",
        "tar", "geojson", "md",
    ];
    const PACKED: [&str; 4] = ["gz", "zst", "bz2", "xz"];
    let (rest, last) = path.rsplit('/').next()?.rsplit_once('.')?;
    let last = last.to_ascii_lowercase();
    if KNOWN.contains(&last.as_str()) {
        return Some(last);
    }
    if !PACKED.contains(&last.as_str()) {
        return None;
    }
    let inner = rest.rsplit_once('.').map(|(_, inner)| inner.to_ascii_lowercase());
    Some(match inner.filter(|inner| KNOWN.contains(&inner.as_str())) {
        Some(inner) => format!("{inner}.{last}"),
        None => last,
    })
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind())?;
        if *self != Self::Bytes {
            map.serialize_entry("address", &self.address())?;
        }
        match self {
            Self::Http { headers, .. } if !headers.is_empty() => {
                map.serialize_entry("headers", &headers.keys().collect::<Vec<_>>())?;
            }
            Self::S3 { endpoint, region, .. } => {
                map.serialize_entry("endpoint", &endpoint.as_deref().map(shown))?;
                map.serialize_entry("region", region)?;
            }
            _ => {}
        }
        map.end()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shape = formatter.debug_struct("Source");
        shape.field("kind", &self.kind()).field("address", &self.address());
        if let Self::Http { headers, .. } = self {
            shape.field("headers", &headers.keys().collect::<Vec<_>>());
        }
        shape.finish_non_exhaustive()
    }
}

/// As it is in the registry, with all there is: that file is its owner's only.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum StoredSource {
    Http { url: String, headers: BTreeMap<String, String> },
    S3 { url: String, endpoint: Option<String>, region: Option<String> },
    File { path: PathBuf },
    Callback { fetcher: String },
    Python { file: PathBuf, function: String },
    Bytes,
}

impl From<Source> for StoredSource {
    fn from(source: Source) -> Self {
        match source {
            Source::Http { url, headers } => Self::Http { url, headers },
            Source::S3 { url, endpoint, region } => Self::S3 { url, endpoint, region },
            Source::File { path } => Self::File { path },
            Source::Callback { fetcher } => Self::Callback { fetcher },
            Source::Python { file, function } => Self::Python { file, function },
            Source::Bytes => Self::Bytes,
        }
    }
}

impl From<StoredSource> for Source {
    fn from(source: StoredSource) -> Self {
        match source {
            StoredSource::Http { url, headers } => Self::Http { url, headers },
            StoredSource::S3 { url, endpoint, region } => Self::S3 { url, endpoint, region },
            StoredSource::File { path } => Self::File { path },
            StoredSource::Callback { fetcher } => Self::Callback { fetcher },
            StoredSource::Python { file, function } => Self::Python { file, function },
            StoredSource::Bytes => Self::Bytes,
        }
    }
}
