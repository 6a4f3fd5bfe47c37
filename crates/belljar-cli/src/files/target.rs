//! Whose files a command is about.

use std::path::{self, PathBuf};

use belljar::{Config, Error, Files, Policy, Registry, Sandbox, Session, SessionId, StoreError, Workspaces};
use clap::Args;

use crate::answer::Answer;
use crate::limits::WORKSPACE_ROOT;
use crate::progress;
use crate::runtimes::RuntimeArguments;
use crate::sessions::{Keeping, StateArguments};

#[derive(Args, Debug)]
pub(crate) struct TargetArguments {
    /// The session; or a thread that has only a directory
    #[arg(long, value_name = "NAME")]
    pub(crate) session: String,

    /// Print one JSON document on standard output, and nothing else
    #[arg(long)]
    pub(crate) json: bool,

    /// The directory with threads/ and skills/ [env: BELLJAR_WORKSPACE_ROOT] [default: workspaces/local in
    /// the state directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace_root: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) state: StateArguments,

    #[command(flatten)]
    pub(crate) runtime: RuntimeArguments,
}

/// The files, and the session that was woken for them if they are in memory.
pub(crate) struct Target {
    pub(crate) files: Files,
    pub(crate) answer: Answer,
    woken: Option<Session>,
}

impl TargetArguments {
    /// Files on disk are used as they are; a session that has them in memory is woken.
    pub(crate) fn open(self) -> anyhow::Result<Target> {
        let answer = Answer { json: self.json };
        let keeping = self.state.keeping()?;
        let registry = keeping.registry()?;
        let files = match registry.files(&self.session) {
            Err(Error::Store(StoreError::NotFound { .. })) => {
                let root = workspaces(self.workspace_root.as_ref(), &registry);
                Some(thread(&root, &self.session)?)
            }
            files => files?,
        };
        if let Some(files) = files {
            return Ok(Target { files, answer, woken: None });
        }
        let session = wake(&keeping, &self.session, self.runtime, answer)?;
        Ok(Target { files: session.files()?, answer, woken: Some(session) })
    }
}

impl Target {
    /// A session that was woken sleeps again, with what was changed.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        if let Some(session) = self.woken {
            session.hibernate_blocking()?;
        }
        Ok(())
    }
}

/// The root that the command line or the environment names, or the one in the state directory.
pub(crate) fn workspaces(typed: Option<&PathBuf>, registry: &Registry) -> Workspaces {
    let named = std::env::var_os(WORKSPACE_ROOT).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configured = || {
        let mut policy = Policy::default();
        Config::find("").ok().flatten()?.change(&mut policy);
        policy.workspace.root
    };
    match typed.cloned().or(named).or_else(configured) {
        Some(root) => Workspaces::open(path::absolute(&root).unwrap_or(root)),
        None => registry.workspaces(),
    }
}

/// The files of a thread that is no session.
fn thread(workspaces: &Workspaces, name: &str) -> Result<Files, Error> {
    let id = SessionId::parse(name)?;
    if !workspaces.threads()?.contains(&id) {
        return Err(Error::NoThread { thread: name.to_owned(), root: workspaces.root().to_owned() });
    }
    // Nobody said how much it may have.
    workspaces.files(&id, &Policy { file_bytes: u64::MAX, file_count: u64::MAX, ..Policy::default() })
}

fn wake(keeping: &Keeping, name: &str, runtime: RuntimeArguments, answer: Answer) -> anyhow::Result<Session> {
    let builder = Sandbox::builder()
        .environment(keeping.environment_of(name)?)
        .runtimes(runtime.runtimes()?)
        .progress(progress::for_audience(answer.audience()));
    let session = keeping.tell(builder).build_blocking()?.open_blocking(name)?;
    session.wake_blocking()?;
    Ok(session)
}
