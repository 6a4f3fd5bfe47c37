//! Making sessions, and taking them to another state.

use std::process::ExitCode;
use std::time::Instant;

use belljar::{Session, SessionLife};
use serde_json::json;

use super::arguments::{CheckpointArguments, CreateArguments, Waking};
use super::awake;
use super::listing::{checkpoint_table, checkpoint_words, which};
use crate::answer::Answer;
use crate::dataset::stage;

pub(super) fn create(arguments: CreateArguments) -> anyhow::Result<ExitCode> {
    let CreateArguments { name, limits, environment, waking: Waking { common, runtime } } = arguments;
    let answer = Answer { json: common.json };
    let mut setting = environment.setting(runtime)?;
    let keeping = common.home.keeping()?.configured(setting.config.as_ref())?;
    setting.set_image(keeping.seed());
    let environment = setting.environment(|| Ok(keeping.clone()))?;
    let policy = setting.policy(&limits, environment.engine, keeping.seed());
    let builder = setting.builder(policy, environment, answer.audience());
    let sandbox = keeping.tell(builder).build_blocking()?;
    let session = sandbox.create_blocking(name.as_deref())?;
    stage(&session, &sandbox.datasets()?, limits.datasets(), answer.audience())?;
    session.hibernate_blocking()?;
    let name = session.id().as_str();
    let about = keeping.registry()?.session(name)?;
    answer.give(|| &about, || name.to_owned())
}

pub(super) fn checkpoint(arguments: CheckpointArguments) -> anyhow::Result<ExitCode> {
    let CheckpointArguments { name, label, list, delete, waking } = arguments;
    if list {
        let (answer, keeping) = waking.common.split()?;
        let checkpoints = keeping.registry()?.session(&name)?.checkpoints;
        let document = || json!({ "session": name, "checkpoints": checkpoints });
        return answer.give(document, || checkpoint_table(&checkpoints));
    }
    let (answer, _, sandbox) = waking.sandbox(&name)?;
    match delete {
        Some(delete) => {
            awake(&sandbox, &name, |session| session.delete_checkpoint_blocking(which(Some(&delete))))?;
            let document = || json!({ "session": name, "deleted": delete });
            answer.give(document, || format!("{name}: checkpoint {delete} is deleted"))
        }
        None => {
            let made = awake(&sandbox, &name, |session| session.checkpoint_blocking(label.as_deref()))?;
            let document = || json!({ "session": name, "checkpoint": made });
            answer.give(document, || format!("{name}: {}", checkpoint_words(&made)))
        }
    }
}

pub(super) fn roll_back(name: &str, checkpoint: Option<&str>, waking: Waking) -> anyhow::Result<ExitCode> {
    let (answer, _, sandbox) = waking.sandbox(name)?;
    let checkpoint = awake(&sandbox, name, |session| session.rollback_blocking(which(checkpoint)))?;
    let document = || json!({ "session": name, "checkpoint": checkpoint });
    answer.give(document, || format!("{name}: as at {}", checkpoint_words(&checkpoint)))
}

pub(super) fn undo(name: &str, cells: usize, waking: Waking) -> anyhow::Result<ExitCode> {
    let (answer, _, sandbox) = waking.sandbox(name)?;
    let (undone, undoable) =
        awake(&sandbox, name, |session| Ok((session.undo_blocking(cells)?, session.undoable_blocking()?)))?;
    let document = || json!({ "session": name, "undone": undone, "undoable": undoable });
    answer.give(document, || format!("{name}: {}", undone_words(&undone, undoable.len())))
}

/// Says which cells were taken back, and how many more can be.
pub(crate) fn undone_words(undone: &[u32], left: usize) -> String {
    let cells: Vec<String> = undone.iter().map(u32::to_string).collect();
    let cell = if cells.len() == 1 { "cell" } else { "cells" };
    format!("took back {cell} {}; {left} more can be", cells.join(", "))
}

pub(super) fn hibernate(name: &str, waking: Waking) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = waking.common.split()?;
    let was_live = keeping.registry()?.session(name)?.state == SessionLife::Live;
    let document = || json!({ "session": name, "was_live": was_live });
    if !was_live {
        return answer.give(document, || format!("{name}: hibernated already"));
    }
    let (_, _, sandbox) = waking.sandbox(name)?;
    // Whoever had it awake has put it to sleep when it can be had, or is gone.
    awake(&sandbox, name, Session::wake_blocking)?;
    answer.give(document, || format!("{name}: hibernated"))
}

pub(super) fn wake(name: &str, waking: Waking) -> anyhow::Result<ExitCode> {
    let (answer, _, sandbox) = waking.sandbox(name)?;
    let begun = Instant::now();
    let session = sandbox.open_blocking(name)?;
    session.wake_blocking()?;
    let wake_ms = (begun.elapsed().as_secs_f64() * 1e5).round() / 1e2;
    let memory_bytes = session.private_memory_blocking();
    session.hibernate_blocking()?;
    let document = || json!({ "session": name, "wake_ms": wake_ms, "memory_bytes": memory_bytes });
    answer.give(document, || format!("{name}: wakes in {wake_ms} ms"))
}
