//! `belljar env`.

mod arguments;
mod clearing;
mod listing;
mod locking;
mod making;

use std::process::ExitCode;

pub(crate) use self::arguments::EnvironmentCommands;
use self::arguments::{Common, EnvironmentCommand};
use crate::answer::Answer;
use crate::sessions::Keeping;

pub(crate) fn run(arguments: EnvironmentCommands) -> anyhow::Result<ExitCode> {
    match arguments.command {
        EnvironmentCommand::Create(arguments) => making::create(arguments),
        EnvironmentCommand::Ls { runtime, common } => listing::list(runtime, common),
        EnvironmentCommand::Show { name, packages, runtime, common } => {
            making::show(name.as_deref(), packages, runtime, common)
        }
        EnvironmentCommand::Lock(arguments) => locking::lock(arguments),
        EnvironmentCommand::Prune(arguments) => clearing::prune(arguments),
        EnvironmentCommand::Rm { names, common } => clearing::remove(&names, common),
    }
}

impl Common {
    fn split(&self) -> anyhow::Result<(Answer, Keeping)> {
        Ok((Answer { json: self.json }, self.state.keeping()?))
    }
}
