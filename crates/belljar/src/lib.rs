//! Run untrusted Python under glass.
//!
//! Agents write code; Belljar runs it in milliseconds, keeps its variables for the next call, and lets none
//! of it hurt the host or another session.
//!
//! ```no_run
//! # fn main() -> Result<(), belljar::Error> {
//! let sandbox = belljar::Sandbox::builder().build_blocking()?;
//! let session = sandbox.session_blocking()?;
//! session.run_blocking("x = 41")?;
//! let outcome = session.run_blocking("x + 1")?;
//! assert_eq!(outcome.value.map(|value| value.text).as_deref(), Some("42"));
//! # Ok(())
//! # }
//! ```
//!
//! A [`Sandbox`] is made once and shared. Each [`Session`] is one interpreter with its own variables and
//! files; a [`Policy`] says what it may use. Running code gives an [`Outcome`], whatever the code does: an
//! exception, an endless loop, a memory bomb and a crash of the interpreter are outcomes, and the session
//! answers the next cell with the variables it had. An [`Error`] means that Belljar itself failed.
//!
//! | module | its noun |
//! |---|---|
//! | `sandbox` | [`Sandbox`] and its builder |
//! | `runtimes` | [`Runtimes`]: where the interpreter comes from |
//! | `session` | [`Session`]: one interpreter, one cell at a time |
//! | `cell` | [`Request`] in, [`RunningCell`] while it runs |
//! | `outcome` | [`Outcome`]: how a cell ended, and its JSON |
//! | `command` | [`CommandRequest`] in, [`CommandOutcome`] out: a shell command beside the interpreter |
//! | `checkpoint` | [`Checkpoint`]: a session at one moment |
//! | `registry`, `history` | [`Registry`]: the sessions that are kept, and what was run in them |
//! | `keeper` | puts idle sessions to sleep |
//! | `config` | [`Config`]: a `belljar.toml` |
//! | `environment`, `lock_file` | [`Environment`]: packages, what is imported ahead of time, and which engine runs it |
//! | `recipe` | what is kept of a native environment, to make it again |
//! | `prune` | removes what was made for environments that nobody uses |
//! | `workspace` | [`Workspaces`]: threads on disk, and skills |
//! | `files`, `file_watch` | [`Files`]: a session's files from outside |
//! | `transfer` | whole workspaces: archives, directories, S3 |
//! | `policy` | [`Policy`] and its defaults |
//! | `tool` | [`Tool`]: a host function that guest code calls |
#![forbid(unsafe_code)]

mod artifacts;
mod cell;
mod checkpoint;
mod command;
mod config;
mod datasets;
mod environment;
mod error;
mod events;
mod file_watch;
mod files;
mod history;
mod keeper;
mod location;
mod lock_file;
mod outcome;
mod policy;
mod prune;
mod recipe;
mod registry;
mod runtimes;
mod sandbox;
mod session;
mod tool;
mod tool_threads;
mod transfer;
mod verify;
mod workspace;

pub use artifacts::{
    Artifact, ArtifactError, ArtifactFilter, ArtifactHook, ArtifactId, ArtifactPolicy, ArtifactScope,
    ArtifactSettings, Artifacts, BlobPlace, Candidate, CellRecord, CollectOptions, CollectedArtifacts,
    Contents, Database, DatasetUse, Disposition, Grant, LinkError, LinkOptions, Origin, Provenance,
    RecordKind, Refusal, Refused, StoreLimits, StoreUsage, hash_contents,
};
pub use belljar_engine::{
    Clock, Entropy, Event, FileDoor, FileEntry, FileError, FileErrorCode, FileKind, FileStat, Layer,
    MimeBundle, Mount, MountAccess, ProcessInfo, ProcessOutput, Rollback, Spill, State, ToolFailure,
};
pub use belljar_native::NativeError;
pub use belljar_packages::{Lock, PackageError, Spec};
pub use belljar_runtime::{Progress, Quiet};
pub use belljar_store::{SessionId, StoreError, Tenant};
pub use belljar_wasm::Tracking;
pub use cell::{Request, Running, RunningCell, RunningCommand};
pub use checkpoint::{Checkpoint, Which};
pub use command::{CommandOutcome, CommandRequest};
pub use config::{Config, ConfigError, Place as ConfigPlace};
pub use datasets::{
    Cached, CollectedDatasets, Dataset, DatasetAccess, DatasetCollectOptions, DatasetError, DatasetPolicy,
    DatasetProblem, DatasetSource, Datasets, FetchFailure, FetchOptions, FetchProgress, FetchRequest,
    Fetched, Fetcher, NewDataset, Staged,
};
pub use environment::{
    EngineKind, Environment, EnvironmentInfo, Environments, NamedEnvironment, PackageInfo,
};
pub use error::Error;
pub use file_watch::{FileEvent, FileEventKind, FileWatch};
pub use files::{
    Copied, DiskUsage, Downloaded, Files, FindOptions, Found, FoundFile, Grep, GrepOptions, Lines, Match,
    Uploaded,
};
pub use history::History;
pub use location::{default_cache_dir, default_state_dir};
pub use lock_file::lock_hashes;
pub use outcome::{
    Cut, Exception, OUTCOME_VERSION, Outcome, SessionState, Status, TraceFrame, Usage, Value,
    command_outcome_schema, outcome_schema,
};
pub use policy::{Policy, PolicyError, parse_size};
pub use prune::{CachePrune, CachePruned, RemovedEntry};
pub use registry::{
    Collected, Cooled, HistoryEntry, Imported, Parent, Prune, Pruned, Registry, SessionInfo, SessionLife,
    SessionList,
};
pub use runtimes::Runtimes;
pub use sandbox::{Sandbox, SandboxBuilder, native_layers};
pub use session::{Session, SessionDescription};
pub use tool::{Tool, ToolArguments, ToolResult};
pub use transfer::{
    Action, DEFAULT_EXCLUDES, ExportOptions, Exported, Globs, ImportOptions, ImportedFiles, Migrated,
    Migration, Place, QuietTransfer, S3Credentials, S3Place, Skipped, SkippedList, Step, SyncOptions, Synced,
    TransferError, TransferProgress,
};
pub use verify::{Verdict, Verified};
pub use workspace::{StorageKind, WorkspacePolicy, Workspaces};
