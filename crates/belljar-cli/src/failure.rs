//! What is said when the command can't do what was asked.

use std::fmt;
use std::process::ExitCode;

use crate::console;

/// The exit status when the command line makes no sense; clap's too.
const USAGE: u8 = 2;
/// The exit status when Belljar itself failed, as `timeout` and `env` have it.
pub(crate) const FAILED: u8 = 125;

/// Says what went wrong and what to do about it; returns the exit status.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let (hint, status) = match (error.downcast_ref::<Usage>(), error.downcast_ref::<belljar::Error>()) {
        (Some(usage), _) => (Some(usage.hint.to_owned()), USAGE),
        (_, Some(failure)) if failure.is_refusal() => (failure.hint(), USAGE),
        (_, Some(failure)) => (failure.hint(), FAILED),
        _ => (None, FAILED),
    };
    let mut text = format!("error: {error:#}\n");
    if let Some(hint) = hint {
        text += &format!("hint: {hint}\n");
    }
    console::print_error(text.as_bytes());
    ExitCode::from(status)
}

/// A command line that parses but makes no sense.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Usage {}
