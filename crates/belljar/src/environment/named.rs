//! Environments that have a name.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use belljar_packages::{Lock, Spec};
use belljar_store::{Store, StoreError, Tenant};
use serde::{Deserialize, Serialize};

use super::{EngineKind, Environment};
use crate::Error;

/// An environment that everybody has.
const SCIENCE: &str = "science";

/// The named environments in a state directory.
#[derive(Clone, Debug)]
pub struct Environments {
    store: Store,
    tenant: Tenant,
}

/// An environment with a name: what it was made of, to the last byte.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedEnvironment {
    /// Its name.
    pub name: String,
    /// When it was defined, in milliseconds since 1970.
    pub created_ms: u64,
    /// What was asked for, in the user's words.
    pub packages: Vec<String>,
    /// What that was resolved to: a `pylock.toml`, empty if there are no packages.
    pub lock: String,
    /// Modules that are in memory from the start.
    pub preload: Vec<String>,
    /// Code that is run once, when it is made.
    pub setup: String,
    /// A standard library instead of the interpreter's own.
    #[serde(default)]
    pub stdlib: Option<PathBuf>,
    /// What runs its sessions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub engine: EngineKind,
}

/// Definitions without it are read by those who don't know it.
fn is_default(engine: &EngineKind) -> bool {
    *engine == EngineKind::default()
}

impl NamedEnvironment {
    /// A name for an environment. `packages` is what was asked for, to be shown; the lock counts.
    pub fn new(name: &str, packages: Vec<String>, environment: &Environment) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            name: name.to_owned(),
            created_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            packages,
            lock: environment.lock.as_ref().map(|lock| lock.text().to_owned()).unwrap_or_default(),
            preload: environment.preload.clone(),
            setup: environment.setup.clone(),
            stdlib: environment.stdlib.clone(),
            engine: environment.engine,
        }
    }

    /// `science`: not resolved yet, so it has no lock.
    fn science() -> Self {
        let environment = Environment::science();
        let text = |spec: &Spec| match spec {
            Spec::Requirement(text) => Some(text.clone()),
            _ => None,
        };
        let packages = environment.packages.iter().filter_map(text).collect();
        Self { created_ms: 0, ..Self::new(SCIENCE, packages, &environment) }
    }

    /// The environment.
    pub fn environment(&self) -> Result<Environment, Error> {
        let lock = if self.lock.is_empty() { None } else { Some(Lock::parse(&self.lock)?) };
        // Only one that everybody has isn't resolved.
        let unresolved = self.packages.iter().filter(|_| lock.is_none());
        let packages = unresolved.map(|text| Spec::parse(text, Path::new(""))).collect::<Result<_, _>>()?;
        Ok(Environment {
            packages,
            engine: self.engine,
            lock,
            preload: self.preload.clone(),
            setup: self.setup.clone(),
            stdlib: self.stdlib.clone(),
            ..Environment::default()
        })
    }
}

impl Environments {
    /// Those in a state directory. Nothing is made there before the first is defined.
    pub fn open(state_dir: impl Into<PathBuf>, tenant: Tenant) -> Result<Self, Error> {
        Ok(Self { store: Store::open(state_dir)?, tenant })
    }

    /// Defines an environment, in place of the one that had its name. It is durable when this returns.
    pub fn define(&self, environment: &NamedEnvironment) -> Result<(), Error> {
        let text = serde_json::to_vec(environment).unwrap_or_default();
        Ok(self.store.define_environment(&self.tenant, &environment.name, &text)?)
    }

    /// Whether somebody gave an environment this name.
    pub fn is_defined(&self, name: &str) -> Result<bool, Error> {
        Ok(self.store.environment_definition(&self.tenant, name)?.is_some())
    }

    /// The environment with this name. Without another one of that name, `science` is [`Environment::science`].
    pub fn get(&self, name: &str) -> Result<NamedEnvironment, Error> {
        let text = match self.store.environment_definition(&self.tenant, name)? {
            Some(text) => text,
            None if name == SCIENCE => return Ok(NamedEnvironment::science()),
            None => return Err(Error::NoSuchEnvironment { name: name.to_owned() }),
        };
        let damaged = |error: serde_json::Error| {
            let path = PathBuf::from(name);
            Error::Store(StoreError::Damaged { path, reason: error.to_string() })
        };
        serde_json::from_slice(&text).map_err(damaged)
    }

    /// Those of all tenants: they share a cache.
    pub(crate) fn tenants(&self) -> Result<Vec<Self>, Error> {
        let tenants = self.store.tenants()?.into_iter();
        Ok(tenants.map(|tenant| Self { store: self.store.clone(), tenant }).collect())
    }

    /// All names, sorted.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        Ok(self.store.environment_names(&self.tenant)?)
    }

    /// Forgets a name; false if there was none. Sessions that were made with it go on.
    pub fn forget(&self, name: &str) -> Result<bool, Error> {
        Ok(self.store.forget_environment(&self.tenant, name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn science_is_there_until_somebody_takes_its_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let environments = Environments::open(directory.path(), Tenant::local()).expect("opened");
        let environment = environments.get(SCIENCE).and_then(|named| named.environment()).expect("built in");
        assert_eq!(environment.engine, EngineKind::Native);
        assert_eq!(environment.packages, Environment::science().packages);
        assert!(!environments.is_defined(SCIENCE).expect("looked"));
        assert!(matches!(environments.get("other"), Err(Error::NoSuchEnvironment { .. })));
        let mine = NamedEnvironment::new(SCIENCE, Vec::new(), &Environment::default());
        environments.define(&mine).expect("defined");
        assert_eq!(environments.get(SCIENCE).expect("mine").engine, EngineKind::Wasm);
        assert!(environments.is_defined(SCIENCE).expect("looked"));
    }

    #[test]
    fn engines_are_kept() {
        let native = Environment { engine: EngineKind::Native, ..Environment::default() };
        let text = serde_json::to_string(&NamedEnvironment::new("n", Vec::new(), &native)).expect("JSON");
        assert!(text.contains(r#""engine":"native""#), "{text}");
        let read: NamedEnvironment = serde_json::from_str(&text).expect("read");
        assert_eq!(read.environment().expect("an environment").engine, EngineKind::Native);
        let wasm = NamedEnvironment::new("w", Vec::new(), &Environment::default());
        assert!(!serde_json::to_string(&wasm).expect("JSON").contains("engine"));
    }
}
