//! Getting a dataset's bytes from where they are: tried again, gone on with, bounded, and checked.
//!
//! Whatever the source, somebody else brings the bytes through a [`channel`] and this thread writes them. So each of
//! them can be left alone when it takes too long.

mod address;
mod callback;
mod channel;
mod file;
mod http;
mod python;
mod redact;
mod s3;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;

pub use callback::{FetchFailure, FetchRequest, Fetched, Fetcher};

use crate::dataset::{Dataset, LATEST};
use crate::error::{At, DatasetError, Result};
use crate::layout::hexadecimal;
use crate::options::FetchOptions;
use crate::partial::Partial;
use crate::progress::Progress;
use crate::registry::Promise;
use crate::source::{Source, StoredSource};
use channel::{Event, Failure, Incoming, Next};
use redact::Redactor;

/// How often somebody is asked whether to go on.
const TICK: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(20);
/// More than this, and an attempt that failed wasn't in vain.
const WORTH: u64 = 1 << 20;

/// What was fetched: it is in the partial file, durable, and as promised.
pub(crate) struct Arrived {
    pub(crate) sha256: String,
    pub(crate) size: u64,
    pub(crate) version: Option<String>,
}

/// One fetch.
pub(crate) struct Run<'a> {
    pub(crate) dataset: &'a Dataset,
    pub(crate) due: Promise,
    pub(crate) options: &'a FetchOptions,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) runtime: &'a dyn Fn() -> Result<&'a Runtime>,
    pub(crate) fetcher: Option<Arc<dyn Fetcher>>,
    pub(crate) begun: Instant,
}

/// What a source says at the end.
struct Ending {
    sha256: Option<String>,
    version: Option<String>,
}

/// Why an attempt came to nothing.
enum Setback {
    /// So will all others.
    Fatal(DatasetError),
    /// The next one may not.
    Again(Failure),
}

impl From<DatasetError> for Setback {
    fn from(error: DatasetError) -> Self {
        Self::Fatal(error)
    }
}

impl Run<'_> {
    /// Fetches all of it into a partial file. What is there of it already is gone on with; what is there when this
    /// fails is kept for the next time, or removed if it is of no use.
    pub(crate) fn fetch(&self, partial: &mut Partial) -> Result<Arrived> {
        let redactor = Redactor::new(self.dataset, self.options);
        let result = self.attempts(partial, &redactor);
        match &result {
            Ok(_) => {}
            Err(DatasetError::Broken { .. } | DatasetError::TooLarge { .. } | DatasetError::Full { .. }) => {
                partial.discard()
            }
            Err(_) if partial.length() == 0 || !self.resumes(partial) => partial.discard(),
            Err(_) => {
                let _ = partial.checkpoint();
            }
        }
        result
    }

    fn attempts(&self, partial: &mut Partial, redactor: &Redactor) -> Result<Arrived> {
        let mut attempts = 0;
        let mut in_vain = 0;
        loop {
            attempts += 1;
            let before = partial.length();
            let failure = match self.attempt(partial) {
                Ok(arrived) => return Ok(arrived),
                Err(Setback::Fatal(error)) => return Err(redactor.error(error)),
                Err(Setback::Again(failure)) => failure,
            };
            let reason = redactor.text(&failure.reason);
            if failure.restart || !self.resumes(partial) {
                partial.restart()?;
            }
            in_vain = if partial.length() >= before + WORTH { 0 } else { in_vain + 1 };
            let name = || self.dataset.name.clone();
            if let Some(host) = failure.private {
                return Err(DatasetError::Private { name: name(), host });
            }
            if !failure.retry {
                return Err(DatasetError::Refused { name: name(), reason });
            }
            if in_vain >= self.options.attempts.max(1) {
                let kept = if self.resumes(partial) { partial.length() } else { 0 };
                return Err(DatasetError::Failed { name: name(), reason, attempts, kept });
            }
            self.pause(&failure, in_vain, &reason, partial)?;
        }
    }

    fn attempt(&self, partial: &mut Partial) -> Result<Arrived, Setback> {
        let ending = match partial.is_whole() {
            // The last time ended between the last byte and the checks.
            true => Ending { sha256: None, version: None },
            false => self.transfer(partial)?,
        };
        let broken = |what, promised: &str, found: &str| DatasetError::Broken {
            name: self.dataset.name.clone(),
            what,
            promised: promised.to_owned(),
            found: found.to_owned(),
        };
        if partial.total().is_some_and(|total| total != partial.length()) {
            let reason = format!("it ended after {} bytes, which isn't all of it", partial.length());
            return Err(Setback::Again(Failure::again(reason)));
        }
        let sha256 = partial.finish()?;
        let said = ending.sha256.map(|said| said.to_ascii_lowercase());
        for promised in [&self.due.sha256, &said].into_iter().flatten() {
            if *promised != sha256 && partial.patched {
                // Perhaps the parts don't belong together.
                let reason = "what was fetched in parts isn't what was promised".to_owned();
                return Err(Setback::Again(Failure { restart: true, ..Failure::again(reason) }));
            }
            if *promised != sha256 {
                return Err(broken("SHA-256", &short(promised), &sha256).into());
            }
        }
        if let Some(size) = self.due.size.filter(|size| *size != partial.length()) {
            return Err(broken("size", &size.to_string(), &partial.length().to_string()).into());
        }
        let registered = &self.dataset.version;
        if let Some(found) = ending.version.as_ref().filter(|found| *found != registered)
            && registered != LATEST
        {
            return Err(broken("version", registered, &short(found)).into());
        }
        Ok(Arrived { sha256, size: partial.length(), version: ending.version.map(|version| short(&version)) })
    }

    fn transfer(&self, partial: &mut Partial) -> Result<Ending, Setback> {
        let resume = (partial.length() > 0 && self.resumes(partial))
            .then(|| (partial.length(), partial.validator().map(str::to_owned)));
        let incoming = match &self.dataset.source {
            Source::Http { url, headers } => http::start(
                (self.runtime)()?,
                http::Request {
                    url: url.clone(),
                    headers: headers.clone(),
                    resume,
                    options: self.options.clone(),
                    is_promised: self.due.sha256.is_some(),
                    size: self.due.size,
                    file_name: self.dataset.file_name.clone(),
                },
            ),
            Source::S3 { url, endpoint, region } => {
                let place = s3::place(url, endpoint.clone(), region.clone(), self.options)?;
                s3::start((self.runtime)()?, place, resume, self.options.allow_private)
            }
            Source::Callback { fetcher } => {
                let Some(found) = &self.fetcher else {
                    let (name, fetcher) = (self.dataset.name.clone(), fetcher.clone());
                    return Err(DatasetError::NoFetcher { name, fetcher }.into());
                };
                let request = FetchRequest {
                    tenant: self.dataset.tenant.clone(),
                    name: self.dataset.name.clone(),
                    version: self.dataset.version.clone(),
                    offset: resume.map_or(0, |(offset, _)| offset),
                };
                callback::start(Arc::clone(found), request)
            }
            Source::Python { file, function } => {
                python::start(&self.options.python, file, function, self.dataset)?
            }
            Source::File { path } => return file::copy(self, path, partial),
            Source::Bytes => return Err(DatasetError::Gone { name: self.dataset.name.clone() }.into()),
        };
        self.receive(incoming, partial)
    }

    fn receive(&self, mut incoming: Incoming, partial: &mut Partial) -> Result<Ending, Setback> {
        let mut heard = Instant::now();
        let mut begun = false;
        loop {
            let event = match incoming.next(TICK) {
                Next::Event(event) => event,
                Next::Nothing => {
                    self.go_on(partial)?;
                    // Until there is a connection, there is another bound.
                    let patience = match begun {
                        true => self.options.stall_timeout,
                        false => self.options.stall_timeout.saturating_add(self.options.connect_timeout),
                    };
                    if heard.elapsed() >= patience && !incoming.may_ponder {
                        let reason = format!("nothing came for {patience:?}");
                        return Err(Setback::Again(Failure::again(reason)));
                    }
                    continue;
                }
                Next::Closed => {
                    return Err(Setback::Again(Failure::again("it ended without a word".to_owned())));
                }
            };
            heard = Instant::now();
            match event {
                Event::Begin { offset, total, validator } => {
                    begun = true;
                    self.begin(partial, offset, total, validator)?;
                }
                Event::Bytes(bytes) => {
                    incoming.may_ponder = false;
                    self.go_on(partial)?;
                    self.write(partial, &bytes)?;
                }
                Event::End { sha256, version } => return Ok(Ending { sha256, version }),
                Event::Failed(failure) => return Err(Setback::Again(failure)),
            }
        }
    }

    /// The source begins to send, from an offset on, which is where we are or the beginning.
    fn begin(
        &self,
        partial: &mut Partial,
        offset: u64,
        total: Option<u64>,
        validator: Option<String>,
    ) -> Result<(), Setback> {
        if offset == 0 {
            partial.restart()?;
        } else if offset == partial.length() && partial.total().is_none_or(|known| total == Some(known)) {
            partial.patched = true;
        } else {
            let reason = format!("what it sent from byte {offset} on doesn't belong to what is here");
            return Err(Setback::Again(Failure { restart: true, ..Failure::again(reason) }));
        }
        if let Some(total) = total {
            self.expect(partial, total)?;
        }
        partial.know(validator, total);
        self.progress.advance(&self.dataset.name, partial.length(), total);
        Ok(())
    }

    /// There will be so many bytes: what can't be is said before it is tried.
    fn expect(&self, partial: &Partial, total: u64) -> Result<()> {
        if total > self.options.max_bytes {
            return Err(self.too_large());
        }
        if let Some(size) = self.due.size.filter(|size| *size != total) {
            return Err(DatasetError::Broken {
                name: self.dataset.name.clone(),
                what: "size",
                promised: size.to_string(),
                found: total.to_string(),
            });
        }
        let room = rustix::fs::fstatvfs(partial.file()).at("look at", &partial.path)?;
        if room.f_bavail.saturating_mul(room.f_frsize) < total.saturating_sub(partial.length()) {
            return Err(DatasetError::Full { path: partial.path.clone() });
        }
        Ok(())
    }

    fn write(&self, partial: &mut Partial, bytes: &[u8]) -> Result<(), Setback> {
        let most = self.due.size.unwrap_or(u64::MAX).min(self.options.max_bytes);
        if partial.length().saturating_add(bytes.len() as u64) > most {
            if most == self.options.max_bytes {
                return Err(self.too_large().into());
            }
            return Err(DatasetError::Broken {
                name: self.dataset.name.clone(),
                what: "size",
                promised: most.to_string(),
                found: "more".to_owned(),
            }
            .into());
        }
        partial.append(bytes)?;
        self.progress.advance(&self.dataset.name, partial.length(), partial.total());
        Ok(())
    }

    fn too_large(&self) -> DatasetError {
        DatasetError::TooLarge { name: self.dataset.name.clone(), most: self.options.max_bytes }
    }

    /// Whether the caller still wants it, and there is time left.
    fn go_on(&self, partial: &Partial) -> Result<()> {
        if is_stopped(self.options, self.progress) {
            return Err(DatasetError::Stopped { name: self.dataset.name.clone() });
        }
        if self.begun.elapsed() >= self.options.timeout {
            let kept = if self.resumes(partial) { partial.length() } else { 0 };
            let (name, after) = (self.dataset.name.clone(), self.options.timeout);
            return Err(DatasetError::TimedOut { name, after, kept });
        }
        Ok(())
    }

    /// Whether what is here of it is of use: either the source tells whether the rest belongs to it, or the hash does.
    fn resumes(&self, partial: &Partial) -> bool {
        match &self.dataset.source {
            Source::Http { .. } => partial.validator().is_some() || self.due.sha256.is_some(),
            Source::S3 { .. } => partial.validator().is_some(),
            Source::Callback { .. } => {
                let stays = self.due.sha256.is_some() || self.dataset.version != LATEST;
                stays && self.fetcher.as_ref().is_some_and(|fetcher| fetcher.resumes())
            }
            Source::File { .. } | Source::Python { .. } | Source::Bytes => false,
        }
    }

    fn pause(&self, failure: &Failure, in_vain: u32, reason: &str, partial: &Partial) -> Result<()> {
        let doubled = self.options.backoff.saturating_mul(1 << in_vain.saturating_sub(1).min(16));
        let backoff = doubled.min(LONGEST_BACKOFF);
        // Between half of it and all of it, so that those who failed together don't come back together.
        let part = (crate::clock::random() % 1_000) as u32;
        let mut wait = backoff / 2 + backoff * part / 2_000;
        if let Some(asked) = failure.after {
            wait = wait.max(asked.min(self.options.longest_wait));
        }
        tracing::debug!(dataset = %self.dataset.name, reason, ?wait, "fetching is tried again");
        self.progress.retry(&self.dataset.name, reason, wait);
        let begun = Instant::now();
        while let Some(left) = wait.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            self.go_on(partial)?;
            std::thread::sleep(left.min(TICK));
        }
        Ok(())
    }
}

/// Whether somebody wanted no more.
pub(crate) fn is_stopped(options: &FetchOptions, progress: &dyn Progress) -> bool {
    options.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed)) || progress.stop()
}

/// What tells one source from another, without its secrets being readable.
pub(crate) fn fingerprint(dataset: &Dataset) -> String {
    #[derive(Serialize)]
    struct Identity {
        source: StoredSource,
    }
    let identity = Identity { source: dataset.source.clone().into() };
    let json = serde_json::to_vec(&identity).unwrap_or_default();
    hexadecimal(&Sha256::digest(json))
}

/// What others said may be long.
fn short(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(200).collect()
}
