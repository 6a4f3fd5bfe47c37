//! Objects in buckets.

use std::sync::Arc;

use belljar_transfer::S3Place;
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use reqwest::Url;
use tokio::runtime::Runtime;

use super::address;
use super::channel::{self, Event, Failure, Incoming, Outgoing, Unwanted};
use super::http::chain;
use crate::error::Result;
use crate::names::invalid;
use crate::options::FetchOptions;

/// Fetched with one request, so that none of them takes long.
const PART: u64 = 64 << 20;

pub(super) fn place(
    url: &str,
    endpoint: Option<String>,
    region: Option<String>,
    options: &FetchOptions,
) -> Result<S3Place> {
    let place = S3Place::parse(url)
        .map_err(|error| invalid("an address of the form s3://bucket/key", url, error.to_string()))?;
    Ok(S3Place { endpoint, region, credentials: options.s3_credentials.clone(), ..place })
}

pub(super) fn start(
    runtime: &Runtime,
    place: S3Place,
    resume: Option<(u64, Option<String>)>,
    allow_private: bool,
) -> Incoming {
    channel::start(runtime, move |outgoing| bring(place, resume, allow_private, outgoing))
}

async fn bring(
    place: S3Place,
    resume: Option<(u64, Option<String>)>,
    allow_private: bool,
    outgoing: Arc<Outgoing>,
) -> Result<Result<(), Unwanted>, Failure> {
    if let Some(endpoint) = place.endpoint.as_deref().filter(|_| !allow_private) {
        check_endpoint(endpoint).await?;
    }
    let store = place.connect().map_err(|error| Failure::fatal(error.to_string()))?;
    let key = Path::parse(&place.prefix).map_err(|error| Failure::fatal(error.to_string()))?;
    let found = store.head(&key).await.map_err(failure)?;
    let validator = found.e_tag.map(|etag| format!("{etag} {}", found.last_modified.timestamp_micros()));
    let etag = validator.as_deref().and_then(|validator| Some(validator.rsplit_once(' ')?.0.to_owned()));
    let mut offset = match resume {
        // What there is is of another state of the object.
        Some((offset, known)) if known == validator && offset <= found.size => offset,
        _ => 0,
    };
    if outgoing.send(Event::Begin { offset, total: Some(found.size), validator }).is_err() {
        return Ok(Err(Unwanted));
    }
    while offset < found.size {
        let end = found.size.min(offset.saturating_add(PART));
        let Ok(sent) = part(&store, &key, offset..end, etag.clone(), &outgoing).await? else {
            return Ok(Err(Unwanted));
        };
        offset += sent;
    }
    Ok(outgoing.send(Event::End { sha256: None, version: None }))
}

/// Sends a part, and returns how long it was.
async fn part(
    store: &AmazonS3,
    key: &Path,
    range: std::ops::Range<u64>,
    if_match: Option<String>,
    outgoing: &Outgoing,
) -> Result<Result<u64, Unwanted>, Failure> {
    let wanted = range.end - range.start;
    let options = GetOptions { range: Some(GetRange::Bounded(range)), if_match, ..GetOptions::default() };
    let mut stream = store.get_opts(key, options).await.map_err(failure)?.into_stream();
    let mut sent = 0;
    while let Some(bytes) = stream.try_next().await.map_err(failure)? {
        sent += bytes.len() as u64;
        if sent > wanted {
            return Err(Failure {
                restart: true,
                ..Failure::again("the bucket sent more than was asked for")
            });
        }
        if outgoing.bytes(bytes).await.is_err() {
            return Ok(Err(Unwanted));
        }
    }
    match sent == wanted {
        true => Ok(Ok(sent)),
        false => Err(Failure::again("the bucket sent less than was asked for")),
    }
}

/// Services of others are looked up before they are asked. One that answers differently the next time isn't noticed;
/// what it gets then is a signed request for a bucket.
async fn check_endpoint(endpoint: &str) -> Result<(), Failure> {
    let url = Url::parse(endpoint).map_err(|_| Failure::fatal("the endpoint makes no sense"))?;
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    match address::public(&host, url.port_or_known_default().unwrap_or(443)).await {
        Ok(_) => Ok(()),
        Err(error) if error.is::<address::IsPrivate>() => {
            let reason = format!("{host} is on a private network");
            Err(Failure { private: Some(host), ..Failure::fatal(reason) })
        }
        Err(error) => Err(Failure::again(format!("{host} can't be looked up: {error}"))),
    }
}

fn failure(error: Error) -> Failure {
    let retry = !matches!(
        error,
        Error::NotFound { .. }
            | Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
            | Error::InvalidPath { .. }
            | Error::NotSupported { .. }
            | Error::NotImplemented { .. }
            | Error::UnknownConfigurationKey { .. }
    );
    let restart = matches!(error, Error::Precondition { .. } | Error::NotModified { .. });
    Failure { retry, restart, ..Failure::fatal(chain(&error)) }
}
