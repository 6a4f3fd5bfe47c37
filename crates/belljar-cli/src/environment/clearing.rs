//! Removing environments, and what was made for them.

use std::collections::BTreeMap;
use std::process::ExitCode;

use belljar::{CachePrune, Error};
use serde_json::json;

use super::arguments::{Common, PruneArguments};
use crate::failure;
use crate::size::Size;

pub(super) fn prune(arguments: PruneArguments) -> anyhow::Result<ExitCode> {
    let PruneArguments { older_than, dry_run, runtime, common } = arguments;
    let (answer, keeping) = common.split()?;
    let runtimes = runtime.runtimes()?;
    let pruned = keeping.environments()?.prune(&runtimes, &CachePrune { older_than, dry_run })?;
    answer.give(
        || &pruned,
        || {
            let mut counts = BTreeMap::<&str, usize>::new();
            for removed in &pruned.removed {
                *counts.entry(words(&removed.kind)).or_default() += 1;
            }
            let verb = if dry_run { "would be removed" } else { "removed" };
            let mut text: String =
                counts.iter().map(|(what, count)| format!("{what}: {count} {verb}\n")).collect();
            let frees = if dry_run { "would free" } else { "freed" };
            text += &format!("{frees} {}\n", Size(pruned.freed_bytes));
            text
        },
    )
}

pub(super) fn remove(names: &[String], common: Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.split()?;
    let environments = keeping.environments()?;
    let (mut removed, mut failed, mut status) = (Vec::new(), Vec::new(), 0);
    for name in names {
        let forgotten = environments.forget(name).and_then(|was_there| match was_there {
            true => Ok(()),
            false => Err(Error::NoSuchEnvironment { name: name.clone() }),
        });
        match forgotten {
            Ok(()) => removed.push(name),
            Err(error) => {
                failed.push(json!({ "environment": name, "error": error.to_string() }));
                status = failure::tell(&error.into()).max(status);
            }
        }
    }
    let document = || json!({ "removed": removed, "failed": failed });
    if answer.json || !removed.is_empty() {
        answer.give(document, || removed.iter().map(|name| format!("{name}: removed\n")).collect())?;
    }
    Ok(ExitCode::from(status))
}

/// What an entry of the cache is, for people.
fn words(kind: &str) -> &str {
    match kind {
        "packages" => "sets of packages",
        "wheel" | "extension" => "packages",
        "image" => "images of interpreters",
        "runtime" => "interpreters",
        "code" => "compiled interpreters",
        _ => "answers of the package index",
    }
}
