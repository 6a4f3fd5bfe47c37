//! What a command says when it has done what was asked.

use std::process::ExitCode;

use serde::Serialize;

use crate::console;
use crate::progress::Audience;

/// How a command answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) json: bool,
}

impl Answer {
    /// Prints a document for programs, or a text for people.
    pub(crate) fn give<D: Serialize>(
        self,
        document: impl FnOnce() -> D,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<ExitCode> {
        if self.json {
            console::print_line(&serde_json::to_string(&document())?);
        } else {
            let text = text();
            console::print(if text.ends_with('\n') { text } else { text + "\n" }.as_bytes());
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Who reads it.
    pub(crate) fn audience(self) -> Audience {
        if self.json { Audience::Program } else { Audience::Person }
    }
}
