//! What is said at the end of a cell that didn't end well.

use belljar::{Artifact, CommandOutcome, Exception, Outcome, Refused, State, Status};

use crate::console;
use crate::session::printable;
use crate::size::Size;

/// Prints what else there is to know, the traceback, and why the cell was stopped if it was.
pub(crate) fn tell(outcome: &Outcome) {
    tell_notes(&outcome.notes);
    tell_artifacts(&outcome.artifacts, &outcome.artifacts_refused);
    if let Some(exception) = &outcome.exception {
        console::print_error(format!("{}\n", exception.traceback.trim_end_matches('\n')).as_bytes());
        if let Some(module) = missing_module(exception) {
            console::note(format_args!(
                "hint: packages are added with --package, e.g. --package {module}, when a session is made; a directory \
                 with modules of your own with --mount"
            ));
        }
    }
    let (what, why, advice) = match outcome.status {
        Status::Error if outcome.reason.is_some() => ("error", "", "; --quota raises the limit"),
        Status::Ok | Status::Error | Status::Exited => return,
        Status::Interrupted if outcome.reason.is_none() => return,
        Status::Timeout => ("timeout", "its time was over", ""),
        Status::OutOfMemory => {
            ("out of memory", "the interpreter may have no more", "; --memory raises the limit")
        }
        Status::Interrupted => ("interrupted", "", ""),
        Status::Killed => ("killed", "the interpreter could not go on", ""),
        Status::DiskFull => ("disk full", "the workspace may hold no more", "; --quota raises the limit"),
    };
    let why = outcome.reason.as_deref().unwrap_or(why);
    let state = match outcome.session.state {
        State::Kept => "kept",
        State::RolledBack => "rolled back",
        State::Lost => "lost",
    };
    console::note(format_args!("{what}: {why} (state {state}{advice})"));
}

/// Says why a shell command was stopped, if it was.
pub(crate) fn tell_command(outcome: &CommandOutcome) {
    tell_notes(&outcome.notes);
    tell_artifacts(&outcome.artifacts, &outcome.artifacts_refused);
    let (what, why) = match outcome.status {
        Status::Ok | Status::Error | Status::Exited if outcome.reason.is_none() => return,
        Status::Interrupted if outcome.reason.is_none() => return,
        Status::Ok | Status::Error | Status::Exited => ("command", ""),
        Status::Timeout => ("timeout", "its time was over"),
        Status::OutOfMemory => ("out of memory", "the session may have no more"),
        Status::Interrupted => ("interrupted", ""),
        Status::Killed => ("killed", "it was ended from outside"),
        Status::DiskFull => ("disk full", "the workspace may hold no more"),
    };
    console::note(format_args!("{what}: {}", outcome.reason.as_deref().unwrap_or(why)));
}

/// A line for each file that was kept, or wasn't. Of thousands not all are told.
fn tell_artifacts(kept: &[Artifact], refused: &[Refused]) {
    const SHOWN: usize = 100;
    let mut text = String::new();
    for artifact in kept.iter().take(SHOWN) {
        let Artifact { id, name, mime, size, .. } = artifact;
        text += &format!("artifact {id} {} {mime} {}\n", printable(name), Size(*size));
    }
    for Refused { name, size, reason, .. } in refused.iter().take(SHOWN) {
        text += &format!("not kept: {} {}: {}\n", printable(name), Size(*size), printable(reason));
    }
    let more = |count: usize| count.saturating_sub(SHOWN);
    if more(kept.len()) + more(refused.len()) > 0 {
        let (kept, refused) = (more(kept.len()), more(refused.len()));
        text += &format!("{kept} more artifacts, {refused} more that are not kept\n");
    }
    console::print_error(text.as_bytes());
}

/// They may repeat what the guest said, and go to a terminal.
fn tell_notes(notes: &[String]) {
    for note in notes {
        console::print_error(format!("note: {}\n", printable(note)).as_bytes());
    }
}

/// The package that an import looked for in vain; nothing if there is a better reason than that it isn't there.
fn missing_module(exception: &Exception) -> Option<&str> {
    if exception.kind != "ModuleNotFoundError" {
        return None;
    }
    let name = exception.message.strip_prefix("No module named '")?.strip_suffix('\'')?;
    let name = name.split('.').next()?;
    // It comes from the guest and goes to a terminal.
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (plain && (1..=60).contains(&name.len())).then_some(name)
}
