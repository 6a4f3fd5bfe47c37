//! A `pylock.toml`, as it is written.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

use crate::{error::PackageError, target};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Document {
    lock_version: String,
    requires_python: Option<String>,
    #[serde(default)]
    pub(super) packages: Vec<Entry>,
}

#[derive(Deserialize)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) marker: Option<String>,
    #[serde(default)]
    pub(super) wheels: Vec<Artifact>,
    pub(super) archive: Option<Artifact>,
    pub(super) directory: Option<Directory>,
    pub(super) sdist: Option<IgnoredAny>,
    pub(super) vcs: Option<IgnoredAny>,
    #[serde(default)]
    tool: Tool,
}

#[derive(Deserialize)]
pub(super) struct Artifact {
    pub(super) name: Option<String>,
    pub(super) url: Option<String>,
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) hashes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(super) struct Directory {
    pub(super) path: String,
}

#[derive(Default, Deserialize)]
struct Tool {
    belljar: Option<Ours>,
}

/// What only Belljar understands.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Ours {
    pub(super) kind: String,
    pub(super) sha256: String,
    /// Of an extension, in site-packages.
    pub(super) path: Option<String>,
}

impl Document {
    pub(super) fn parse(text: &str) -> Result<Self, PackageError> {
        let wrong = |reason: String| PackageError::Lock { reason };
        let document: Self = toml_edit::de::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            wrong(format!("{}, on line {}", error.message(), before.matches('\n').count() + 1))
        })?;
        if document.lock_version.split('.').next() != Some("1") {
            return Err(wrong(format!("its version is {}, not 1", document.lock_version)));
        }
        match &document.requires_python {
            Some(range) if !target::admits(range).map_err(wrong)? => {
                Err(wrong(format!("it is for Python {range}, and the guest has {}", target::PYTHON)))
            }
            _ => Ok(document),
        }
    }
}

impl Entry {
    pub(super) fn ours(&self) -> Option<&Ours> {
        self.tool.belljar.as_ref()
    }
}

impl Artifact {
    /// The file's name.
    pub(super) fn file(&self) -> Option<&str> {
        // What is fetched counts, not what it is called: a wheel's name mustn't hide something that is built.
        let place = self.url.as_deref().or(self.path.as_deref()).or(self.name.as_deref())?;
        place.split(['#', '?']).next()?.rsplit('/').next()
    }
}
