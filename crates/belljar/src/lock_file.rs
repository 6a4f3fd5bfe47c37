//! Locks that are files of the user's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{self, Path};

use belljar_packages::{Lock, Spec};

use crate::{ConfigError, Environment, Error};

impl Environment {
    /// The environment with exactly what a `pylock.toml` names. It must have all packages that were asked for.
    pub fn locked_by(self, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let unreadable = |source| Error::Config(ConfigError::Read { path: path.to_owned(), source });
        let text = fs::read_to_string(path).map_err(unreadable)?;
        // What it names beside it must be found from everywhere.
        let directory = path::absolute(path).map_err(unreadable)?;
        let lock = Lock::parse_in(&text, directory.parent().unwrap_or(Path::new("/")))?;
        let missing = self.packages.iter().filter_map(package_name);
        let missing = missing.into_iter().find(|name| lock.packages().all(|package| package.name != *name));
        match missing {
            None => Ok(Self { lock: Some(lock), ..self }),
            Some(package) => Err(Error::NotLocked { package, lock: path.to_owned() }),
        }
    }
}

/// The SHA-256 of what is installed of each package of a lock, by name.
pub fn lock_hashes(lock: &Lock) -> BTreeMap<String, String> {
    lock.packages().map(|package| (package.name.clone(), package.sha256.clone())).collect()
}

/// The package that must be in the lock, if that can be told without asking anybody.
fn package_name(spec: &Spec) -> Option<String> {
    let name = match spec {
        // A marker may say that the guest doesn't need it.
        Spec::Requirement(text) if text.contains(';') => return None,
        Spec::Requirement(text) => text,
        Spec::Wheel(path) => path.file_name()?.to_str()?.split('-').next()?,
        _ => return None,
    };
    let allowed = |character: &char| character.is_ascii_alphanumeric() || "-_.".contains(*character);
    let name: String = name.trim().chars().take_while(allowed).collect();
    Some(normalised(&name))
}

/// The name under which the index knows a package.
fn normalised(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_lock_must_have() {
        for (text, name) in [
            ("Jinja2>=3", Some("jinja2")),
            ("zope.interface[x] == 1", Some("zope-interface")),
            ("a; sys_platform == 'win32'", None),
        ] {
            assert_eq!(package_name(&Spec::Requirement(text.to_owned())).as_deref(), name);
        }
        let wheel = Spec::Wheel("x/My_Package-1.0-py3-none-any.whl".into());
        assert_eq!(package_name(&wheel).as_deref(), Some("my-package"));
    }

    #[test]
    fn a_lock_must_have_what_is_asked_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pylock.toml");
        fs::write(&path, "lock-version = \"1.0\"\ncreated-by = \"test\"\npackages = []\n").expect("written");
        let mut environment = Environment::default();
        assert!(environment.clone().locked_by(&path).is_ok());
        environment.add("attrs").expect("a requirement");
        let error = environment.clone().locked_by(&path).expect_err("it isn't there");
        assert!(matches!(&error, Error::NotLocked { package, .. } if package == "attrs"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("belljar env lock")));
        assert!(environment.locked_by(directory.path().join("other")).is_err());
    }
}
