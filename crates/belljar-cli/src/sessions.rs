//! The options that say where sessions are kept, and which one a command is about.

use std::path::{self, PathBuf};
use std::time::Duration;

use anyhow::Context;
use belljar::{Error, Policy, Registry, Sandbox, SandboxBuilder, Session, StoreError, default_state_dir};
use clap::Args;

use crate::failure::Usage;
use crate::limits::LimitArguments;

/// How long to wait for a session that another process uses.
const WAIT: Duration = Duration::from_secs(30);

#[derive(Args, Debug)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct StateArguments {
    // The library reads the variable: it also counts where nobody parses options.
    /// Where sessions are kept [env: BELLJAR_STATE_DIR] [default: belljar in the user's data]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,

    /// How long to wait for a session that another process uses [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct SessionArguments {
    /// Go on with the session of this name, or make it; variables and files are kept for the next process
    #[arg(long, value_name = "NAME")]
    session: Option<String>,

    #[command(flatten)]
    state: StateArguments,
}

/// Where sessions are kept.
#[derive(Clone, Debug)]
pub(crate) struct Keeping {
    directory: PathBuf,
    wait: Duration,
}

/// A session that is kept.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    keeping: Keeping,
}

impl StateArguments {
    pub(crate) fn keeping(&self) -> anyhow::Result<Keeping> {
        let directory = self.state_dir.as_ref().map(path::absolute).transpose().context("--state-dir")?;
        let directory = directory.or_else(default_state_dir).ok_or(Error::NoStateDirectory)?;
        Ok(Keeping { directory, wait: self.wait.unwrap_or(WAIT) })
    }
}

impl SessionArguments {
    /// The session that is named, if one is.
    pub(crate) fn named(self) -> anyhow::Result<Option<Named>> {
        match self.session {
            Some(name) => Ok(Some(Named { name, keeping: self.state.keeping()? })),
            None if self.state.state_dir.is_none() && self.state.wait.is_none() => Ok(None),
            None => Err(Usage {
                message: "--state-dir and --wait are about a session, and none is named".to_owned(),
                hint: "name it with --session NAME",
            }
            .into()),
        }
    }
}

impl Keeping {
    /// The sessions, to look at and to clear up: no interpreter is loaded for that.
    pub(crate) fn registry(&self) -> Result<Registry, Error> {
        Ok(Registry::open(&self.directory)?.wait(self.wait))
    }

    /// Lets a sandbox keep its sessions here.
    pub(crate) fn tell(&self, builder: SandboxBuilder) -> SandboxBuilder {
        builder.state_dir(&self.directory).wait(self.wait)
    }
}

impl Named {
    /// Lets a sandbox keep its sessions where this one is.
    pub(crate) fn tell(&self, builder: SandboxBuilder) -> SandboxBuilder {
        self.keeping.tell(builder)
    }

    /// The session, awake, and its policy: if it is new the sandbox's, else the one that it was made with, and what
    /// the command line says.
    pub(crate) fn open(
        &self,
        sandbox: &Sandbox,
        limits: &LimitArguments,
    ) -> anyhow::Result<(Session, Policy)> {
        loop {
            match self.wake(sandbox, limits) {
                Err(Error::Store(StoreError::NotFound { .. })) => {}
                woken => return woken?.ok_or_else(|| self.other_seed().into()),
            }
            match sandbox.create_blocking(Some(&self.name)) {
                // Another process was faster.
                Err(Error::Store(StoreError::Exists { .. })) => {}
                made => return Ok((made?, limits.policy())),
            }
        }
    }

    /// None if its randomness can't be what the command line says.
    fn wake(&self, sandbox: &Sandbox, limits: &LimitArguments) -> Result<Option<(Session, Policy)>, Error> {
        let (mut policy, mut same_seed) = (Policy::default(), true);
        let session = sandbox.open_with_blocking(&self.name, |recorded| {
            let entropy = recorded.entropy;
            limits.apply(recorded);
            same_seed = entropy == recorded.entropy;
            policy = recorded.clone();
        })?;
        if !same_seed {
            return Ok(None);
        }
        session.wake_blocking()?;
        Ok(Some((session, policy)))
    }

    fn other_seed(&self) -> Usage {
        Usage {
            message: format!("the session {} has its randomness and its clock since it was made", self.name),
            hint: "--seed is for new sessions",
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse().map_err(|_| "not a number of seconds")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
