//! What stays, and what goes.

use std::process::ExitCode;
use std::time::Duration;

use belljar::{Artifacts, CollectOptions, CollectedArtifacts, Error};
use serde_json::json;

use super::arguments::{Common, Several};
use super::not_there;
use crate::failure;
use crate::size::Size;

pub(super) fn pin(several: &Several, pinned: bool) -> anyhow::Result<ExitCode> {
    let done = if pinned { "pinned" } else { "unpinned" };
    each(several, done, |artifacts, id| artifacts.pin(id, pinned))
}

pub(super) fn remove(several: &Several) -> anyhow::Result<ExitCode> {
    each(several, "removed", |artifacts, id| artifacts.remove(id))
}

/// Does something to each of them, whatever becomes of the others.
fn each(
    several: &Several,
    word: &str,
    body: impl Fn(&Artifacts, &str) -> Result<(), Error>,
) -> anyhow::Result<ExitCode> {
    let (answer, artifacts) = several.common.open()?;
    let (mut done, mut failed, mut status) = (Vec::new(), Vec::new(), 0);
    for id in &several.ids {
        let result = match &artifacts {
            Some(artifacts) => body(artifacts, id),
            None => Err(not_there(id)),
        };
        match result {
            Ok(()) => done.push(id),
            Err(error) => {
                failed.push(json!({ "id": id, "error": error.to_string() }));
                status = failure::tell(&error.into()).max(status);
            }
        }
    }
    if answer.json || !done.is_empty() {
        let document = || json!({ word: done, "failed": failed });
        answer.give(document, || done.iter().map(|id| format!("{id}: {word}\n")).collect())?;
    }
    Ok(ExitCode::from(status))
}

pub(super) fn collect(max_age: Option<Duration>, dry_run: bool, common: &Common) -> anyhow::Result<ExitCode> {
    let (answer, artifacts) = common.open()?;
    let options = CollectOptions { dry_run, max_age, ..CollectOptions::default() };
    let CollectedArtifacts { artifacts, blobs, bytes, temporaries, records, .. } = match &artifacts {
        Some(artifacts) => artifacts.collect(&options)?,
        None => CollectedArtifacts::default(),
    };
    let document = || {
        json!({
            "artifacts": artifacts, "contents": blobs, "freed_bytes": bytes, "unfinished": temporaries,
            "records": records, "dry_run": dry_run,
        })
    };
    answer.give(document, || {
        let (would, frees) = if dry_run { ("would be ", "would free") } else { ("", "freed") };
        format!(
            "{artifacts} artifacts, {blobs} contents, {temporaries} unfinished files and {records} records of cells \
             {would}removed\n{frees} {}\n",
            Size(bytes)
        )
    })
}
