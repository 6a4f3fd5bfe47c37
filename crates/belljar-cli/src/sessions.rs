//! The options that say where sessions are kept, and which one a command is about.

use std::fs;
use std::path::{self, PathBuf};
use std::time::Duration;

use anyhow::Context;
use belljar::{
    ArtifactScope, Artifacts, Config, Datasets, EngineKind, Environment, Environments, Error, FetchOptions,
    Policy, Registry, Sandbox, SandboxBuilder, Session, StorageKind, StoreError, Tenant, default_state_dir,
};
use clap::Args;

use crate::environments::EnvironmentArguments;
use crate::failure::Usage;
use crate::limits::LimitArguments;
use crate::places::{PlaceArguments, Places};
use crate::progress::Audience;
use crate::runtimes::RuntimeArguments;
use crate::seed::Seed;

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
    home: HomeArguments,
}

/// Where sessions are kept, and what comes out of them and goes in.
#[derive(Args, Debug)]
pub(crate) struct HomeArguments {
    #[command(flatten)]
    state: StateArguments,

    #[command(flatten)]
    places: PlaceArguments,
}

/// Where sessions are kept.
#[derive(Clone, Debug)]
pub(crate) struct Keeping {
    directory: PathBuf,
    wait: Duration,
    places: Places,
}

/// How often something is run in a session that isn't kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Once,
    Often,
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
        self.keeping_with(&PlaceArguments::default())
    }

    fn keeping_with(&self, places: &PlaceArguments) -> anyhow::Result<Keeping> {
        let directory = self.state_dir.as_ref().map(path::absolute).transpose().context("--state-dir")?;
        let directory = directory.or_else(default_state_dir).ok_or(Error::NoStateDirectory)?;
        let places = places.places(&directory)?;
        Ok(Keeping { directory, wait: self.wait.unwrap_or(WAIT), places })
    }
}

impl HomeArguments {
    /// All but what a belljar.toml says.
    pub(crate) fn keeping(&self) -> anyhow::Result<Keeping> {
        self.state.keeping_with(&self.places)
    }

    /// The same for those who can do without: nothing, if there is no state directory and nobody named a place.
    fn keeping_if_any(&self) -> anyhow::Result<Option<Keeping>> {
        match self.keeping() {
            Err(error) if matches!(error.downcast_ref(), Some(Error::NoStateDirectory)) => {
                if self.places.asks()? { Err(error) } else { Ok(None) }
            }
            keeping => keeping.map(Some),
        }
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
        usage: Use,
    ) -> anyhow::Result<Plan> {
        if self.session.is_none() && !environment.is_named() && self.home.state.wait.is_some() {
            return Err(Usage {
                message: "--wait is about a session, and none is named".to_owned(),
                hint: "name it with --session NAME",
            }
            .into());
        }
        let mut setting = environment.setting(runtime)?;
        let keeping = match &self.session {
            Some(_) => Some(self.home.keeping()?),
            None => self.home.keeping_if_any()?,
        };
        let keeping = keeping.map(|keeping| keeping.configured(setting.config.as_ref())).transpose()?;
        let seed = keeping.as_ref().and_then(Keeping::seed);
        setting.set_image(seed);
        let named = match (self.session, &keeping) {
            (Some(name), Some(keeping)) => {
                let exists = keeping.registry()?.contains(&name)?;
                Some(Named { name, keeping: keeping.clone(), exists, asks: setting.asks() })
            }
            _ => None,
        };
        let needed = || keeping.clone().ok_or_else(|| Error::NoStateDirectory.into());
        let environment = match &named {
            // It has its own, whatever the file says now.
            Some(named) if named.exists && !named.asks => named.environment(setting.typed_engine())?,
            _ => setting.environment(needed)?,
        };
        let mut policy = setting.policy(limits, environment.engine, seed);
        if policy.workspace.storage == StorageKind::Disk && policy.workspace.root.is_none() && named.is_none()
        {
            policy.workspace.root = Some(needed()?.registry()?.workspaces().root().to_owned());
        }
        if named.is_none() {
            let has_shelf = usage == Use::Often && keeping.as_ref().is_some_and(Keeping::can_lend);
            if policy.artifacts.read == ArtifactScope::Session && !has_shelf {
                // What one cell leaves is there when it has ended.
                policy.artifacts.read = ArtifactScope::None;
            }
        }
        let builder = setting.builder(policy.clone(), environment, audience);
        let builder = match (&named, &keeping) {
            (Some(named), _) => named.keeping.tell(builder),
            (None, Some(keeping)) => keeping.lend(builder),
            (None, None) => builder,
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
        self.lend(builder).state_dir(&self.directory).wait(self.wait)
    }

    /// Lets a sandbox keep artifacts here, and have datasets from here.
    fn lend(&self, builder: SandboxBuilder) -> SandboxBuilder {
        builder.artifacts(self.places.artifacts.clone()).datasets(self.datasets())
    }

    /// Whether sessions that aren't kept can have something to read here.
    fn can_lend(&self) -> bool {
        fs::create_dir_all(&self.places.artifacts.scratch).is_ok()
    }

    /// The same with what a belljar.toml says.
    pub(crate) fn configured(mut self, config: Option<&Config>) -> anyhow::Result<Self> {
        self.places = self.places.configured(&self.directory, config)?;
        Ok(self)
    }

    /// The same with what the belljar.toml in the working directory says, if it makes sense.
    pub(crate) fn found(self) -> anyhow::Result<Self> {
        let config = Config::find("").ok().flatten();
        self.configured(config.as_ref())
    }

    /// How variables say that sessions are to be.
    pub(crate) fn seed(&self) -> Option<&Seed> {
        self.places.seed.as_ref()
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Where datasets are fetched as these options say.
    pub(crate) fn fetching(mut self, change: impl FnOnce(&mut FetchOptions)) -> Self {
        change(&mut self.places.fetching);
        self
    }

    /// What came out of sessions.
    pub(crate) fn artifacts(&self) -> Artifacts {
        Artifacts::open(self.places.artifacts.clone())
    }

    /// What can go into them.
    pub(crate) fn datasets(&self) -> Datasets {
        Datasets::open(Datasets::directory_of(&self.directory)).fetch_options(self.places.fetching.clone())
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
