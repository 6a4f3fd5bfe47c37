//! `belljar artifact`.

mod arguments;
mod clearing;
mod giving;
mod listing;
mod verifying;

use std::process::ExitCode;

use belljar::{ArtifactError, Artifacts, Database, Error};

pub(crate) use self::arguments::ArtifactCommands;
use self::arguments::{ArtifactCommand, Common};
use crate::answer::Answer;
use crate::sessions::Keeping;

pub(crate) fn run(arguments: ArtifactCommands) -> anyhow::Result<ExitCode> {
    match arguments.command {
        ArtifactCommand::Ls(arguments) => listing::list(arguments),
        ArtifactCommand::Show { id, provenance, common } => listing::show(&id, provenance, &common),
        ArtifactCommand::Get { id, output, audience, common } => {
            giving::get(&id, output.as_deref(), audience.as_deref(), &common)
        }
        ArtifactCommand::Url(arguments) => giving::link(arguments),
        ArtifactCommand::Pin(several) => clearing::pin(&several, true),
        ArtifactCommand::Unpin(several) => clearing::pin(&several, false),
        ArtifactCommand::Rm(several) => clearing::remove(&several),
        ArtifactCommand::Gc { older_than, dry_run, common } => {
            clearing::collect(older_than, dry_run, &common)
        }
        ArtifactCommand::Usage(common) => listing::usage(&common),
        ArtifactCommand::Verify(arguments) => verifying::verify(*arguments),
    }
}

impl Common {
    /// The artifacts, if there may be any.
    fn open(&self) -> anyhow::Result<(Answer, Option<Artifacts>)> {
        let config = self.config.read()?;
        let keeping = self.home.keeping()?.configured(config.as_ref())?;
        Ok((Answer { json: self.json }, there(&keeping)))
    }

    /// The same for those who name one.
    fn open_for(&self, id: &str) -> anyhow::Result<(Answer, Artifacts)> {
        let (answer, artifacts) = self.open()?;
        Ok((answer, artifacts.ok_or_else(|| not_there(id))?))
    }
}

/// The artifacts, if there may be any: looking makes nothing.
fn there(keeping: &Keeping) -> Option<Artifacts> {
    let artifacts = keeping.artifacts();
    let is_there = match &artifacts.settings().database {
        Database::Sqlite(path) => path.exists(),
        Database::Postgres(_) => true,
    };
    is_there.then_some(artifacts)
}

fn not_there(id: &str) -> Error {
    ArtifactError::NotFound { id: id.chars().take(80).collect() }.into()
}
