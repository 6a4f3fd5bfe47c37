//! A named, versioned input.

use serde::Serialize;

use crate::error::Result;
use crate::names::{check, check_hash, invalid};
use crate::source::Source;

/// The version of a dataset that has none in particular: whatever its source has when it is fetched.
pub const LATEST: &str = "latest";
/// What a file is unless something says otherwise.
const DEFAULT_FORMAT: &str = "parquet";
const LONGEST_DESCRIPTION: usize = 10_000;

/// What is known of a dataset. Its JSON is for anybody's eyes: see [`Source`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dataset {
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Its version; [`LATEST`] if it has none in particular.
    pub version: String,
    /// What the source called the version when it was fetched, if the source says such things.
    pub reported_version: Option<String>,
    /// Where it comes from.
    pub source: Source,
    /// What its file is called on a shelf: `<name>.parquet`, unless it is something else.
    pub file_name: String,
    /// Of its contents, as promised, or as it was when it was fetched.
    pub sha256: Option<String>,
    /// Bytes, as promised, or as there were when it was fetched.
    pub size: Option<u64>,
    /// In words.
    pub description: Option<String>,
    /// When it was added, in milliseconds since 1970.
    pub added_ms: u64,
    /// When it was fetched last, in milliseconds since 1970.
    pub fetched_ms: Option<u64>,
}

/// A dataset to add.
#[derive(Clone, Debug)]
pub struct NewDataset {
    /// Its name: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Its version. Without one it is [`LATEST`]; what has a version of its own never changes.
    pub version: Option<String>,
    /// Where it comes from.
    pub source: Source,
    /// What its file ends with: `parquet`, `csv`, …; what the source's name ends with, if nothing is given.
    pub format: Option<String>,
    /// What its contents must be.
    pub sha256: Option<String>,
    /// How many bytes there must be.
    pub size: Option<u64>,
    /// In words.
    pub description: Option<String>,
    /// Take the place of another dataset of that name and version.
    pub replace: bool,
}

impl NewDataset {
    /// A dataset of which no more is known than where it comes from.
    pub fn new(name: impl Into<String>, source: Source) -> Self {
        Self {
            name: name.into(),
            version: None,
            source,
            format: None,
            sha256: None,
            size: None,
            description: None,
            replace: false,
        }
    }

    /// Of a version.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// With a promise of what its contents are.
    #[must_use]
    pub fn sha256(mut self, sha256: impl Into<String>) -> Self {
        self.sha256 = Some(sha256.into());
        self
    }

    /// Of a format.
    #[must_use]
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// In place of another one.
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// Looks at all of it; nobody does again.
    pub(crate) fn checked(self, tenant: &str, added_ms: u64) -> Result<Dataset> {
        check("a tenant's name", tenant)?;
        check("a dataset's name", &self.name)?;
        let version = self.version.unwrap_or_else(|| LATEST.to_owned());
        check("a dataset's version", &version)?;
        self.source.check()?;
        let sha256 = self.sha256.as_deref().map(check_hash).transpose()?;
        if self.description.as_ref().is_some_and(|text| text.len() > LONGEST_DESCRIPTION) {
            return Err(invalid("a description", "…", "it is longer than 10000 bytes"));
        }
        let format =
            self.format.or_else(|| self.source.ending()).unwrap_or_else(|| DEFAULT_FORMAT.to_owned());
        let format = format.strip_prefix('.').unwrap_or(&format);
        if format.len() > 32 {
            return Err(invalid("a format", format, "it has more than 32 characters"));
        }
        check("a format", format)?;
        let file_name = match self.name.to_ascii_lowercase().ends_with(&format!(".{format}")) {
            true => self.name.clone(),
            false => format!("{}.{format}", self.name),
        };
        Ok(Dataset {
            tenant: tenant.to_owned(),
            name: self.name,
            version,
            reported_version: None,
            source: self.source,
            file_name,
            sha256,
            size: self.size,
            description: self.description,
            added_ms,
            fetched_ms: None,
        })
    }
}
