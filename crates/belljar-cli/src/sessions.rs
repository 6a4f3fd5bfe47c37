//! The options that say where sessions are kept, and which one a command is about.

use std::path::{self, PathBuf};
use std::time::Duration;

use anyhow::Context;
use belljar::{
    EngineKind, Environment, Environments, Error, Policy, Registry, Sandbox, SandboxBuilder, Session,
    StorageKind, StoreError, Tenant, default_state_dir,
};
use clap::Args;

use crate::environments::EnvironmentArguments;
use crate::failure::Usage;
use crate::limits::LimitArguments;
use crate::progress::Audience;
use crate::runtimes::RuntimeArguments;

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

    /// Put a session that is kept to sleep when it has been idle for so long; 0 is never [default: 900]
    #[arg(long, value_name = "SECONDS", env = "IDLE_HIBERNATE_SEC", hide_env_values = true, value_parser = seconds)]
    idle_hibernate: Option<Duration>,

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
    name: String,
    keeping: Keeping,
    /// It was there when somebody looked.
    exists: bool,
    /// The command line says which packages it is to have.
    asks: bool,
}

/// A sandbox to be made, and what is to be done in it.
pub(crate) struct Plan {
    pub(crate) builder: SandboxBuilder,
    /// That of new sessions.
    pub(crate) policy: Policy,
    pub(crate) named: Option<Named>,
}

impl StateArguments {
    pub(crate) fn keeping(&self) -> anyhow::Result<Keeping> {
        let directory = self.state_dir.as_ref().map(path::absolute).transpose().context("--state-dir")?;
        let directory = directory.or_else(default_state_dir).ok_or(Error::NoStateDirectory)?;
        Ok(Keeping { directory, wait: self.wait.unwrap_or(WAIT) })
    }
}

impl SessionArguments {
    /// Sets up a sandbox for a new session, or for the one that is named.
    pub(crate) fn plan(
        self,
        limits: &LimitArguments,
        environment: EnvironmentArguments,
        runtime: RuntimeArguments,
        audience: Audience,
    ) -> anyhow::Result<Plan> {
        let unused = self.session.is_none() && !environment.is_named();
        if unused && (self.state.state_dir.is_some() || self.state.wait.is_some()) {
            return Err(Usage {
                message: "--state-dir and --wait are about a session, and none is named".to_owned(),
                hint: "name it with --session NAME",
            }
            .into());
        }
        let setting = environment.setting(runtime)?;
        let named = match self.session {
            Some(name) => {
                let keeping = self.state.keeping()?;
                let exists = keeping.registry()?.contains(&name)?;
                Some(Named { name, keeping, exists, asks: setting.asks() })
            }
            None => None,
        };
        let environment = match &named {
            // It has its own, whatever the file says now.
            Some(named) if named.exists && !named.asks => named.environment(setting.typed_engine())?,
            _ => setting.environment(|| self.state.keeping())?,
        };
        let mut policy = setting.policy(limits, environment.engine);
        if policy.workspace.storage == StorageKind::Disk && policy.workspace.root.is_none() && named.is_none()
        {
            policy.workspace.root = Some(self.state.keeping()?.registry()?.workspaces().root().to_owned());
        }
        let builder = setting.builder(policy.clone(), environment, audience);
        let builder = match &named {
            Some(named) => named.keeping.tell(builder),
            None => builder,
        };
        let builder = match self.idle_hibernate {
            Some(idle) => builder.idle_hibernate(idle),
            None => builder,
        };
        Ok(Plan { builder, policy, named })
    }
}

impl Keeping {
    /// The sessions, to look at and to clear up: no interpreter is loaded for that.
    pub(crate) fn registry(&self) -> Result<Registry, Error> {
        Ok(Registry::open(&self.directory)?.wait(self.wait))
    }

    /// What a sandbox is made of that is to wake a session.
    pub(crate) fn environment_of(&self, name: &str) -> Result<Environment, Error> {
        Ok(self.registry()?.native_environment(name)?.unwrap_or_default())
    }

    /// The environments that have names.
    pub(crate) fn environments(&self) -> Result<Environments, Error> {
        Environments::open(&self.directory, Tenant::local())
    }

    /// Lets a sandbox keep its sessions here.
    pub(crate) fn tell(&self, builder: SandboxBuilder) -> SandboxBuilder {
        builder.state_dir(&self.directory).wait(self.wait)
    }
}

impl Named {
    /// The environment of a session that is there, if it is a native one; the wasm engine finds others by itself.
    fn environment(&self, typed: Option<EngineKind>) -> anyhow::Result<Environment> {
        let environment = self.keeping.environment_of(&self.name)?;
        match typed {
            Some(typed) if typed != environment.engine => Err(Usage {
                message: format!(
                    "the session {} was made with the {} engine, and keeps it",
                    self.name, environment.engine
                ),
                hint: "leave out --engine, or make a new session",
            }
            .into()),
            _ => Ok(environment),
        }
    }

    /// The session, awake, and its policy: if it is new the sandbox's, else the one that it was made with, and what
    /// the command line says.
    pub(crate) fn open(
        &self,
        sandbox: &Sandbox,
        limits: &LimitArguments,
        policy: &Policy,
    ) -> anyhow::Result<(Session, Policy)> {
        self.check(sandbox)?;
        loop {
            match self.wake(sandbox, limits) {
                // Not if it was there a moment ago: the sandbox isn't set up for a new one.
                Err(Error::Store(StoreError::NotFound { .. })) if !self.exists || self.asks => {}
                woken => return woken?.ok_or_else(|| self.other_seed().into()),
            }
            match sandbox.create_blocking(Some(&self.name)) {
                // Another process was faster.
                Err(Error::Store(StoreError::Exists { .. })) => {}
                made => return Ok((made?, policy.clone())),
            }
        }
    }

    /// A session keeps the environment that it was made with. Asking for the same again is fine.
    fn check(&self, sandbox: &Sandbox) -> anyhow::Result<()> {
        if !self.asks || !self.exists {
            return Ok(());
        }
        match self.keeping.registry()?.session(&self.name) {
            Ok(session) if session.environment != sandbox.environment() => Err(Usage {
                message: format!("the session {} was made with other packages, and keeps them", self.name),
                hint: "leave out --package, --preload, --lock and --environment; or make a new session, since a fork \
                       has its parent's packages too",
            }
            .into()),
            _ => Ok(()),
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
