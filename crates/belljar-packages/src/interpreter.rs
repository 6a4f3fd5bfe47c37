//! A Python of this machine, for the `native` engine.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use belljar_runtime::{
    Cache, MakeError, Quiet,
    host::{self, Finished},
};
use serde::{Deserialize, Serialize};

use self::answer::Answer;
use crate::{
    error::PackageError,
    target::{Platform, Target},
};

mod answer;

/// The oldest that the guest kernel runs in.
pub(crate) const OLDEST: u32 = 10;

const NAMES: [&str; 6] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"];
const ASK: &str = include_str!("interpreter/ask.py");
/// It takes some milliseconds, and ten times that behind a shim.
const TIME: Duration = Duration::from_secs(20);

/// Where answers are kept, by what was asked.
const KIND: &str = "interpreter";
const FACTS: &str = "interpreter.json";
/// A new number asks all of them again.
const FORMAT: u32 = 1;

/// What a shim goes by: which of several versions it runs.
const SHIM_VARIABLES: [&str; 5] = ["HOME", "PYENV_ROOT", "PYENV_VERSION", "PYENV_DIR", "ASDF_DATA_DIR"];
const SHIM_FILES: [&str; 2] = [".python-version", ".tool-versions"];

/// A CPython of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostPython {
    /// What has its `bin/` and `lib/python3.x/`. Never a virtual environment, but what that was made from.
    pub prefix: PathBuf,
    /// The program, as a path below the prefix.
    pub executable: PathBuf,
    /// Its version, and what it runs on.
    pub platform: Platform,
    /// How its native modules are called: `cpython-311-x86_64-linux-gnu`.
    pub soabi: String,
    /// Names it by version, build and contents.
    pub id: String,
    /// How its bytecode files are called, and which bytecode it understands.
    pub(crate) tag: String,
    pub(crate) magic: String,
}

/// An answer that is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    python: HostPython,
    /// Of the program, as it was when it was asked.
    stamp: Stamp,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    modified: (i64, i64),
    inode: u64,
}

impl HostPython {
    /// The one that is `named`, by its path or a name in `directories`; else the first there that can be used:
    /// `python3` before all that name their version. Asking one takes a moment; the answer is kept in the cache.
    ///
    /// # Errors
    /// If there is none, or the one that is named can't be used: [`PackageError::Interpreter`] says why.
    pub fn find(named: Option<&Path>, directories: &[PathBuf], cache: &Cache) -> Result<Self, PackageError> {
        let in_directories =
            |name: &Path| directories.iter().map(|at| at.join(name)).find(|path| path.is_file());
        if let Some(named) = named {
            let is_name = named.components().count() == 1 && !named.is_file();
            let found = if is_name { in_directories(named) } else { None };
            return known_or_asked(&found.unwrap_or_else(|| named.to_owned()), directories, cache);
        }
        let mut passed = Vec::new();
        let candidates = NAMES.iter().flat_map(|name| directories.iter().map(move |at| at.join(name)));
        for candidate in candidates.filter(|path| path.is_file()) {
            match known_or_asked(&candidate, directories, cache) {
                Err(PackageError::Interpreter { path, reason }) => {
                    passed.push(format!("{}: {reason}", path.display()));
                }
                found => return found,
            }
        }
        Err(PackageError::NoInterpreter { passed })
    }

    /// The program.
    pub fn program(&self) -> PathBuf {
        self.prefix.join(&self.executable)
    }

    /// What packages for it are for.
    pub fn target(&self) -> Target {
        Target::Native(self.platform.clone())
    }
}

fn known_or_asked(
    program: &Path,
    directories: &[PathBuf],
    cache: &Cache,
) -> Result<HostPython, PackageError> {
    let refuse = |reason: String| PackageError::Interpreter { path: program.to_owned(), reason };
    let stamp = Stamp::of(program).map_err(|error| refuse(error.to_string()))?;
    let key = key(program, &stamp);
    if let Some(python) = known(cache, &key) {
        return Ok(python);
    }
    let python = ask(program, directories).and_then(|answer| answer.python()).map_err(refuse)?;
    keep(cache, &key, &python);
    Ok(python)
}

/// What was answered before, if the interpreter is still the same.
fn known(cache: &Cache, key: &str) -> Option<HostPython> {
    let entry = cache.find(KIND, key)?;
    let kept: Kept = serde_json::from_slice(&fs::read(entry.join(FACTS)).ok()?).ok()?;
    (Stamp::of(&kept.python.program()).ok()? == kept.stamp).then_some(kept.python)
}

/// Without it the next one only has to ask again.
fn keep(cache: &Cache, key: &str, python: &HostPython) {
    let Ok(stamp) = Stamp::of(&python.program()) else { return };
    let kept = Kept { python: python.clone(), stamp };
    let made = cache.remove(KIND, key).map_err(PackageError::from).and_then(|_| {
        cache.make(KIND, key, &Quiet, |directory| -> Result<(), PackageError> {
            let path = directory.join(FACTS);
            let written =
                serde_json::to_vec(&kept).map_err(Into::into).and_then(|json| fs::write(&path, json));
            written.map_err(|error| PackageError::write(&path, error))
        })
    });
    if let Err(error) = made {
        tracing::debug!(%error, "an interpreter's answer isn't kept");
    }
}

fn ask(program: &Path, directories: &[PathBuf]) -> Result<Answer, String> {
    let mut command = Command::new(program);
    // No packages of the host's, and none of its settings: only what it is.
    command.args(["-I", "-S", "-c", ASK]).env_clear();
    if let Ok(path) = std::env::join_paths(directories) {
        command.env("PATH", path);
    }
    if is_script(program) {
        let variables = SHIM_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(variables);
    }
    let scratch = std::env::temp_dir();
    let too_long = || {
        let source = std::io::ErrorKind::TimedOut.into();
        MakeError::Run { program: program.to_owned(), source }
    };
    let mut look = |elapsed| if elapsed > TIME { Err(too_long()) } else { Ok(()) };
    let finished: Finished =
        host::run_watched(&mut command, &scratch, &mut look).map_err(|error: MakeError| error.to_string())?;
    let answer = finished.stdout.lines().last().and_then(|line| serde_json::from_str(line).ok());
    answer.ok_or_else(|| {
        let said = finished.stderr.lines().last().unwrap_or("nothing").chars().take(200).collect::<String>();
        format!("it doesn't answer like Python 3.{OLDEST} or newer: {said}")
    })
}

/// Names a question. What a shim answers depends on more than the shim.
fn key(program: &Path, stamp: &Stamp) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    add(format!("{FORMAT} {stamp:?}").as_bytes());
    let program = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
    add(program.as_os_str().as_encoded_bytes());
    if is_script(&program) {
        for name in SHIM_VARIABLES {
            add(std::env::var_os(name).unwrap_or_default().as_encoded_bytes());
        }
        let root = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let here = std::env::current_dir().unwrap_or_default();
        let choices = here.ancestors().flat_map(|directory| SHIM_FILES.map(|name| directory.join(name)));
        for file in choices.chain([root.join("version")]) {
            add(&crate::text_file::read_text(&file).unwrap_or_default().into_bytes());
        }
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

fn is_script(program: &Path) -> bool {
    let mut start = [0; 2];
    File::open(program).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!"
}

impl Stamp {
    fn of(path: &Path) -> std::io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self { bytes: found.len(), modified: (found.mtime(), found.mtime_nsec()), inode: found.ino() })
    }
}
