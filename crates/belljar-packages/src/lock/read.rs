//! A `pylock.toml`, as it is written.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

use crate::{
    error::PackageError,
    target::{Platform, Target},
};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Document {
    lock_version: String,
    requires_python: Option<String>,
    #[serde(default)]
    created_by: String,
    #[serde(default)]
    tool: Tools,
    #[serde(default)]
    pub(super) packages: Vec<Entry>,
}

/// Tables of other tools aren't looked at.
#[derive(Default, Deserialize)]
struct Tools {
    belljar: Option<For>,
}

/// What a lock is for, if that isn't the guest of the `wasm` engine.
#[derive(Deserialize)]
struct For {
    engine: String,
    python: String,
    machine: String,
    glibc: String,
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
        Ok(document)
    }

    /// What Belljar wrote it for; `None` if others wrote it, for all or for whom they don't say.
    pub(super) fn target(&self) -> Result<Option<Target>, PackageError> {
        let Some(For { engine, python, machine, glibc }) = &self.tool.belljar else {
            return Ok((self.created_by == "belljar").then_some(Target::Wasm));
        };
        let odd = || PackageError::Lock { reason: "its [tool.belljar] isn't known".into() };
        let pair = |text: &str| -> Option<(u32, u32)> {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        // It may come from anybody, and is shown in errors.
        let is_machine =
            machine.len() < 32 && machine.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match (engine.as_str(), pair(python), pair(glibc)) {
            ("native", Some((3, minor @ ..1000)), Some(glibc)) if is_machine => {
                let (version, machine) = (format!("3.{minor}.0"), machine.clone());
                Ok(Some(Target::Native(Platform { minor, version, machine, glibc })))
            }
            _ => Err(odd()),
        }
    }

    /// Looks whether the version of Python is one that it is for.
    pub(super) fn admit(&self, target: &Target) -> Result<(), PackageError> {
        let wrong = |reason: String| PackageError::Lock { reason };
        match &self.requires_python {
            Some(range) if !target.admits(range).map_err(wrong)? => {
                let who = if target.is_native() { "this one is" } else { "the guest has" };
                Err(wrong(format!("it is for Python {range}, and {who} {}", target.python())))
            }
            _ => Ok(()),
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
