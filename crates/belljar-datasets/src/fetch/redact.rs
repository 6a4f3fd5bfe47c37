//! What others say, without what they shouldn't.

use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::options::FetchOptions;

/// Shorter ones would make anything unreadable, and give themselves away by that.
const SHORTEST: usize = 4;
/// Characters of what others said, at most.
const LONGEST: usize = 8_000;

pub(super) struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    pub(super) fn new(dataset: &Dataset, options: &FetchOptions) -> Self {
        let mut secrets = dataset.source.secrets();
        if let Some(credentials) = &options.s3_credentials {
            secrets.extend([credentials.key_id.clone(), credentials.secret.clone()]);
            secrets.extend(credentials.token.clone());
        }
        let proxy = options.proxy.as_deref().and_then(|proxy| reqwest::Url::parse(proxy).ok());
        secrets.extend(proxy.and_then(|proxy| proxy.password().map(str::to_owned)));
        secrets.retain(|secret| secret.len() >= SHORTEST);
        // Where one is in another, the longer one goes first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets }
    }

    pub(super) fn text(&self, text: &str) -> String {
        let told = |text: String, secret: &String| text.replace(secret.as_str(), "[redacted]");
        // Cut afterwards: half a secret wouldn't be recognised.
        self.secrets.iter().fold(text.to_owned(), told).chars().take(LONGEST).collect()
    }

    pub(super) fn error(&self, error: DatasetError) -> DatasetError {
        match error {
            DatasetError::Broken { name, what, promised, found } => {
                DatasetError::Broken { name, what, promised, found: self.text(&found) }
            }
            DatasetError::Refused { name, reason } => {
                DatasetError::Refused { name, reason: self.text(&reason) }
            }
            error => error,
        }
    }
}
