//! What Belljar itself can fail at.

use std::path::PathBuf;

use belljar_artifacts::{ArtifactError, KeyError, LinkError};
use belljar_datasets::DatasetError;
use belljar_engine::{EngineError, FileError, FileErrorCode};
use belljar_native::NativeError;
use belljar_packages::PackageError;
use belljar_runtime::{CacheError, MakeError};
use belljar_store::StoreError;
use belljar_transfer::TransferError;
use belljar_wasm::LoadError;
use thiserror::Error;

use crate::{ConfigError, EngineKind, PolicyError};

/// A failure of Belljar. Code that fails is an [`Outcome`](crate::Outcome), not this.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The interpreter couldn't be made; nothing was started.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// The engine couldn't be loaded; nothing was started.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The native engine couldn't be had; nothing was started.
    #[error(transparent)]
    Native(#[from] NativeError),
    /// The policy requires a layer of isolation that isn't there; nothing was started.
    #[error("the {engine} engine {}", missing_layer(layer, reason.as_deref()))]
    MissingLayer {
        /// Its name.
        layer: String,
        /// The engine.
        engine: &'static str,
        /// Why it isn't there; `None` if the engine has no such layer.
        reason: Option<String>,
        /// How to get it.
        advice: Option<String>,
    },
    /// An environment was made for another engine; nothing was started.
    #[error("the environment {name:?} is for the {found} engine, and {wanted} is asked for")]
    OtherEngine {
        /// The environment's name.
        name: String,
        /// What it is for.
        found: EngineKind,
        /// What was asked for.
        wanted: EngineKind,
    },
    /// The native environment that a session was made in can't be made again. The session is as it was.
    #[error("the environment {environment} of the session cannot be made again: {reason}")]
    OtherInterpreter {
        /// Its hash.
        environment: String,
        /// The version of its interpreter.
        python: String,
        /// What is different.
        reason: String,
    },
    /// An environment that came with a session makes no sense here. Nothing of the session was taken in.
    #[error("the environment {environment} of the session cannot be used here: {reason}")]
    ForeignEnvironment {
        /// Its hash.
        environment: String,
        /// Why.
        reason: String,
    },
    /// The cache couldn't be used; nothing was started.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Packages couldn't be had; nothing was started, and nothing is half installed.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The artifacts' store failed. What was acknowledged is kept.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// A signed link isn't good.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The keys that links are signed with can't be used.
    #[error(transparent)]
    LinkKeys(#[from] KeyError),
    /// A dataset can't be had. Nothing was staged.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The sandbox has no place for artifacts.
    #[error("the sandbox keeps no artifacts")]
    NoArtifacts,
    /// The sandbox has no place for datasets.
    #[error("the sandbox has no place for datasets")]
    NoDatasets,
    /// The policy stages no datasets.
    #[error("datasets are not staged into this session")]
    NotStaged,
    /// The policy doesn't let the session have a dataset.
    #[error("the session may not have the dataset {name:?}")]
    DatasetRefused {
        /// Its name.
        name: String,
    },
    /// Contents in a directory have no links of their own.
    #[error("the artifacts are in a directory, which gives no links of its own")]
    NoBucket,
    /// A file of the host's couldn't be written. Nothing is half written.
    #[error("{} cannot be written: {source}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An artifact can't be made again here. It is as it was.
    #[error("the artifact {artifact} cannot be made again: {reason}")]
    NotRepeatable {
        /// Its id.
        artifact: String,
        /// Why.
        reason: String,
        /// What to do about it.
        advice: String,
    },
    /// There is no environment of that name.
    #[error("there is no environment {name:?}")]
    NoSuchEnvironment {
        /// The name.
        name: String,
    },
    /// A lock doesn't have what was asked for; nothing was started.
    #[error("{} {}", lock.display(), not_locked(package, found.as_deref(), wanted))]
    NotLocked {
        /// The package that is missing.
        package: String,
        /// The version of it that is locked, if any.
        found: Option<String>,
        /// What was asked for.
        wanted: String,
        /// The lock.
        lock: PathBuf,
    },
    /// What was named as the standard library isn't one; nothing was started.
    #[error("{} is not a standard library", directory.display())]
    NoStandardLibrary {
        /// The directory.
        directory: PathBuf,
    },
    /// A `belljar.toml` can't be used; nothing was started.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The policy can't be kept; nothing was started.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The engine failed. It says what is still alive.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No directory was given for the cache, and none can be found.
    #[error("there is no directory for the cache")]
    NoCacheDirectory,
    /// What is kept of sessions couldn't be read or written. It says what is still alive.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A temporary file couldn't be written. Nothing changed.
    #[error("cannot write a temporary file: {0}")]
    Temporary(std::io::Error),
    /// No directory was given for sessions to be kept in, and none can be found.
    #[error("there is no directory to keep sessions in")]
    NoStateDirectory,
    /// What was asked for is only there for sessions that are kept in a state directory. Nothing changed.
    #[error("the session is not in a registry")]
    NotRegistered,
    /// The policy that is recorded with a session makes no sense here. The session is as it was.
    #[error("the policy of the session {session} cannot be read: {reason}")]
    RecordedPolicy {
        /// The session.
        session: String,
        /// Why.
        reason: String,
    },
    /// The session isn't there any more.
    #[error("the session {session} is closed")]
    Closed {
        /// Its name.
        session: String,
    },
    /// There is no such checkpoint. The session is as it was.
    #[error("the session {session} has no checkpoint {which:?}")]
    NoCheckpoint {
        /// The session.
        session: String,
        /// What was asked for.
        which: String,
    },
    /// There is such a checkpoint already. The session is as it was.
    #[error("there is a checkpoint {name:?} already")]
    CheckpointTaken {
        /// Its name.
        name: String,
    },
    /// A checkpoint can't have that name. The session is as it was.
    #[error("a checkpoint cannot be called {name:?}")]
    CheckpointName {
        /// The name.
        name: String,
    },
    /// The environment that a session was made in isn't there any more. The session is as it was.
    #[error("the environment {environment} of the session is not there")]
    NoEnvironment {
        /// Its hash.
        environment: String,
    },
    /// A tool's name is taken, or isn't a name.
    #[error("a tool cannot be called {name:?}: {reason}")]
    ToolName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Something with a session's files failed. Nothing changed.
    #[error(transparent)]
    File(#[from] FileError),
    /// A workspace couldn't be moved. It says what is left.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// A workspace on disk couldn't be used. What is in it is as it was.
    #[error("the workspace {}: {source}", path.display())]
    Workspace {
        /// Where it is.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The session is what it was, but for some files that could not be put back.
    #[error("{note}; all else is as it was then")]
    NotPutBack {
        /// Which.
        note: String,
    },
    /// There is no such thread on disk.
    #[error("there is no thread {thread:?} in {}", root.display())]
    NoThread {
        /// Its name.
        thread: String,
        /// Where it was looked for.
        root: PathBuf,
    },
    /// Files are to be on disk, and nobody said where. Nothing was started.
    #[error("there is no directory for workspaces")]
    NoWorkspaces,
    /// The thread that ran the cell is gone. Other sessions live.
    #[error("the thread that ran the cell is gone; the session is closed")]
    Abandoned,
}

impl Error {
    /// Whether what was asked for can't be had: a policy that can't be kept, a mount that isn't there.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Policy(_)
                | Self::Config(_)
                | Self::Load(LoadError::Preload { .. })
                | Self::ToolName { .. }
                | Self::NoSuchEnvironment { .. }
                | Self::OtherEngine { .. }
                | Self::MissingLayer { .. }
                | Self::NotLocked { .. }
                | Self::NoStandardLibrary { .. }
                | Self::CheckpointName { .. }
                | Self::NoThread { .. }
                | Self::NoWorkspaces
                | Self::Store(StoreError::InvalidName { .. })
                | Self::Engine(EngineError::Mount { .. })
        ) || matches!(self, Self::Package(error) if is_package_refusal(error))
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Make(error) => Some(error.hint()),
            Self::Load(error) => error.hint(),
            Self::Native(error) => native_hint(error),
            Self::MissingLayer { advice: Some(advice), .. } => {
                Some(format!("{advice}; `belljar doctor` shows all layers"))
            }
            Self::MissingLayer { .. } => Some("`belljar doctor` shows the layers that there are".to_owned()),
            Self::OtherEngine { found, .. } => Some(format!(
                "use it with `--engine {found}`, or make one with `belljar env create NAME --engine …`"
            )),
            Self::OtherInterpreter { python, .. } => Some(format!(
                "put back the very Python {python} and the packages that it was made with; a native session wakes with \
                 no other"
            )),
            Self::ForeignEnvironment { .. } => Some(
                "a native session can be moved if its packages come from an index, between the same versions of \
                 Belljar and Python"
                    .to_owned(),
            ),
            Self::Cache(error) => Some(error.hint().to_owned()),
            Self::Package(error) => error.hint(),
            Self::Artifact(error) => error.hint().map(str::to_owned),
            Self::Link(error) => error.hint().map(str::to_owned),
            Self::LinkKeys(error) => error.hint().map(str::to_owned),
            Self::Dataset(error) => error.hint().map(str::to_owned),
            Self::NoArtifacts => {
                Some("set a state directory, or name a place for artifacts when the sandbox is built".to_owned())
            }
            Self::NoDatasets => {
                Some("set a state directory, or name one for datasets when the sandbox is built".to_owned())
            }
            Self::NotStaged => {
                Some("make the session with `--dataset-access api`, or `hybrid`".to_owned())
            }
            Self::DatasetRefused { .. } => Some("its policy lists those that it may have".to_owned()),
            Self::NoBucket => Some("leave out --direct".to_owned()),
            Self::Output { .. } => Some("name a file in a directory that is there and can be written".to_owned()),
            Self::NotRepeatable { advice, .. } => Some(advice.clone()),
            Self::NoSuchEnvironment { .. } => Some(
                "`belljar env ls` lists those that are there; `belljar env create NAME --package …` makes one"
                    .to_owned(),
            ),
            Self::NotLocked { .. } => {
                Some("run `belljar env lock` with all packages, to write it anew".to_owned())
            }
            Self::NoStandardLibrary { .. } => {
                Some("name the directory that has os.py and encodings/ of CPython 3.14".to_owned())
            }
            Self::Config(error) => error.hint(),
            Self::Policy(error) => error.hint(),
            Self::Engine(error) => engine_hint(error),
            Self::NoCacheDirectory => Some(
                "set HOME or XDG_CACHE_HOME, or name a directory with --cache-dir or BELLJAR_CACHE_DIR"
                    .to_owned(),
            ),
            Self::ToolName { .. } => Some("use a Python identifier that no other tool has".to_owned()),
            Self::Store(error) => error.hint().map(str::to_owned),
            Self::NoStateDirectory => Some(
                "set HOME or XDG_DATA_HOME, or name a directory with --state-dir or BELLJAR_STATE_DIR"
                    .to_owned(),
            ),
            Self::NotRegistered => {
                Some("set a state directory and open the session by name, to keep it".to_owned())
            }
            Self::NoCheckpoint { .. } => {
                Some("a checkpoint is named by its number, its name or `latest`".to_owned())
            }
            Self::CheckpointTaken { .. } => Some("use another name, or delete that one first".to_owned()),
            Self::CheckpointName { .. } => {
                Some("names have 1 to 64 characters, not only digits, and are not `latest`".to_owned())
            }
            Self::NoEnvironment { .. } => Some(
                "a session can be woken only where its environment is: on the machine it was made on"
                    .to_owned(),
            ),
            Self::File(error) => file_hint(error.code).map(str::to_owned),
            Self::Transfer(error) => error.hint().map(str::to_owned),
            Self::Workspace { source, .. } => workspace_hint(source).map(str::to_owned),
            Self::NotPutBack { .. } => Some(
                "files above 64 MiB are put back only by checkpoints; `belljar session verify` looks for damage".to_owned(),
            ),
            Self::NoThread { .. } => Some("`belljar workspace ls` lists those that are there".to_owned()),
            Self::NoWorkspaces => {
                Some("name a directory: --workspace-root, or SandboxBuilder::workspace_root".to_owned())
            }
            Self::Temporary(_) => Some("set TMPDIR to a directory with room".to_owned()),
            Self::Closed { .. } | Self::RecordedPolicy { .. } | Self::Abandoned => None,
        }
    }
}

fn file_hint(code: FileErrorCode) -> Option<&'static str> {
    match code {
        FileErrorCode::InvalidPath => Some(
            "paths are relative to the workspace, or begin with where the session sees it, such as /workspace",
        ),
        FileErrorCode::DiskFull => Some("remove something, or allow more: --quota"),
        FileErrorCode::IsDirectory => Some("name a file in it; `belljar files ls` lists them"),
        FileErrorCode::NotEmpty => Some("--recursive removes what is in it, too"),
        _ => None,
    }
}

fn workspace_hint(error: &std::io::Error) -> Option<&'static str> {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            Some("its directory was moved or removed: put it back, or close the session")
        }
        std::io::ErrorKind::PermissionDenied => Some("it belongs to somebody else"),
        std::io::ErrorKind::QuotaExceeded => {
            Some("remove some of it with `belljar files rm`, or allow more: --quota")
        }
        std::io::ErrorKind::StorageFull => Some("the disk is full: remove something"),
        std::io::ErrorKind::AlreadyExists => Some("use another name, or remove what is there"),
        _ => None,
    }
}

/// Whether the fault is in what was asked for; else in the network, the cache or a tool.
fn is_package_refusal(error: &PackageError) -> bool {
    !matches!(
        error,
        PackageError::Offline { .. }
            | PackageError::Network { .. }
            | PackageError::Uv { .. }
            | PackageError::Npm { .. }
            | PackageError::Tool(_)
            | PackageError::Cache(_)
    )
}

fn not_locked(package: &str, found: Option<&str>, wanted: &str) -> String {
    match found {
        Some(found) => format!("has {package} {found}, and {wanted} is asked for"),
        None => format!("does not have {package}, which was asked for"),
    }
}

fn missing_layer(layer: &str, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("lacks the layer {layer} here, which is required: {reason}"),
        None => format!("has no layer {layer:?}, which is required"),
    }
}

fn native_hint(error: &NativeError) -> Option<String> {
    match error {
        NativeError::Refused { hint, .. } => Some(hint.clone()),
        NativeError::Zygote(_) => Some(
            "look whether all that is preloaded and set up works without: `--preload`, `setup`; `belljar doctor` looks \
             at the rest"
                .to_owned(),
        ),
        _ => Some("`belljar doctor` shows what the native engine has here; `--engine wasm` needs none of it".to_owned()),
    }
}

fn engine_hint(error: &EngineError) -> Option<String> {
    match error {
        EngineError::Mount { guest, reason } if format!("{guest} {reason}").contains("/site-packages") => Some(
            "the packages are at /data/site-packages, and at /app/site-packages for older code: mount the directory \
             elsewhere, e.g. at /custom_data, or without an entry of that name"
                .to_owned(),
        ),
        EngineError::Mount { .. } => Some(
            "a mount is HOST:GUEST or HOST:GUEST:rw; HOST is a directory, GUEST an absolute path".to_owned(),
        ),
        EngineError::Restore(reason) if reason.contains("and may have") => {
            Some("allow it at least as much memory as it has, e.g. with --memory".to_owned())
        }
        EngineError::Undo(_) => Some(
            "make a checkpoint before what may have to be taken back; `undo` reaches back a few cells"
                .to_owned(),
        ),
        EngineError::Boot(reason) if reason.contains("ahead of time") => {
            Some("allow more memory, e.g. with --memory 1GiB, or import less ahead of time".to_owned())
        }
        EngineError::Boot(reason) if reason.contains("layer") => {
            Some("`belljar doctor` shows the layers of the native engine, and how to get them".to_owned())
        }
        EngineError::Unsupported { engine: "wasm", what } if what.contains("native engine") => Some(
            "make a session with the native engine: `--engine native`, or `SandboxBuilder::engine`".to_owned(),
        ),
        EngineError::Boot(_) => {
            Some("`belljar doctor` looks whether what is cached of the interpreter is damaged".to_owned())
        }
        EngineError::Exhausted(_) => Some(
            "close sessions, or raise the limits on address space, memory maps and open files".to_owned(),
        ),
        _ => None,
    }
}
