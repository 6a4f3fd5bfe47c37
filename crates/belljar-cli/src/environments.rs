//! The options that say which packages sessions have, and the file that says so where they don't.

use std::env;
use std::path::{self, Path, PathBuf};

use anyhow::Context;
use belljar::{
    Config, EngineKind, Environment, Error, Policy, Runtimes, Sandbox, SandboxBuilder, StoreError,
};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::limits::LimitArguments;
use crate::progress::{self, Audience};
use crate::runtimes::RuntimeArguments;
use crate::seed::{Image, Seed};
use crate::sessions::Keeping;

#[derive(Args, Debug)]
#[command(next_help_heading = "Packages")]
pub(crate) struct PackageArguments {
    /// What runs the code: `wasm`, or `native`, the machine's own Python in a jail, which has threads, processes and
    /// native packages [default: wasm]
    #[arg(long, value_name = "ENGINE", value_parser = engine_values())]
    engine: Option<EngineKind>,

    /// Give sessions a package, with what it depends on: `jinja2>=3`, or the path of a wheel, an archive, a
    /// directory, a requirements.txt or a pyproject.toml; can be repeated
    #[arg(long, value_name = "SPEC")]
    package: Vec<String>,

    /// Import a module once, when the environment is made: sessions start with it in memory; can be repeated
    #[arg(long, value_name = "MODULE")]
    preload: Vec<String>,

    /// Take exactly what this pylock.toml names
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,

    /// Look for newer versions, instead of using what was found before
    #[arg(long)]
    upgrade: bool,

    #[command(flatten)]
    config: ConfigArguments,
}

/// Which belljar.toml counts.
#[derive(Args, Debug)]
pub(crate) struct ConfigArguments {
    /// Read this file instead of the belljar.toml in the working directory
    #[arg(long, value_name = "FILE", conflicts_with = "no_config")]
    config: Option<PathBuf>,

    /// Read no belljar.toml
    #[arg(long)]
    no_config: bool,
}

impl ConfigArguments {
    pub(crate) fn read(&self) -> Result<Option<Config>, Error> {
        Ok(match (&self.config, self.no_config) {
            (Some(path), _) => Some(Config::load(path)?),
            (None, true) => None,
            (None, false) => Config::find("")?,
        })
    }
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Packages")]
pub(crate) struct EnvironmentArguments {
    #[command(flatten)]
    packages: PackageArguments,

    /// Use an environment that `belljar env create` made
    #[arg(long, value_name = "NAME", conflicts_with_all = ["package", "lock"])]
    environment: Option<String>,

    /// Leave `sys.path` alone: the packages are at /data/site-packages, and nobody looks there
    #[arg(long)]
    no_inject_setup: bool,

    /// The engine where nobody says which.
    #[arg(skip)]
    preferred: Option<EngineKind>,
}

pub(crate) fn engine_values() -> impl TypedValueParser<Value = EngineKind> {
    PossibleValuesParser::new(["wasm", "native"]).map(|word| match word.as_str() {
        "native" => EngineKind::Native,
        _ => EngineKind::Wasm,
    })
}

/// What the command line and `belljar.toml` say together.
pub(crate) struct Setting {
    arguments: PackageArguments,
    name: Option<String>,
    /// The environment that a variable names.
    image: Option<Image>,
    no_inject_setup: bool,
    engine: EngineKind,
    pub(crate) config: Option<Config>,
    pub(crate) runtimes: Runtimes,
}

impl PackageArguments {
    /// Reads the file that counts.
    pub(crate) fn setting(self, runtime: RuntimeArguments) -> anyhow::Result<Setting> {
        self.setting_for(runtime, None)
    }

    fn setting_for(
        self,
        runtime: RuntimeArguments,
        preferred: Option<EngineKind>,
    ) -> anyhow::Result<Setting> {
        let config = self.config.read()?;
        // The command line beats the file, also where the file couldn't say so.
        let said = match (self.engine, &config) {
            (Some(engine), _) => Some(engine),
            (None, Some(config)) => config.engine().map_err(Error::from)?,
            (None, None) => None,
        };
        let engine = said.or(preferred).unwrap_or_default();
        let config = config.map(|config| config.with_engine(engine));
        let mut runtimes = Runtimes { upgrade: self.upgrade, ..runtime.runtimes()? };
        // The variable is nearer to the command than the file. The library reads it.
        if runtimes.cache_dir.is_none() && env::var_os("BELLJAR_CACHE_DIR").is_none_or(|path| path.is_empty())
        {
            let named = config.as_ref().and_then(Config::cache_dir);
            runtimes.cache_dir = named.map(path::absolute).transpose().context("cache_dir")?;
        }
        if runtimes.python.is_none()
            && let Some(config) = &config
        {
            runtimes.python = config.python().map_err(Error::from)?;
        }
        let (name, image, no_inject_setup) = (None, None, false);
        Ok(Setting { arguments: self, name, image, no_inject_setup, engine, config, runtimes })
    }
}

impl EnvironmentArguments {
    pub(crate) fn setting(self, runtime: RuntimeArguments) -> anyhow::Result<Setting> {
        let setting = self.packages.setting_for(runtime, self.preferred)?;
        Ok(Setting { name: self.environment, no_inject_setup: self.no_inject_setup, ..setting })
    }

    /// The file that counts.
    pub(crate) fn read_config(&self) -> Result<Option<Config>, Error> {
        self.packages.config.read()
    }

    /// Says which engine it is where nobody does.
    pub(crate) fn prefer(&mut self, engine: EngineKind) {
        self.preferred = Some(engine);
    }

    /// Whether it names one that is kept in the state directory.
    pub(crate) fn is_named(&self) -> bool {
        self.environment.is_some()
    }
}

impl Setting {
    /// Default of the engine, then file, then variables, then command line.
    pub(crate) fn policy(&self, limits: &LimitArguments, engine: EngineKind, seed: Option<&Seed>) -> Policy {
        let mut policy = Policy::for_engine(engine);
        if let Some(config) = &self.config {
            config.change(&mut policy);
        }
        if let Some(seed) = seed {
            seed.change(&mut policy);
        }
        limits.apply(&mut policy);
        policy.workspace.flat &= !limits.names_root();
        policy.inject_setup &= !self.no_inject_setup;
        policy
    }

    /// Says which environment it is where the command line doesn't.
    pub(crate) fn set_image(&mut self, seed: Option<&Seed>) {
        self.image = seed.and_then(|seed| seed.image.clone());
    }

    /// The engine that the command line names.
    pub(crate) fn typed_engine(&self) -> Option<EngineKind> {
        self.arguments.engine
    }

    /// Whether the command line says anything of the environment but its engine.
    pub(crate) fn asks(&self) -> bool {
        self.name.is_some() || self.names_packages() || !self.arguments.preload.is_empty()
    }

    /// The packages that were asked for, in the user's words.
    pub(crate) fn package_texts(&self) -> Vec<String> {
        match (&self.config, self.names_packages()) {
            (Some(config), false) => config.packages(),
            _ => self.arguments.package.clone(),
        }
    }

    /// The environment with what is locked.
    pub(crate) fn environment(
        &self,
        keeping: impl Fn() -> anyhow::Result<Keeping>,
    ) -> anyhow::Result<Environment> {
        let config = self.config.as_ref().filter(|_| !self.names_packages());
        let image = match &self.image {
            Some(image) if self.name.is_none() && !self.names_packages() => {
                self.of_image(image, &keeping()?)?
            }
            _ => None,
        };
        let name = self.name.as_deref().or_else(|| config?.environment_name());
        let mut environment = match (image, name, config, &self.arguments.lock) {
            (Some(environment), ..) => environment,
            (_, Some(name), ..) => self.named(name, &keeping()?)?,
            (_, _, Some(config), _) => config.environment(&self.runtimes)?.unwrap_or_else(|| self.plain()),
            (.., Some(lock)) => self.typed()?.locked_by(lock, &self.runtimes)?,
            _ => self.typed()?,
        };
        environment.preload.extend(self.arguments.preload.iter().cloned());
        Ok(environment)
    }

    /// The environment that an image names, if it is there, or must be.
    fn of_image(&self, image: &Image, keeping: &Keeping) -> anyhow::Result<Option<Environment>> {
        match keeping.environments()?.get(&image.name) {
            Ok(_) => self.named(&image.name, keeping).map(Some),
            Err(Error::NoSuchEnvironment { .. } | Error::Store(StoreError::InvalidName { .. })) => {
                match image.is_default {
                    true => Ok(None),
                    false => Err(Error::NoSuchEnvironment { name: image.name.clone() }.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// One that has a name is for one engine.
    fn named(&self, name: &str, keeping: &Keeping) -> anyhow::Result<Environment> {
        let environment = keeping.environments()?.get(name)?.environment()?;
        match self.typed_engine() {
            Some(wanted) if wanted != environment.engine => {
                Err(Error::OtherEngine { name: name.to_owned(), found: environment.engine, wanted }.into())
            }
            _ => Ok(environment),
        }
    }

    /// The environment, whatever is locked.
    pub(crate) fn unlocked_environment(&self) -> Result<Environment, Error> {
        match &self.config {
            Some(config) if !self.names_packages() => {
                Ok(config.unlocked_environment().unwrap_or_else(|| self.plain()))
            }
            _ => self.typed(),
        }
    }

    /// The lock that the command line or the file names.
    pub(crate) fn lock_file(&self) -> Option<&Path> {
        let configured = || self.config.as_ref().and_then(Config::lock_file);
        self.arguments.lock.as_deref().or_else(configured)
    }

    /// Begins to set up a sandbox.
    pub(crate) fn builder(
        self,
        policy: Policy,
        environment: Environment,
        audience: Audience,
    ) -> SandboxBuilder {
        Sandbox::builder()
            .policy(policy)
            .environment(environment)
            .runtimes(self.runtimes)
            .progress(progress::for_audience(audience))
    }

    /// The packages of the command line.
    fn typed(&self) -> Result<Environment, Error> {
        let mut environment = self.plain();
        for package in &self.arguments.package {
            environment.add(package)?;
        }
        Ok(environment)
    }

    /// The interpreter and nothing else.
    fn plain(&self) -> Environment {
        Environment { engine: self.engine, ..Environment::default() }
    }

    /// The command line's packages replace the file's.
    fn names_packages(&self) -> bool {
        !self.arguments.package.is_empty() || self.arguments.lock.is_some()
    }
}
