//! Removing sessions, and finding what is damaged.

use std::process::ExitCode;

use belljar::{Error, Prune, Pruned};
use serde_json::json;

use super::arguments::{Common, PruneArguments};
use crate::size::Size;
use crate::{console, failure};

pub(super) fn close(names: &[String], common: Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.split()?;
    let registry = keeping.registry()?;
    let (mut closed, mut failed, mut status) = (Vec::new(), Vec::new(), 0);
    for name in names {
        match registry.close(name) {
            Ok(()) => closed.push(name),
            Err(error) => {
                failed.push(json!({ "session": name, "error": error.to_string() }));
                status = failure::tell(&error.into()).max(status);
            }
        }
    }
    let document = || json!({ "closed": closed, "failed": failed });
    if answer.json || !closed.is_empty() {
        answer.give(document, || closed.iter().map(|name| format!("{name}: closed\n")).collect())?;
    }
    Ok(ExitCode::from(status))
}

pub(super) fn prune(arguments: PruneArguments) -> anyhow::Result<ExitCode> {
    let PruneArguments { idle, keep, cool, dry_run, common } = arguments;
    let (answer, keeping) = common.split()?;
    let registry = keeping.registry()?;
    let Pruned { closed, freed_bytes, .. } = registry.prune(&Prune { idle, keep_bytes: keep, dry_run })?;
    let (mut removed_bytes, mut cooled_bytes, mut damaged) = (0, 0, Vec::<Error>::new());
    if !dry_run {
        removed_bytes = registry.collect()?.bytes;
        if let Some(older_than) = cool {
            let cooled = registry.cool(older_than)?;
            cooled_bytes = cooled.freed_bytes;
            damaged = cooled.damaged.into_iter().map(Error::from).collect();
        }
    }
    for error in damaged {
        failure::tell(&error.into());
    }
    let kept_bytes = registry.disk_bytes()?;
    let document = || {
        json!({
            "closed": closed, "freed_bytes": freed_bytes, "removed_bytes": removed_bytes,
            "cooled_bytes": cooled_bytes, "kept_bytes": kept_bytes, "dry_run": dry_run,
        })
    };
    answer.give(document, || {
        let (verb, frees) = if dry_run { ("would be closed", "would free") } else { ("closed", "freed") };
        let mut text: String = closed.iter().map(|name| format!("{name}: {verb}\n")).collect();
        let freed = freed_bytes + removed_bytes + cooled_bytes;
        text += &format!("{frees} {}; {} are in use\n", Size(freed), Size(kept_bytes));
        text
    })
}

pub(super) fn verify(common: Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.split()?;
    let registry = keeping.registry()?;
    let damaged: Vec<String> = registry.verify()?.iter().map(ToString::to_string).collect();
    let disk_bytes = registry.disk_bytes()?;
    for damage in &damaged {
        console::print_error(format!("error: {damage}\n").as_bytes());
    }
    let document = || json!({ "disk_bytes": disk_bytes, "damaged": damaged });
    answer.give(document, || match damaged.len() {
        0 => format!("{} read in {}: all is well", Size(disk_bytes), registry.directory().display()),
        count => format!(
            "{} read in {}: damage in {count} places",
            Size(disk_bytes),
            registry.directory().display()
        ),
    })?;
    Ok(if damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
