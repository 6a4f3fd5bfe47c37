//! Locks that are files of the user's.

use std::collections::BTreeMap;
use std::path::{self, Path};

use belljar_packages::{Lock, read_text};

use crate::{ConfigError, Environment, Error, Runtimes};

impl Environment {
    /// The environment with exactly what a `pylock.toml` names. It must have all packages that were asked for.
    /// `runtimes` says which Python they are for, if it is the native engine's.
    pub fn locked_by(self, path: impl AsRef<Path>, runtimes: &Runtimes) -> Result<Self, Error> {
        let path = path.as_ref();
        let unreadable = |source| Error::Config(ConfigError::Read { path: path.to_owned(), source });
        let text = read_text(path).map_err(unreadable)?;
        // What it names beside it must be found from everywhere.
        let directory = path::absolute(path).map_err(unreadable)?;
        let lock = self.read_lock(&text, directory.parent().unwrap_or(Path::new("/")), runtimes)?;
        match self.packages.iter().find_map(|spec| lock.lacks(spec)) {
            None => Ok(Self { lock: Some(lock), ..self }),
            Some(lacking) => Err(Error::NotLocked {
                package: lacking.package,
                found: lacking.found,
                wanted: lacking.wanted,
                lock: path.to_owned(),
            }),
        }
    }
}

/// The SHA-256 of what is installed of each package of a lock, by name.
pub fn lock_hashes(lock: &Lock) -> BTreeMap<String, String> {
    lock.packages().map(|package| (package.name.clone(), package.sha256.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_lock_must_have_what_is_asked_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pylock.toml");
        fs::write(&path, "lock-version = \"1.0\"\ncreated-by = \"test\"\npackages = []\n").expect("written");
        let mut environment = Environment::default();
        let runtimes = Runtimes::default();
        assert!(environment.clone().locked_by(&path, &runtimes).is_ok());
        environment.add("attrs").expect("a requirement");
        let error = environment.clone().locked_by(&path, &runtimes).expect_err("it isn't there");
        assert!(matches!(&error, Error::NotLocked { package, .. } if package == "attrs"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("belljar env lock")));
        assert!(environment.locked_by(directory.path().join("other"), &runtimes).is_err());
    }

    #[test]
    fn a_lock_must_have_the_versions_that_are_asked_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pylock.toml");
        let text = format!(
            "lock-version = \"1.0\"\ncreated-by = \"test\"\n[[packages]]\nname = \"six\"\nversion = \"1.15.0\"\n\
             wheels = [{{ url = \"https://h.example/six-1.15.0-py3-none-any.whl\", hashes = {{ sha256 = \"{}\" }} }}]\n",
            "1".repeat(64)
        );
        fs::write(&path, text).expect("written");
        let locked = |requirement: &str| {
            let mut environment = Environment::default();
            environment.add(requirement).expect("a requirement");
            environment.locked_by(&path, &Runtimes::default())
        };
        assert!(locked("six>=1.15").is_ok());
        let error = locked("six==1.16").expect_err("another version");
        let message = error.to_string();
        assert!(message.ends_with("pylock.toml has six 1.15.0, and six==1.16 is asked for"), "{message}");
        assert!(error.is_refusal() && error.hint().is_some_and(|hint| hint.contains("belljar env lock")));
    }
}
