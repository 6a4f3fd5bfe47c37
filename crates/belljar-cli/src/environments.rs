//! The options that say which packages sessions have, and the file that says so where they don't.

use std::env;
use std::path::{self, Path, PathBuf};

use anyhow::Context;
use belljar::{Config, Environment, Error, Policy, Runtimes, Sandbox, SandboxBuilder};
use clap::Args;

use crate::limits::LimitArguments;
use crate::progress::{self, Audience};
use crate::runtimes::RuntimeArguments;
use crate::sessions::Keeping;

#[derive(Args, Debug)]
#[command(next_help_heading = "Packages")]
pub(crate) struct PackageArguments {
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

    /// Read this file instead of the belljar.toml in the working directory
    #[arg(long, value_name = "FILE", conflicts_with = "no_config")]
    config: Option<PathBuf>,

    /// Read no belljar.toml
    #[arg(long)]
    no_config: bool,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Packages")]
pub(crate) struct EnvironmentArguments {
    #[command(flatten)]
    packages: PackageArguments,

    /// Use an environment that `belljar env create` made
    #[arg(long, value_name = "NAME", conflicts_with_all = ["package", "lock"])]
    environment: Option<String>,

    /// What runs the code; this version has `wasm` only
    #[arg(long = "engine", value_name = "ENGINE", value_parser = engine)]
    _engine: Option<Engine>,

    /// Leave `sys.path` alone: the packages are at /data/site-packages, and nobody looks there
    #[arg(long)]
    no_inject_setup: bool,
}

/// There is one yet.
#[derive(Clone, Copy, Debug)]
struct Engine;

fn engine(name: &str) -> Result<Engine, String> {
    match name {
        "wasm" => Ok(Engine),
        "native" => Err("the native engine is not in this version yet; `wasm` is".to_owned()),
        _ => Err("there is `wasm`".to_owned()),
    }
}

/// What the command line and `belljar.toml` say together.
pub(crate) struct Setting {
    arguments: PackageArguments,
    name: Option<String>,
    no_inject_setup: bool,
    pub(crate) config: Option<Config>,
    pub(crate) runtimes: Runtimes,
}

impl PackageArguments {
    /// Reads the file that counts.
    pub(crate) fn setting(self, runtime: RuntimeArguments) -> anyhow::Result<Setting> {
        let config = match (&self.config, self.no_config) {
            (Some(path), _) => Some(Config::load(path).map_err(Error::from)?),
            (None, true) => None,
            (None, false) => Config::find("").map_err(Error::from)?,
        };
        let mut runtimes = Runtimes { upgrade: self.upgrade, ..runtime.runtimes()? };
        // The variable is nearer to the command than the file. The library reads it.
        if runtimes.cache_dir.is_none() && env::var_os("BELLJAR_CACHE_DIR").is_none_or(|path| path.is_empty())
        {
            let named = config.as_ref().and_then(Config::cache_dir);
            runtimes.cache_dir = named.map(path::absolute).transpose().context("cache_dir")?;
        }
        Ok(Setting { arguments: self, name: None, no_inject_setup: false, config, runtimes })
    }
}

impl EnvironmentArguments {
    pub(crate) fn setting(self, runtime: RuntimeArguments) -> anyhow::Result<Setting> {
        let setting = self.packages.setting(runtime)?;
        Ok(Setting { name: self.environment, no_inject_setup: self.no_inject_setup, ..setting })
    }

    /// Whether it names one that is kept in the state directory.
    pub(crate) fn is_named(&self) -> bool {
        self.environment.is_some()
    }
}

impl Setting {
    /// Default, then file, then command line.
    pub(crate) fn policy(&self, limits: &LimitArguments) -> Policy {
        let mut policy = Policy::default();
        if let Some(config) = &self.config {
            config.change(&mut policy);
        }
        limits.apply(&mut policy);
        policy.inject_setup &= !self.no_inject_setup;
        policy
    }

    /// Whether the command line says anything of the environment.
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
        keeping: impl FnOnce() -> anyhow::Result<Keeping>,
    ) -> anyhow::Result<Environment> {
        let config = self.config.as_ref().filter(|_| !self.names_packages());
        let name = self.name.as_deref().or_else(|| config?.environment_name());
        let mut environment = match (name, config, &self.arguments.lock) {
            (Some(name), _, _) => keeping()?.environments()?.get(name)?.environment()?,
            (None, Some(config), _) => config.environment()?.unwrap_or_default(),
            (None, None, Some(lock)) => self.typed()?.locked_by(lock)?,
            (None, None, None) => self.typed()?,
        };
        environment.preload.extend(self.arguments.preload.iter().cloned());
        Ok(environment)
    }

    /// The environment, whatever is locked.
    pub(crate) fn unlocked_environment(&self) -> Result<Environment, Error> {
        match &self.config {
            Some(config) if !self.names_packages() => Ok(config.unlocked_environment().unwrap_or_default()),
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
        let mut environment = Environment::default();
        for package in &self.arguments.package {
            environment.add(package)?;
        }
        Ok(environment)
    }

    /// The command line's packages replace the file's.
    fn names_packages(&self) -> bool {
        !self.arguments.package.is_empty() || self.arguments.lock.is_some()
    }
}
