//! What is not needed, and what is damaged.

use std::process::ExitCode;

use belljar::{CollectedDatasets, DatasetCollectOptions};
use serde_json::json;

use super::arguments::Common;
use crate::failure;
use crate::limits::NamedDataset;
use crate::size::Size;

pub(super) fn remove(name: &str, version: Option<&str>, common: &Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.open()?;
    keeping.datasets().remove(name, version)?;
    let what = version.map_or_else(|| name.to_owned(), |version| format!("{name}@{version}"));
    answer.give(|| json!({ "removed": name, "version": version }), || format!("{what}: removed"))
}

pub(super) fn collect(dry_run: bool, common: &Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.open()?;
    let options = DatasetCollectOptions { dry_run, ..DatasetCollectOptions::default() };
    let CollectedDatasets { blobs, partials, bytes, problems } = keeping.datasets().collect(&options)?;
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let document = || json!({ "contents": blobs, "unfinished": partials, "freed_bytes": bytes, "dry_run": dry_run, "problems": told });
    let done = answer.give(document, || {
        let (would, frees) = if dry_run { ("would be ", "would free") } else { ("", "freed") };
        format!("{blobs} contents and {partials} unfinished files {would}removed\n{frees} {}\n", Size(bytes))
    })?;
    let damage = !problems.is_empty();
    for problem in problems {
        failure::tell(&belljar::Error::from(problem).into());
    }
    Ok(if damage { ExitCode::FAILURE } else { done })
}

pub(super) fn verify(names: &[NamedDataset], common: &Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.open()?;
    let datasets = keeping.datasets();
    let all;
    let names = match names {
        [] => {
            let listed = datasets.list()?.into_iter();
            all = listed
                .map(|one| NamedDataset { name: one.name, version: Some(one.version) })
                .collect::<Vec<_>>();
            &all
        }
        names => names,
    };
    let (mut found, mut failed) = (Vec::new(), false);
    for NamedDataset { name, version } in names {
        // One that isn't known is another matter.
        let dataset = datasets.get(name, version.as_deref())?;
        let state = match datasets.check(name, Some(&dataset.version)) {
            Ok(true) => "intact",
            Ok(false) => "never fetched",
            Err(error) => {
                failure::tell(&error.into());
                "damaged"
            }
        };
        failed |= state == "damaged";
        found.push((dataset, state));
    }
    let document = |(dataset, state): &(belljar::Dataset, &str)| json!({ "name": dataset.name, "version": dataset.version, "sha256": dataset.sha256, "state": state });
    let line = |(dataset, state): &(belljar::Dataset, &str)| {
        format!("{}@{}: {state}\n", dataset.name, dataset.version)
    };
    let documents = || json!({ "datasets": found.iter().map(document).collect::<Vec<_>>() });
    answer.give(documents, || match &found[..] {
        [] => "no datasets".to_owned(),
        found => found.iter().map(line).collect(),
    })?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
