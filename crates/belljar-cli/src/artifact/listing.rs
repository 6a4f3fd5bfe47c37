//! What artifacts there are, and what is known of them.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use belljar::{
    Artifact, ArtifactFilter, Artifacts, CellRecord, Error, Lock, Provenance, RecordKind, StoreUsage,
};
use serde_json::json;

use super::arguments::{Common, ListArguments};
use crate::console;
use crate::limits;
use crate::moment::Moment;
use crate::session::{printable, tell_cell, tell_command};
use crate::size::Size;
use crate::table::Align::{Left, Right};
use crate::table::table;

pub(super) fn list(arguments: ListArguments) -> anyhow::Result<ExitCode> {
    let ListArguments { session, mime, name, pinned, count, common } = arguments;
    let (answer, artifacts) = common.open()?;
    let filter =
        ArtifactFilter { session, mime, name, pinned: pinned.then_some(true), ..ArtifactFilter::default() };
    let (found, more) = match &artifacts {
        Some(artifacts) => some(artifacts, filter, count)?,
        None => (Vec::new(), false),
    };
    if more && !answer.json {
        console::note(format_args!("there are more; -n shows more of them"));
    }
    answer.give(
        || json!({ "artifacts": found, "more": more }),
        || match &found[..] {
            [] => "no artifacts; what cells leave under artifacts/ becomes one".to_owned(),
            found => artifact_table(found),
        },
    )
}

/// So many of them, and whether there are more. A store lists a thousand at once.
fn some(
    artifacts: &Artifacts,
    mut filter: ArtifactFilter,
    count: u64,
) -> Result<(Vec<Artifact>, bool), Error> {
    let mut found: Vec<Artifact> = Vec::new();
    loop {
        filter.limit = Some(count.saturating_add(1) - found.len() as u64);
        let page = artifacts.list(&filter)?;
        let Some(last) = page.last() else { return Ok((found, false)) };
        filter.after = Some(last.id.clone());
        found.extend(page);
        if found.len() as u64 > count {
            found.truncate(usize::try_from(count).unwrap_or(usize::MAX));
            return Ok((found, true));
        }
    }
}

fn artifact_table(artifacts: &[Artifact]) -> String {
    let columns = [
        ("ID", Left),
        ("NAME", Left),
        ("TYPE", Left),
        ("SIZE", Right),
        ("SESSION", Left),
        ("CELL", Right),
        ("MADE", Left),
        ("", Left),
    ];
    let row = |artifact: &Artifact| {
        vec![
            artifact.id.to_string(),
            printable(&artifact.name),
            artifact.mime.clone(),
            Size(artifact.size).to_string(),
            artifact.session.clone(),
            artifact.cell.to_string(),
            short_time(&artifact.created_at),
            marks(artifact),
        ]
    };
    table(&columns, &artifacts.iter().map(row).collect::<Vec<_>>())
}

/// A time without its parts of seconds.
fn short_time(time: &str) -> String {
    let short = time.split('.').next().unwrap_or(time).replace('T', " ");
    format!("{} UTC", short.trim_end_matches('Z'))
}

fn marks(artifact: &Artifact) -> String {
    let marks = [(artifact.pinned, "pinned"), (artifact.taken_back, "taken back")];
    marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect::<Vec<_>>().join(", ")
}

pub(super) fn show(id: &str, provenance: bool, common: &Common) -> anyhow::Result<ExitCode> {
    let (answer, artifacts) = common.open_for(id)?;
    if !provenance {
        let artifact = artifacts.get(id)?;
        return answer.give(|| &artifact, || described(&artifact));
    }
    let found = artifacts.provenance(id)?;
    answer.give(|| &found, || described(&found.artifact) + "\n" + &story(&found))
}

fn described(artifact: &Artifact) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing into a string can't fail.
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("id", artifact.id.as_str());
    line("name", &printable(&artifact.name));
    line("type", &artifact.mime);
    line("size", &Size(artifact.size).to_string());
    line("sha256", &artifact.sha256);
    line("made", &short_time(&artifact.created_at));
    line("session", &format!("{}, cell {}", artifact.session, artifact.cell));
    if let Some(call) = &artifact.tool_call {
        line("tool call", &printable(call));
    }
    for parent in &artifact.parents {
        line("parent", parent.as_str());
    }
    let marks = marks(artifact);
    if !marks.is_empty() {
        line("marks", &marks);
    }
    if let Some(url) = &artifact.url {
        line("url", url);
    }
    text
}

/// Where an artifact comes from.
fn story(found: &Provenance) -> String {
    let Provenance { origin, cells, missing, .. } = found;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing into a string can't fail.
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("engine", &origin.engine);
    line("environment", &origin.environment);
    if let Some(lock) = &origin.lock {
        line("packages", &packages(lock));
    }
    line(
        "seed",
        &origin.seed.map_or_else(|| "none: the host's randomness".to_owned(), |seed| seed.to_string()),
    );
    if let Ok(policy) = serde_json::from_value(origin.policy.clone()) {
        line("limits", &limits::describe(&policy));
    }
    if origin.foreign_files {
        line("files", "the host may have put some there, which are not recorded");
    }
    let mut datasets: Vec<_> = cells.iter().flat_map(|cell| &cell.datasets).collect();
    datasets.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    datasets.dedup();
    for dataset in datasets {
        line("dataset", &format!("{}@{} {}", dataset.name, dataset.version, dataset.sha256));
    }
    for missing in missing {
        line("missing", missing);
    }
    text.push('\n');
    text + &cells.iter().map(told).collect::<String>()
}

fn told(cell: &CellRecord) -> String {
    let about = format!("{}  {}", Moment(cell.started_ms), cell.status);
    match cell.kind {
        RecordKind::Cell => tell_cell(cell.number, &about, &cell.code),
        RecordKind::Command => tell_command(cell.number, &about, &cell.code),
        RecordKind::HostFile => format!("[{}] the host: {}\n", cell.number, printable(&cell.code)),
    }
}

/// The packages of a lock.
fn packages(lock: &str) -> String {
    match Lock::parse_in(lock, Path::new("")) {
        Ok(lock) => {
            let named = lock.packages().map(|package| format!("{} {}", package.name, package.version));
            Some(named.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
        }
        Err(_) => None,
    }
    .unwrap_or_else(|| "see --json".to_owned())
}

pub(super) fn usage(common: &Common) -> anyhow::Result<ExitCode> {
    let (answer, artifacts) = common.open()?;
    let StoreUsage { bytes, stored_bytes, count, pinned, .. } = match &artifacts {
        Some(artifacts) => artifacts.usage()?,
        None => StoreUsage::default(),
    };
    let document =
        || json!({ "count": count, "bytes": bytes, "stored_bytes": stored_bytes, "pinned": pinned });
    answer.give(document, || {
        let artifacts = if count == 1 { "artifact" } else { "artifacts" };
        format!("{count} {artifacts}, {}; {} stored, {pinned} pinned", Size(bytes), Size(stored_bytes))
    })
}
