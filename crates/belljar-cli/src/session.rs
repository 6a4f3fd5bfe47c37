//! `belljar session`.

mod arguments;
mod children;
mod clearing;
mod history;
mod listing;
mod parcel;
mod state;

use std::process::ExitCode;

use belljar::{Error, Sandbox, Session};

pub(crate) use self::arguments::SessionCommands;
use self::arguments::{Common, SessionCommand, Waking};
pub(crate) use self::history::{printable, tell_cell, tell_command};
pub(crate) use self::listing::{checkpoint_table, checkpoint_words, which};
pub(crate) use self::state::undone_words;
use crate::answer::Answer;
use crate::progress;
use crate::sessions::Keeping;

pub(crate) fn run(arguments: SessionCommands) -> anyhow::Result<ExitCode> {
    match arguments.command {
        SessionCommand::Create(arguments) => state::create(*arguments),
        SessionCommand::Ls(common) => listing::list(common),
        SessionCommand::Show { name, common } => listing::show(&name, common),
        SessionCommand::History { name, notebook, common } => {
            history::show(&name, notebook.as_deref(), common)
        }
        SessionCommand::Checkpoint(arguments) => state::checkpoint(arguments),
        SessionCommand::Rollback { name, checkpoint, waking } => {
            state::roll_back(&name, checkpoint.as_deref(), waking)
        }
        SessionCommand::Undo { name, cells, waking } => state::undo(&name, cells.into(), waking),
        SessionCommand::Fork(arguments) => children::fork(arguments),
        SessionCommand::Hibernate { name, waking } => state::hibernate(&name, waking),
        SessionCommand::Wake { name, waking } => state::wake(&name, waking),
        SessionCommand::Export { name, file, common } => parcel::export(&name, &file, common),
        SessionCommand::Import { file, name, runtime, common } => {
            parcel::import(&file, name.as_deref(), runtime, common)
        }
        SessionCommand::Close { names, common } => clearing::close(&names, common),
        SessionCommand::Prune(arguments) => clearing::prune(arguments),
        SessionCommand::Verify(common) => clearing::verify(common),
    }
}

impl Common {
    fn split(&self) -> anyhow::Result<(Answer, Keeping)> {
        Ok((Answer { json: self.json }, self.home.keeping()?.found()?))
    }
}

impl Waking {
    /// A sandbox that keeps its sessions where the command line says, and can wake this one.
    fn sandbox(self, session: &str) -> anyhow::Result<(Answer, Keeping, Sandbox)> {
        let (answer, keeping) = self.common.split()?;
        let builder = Sandbox::builder()
            .environment(keeping.environment_of(session)?)
            .runtimes(self.runtime.runtimes()?)
            .progress(progress::for_audience(answer.audience()));
        let sandbox = keeping.tell(builder).build_blocking()?;
        Ok((answer, keeping, sandbox))
    }
}

/// Does something with a session and puts it to sleep again.
fn awake<T>(
    sandbox: &Sandbox,
    name: &str,
    body: impl FnOnce(&Session) -> Result<T, Error>,
) -> Result<T, Error> {
    let session = sandbox.open_blocking(name)?;
    let result = body(&session)?;
    session.hibernate_blocking()?;
    Ok(result)
}
