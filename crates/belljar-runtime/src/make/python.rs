//! The Python that componentize-py runs in. Not the guest's.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{error::MakeError, process};
use crate::progress::Progress;

/// What componentize-py needs.
const OLDEST: (u32, u32) = (3, 10);

const NAMES: [&str; 6] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"];

const ASK_VERSION: &str = "import sys; print(*sys.version_info[:2])";

/// A Python on the host.
#[derive(Clone, Debug)]
pub struct Python {
    executable: PathBuf,
}

impl Python {
    /// The one that is `named`, or else the first in `directories` that is new enough.
    ///
    /// # Errors
    /// If there is none, or only older ones.
    pub fn find(
        named: Option<&Path>,
        directories: &[PathBuf],
        scratch: &Path,
        progress: &dyn Progress,
    ) -> Result<Self, MakeError> {
        let candidates: Vec<PathBuf> = match named {
            Some(path) => vec![path.to_owned()],
            None => {
                let all = directories.iter().flat_map(|directory| NAMES.map(|name| directory.join(name)));
                all.filter(|path| path.is_file()).collect()
            }
        };
        let mut too_old = None;
        for executable in candidates {
            match version(&executable, scratch, progress) {
                Some(version) if version >= OLDEST => {
                    tracing::debug!(python = %executable.display(), "making the runtime with");
                    return Ok(Self { executable });
                }
                Some((major, minor)) => too_old = Some((executable, format!("{major}.{minor}"))),
                None => tracing::debug!(python = %executable.display(), "doesn't run"),
            }
        }
        Err(match (too_old, named) {
            (Some((path, version)), _) => MakeError::PythonTooOld { path, version },
            (None, Some(path)) => MakeError::NoPython { searched: path.display().to_string() },
            (None, None) => MakeError::NoPython { searched: format!("{} directories", directories.len()) },
        })
    }

    /// The interpreter's file.
    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// Runs as its user set it up, since pip's settings count.
    pub fn as_configured(&self) -> Command {
        Command::new(&self.executable)
    }

    /// Runs without environment variables, user packages and site packages, so that the same comes out
    /// everywhere.
    pub(super) fn isolated(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(["-I", "-S"]);
        for name in ["PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV"] {
            command.env_remove(name);
        }
        command.env("PYTHONHASHSEED", "0");
        command
    }
}

/// `None` for a program that isn't a Python, or doesn't run.
fn version(executable: &Path, scratch: &Path, progress: &dyn Progress) -> Option<(u32, u32)> {
    let mut command = Command::new(executable);
    command.args(["-I", "-S", "-c", ASK_VERSION]);
    let finished = process::run(&mut command, scratch, progress, Duration::from_secs(1)).ok()?;
    let (major, minor) = finished.stdout.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
