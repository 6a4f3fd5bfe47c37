//! Making an artifact again, from what is recorded of it.

use std::sync::Arc;
use std::time::Duration;

use belljar_artifacts::{CellRecord, Origin, Provenance, RecordKind, Redactor};
use belljar_engine::{Clock, Entropy};
use belljar_files::operations::Contents;
use serde::Serialize;

use crate::artifacts::hash_contents;
use crate::{
    Artifact, ArtifactPolicy, CommandRequest, Error, Outcome, Policy, Sandbox, Session, StorageKind,
    WorkspacePolicy,
};

/// What came of making an artifact again.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// The artifact.
    pub artifact: Artifact,
    /// What came of it.
    pub verdict: Verdict,
    /// Of what was made now, if it was.
    pub sha256: Option<String>,
    /// Cells and commands that were run again.
    pub cells: usize,
    /// Those that ended otherwise than they had: number, then and now.
    pub differences: Vec<String>,
    /// Why a difference needn't mean that the record is wrong, in words.
    pub doubts: Vec<String>,
}

/// What one cell may take, whatever it had.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(600);

/// Whether what was made again is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// To the last byte.
    Same,
    /// It has other contents.
    Different,
    /// Nothing of that name was made.
    Missing,
}

impl Sandbox {
    /// Makes an artifact again: runs the cells that led to it in a new session, in the same environment, with the same
    /// datasets, randomness and beginning of time, and compares. Nothing of it is kept.
    ///
    /// Values that were redacted are put back from the sandbox's environment variables, where they have the same names.
    pub async fn verify_artifact(&self, id: &str) -> Result<Verified, Error> {
        let (sandbox, id) = (self.clone(), id.to_owned());
        tokio::task::spawn_blocking(move || sandbox.verify_artifact_blocking(&id))
            .await
            .unwrap_or(Err(Error::Abandoned))
    }

    /// [`Sandbox::verify_artifact`] without async.
    pub fn verify_artifact_blocking(&self, id: &str) -> Result<Verified, Error> {
        let Provenance { artifact, origin, cells, missing } = self.artifacts()?.provenance(id)?;
        let refused = |reason: String, advice: &str| Error::NotRepeatable {
            artifact: artifact.id.to_string(),
            reason,
            advice: advice.to_owned(),
        };
        if let Some(missing) = missing.first() {
            return Err(refused(
                missing.clone(),
                "`belljar artifact show ID --provenance` shows what is known",
            ));
        }
        let sandbox = self.in_environment(&origin.environment).map_err(|error| {
            let reason = format!("its environment {} isn't here: {error}", origin.environment);
            refused(reason, "name the packages that it was made with, or its lock")
        })?;
        let (policy, doubts) = self.policy_again(&origin, &cells);
        let redactor = Redactor::new(policy.env.clone(), []);
        let session = sandbox.session_with_blocking(move |own| *own = policy)?;
        stage(&session, &cells).map_err(|error| {
            refused(format!("a dataset of it can't be had: {error}"), "add the dataset again, as it was")
        })?;
        let (differences, last) = rerun(&session, &cells, &redactor)?;
        let made = made_again(&session, &artifact, last.as_ref())?;
        let verdict = match &made {
            None => Verdict::Missing,
            Some(hash) if *hash == artifact.sha256 => Verdict::Same,
            Some(_) => Verdict::Different,
        };
        Ok(Verified { artifact, verdict, sha256: made, cells: cells.len(), differences, doubts })
    }

    /// The policy that the session had, so that it repeats itself. The second is what won't be as it was.
    fn policy_again(&self, origin: &Origin, cells: &[CellRecord]) -> (Policy, Vec<String>) {
        let recorded: Policy = serde_json::from_value(origin.policy.clone()).unwrap_or_default();
        let mut doubts = Vec::new();
        let mut policy = Policy { env: self.policy().env.clone(), mounts: Vec::new(), ..recorded.clone() };
        policy.artifacts = ArtifactPolicy { keep: false, ..recorded.artifacts };
        policy.workspace = WorkspacePolicy {
            storage: StorageKind::Memory,
            path: recorded.workspace.path,
            ..WorkspacePolicy::default()
        };
        policy.datasets.cache_lists = None;
        // It may have been allowed less time than a machine that is busy needs.
        let allowed = policy.timeout.or(self.policy().timeout).unwrap_or(LONGEST);
        policy.timeout = Some(allowed.saturating_mul(2).clamp(SHORTEST, LONGEST));
        match origin.seed {
            Some(seed) => policy.entropy = Entropy::Seeded(seed),
            None => doubts.push("its randomness was the host's, and isn't recorded".to_owned()),
        }
        if origin.engine == "native" {
            doubts.push("a native session has the kernel's clock and randomness".to_owned());
        } else if recorded.clock == Clock::Host {
            let first = cells.first().map_or(0, |cell| cell.started_ms);
            policy.clock = Clock::Fixed(first.saturating_mul(1_000_000));
            doubts.push(
                "its clock was the host's: it begins at the same time and then goes its own way".to_owned(),
            );
        }
        if origin.foreign_files {
            doubts.push("it could read files that the host had put there, which aren't recorded".to_owned());
        }
        let local = recorded.datasets.access.is_local().then_some(recorded.datasets.directory).flatten();
        if let Some(directory) = local {
            doubts.push(format!("{} was seen at /data; what was in it isn't recorded", directory.display()));
        }
        if !recorded.mounts.is_empty() {
            doubts.push("directories of the host that it had seen are not mounted".to_owned());
        }
        let unset: Vec<&str> =
            recorded.env.keys().filter(|name| !policy.env.contains_key(*name)).map(String::as_str).collect();
        if !unset.is_empty() {
            let names = unset.join(", ");
            doubts.push(format!(
                "it had {names} set, whose values aren't recorded; `--env NAME=VALUE` sets them"
            ));
        }
        if cells.iter().any(|cell| cell.tool_calls > 0) {
            doubts.push("it had called tools, whose answers aren't recorded".to_owned());
        }
        if cells.windows(2).any(|pair| pair[0].session != pair[1].session) {
            doubts.push("it is of a fork, whose randomness isn't its parent's".to_owned());
        }
        (policy, doubts)
    }
}

/// Stages what the cells could read, as it was.
fn stage(session: &Session, cells: &[CellRecord]) -> Result<(), Error> {
    let mut wanted: Vec<_> = cells.iter().flat_map(|cell| &cell.datasets).collect();
    wanted.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    wanted.dedup();
    for dataset in wanted {
        session.restage(dataset)?;
    }
    Ok(())
}

/// Runs everything again. Says what ended otherwise, and how the last cell ended.
fn rerun(
    session: &Session,
    cells: &[CellRecord],
    redactor: &Redactor,
) -> Result<(Vec<String>, Option<Outcome>), Error> {
    let (mut differences, mut last) = (Vec::new(), None);
    for cell in cells {
        let code = redactor.restore(&cell.code);
        let (what, status) = match cell.kind {
            RecordKind::HostFile => continue,
            RecordKind::Command => {
                ("the command after cell", word(session.command_blocking(CommandRequest::new(code))?.status))
            }
            RecordKind::Cell => {
                let outcome = session.run_blocking(code)?;
                let status = word(outcome.status);
                last = Some(outcome);
                ("cell", status)
            }
        };
        if status != cell.status {
            differences.push(format!("{what} {}: {} then, {status} now", cell.number, cell.status));
        }
    }
    Ok((differences, last))
}

fn word(status: impl Serialize) -> String {
    let word = serde_json::to_value(status).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

/// The hash of what has the artifact's name now.
fn made_again(
    session: &Session,
    artifact: &Artifact,
    last: Option<&Outcome>,
) -> Result<Option<String>, Error> {
    let displayed =
        last.and_then(|outcome| crate::session::displayed(outcome, artifact.cell, &artifact.name));
    if let Some(bytes) = displayed {
        return Ok(Some(hash_contents(bytes.as_slice()).map_err(Error::Temporary)?.0));
    }
    let files = session.files()?;
    match Contents::new(files.door(), &format!("artifacts/{}", artifact.name)) {
        Ok(contents) => Ok(Some(hash_contents(contents).map_err(Error::Temporary)?.0)),
        Err(_) => Ok(None),
    }
}

impl Sandbox {
    /// The same with sessions in another environment, which is this one or was put aside.
    fn in_environment(&self, environment: &str) -> Result<Self, Error> {
        if environment == self.environment() {
            return Ok(self.clone());
        }
        Ok(Self { shared: Arc::new(self.shared.with_engine(environment)?) })
    }
}
