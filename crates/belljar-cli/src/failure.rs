//! What is said when the command can't do what was asked.

use std::fmt;
use std::process::ExitCode;

use belljar::{ArtifactError, DatasetError, Error, StoreError, TransferError};

use crate::console;

/// The exit status when the command line makes no sense; clap's too.
const USAGE: u8 = 2;
/// The exit status when a file isn't what the command needs.
const NOT_DONE: u8 = 1;
/// The exit status when Belljar itself failed, as `timeout` and `env` have it.
pub(crate) const FAILED: u8 = 125;

/// Says what went wrong and what to do about it; returns the exit status.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(tell(error))
}

/// The same for those who go on, or end the process themselves.
pub(crate) fn tell(error: &anyhow::Error) -> u8 {
    let (hint, status) = match (error.downcast_ref::<Usage>(), error.downcast_ref::<Error>()) {
        (Some(usage), _) => (Some(usage.hint.to_owned()), USAGE),
        (_, Some(failure)) if is_not_there(failure) => (hint(failure), NOT_DONE),
        (_, Some(failure)) if failure.is_refusal() || makes_no_sense(failure) => (hint(failure), USAGE),
        (_, Some(failure)) => (hint(failure), FAILED),
        _ => (None, FAILED),
    };
    let mut text = format!("error: {}\n", in_full(error));
    if let Some(hint) = hint {
        text += &format!("hint: {hint}\n");
    }
    console::print_error(text.as_bytes());
    status
}

/// Whether a file, an artifact or a dataset isn't there, or isn't what the command needs.
fn is_not_there(error: &Error) -> bool {
    matches!(
        error,
        Error::File(_)
            | Error::NoThread { .. }
            | Error::Link(_)
            | Error::Output { .. }
            | Error::Artifact(
                ArtifactError::NotFound { .. } | ArtifactError::Gone { .. } | ArtifactError::Damaged { .. }
            )
            | Error::Dataset(DatasetError::NotFound { .. })
    )
}

fn makes_no_sense(error: &Error) -> bool {
    matches!(
        error,
        Error::NoBucket
            | Error::NotStaged
            | Error::DatasetRefused { .. }
            | Error::Transfer(TransferError::Invalid { .. })
            | Error::Artifact(ArtifactError::Invalid { .. })
            | Error::Dataset(DatasetError::Invalid { .. } | DatasetError::Exists { .. })
    )
}

/// An error with its causes, each said once: most messages have their cause in them.
fn in_full(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The library's hint, or a better one where the command has an option or a subcommand for it.
fn hint(error: &Error) -> Option<String> {
    let better = match error {
        Error::Store(StoreError::NotFound { .. }) => "`belljar session ls` lists the sessions",
        Error::Store(StoreError::Exists { .. }) => {
            "choose another name, or close that session first: `belljar session close NAME`"
        }
        Error::Store(StoreError::Busy { .. }) => "--wait waits longer; or end the process that uses it",
        Error::Store(StoreError::NameTaken { .. }) => {
            "choose another name, or delete that one first: `belljar session checkpoint NAME --delete WHICH`"
        }
        Error::Store(StoreError::Full { .. }) => {
            "free some space; `belljar session prune` helps, as does another --state-dir"
        }
        Error::NoCheckpoint { .. } | Error::Store(StoreError::NoCheckpoint { .. }) => {
            "`belljar session checkpoint NAME --list` lists them; a number, a name or `latest` names one"
        }
        Error::Artifact(ArtifactError::NotFound { .. }) => "`belljar artifact ls` lists the artifacts",
        Error::Artifact(ArtifactError::Full { .. }) => {
            "free some space; `belljar artifact gc --older-than 7d` helps, as does another place"
        }
        Error::Dataset(DatasetError::NotFound { .. }) => {
            "`belljar dataset ls` lists the datasets; `belljar dataset add NAME SOURCE` adds one"
        }
        Error::Dataset(DatasetError::Exists { .. }) => "name another --version, or --replace it",
        Error::Dataset(DatasetError::Private { .. }) => {
            "if you trust its source, fetch it with `belljar dataset fetch NAME --allow-private`"
        }
        Error::Dataset(DatasetError::TooLarge { .. }) => "raise `max_size` in [datasets] of a belljar.toml",
        Error::Dataset(DatasetError::Invalid { .. }) => {
            "`belljar dataset add --help` shows what can be written"
        }
        _ => return error.hint(),
    };
    Some(better.to_owned())
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
