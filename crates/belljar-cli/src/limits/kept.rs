//! The options that say what becomes of what comes out of cells, and what goes in.

use std::path::{self, PathBuf};

use belljar::{ArtifactPolicy, ArtifactScope, DatasetAccess, DatasetPolicy};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::size;

#[derive(Args, Debug)]
#[command(next_help_heading = "Artifacts")]
pub(crate) struct ArtifactLimits {
    /// Keep nothing of what cells leave under artifacts/; it stays in the workspace
    #[arg(long, conflicts_with_all = ["leave_artifacts", "keep_displays"])]
    no_artifacts: bool,

    /// Leave in the workspace what is kept, too
    #[arg(long)]
    leave_artifacts: bool,

    /// Keep images that are displayed as well
    #[arg(long)]
    keep_displays: bool,

    /// What cells can read back: nothing, what their own session made, or all of it [default: session]
    #[arg(long, value_name = "SCOPE", value_parser = scope_values())]
    artifact_read: Option<ArtifactScope>,

    /// Keep none that is larger [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    artifact_max: Option<u64>,

    /// Keep only files of this kind, such as text/csv or image/*; can be repeated
    #[arg(long, value_name = "MIME", value_parser = mime)]
    artifact_allow: Vec<String>,

    /// Keep no files of this kind; can be repeated
    #[arg(long, value_name = "MIME", value_parser = mime)]
    artifact_deny: Vec<String>,

    /// Let new sessions have the host's randomness, though what is made with it cannot be made again
    #[arg(long, conflicts_with = "seed")]
    fresh_randomness: bool,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Datasets")]
pub(crate) struct DatasetLimits {
    /// How datasets come to a session: not at all, from a directory of the host at /data, staged into data/, or both
    /// [default: none]
    #[arg(long, value_name = "HOW", value_parser = access_values())]
    dataset_access: Option<DatasetAccess>,

    /// A directory of the host, seen read-only at /data
    #[arg(long, value_name = "DIR")]
    datasets: Option<PathBuf>,

    /// Stage this dataset before anything runs (see `belljar dataset`); can be repeated
    #[arg(long, value_name = "NAME[@VERSION]", value_parser = named_dataset)]
    dataset: Vec<NamedDataset>,
}

/// A dataset, and a version of it if one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedDataset {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
}

impl ArtifactLimits {
    pub(super) fn apply(&self, policy: &mut ArtifactPolicy) {
        policy.keep &= !self.no_artifacts;
        policy.leave |= self.leave_artifacts;
        policy.displays |= self.keep_displays;
        policy.read = self.artifact_read.unwrap_or(policy.read);
        policy.max_bytes = self.artifact_max.or(policy.max_bytes);
        if !self.artifact_allow.is_empty() {
            policy.allow.clone_from(&self.artifact_allow);
        }
        policy.deny.extend(self.artifact_deny.iter().cloned());
        policy.seeded &= !self.fresh_randomness;
    }
}

impl DatasetLimits {
    pub(super) fn apply(&self, policy: &mut DatasetPolicy) {
        if let Some(directory) = &self.datasets {
            // A session may be woken from another directory.
            policy.directory = Some(path::absolute(directory).unwrap_or_else(|_| directory.clone()));
        }
        let was_staged = policy.access.is_staged();
        let local = policy.access.is_local() || self.datasets.is_some();
        let staged = policy.access.is_staged() || !self.dataset.is_empty();
        policy.access = self.dataset_access.unwrap_or(match (local, staged) {
            (false, false) => DatasetAccess::None,
            (true, false) => DatasetAccess::LocalRo,
            (false, true) => DatasetAccess::Api,
            (true, true) => DatasetAccess::Hybrid,
        });
        // Whoever names some gives those, and not the registry.
        let was_staged = self.dataset_access.is_some_and(DatasetAccess::is_staged) || was_staged;
        if !self.dataset.is_empty() && !was_staged {
            policy.allow = Some(Vec::new());
        }
        if let Some(allow) = &mut policy.allow {
            allow.extend(self.dataset.iter().map(|dataset| dataset.name.clone()));
        }
    }

    /// Those that are to be staged.
    pub(crate) fn named(&self) -> &[NamedDataset] {
        &self.dataset
    }
}

/// Reads `NAME` or `NAME@VERSION`.
pub(crate) fn named_dataset(text: &str) -> Result<NamedDataset, String> {
    let (name, version) = match text.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (text, None),
    };
    if name.is_empty() || version.is_some_and(str::is_empty) {
        return Err("write NAME or NAME@VERSION".to_owned());
    }
    Ok(NamedDataset { name: name.to_owned(), version: version.map(str::to_owned) })
}

/// A kind of file, or all of a kind.
pub(crate) fn mime(text: &str) -> Result<String, String> {
    let plain =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    match text.split_once('/') {
        Some((kind, "*")) if plain(kind) && kind != "*" => Ok(text.to_ascii_lowercase()),
        Some((kind, of)) if plain(kind) && plain(of) && !text.contains('*') => Ok(text.to_ascii_lowercase()),
        _ => Err("write a type such as text/csv, or image/* for all of a kind".to_owned()),
    }
}

fn scope_values() -> impl TypedValueParser<Value = ArtifactScope> {
    PossibleValuesParser::new(["none", "session", "tenant"]).map(|word| match word.as_str() {
        "none" => ArtifactScope::None,
        "tenant" => ArtifactScope::Tenant,
        _ => ArtifactScope::Session,
    })
}

fn access_values() -> impl TypedValueParser<Value = DatasetAccess> {
    PossibleValuesParser::new(["none", "local-ro", "api", "hybrid"]).map(|word| match word.as_str() {
        "local-ro" => DatasetAccess::LocalRo,
        "api" => DatasetAccess::Api,
        "hybrid" => DatasetAccess::Hybrid,
        _ => DatasetAccess::None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_files() {
        for (right, expected) in
            [("text/csv", "text/csv"), ("image/*", "image/*"), ("Image/SVG+xml", "image/svg+xml")]
        {
            assert_eq!(mime(right).as_deref(), Ok(expected));
        }
        for wrong in
            ["", "csv", "/", "text/", "/csv", "*/*", "*/csv", "text/c*", "a/b/c", "text/c v", "te xt/*"]
        {
            assert!(mime(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_and_versions() {
        let named = |text: &str| named_dataset(text).map(|found| (found.name, found.version));
        assert_eq!(named("sales"), Ok(("sales".to_owned(), None)));
        assert_eq!(named("sales@2024"), Ok(("sales".to_owned(), Some("2024".to_owned()))));
        for wrong in ["", "@", "sales@", "@2024"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_named_says_how_datasets_come() {
        let apply = |before: DatasetAccess, said: Option<DatasetAccess>, local: bool, staged: bool| {
            let limits = DatasetLimits {
                dataset_access: said,
                datasets: local.then(|| "/x".into()),
                dataset: named_dataset("x").into_iter().filter(|_| staged).collect(),
            };
            let mut policy = DatasetPolicy { access: before, ..DatasetPolicy::default() };
            limits.apply(&mut policy);
            policy.access
        };
        use DatasetAccess::{Api, Hybrid, LocalRo, None};
        assert_eq!(apply(None, Option::None, false, false), None);
        assert_eq!(apply(None, Option::None, true, false), LocalRo);
        assert_eq!(apply(None, Option::None, false, true), Api);
        assert_eq!(apply(None, Option::None, true, true), Hybrid);
        assert_eq!(apply(Api, Option::None, true, false), Hybrid);
        assert_eq!(apply(LocalRo, Option::None, false, false), LocalRo);
        assert_eq!(apply(Hybrid, Some(None), true, false), None);
        assert_eq!(apply(None, Some(Api), true, false), Api);
    }
}
