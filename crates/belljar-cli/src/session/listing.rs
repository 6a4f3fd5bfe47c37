//! What sessions there are, and what is known of one.

use std::fmt::Write;
use std::process::ExitCode;

use belljar::{Checkpoint, DatasetAccess, EngineKind, SessionInfo, SessionLife, StorageKind, Which};
use serde::Serialize;

use super::arguments::Common;
use crate::moment::{Ago, Moment};
use crate::size::Size;
use crate::table::Align::{Left, Right};
use crate::table::table;
use crate::{console, limits};

/// What `ls --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    sessions: &'a [SessionInfo],
    damaged: &'a [String],
}

pub(super) fn list(common: Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.split()?;
    let registry = keeping.registry()?;
    let list = registry.sessions()?;
    let damaged: Vec<String> = list.damaged.iter().map(ToString::to_string).collect();
    let document = || Document { sessions: &list.sessions, damaged: &damaged };
    let done = answer.give(document, || match &list.sessions[..] {
        [] => format!("no sessions in {}", registry.directory().display()),
        sessions => session_table(sessions),
    })?;
    for damage in &damaged {
        console::print_error(format!("error: {damage}\n").as_bytes());
    }
    Ok(if damaged.is_empty() { done } else { ExitCode::FAILURE })
}

pub(super) fn show(name: &str, common: Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.split()?;
    let session = keeping.registry()?.session(name)?;
    answer.give(|| &session, || description(&session))
}

/// The checkpoint that somebody named.
pub(crate) fn which(text: Option<&str>) -> Which {
    match text {
        None | Some("latest") => Which::Latest,
        Some(text) => text.into(),
    }
}

/// Names a checkpoint in a few words.
pub(crate) fn checkpoint_words(checkpoint: &Checkpoint) -> String {
    let name = checkpoint.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    format!("checkpoint {}{name}, after cell {}", checkpoint.number, checkpoint.cell)
}

pub(crate) fn checkpoint_table(checkpoints: &[Checkpoint]) -> String {
    if checkpoints.is_empty() {
        return "no checkpoints\n".to_owned();
    }
    let columns =
        [("NUMBER", Right), ("NAME", Left), ("MADE", Left), ("CELL", Right), ("SIZE", Right), ("CODE", Left)];
    let row = |checkpoint: &Checkpoint| {
        let code = checkpoint.code.as_deref().unwrap_or_default();
        vec![
            checkpoint.number.to_string(),
            checkpoint.name.clone().unwrap_or_else(|| "-".to_owned()),
            Ago(checkpoint.created_ms).to_string(),
            checkpoint.cell.to_string(),
            Size(checkpoint.bytes).to_string(),
            first_line(code),
        ]
    };
    table(&columns, &checkpoints.iter().map(row).collect::<Vec<_>>())
}

fn session_table(sessions: &[SessionInfo]) -> String {
    let mut columns = vec![
        ("NAME", Left),
        ("STATE", Left),
        ("CELLS", Right),
        ("USED", Left),
        ("MEMORY", Right),
        ("FILES", Right),
        ("DISK", Right),
        ("PARENT", Left),
    ];
    // Where all have the same, it needs no room.
    let mixed = sessions.iter().any(|session| session.engine != EngineKind::default());
    if mixed {
        columns.push(("ENGINE", Left));
    }
    let row = |session: &SessionInfo| {
        let mut cells = vec![
            session.id.to_string(),
            life(session.state).to_owned(),
            session.cells.to_string(),
            Ago(session.last_used_ms).to_string(),
            Size(session.memory_bytes).to_string(),
            Size(session.file_bytes).to_string(),
            Size(session.stored_bytes).to_string(),
            session.parent.as_ref().map_or_else(|| "-".to_owned(), |parent| parent.session.to_string()),
        ];
        cells.extend(mixed.then(|| session.engine.to_string()));
        cells
    };
    table(&columns, &sessions.iter().map(row).collect::<Vec<_>>())
}

fn description(session: &SessionInfo) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing into a string can't fail.
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("name", session.id.as_str());
    line("state", life(session.state));
    line("cells", &session.cells.to_string());
    line("made", &format!("{} ({})", Moment(session.created_ms), Ago(session.created_ms)));
    line("last used", &format!("{} ({})", Moment(session.last_used_ms), Ago(session.last_used_ms)));
    line("memory", &Size(session.memory_bytes).to_string());
    line("files", &Size(session.file_bytes).to_string());
    line("disk", &Size(session.stored_bytes).to_string());
    if let Some(parent) = &session.parent {
        let from = match parent.checkpoint {
            Some(number) => format!("checkpoint {number}"),
            None => format!("cell {}", parent.cell),
        };
        line("parent", &format!("{}, {from}", parent.session));
    }
    line("engine", &session.engine.to_string());
    line("environment", &session.environment);
    match serde_json::from_value::<belljar::Policy>(session.policy.clone()) {
        Ok(policy) => {
            line("limits", &limits::describe(&policy));
            let workspace = &policy.workspace;
            let place = match (workspace.storage, &workspace.root) {
                (StorageKind::Memory, _) => "in memory".to_owned(),
                (StorageKind::Disk, Some(root)) => {
                    let root = belljar::Workspaces::open(root).flat(workspace.flat);
                    root.thread(&session.id).display().to_string()
                }
                (StorageKind::Disk, None) => "on disk".to_owned(),
            };
            line(
                "workspace",
                &format!("{place}, seen at {}", workspace.path.replace("{id}", session.id.as_str())),
            );
            for (name, value) in [("user", &workspace.user), ("ticket", &workspace.ticket)] {
                if let Some(value) = value {
                    line(name, value);
                }
            }
            let access = match policy.datasets.access {
                DatasetAccess::None => None,
                DatasetAccess::LocalRo => Some("at /data"),
                DatasetAccess::Api => Some("staged into data/"),
                DatasetAccess::Hybrid => Some("at /data, and staged into data/"),
            };
            if let Some(access) = access {
                line("datasets", access);
            }
            if !policy.artifacts.keep {
                line("artifacts", "not kept");
            }
            for mount in &policy.mounts {
                line("mount", &format!("{} at {}", mount.host.display(), mount.guest));
            }
        }
        Err(_) => line("limits", "cannot be read"),
    }
    if session.checkpoints.is_empty() {
        line("checkpoints", "none");
        text
    } else {
        text + "\n" + &checkpoint_table(&session.checkpoints)
    }
}

fn life(state: SessionLife) -> &'static str {
    match state {
        SessionLife::Live => "live",
        SessionLife::Hibernated => "hibernated",
    }
}

/// So much of a text as has room in a table.
fn first_line(text: &str) -> String {
    const WIDTH: usize = 40;
    let line = text.trim().lines().next().unwrap_or_default();
    let shown: String = line.chars().filter(|character| !character.is_control()).take(WIDTH).collect();
    if shown.len() < text.trim().len() { shown + "…" } else { shown }
}
