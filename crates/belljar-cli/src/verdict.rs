//! What is said at the end of a cell that didn't end well.

use belljar::{Outcome, State, Status};

use crate::console;

/// Prints the traceback, and why the cell was stopped if it was.
pub(crate) fn tell(outcome: &Outcome) {
    if let Some(exception) = &outcome.exception {
        console::print_error(format!("{}\n", exception.traceback.trim_end_matches('\n')).as_bytes());
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
