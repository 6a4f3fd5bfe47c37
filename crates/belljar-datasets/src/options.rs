//! How to fetch.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use belljar_transfer::S3Credentials;

/// How a dataset is fetched, and within which bounds.
#[derive(Clone)]
pub struct FetchOptions {
    /// How often it is tried, at most: 5. An attempt that brought more of the file doesn't count.
    pub attempts: u32,
    /// How long to wait after the first attempt that failed: 200 ms. Each time it is twice as long, up to 20 s, less
    /// a random part.
    pub backoff: Duration,
    /// The longest wait that a server may ask for: 60 s.
    pub longest_wait: Duration,
    /// Until a connection is there: 15 s.
    pub connect_timeout: Duration,
    /// Without a single byte: 30 s.
    pub stall_timeout: Duration,
    /// For all of it, and for waiting until somebody else has fetched it: an hour.
    pub timeout: Duration,
    /// Of one dataset: 10 GiB.
    pub max_bytes: u64,
    /// Who asks a bucket. Never stored.
    pub s3_credentials: Option<S3Credentials>,
    /// Whether addresses of this host and of private networks are fine. They aren't, unless it is said; and an address
    /// that is everybody's is never redirected to one of those.
    pub allow_private: bool,
    /// The address of an HTTP proxy. None is taken from the environment. Through a proxy, it is the proxy that
    /// looks up names, and that has to keep private addresses apart.
    pub proxy: Option<String>,
    /// The interpreter of [`Source::Python`](crate::Source::Python): `python3`.
    pub python: PathBuf,
    /// Fetch it even if it is here. What has a version of its own must still be the same.
    pub refresh: bool,
    /// Read all of a dataset that is here, rather than look at its length and time.
    pub verify: bool,
    /// Set by somebody else to end it.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            attempts: 5,
            backoff: Duration::from_millis(200),
            longest_wait: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(15),
            stall_timeout: Duration::from_secs(30),
            timeout: Duration::from_secs(3_600),
            max_bytes: 10 << 30,
            s3_credentials: None,
            allow_private: false,
            proxy: None,
            python: "python3".into(),
            refresh: false,
            verify: false,
            cancel: None,
        }
    }
}

impl fmt::Debug for FetchOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FetchOptions")
            .field("attempts", &self.attempts)
            .field("stall_timeout", &self.stall_timeout)
            .field("timeout", &self.timeout)
            .field("max_bytes", &self.max_bytes)
            .field("allow_private", &self.allow_private)
            .finish_non_exhaustive()
    }
}
