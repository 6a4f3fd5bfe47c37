//! `belljar dataset`.

mod arguments;
mod clearing;
mod fetching;
mod listing;

use std::process::ExitCode;

pub(crate) use self::arguments::DatasetCommands;
use self::arguments::{Common, DatasetCommand};
pub(crate) use self::fetching::stage;
use crate::answer::Answer;
use crate::sessions::Keeping;

pub(crate) fn run(arguments: DatasetCommands) -> anyhow::Result<ExitCode> {
    match arguments.command {
        DatasetCommand::Add(arguments) => listing::add(arguments),
        DatasetCommand::Ls(common) => listing::list(&common),
        DatasetCommand::Show { name, common } => listing::show(&name, &common),
        DatasetCommand::Fetch { names, refresh, fetching, common } => {
            fetching::fetch(&names, refresh, &fetching, &common)
        }
        DatasetCommand::Stage { names, session, fetching, runtime, common } => {
            fetching::stage_into(&names, &session, &fetching, runtime, &common)
        }
        DatasetCommand::Rm { name, version, common } => clearing::remove(&name, version.as_deref(), &common),
        DatasetCommand::Gc { dry_run, common } => clearing::collect(dry_run, &common),
        DatasetCommand::Verify { names, common } => clearing::verify(&names, &common),
    }
}

impl Common {
    fn open(&self) -> anyhow::Result<(Answer, Keeping)> {
        let config = self.config.read()?;
        let keeping = self.home.keeping()?.configured(config.as_ref())?;
        Ok((Answer { json: self.json }, keeping))
    }
}
