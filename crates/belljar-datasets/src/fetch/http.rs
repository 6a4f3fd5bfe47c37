//! Files that are served by HTTP.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, HeaderMap, HeaderName,
    HeaderValue, IF_RANGE, LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER, TRANSFER_ENCODING,
};
use reqwest::{Client, Response, StatusCode, Url, Version};
use tokio::runtime::Runtime;

use super::address::{IsPrivate, PublicOnly, is_private, public};
use super::channel::{self, Event, Failure, Incoming, Outgoing, Unwanted};
use crate::options::FetchOptions;
use crate::source::shown;

const MOST_REDIRECTS: usize = 10;

pub(super) struct Request {
    pub(super) url: String,
    pub(super) headers: BTreeMap<String, String>,
    /// Where to go on, and how the server knows what there was before.
    pub(super) resume: Option<(u64, Option<String>)>,
    pub(super) options: FetchOptions,
    pub(super) is_promised: bool,
    /// How long it is, if that was promised.
    pub(super) size: Option<u64>,
    pub(super) file_name: String,
}

pub(super) fn start(runtime: &Runtime, request: Request) -> Incoming {
    channel::start(runtime, |outgoing| bring(request, outgoing))
}

async fn bring(mut request: Request, outgoing: Arc<Outgoing>) -> Result<Result<(), Unwanted>, Failure> {
    if request.options.allow_private && request.options.proxy.is_none() {
        request.options.allow_private = !is_public(&request.url).await?;
    }
    let client = client(&request.options)?;
    let mut response = ask(&client, &request).await?;
    let begin = match begin(&request, &response)? {
        Some(begin) => begin,
        None => return Err(refusal(&response)),
    };
    if outgoing.send(begin).is_err() {
        return Ok(Err(Unwanted));
    }
    while let Some(bytes) = response.chunk().await.map_err(|error| failure(error, &request.url))? {
        if outgoing.bytes(bytes).await.is_err() {
            return Ok(Err(Unwanted));
        }
    }
    Ok(outgoing.send(Event::End { sha256: None, version: None }))
}

fn client(options: &FetchOptions) -> Result<Client, Failure> {
    // Whoever embeds this may have chosen a provider already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .connect_timeout(options.connect_timeout)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .user_agent(concat!("belljar/", env!("CARGO_PKG_VERSION")));
    if let Some(proxy) = &options.proxy {
        let proxy =
            reqwest::Proxy::all(proxy).map_err(|_| Failure::fatal("the proxy's address makes no sense"))?;
        builder = builder.proxy(proxy);
    } else if !options.allow_private {
        builder = builder.dns_resolver(PublicOnly);
    }
    builder.build().map_err(|error| Failure::fatal(chain(&error)))
}

/// Follows redirects. Headers are for the host that they were given for, and for no other.
async fn ask(client: &Client, request: &Request) -> Result<Response, Failure> {
    let mut url = Url::parse(&request.url).map_err(|_| Failure::fatal("its address makes no sense"))?;
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let (Ok(name), Ok(mut value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        else {
            return Err(Failure::fatal("a header can't be sent"));
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for _ in 0..=MOST_REDIRECTS {
        if !request.options.allow_private {
            check_literal(&url)?;
        }
        let mut asked = client.get(url.clone()).headers(headers.clone()).header(ACCEPT_ENCODING, "identity");
        if let Some((offset, validator)) = &request.resume {
            asked = asked.header(RANGE, format!("bytes={offset}-"));
            if let Some(validator) = validator {
                asked = asked.header(IF_RANGE, validator);
            }
        }
        let response = asked.send().await.map_err(|error| failure(error, url.as_str()))?;
        let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
        let Some(location) = response.headers().get(LOCATION).filter(|_| is_redirect) else {
            return Ok(response);
        };
        let next = follow(&url, location.to_str().unwrap_or_default())?;
        if url.origin() != next.origin() {
            headers.clear();
        }
        url = next;
    }
    Err(Failure::fatal(format!("it was redirected more than {MOST_REDIRECTS} times")))
}

/// Where a redirect leads, if it may.
fn follow(url: &Url, location: &str) -> Result<Url, Failure> {
    let Ok(next) = url.join(location) else {
        return Err(Failure::fatal("it was redirected to an address that makes no sense"));
    };
    if !matches!(next.scheme(), "http" | "https") {
        return Err(Failure::fatal(format!("it was redirected to {}:, which isn't HTTP", next.scheme())));
    }
    if url.scheme() == "https" && next.scheme() == "http" {
        return Err(Failure::fatal(format!(
            "it was redirected from https:// to {}, which anybody on the way could change",
            shown(next.as_str())
        )));
    }
    Ok(next)
}

/// Whether the address that was given leads to everybody's network. Then it has no business sending us to a private
/// one, even where those are allowed.
async fn is_public(url: &str) -> Result<bool, Failure> {
    let url = Url::parse(url).map_err(|_| Failure::fatal("its address makes no sense"))?;
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match public(host, url.port_or_known_default().unwrap_or(80)).await {
        Ok(_) => Ok(true),
        Err(error) if error.is::<IsPrivate>() => Ok(false),
        Err(error) => Err(Failure::again(format!("{host} can't be looked up: {error}"))),
    }
}

/// A host that is an address isn't looked up.
fn check_literal(url: &Url) -> Result<(), Failure> {
    let host = url.host_str().unwrap_or_default();
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if literal.is_ok_and(is_private) {
        return Err(private(host));
    }
    Ok(())
}

fn private(host: &str) -> Failure {
    let reason = format!("{host} is on a private network");
    Failure { private: Some(host.to_owned()), ..Failure::fatal(reason) }
}

/// How it begins, if the server sends it.
fn begin(request: &Request, response: &Response) -> Result<Option<Event>, Failure> {
    let headers = response.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let known = request.resume.as_ref().and_then(|(_, validator)| validator.as_deref());
    match response.status() {
        StatusCode::OK => {
            check_encoding(request, text(CONTENT_ENCODING))?;
            let length = text(CONTENT_LENGTH).and_then(|length| length.trim().parse().ok());
            let has_end = length.is_some()
                || response.version() > Version::HTTP_11
                || text(TRANSFER_ENCODING).is_some_and(|how| how.to_ascii_lowercase().contains("chunked"));
            let total = if has_end { length } else { request.size };
            if !has_end && total.is_none() && !request.is_promised {
                return Err(Failure::fatal(
                    "the server doesn't say how long it is, so that a cut can't be told from its end; \
                     promise its SHA-256 or its size",
                ));
            }
            Ok(Some(Event::Begin { offset: 0, total, validator: validator(headers) }))
        }
        StatusCode::PARTIAL_CONTENT => {
            let restart = |reason: &str| Failure { restart: true, ..Failure::again(reason.to_owned()) };
            let Some((offset, _)) = request.resume else {
                return Err(Failure::fatal("the server sent a part that nobody asked for"));
            };
            check_encoding(request, text(CONTENT_ENCODING))?;
            let (start, total) = text(CONTENT_RANGE)
                .and_then(content_range)
                .ok_or_else(|| restart("the server doesn't say which part it sends"))?;
            let now = validator(headers);
            if start != offset {
                return Err(restart("the server sent another part than was asked for"));
            }
            if known.is_some() && now.as_deref().is_some_and(|now| Some(now) != known) {
                return Err(restart("the file changed since its first part was fetched"));
            }
            let validator = known.map(str::to_owned).or(now);
            Ok(Some(Event::Begin { offset, total: Some(total), validator }))
        }
        _ => Ok(None),
    }
}

/// Contents are kept as they come. If they are packed where the name doesn't say so, they aren't what was asked for.
fn check_encoding(request: &Request, encoding: Option<&str>) -> Result<(), Failure> {
    let encoding = encoding.unwrap_or("identity").trim().to_ascii_lowercase();
    let ending = request.file_name.rsplit('.').next().unwrap_or_default();
    let fits = match encoding.as_str() {
        "" | "identity" => true,
        "gzip" | "x-gzip" => ending == "gz",
        other => other == ending || (other == "zstd" && ending == "zst"),
    };
    if fits || request.is_promised {
        return Ok(());
    }
    Err(Failure::fatal(format!(
        "the server sends it packed ({encoding}), though it was asked not to; give it a format that says so, \
         or promise its SHA-256"
    )))
}

/// What tells one state of a file from another. A weak one doesn't, nor does the time of a file that may have changed
/// again within that second.
fn validator(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let modified = || {
        let modified = text(LAST_MODIFIED)?;
        let time = |text: &str| httpdate::parse_http_date(text).ok();
        let age = time(text(DATE)?)?.duration_since(time(modified)?).ok()?;
        (age >= Duration::from_secs(60)).then_some(modified)
    };
    let etag = text(ETAG).filter(|etag| etag.starts_with('"'));
    etag.or_else(modified).filter(|validator| validator.len() <= 1_000).map(str::to_owned)
}

/// `bytes 5-9/10`: where it starts, and how long all of it is.
fn content_range(text: &str) -> Option<(u64, u64)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.trim().split_once('-')?;
    let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
    let total = total.trim().parse().ok()?;
    // A part that ends before the end would be taken for all of it.
    (start <= end && end.checked_add(1) == Some(total)).then_some((start, total))
}

fn refusal(response: &Response) -> Failure {
    let status = response.status();
    let after = response.headers().get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?));
    let reason = format!("the server answered {status}");
    let temporary = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    let restart = matches!(status.as_u16(), 412 | 416);
    Failure { retry: temporary || restart, restart, after, ..Failure::fatal(reason) }
}

/// Seconds, or a time.
fn retry_after(text: &str) -> Option<Duration> {
    let seconds = text.trim().parse().ok().map(Duration::from_secs);
    seconds.or_else(|| {
        let time = httpdate::parse_http_date(text).ok()?;
        Some(time.duration_since(SystemTime::now()).unwrap_or_default())
    })
}

fn failure(error: reqwest::Error, url: &str) -> Failure {
    let error = error.without_url();
    let mut next: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(one) = next {
        if let Some(IsPrivate(host)) = one.downcast_ref::<IsPrivate>() {
            return private(host);
        }
        next = one.source();
    }
    let reason = format!("{}: {}", shown(url), chain(&error));
    Failure { retry: !error.is_builder(), ..Failure::fatal(reason) }
}

/// What an error and those behind it say, without what each says again.
pub(super) fn chain(error: &dyn Error) -> String {
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
    fn parts_are_the_rest_of_a_file_or_nothing() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, 10)));
        for text in [
            "bytes 5-8/10",
            "bytes 5-9/*",
            "bytes 0-18446744073709551615/1",
            "bytes 9-5/10",
            "bytes */10",
            "items 5-9/10",
            "bytes 5-/10",
            "bytes -1-9/10",
        ] {
            assert_eq!(content_range(text), None, "{text}");
        }
    }

    #[test]
    fn redirects_lead_to_http_and_never_from_what_is_encrypted_to_what_is_not() {
        let from = Url::parse("https://example.org/a/b?c").expect("it is an address");
        let leads = |location| follow(&from, location).map(|url| url.to_string()).ok();
        assert_eq!(leads("d").as_deref(), Some("https://example.org/a/d"));
        assert_eq!(leads("//example.com/d").as_deref(), Some("https://example.com/d"));
        assert_eq!(leads("https://example.com/").as_deref(), Some("https://example.com/"));
        for location in
            ["http://example.org/a", "HTTP://example.org", "ftp://example.org/", "file:///etc/passwd"]
        {
            assert_eq!(leads(location), None, "{location}");
        }
        let plain = Url::parse("http://example.org/").expect("it is an address");
        assert!(
            follow(&plain, "https://example.org/").is_ok() && follow(&plain, "http://example.com/").is_ok()
        );
    }

    #[test]
    fn a_time_tells_states_apart_only_if_it_is_old_enough() {
        let with = |pairs: &[(HeaderName, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            validator(&pairs.collect())
        };
        let (old, new, now) = (
            "Sun, 01 Nov 2026 10:00:00 GMT",
            "Sun, 01 Nov 2026 11:59:59 GMT",
            "Sun, 01 Nov 2026 12:00:00 GMT",
        );
        assert_eq!(with(&[(ETAG, "\"1\""), (LAST_MODIFIED, old), (DATE, now)]).as_deref(), Some("\"1\""));
        assert_eq!(with(&[(ETAG, "W/\"1\""), (LAST_MODIFIED, old), (DATE, now)]).as_deref(), Some(old));
        for unfit in [&[(LAST_MODIFIED, new), (DATE, now)][..], &[(LAST_MODIFIED, old)], &[(ETAG, "W/\"1\"")]]
        {
            assert_eq!(with(unfit), None);
        }
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 01 Nov 1998 12:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after("soon"), None);
    }
}
