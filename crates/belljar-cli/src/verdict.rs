//! What is said at the end of a cell that didn't end well.

use belljar::{Exception, Outcome, State, Status};

use crate::console;

/// Prints the traceback, and why the cell was stopped if it was.
pub(crate) fn tell(outcome: &Outcome) {
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
        Status::Error if outcome.reason.is_some() => ("error", "", "; --files raises the limit"),
        Status::Ok | Status::Error | Status::Exited => return,
        Status::Interrupted if outcome.reason.is_none() => return,
        Status::Timeout => ("timeout", "its time was over", ""),
        Status::OutOfMemory => {
            ("out of memory", "the interpreter may have no more", "; --memory raises the limit")
        }
        Status::Interrupted => ("interrupted", "", ""),
        Status::Killed => ("killed", "the interpreter could not go on", ""),
    };
    let why = outcome.reason.as_deref().unwrap_or(why);
    let state = match outcome.session.state {
        State::Kept => "kept",
        State::RolledBack => "rolled back",
        State::Lost => "lost",
    };
    console::note(format_args!("{what}: {why} (state {state}{advice})"));
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
