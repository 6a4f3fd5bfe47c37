//! What is kept of a native environment, so that it can be made again.
//!
//! A wasm environment is put aside whole. A native one is the machine's own interpreter with packages from the cache:
//! only what it was made of is written down, and whoever wakes a session in it makes it again. Its name is a hash of
//! all that is in it, so it is the same one or none.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use belljar_native::{NativeEngine, NativeEnvironment};
use belljar_packages::{LockedPackage, PackageError};
use belljar_runtime::Progress;
use belljar_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::environment::SessionInstaller;
use crate::location::python_on_path;
use crate::{EngineKind, Environment, Error, NamedEnvironment, Runtimes};

/// The file in the directory of a pinned environment.
const FILE: &str = "native.json";
/// Marks what came from another machine, as `WasmEngine::is_foreign` finds it.
const FOREIGN: &str = "foreign";
const FORMAT: &str = "belljar native environment";
const VERSION: u32 = 1;
/// Longer than any lock.
const LONGEST: u64 = 64 << 20;

/// What a native environment is made of. There is no path of the host in it but in a lock, and none of those is
/// followed in one that came from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    format: String,
    version: u32,
    engine: EngineKind,
    /// The environment's name.
    environment: String,
    /// The interpreter's version, such as `3.12`.
    python: String,
    /// A `pylock.toml`, empty if there are no packages.
    lock: String,
    preload: Vec<String>,
    setup: String,
}

impl Recipe {
    pub(crate) fn new(environment: &Environment, made: &NativeEnvironment) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            engine: EngineKind::Native,
            environment: made.id.clone(),
            python: python_of(made),
            lock: environment.lock.as_ref().map(|lock| lock.text().to_owned()).unwrap_or_default(),
            preload: environment.preload.clone(),
            setup: environment.setup.clone(),
        }
    }

    /// The lock, if there are packages.
    pub(crate) fn lock(&self) -> Option<&str> {
        Some(self.lock.as_str()).filter(|lock| !lock.is_empty())
    }

    /// Whether the environment that is pinned in a directory is a native one.
    pub(crate) fn is_in(directory: &Path) -> bool {
        directory.join(FILE).is_file()
    }

    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(FILE), serde_json::to_vec_pretty(self).map_err(io::Error::other)?)
    }

    /// Writes one that came from elsewhere. All that is in the environment is in its name; where it is fetched from
    /// isn't, so a sandbox of this machine puts its own in place of it.
    pub(crate) fn write_foreign(&self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(FOREIGN), "")?;
        self.write(directory)
    }

    /// What is pinned in a directory.
    pub(crate) fn read(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(FILE);
        let damaged = |reason: String| StoreError::Damaged { path: path.clone(), reason };
        let file = fs::File::open(&path).map_err(|error| damaged(error.to_string()))?;
        Ok(Self::parse(file).map_err(damaged)?)
    }

    /// Reads one that came with a session from elsewhere. It may name packages of an index and nothing of this
    /// machine.
    pub(crate) fn import(input: impl Read, environment: &str) -> Result<Self, Error> {
        let refused =
            |reason: String| Error::ForeignEnvironment { environment: environment.to_owned(), reason };
        let recipe = Self::parse(input).map_err(refused)?;
        if recipe.environment != environment {
            return Err(refused("it describes another environment".to_owned()));
        }
        let lock = recipe.environment()?.lock;
        let local = lock.as_ref().and_then(|lock| lock.packages().find(names_path));
        match local {
            None => Ok(recipe),
            Some(package) => Err(refused(format!("{} is a file of the other machine", package.name))),
        }
    }

    fn parse(input: impl Read) -> Result<Self, String> {
        let mut text = Vec::new();
        input.take(LONGEST).read_to_end(&mut text).map_err(|error| error.to_string())?;
        let recipe: Self = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        if recipe.format != FORMAT || recipe.engine != EngineKind::Native {
            return Err("it describes no native environment".to_owned());
        }
        if recipe.version != VERSION {
            return Err(format!("it is of version {}, and this Belljar knows {VERSION}", recipe.version));
        }
        // It is looked for on the path by this name.
        if !recipe.python.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err("it names no version of Python".to_owned());
        }
        Ok(recipe)
    }

    /// The environment, to be made.
    pub(crate) fn environment(&self) -> Result<Environment, Error> {
        let named = NamedEnvironment {
            name: String::new(),
            created_ms: 0,
            packages: Vec::new(),
            lock: self.lock.clone(),
            preload: self.preload.clone(),
            setup: self.setup.clone(),
            stdlib: None,
            engine: EngineKind::Native,
        };
        named.environment()
    }

    /// Makes the environment again: the very same, or it is an error.
    pub(crate) fn assemble(
        &self,
        runtimes: &Runtimes,
        progress: &dyn Progress,
    ) -> Result<NativeEnvironment, Error> {
        let made = self.assemble_with(runtimes, progress);
        if made.is_ok() || runtimes.python.is_some() {
            return made;
        }
        // Another one may be the first on the path by now.
        match python_on_path(&self.python) {
            Some(python) => {
                self.assemble_with(&Runtimes { python: Some(python), ..runtimes.clone() }, progress)
            }
            None => made,
        }
    }

    fn assemble_with(
        &self,
        runtimes: &Runtimes,
        progress: &dyn Progress,
    ) -> Result<NativeEnvironment, Error> {
        let made = match self.environment()?.assemble_native(runtimes, progress) {
            Err(Error::Package(error)) if is_about_python(&error) => {
                return Err(self.other_interpreter(error.to_string()));
            }
            made => made?,
        };
        if made.id == self.environment {
            return Ok(made);
        }
        let now = python_of(&made);
        let reason = if now == self.python {
            format!("the Python {now} that is here is another build, or the packages are others")
        } else {
            format!("it has Python {}, and here is {now}", self.python)
        };
        Err(self.other_interpreter(reason))
    }

    fn other_interpreter(&self, reason: String) -> Error {
        let (environment, python) = (self.environment.clone(), self.python.clone());
        Error::OtherInterpreter { environment, python, reason }
    }

    /// The engine for sessions that were made in it.
    pub(crate) fn load(&self, runtimes: &Runtimes, progress: &dyn Progress) -> Result<NativeEngine, Error> {
        let made = self.assemble(runtimes, progress)?;
        let installer = SessionInstaller::new(runtimes, &made);
        let engine = NativeEngine::load(made, &runtimes.cache()?)?;
        engine.set_installer(Arc::new(installer));
        Ok(engine)
    }

    /// Writes it for another machine, which must be able to have the same packages.
    pub(crate) fn export(&self) -> Result<Vec<u8>, Error> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        Self::import(text.as_slice(), &self.environment)?;
        Ok(text)
    }
}

/// Whether a file begins as a recipe does, and not as an image.
pub(crate) fn is_recipe(start: &[u8]) -> bool {
    start.first() == Some(&b'{')
}

/// Whether an interpreter is missing, or is another one than packages were locked for.
fn is_about_python(error: &PackageError) -> bool {
    matches!(
        error,
        PackageError::OtherTarget { .. }
            | PackageError::Interpreter { .. }
            | PackageError::NoInterpreter { .. }
    )
}

/// Whether a package is taken from a place on this machine.
fn names_path(package: &&LockedPackage) -> bool {
    package.file().is_some()
}

/// The interpreter's version, by its name.
fn python_of(made: &NativeEnvironment) -> String {
    let name = made.executable.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.trim_start_matches(|letter: char| !letter.is_ascii_digit()).to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;

    fn recipe() -> Recipe {
        let made = NativeEnvironment {
            id: "0123456789abcdef".to_owned(),
            prefix: PathBuf::from("/usr"),
            executable: PathBuf::from("bin/python3.11"),
            packages: None,
            preload: Vec::new(),
            setup: String::new(),
        };
        let environment = Environment {
            preload: vec!["json".to_owned()],
            setup: "x = 1".to_owned(),
            engine: EngineKind::Native,
            ..Environment::default()
        };
        Recipe::new(&environment, &made)
    }

    fn changed(key: &str, value: Value) -> Vec<u8> {
        let mut text = serde_json::to_value(recipe()).expect("it is plain");
        text[key] = value;
        text.to_string().into_bytes()
    }

    #[test]
    fn it_is_what_was_written() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(!Recipe::is_in(directory.path()));
        recipe().write(directory.path()).expect("written");
        assert!(Recipe::is_in(directory.path()));
        let read = Recipe::read(directory.path()).expect("read");
        assert_eq!((&read, read.python.as_str()), (&recipe(), "3.11"));
        let environment = read.environment().expect("an environment");
        assert_eq!((environment.engine, environment.setup.as_str()), (EngineKind::Native, "x = 1"));
        assert!(is_recipe(&read.export().expect("exported")));
        assert!(!belljar_wasm::WasmEngine::is_foreign(directory.path()));
        read.write_foreign(directory.path()).expect("written");
        assert!(belljar_wasm::WasmEngine::is_foreign(directory.path()));
    }

    #[test]
    fn one_from_elsewhere_names_nothing_of_this_machine() {
        let id = recipe().environment;
        assert!(Recipe::import(changed("setup", json!("x = 2")).as_slice(), &id).is_ok());
        let local = format!(
            "lock-version = \"1.0\"\ncreated-by = \"test\"\n[[packages]]\nname = \"evil\"\nversion = \"1\"\n\
             wheels = [{{ path = \"/etc/evil-1-py3-none-any.whl\", hashes = {{ sha256 = \"{}\" }} }}]\n",
            "1".repeat(64)
        );
        for wrong in [
            changed("environment", json!("fedcba9876543210")),
            changed("engine", json!("wasm")),
            changed("format", json!("other")),
            changed("version", json!(2)),
            changed("python", json!("/tmp/python")),
            changed("python", json!("3.11/../../tmp/python")),
            changed("prefix", json!("/tmp")),
            changed("stdlib", json!("/etc")),
            changed("lock", json!(local)),
            changed("lock", json!(local.replace("path = \"", "url = \"file://"))),
            b"{".to_vec(),
            Vec::new(),
        ] {
            let refused = Recipe::import(wrong.as_slice(), &id);
            assert!(refused.is_err(), "{}", String::from_utf8_lossy(&wrong));
        }
    }
}
