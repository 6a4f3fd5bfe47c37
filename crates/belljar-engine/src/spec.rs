//! What a guest is booted from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Limits, ToolSpec};

/// Other names by which guests find their workspace, where nothing else has that name.
pub const ALIASES: [&str; 3] = ["/workspace", "/session", "/app"];

/// Everything an engine must know to boot a guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestSpec {
    /// What it may use.
    pub limits: Limits,
    /// Host directories it sees.
    pub mounts: Vec<Mount>,
    /// Its environment variables, beyond `HOME` and `PWD`.
    pub env: BTreeMap<String, String>,
    /// `sys.argv`.
    pub argv: Vec<String>,
    /// Working directory and home, where the guest sees it.
    pub workspace: String,
    /// Where the files of the workspace are.
    pub storage: Storage,
    /// Directories that are made in the workspace, by their relative paths.
    pub directories: Vec<String>,
    /// Host functions it may call.
    pub tools: Vec<ToolSpec>,
    /// Where its time comes from.
    pub clock: Clock,
    /// Where its randomness comes from.
    pub entropy: Entropy,
    /// When a cell is taken back.
    pub rollback: Rollback,
    /// How many cells that ended well can still be taken back.
    pub undo: usize,
    /// Whether the environment's packages are on `sys.path`.
    pub inject_setup: bool,
    /// Names of layers of the engine's isolation ([`Layer`](crate::Layer)) that must be there; without one of them
    /// nothing is booted.
    pub require: BTreeSet<String>,
    /// What is moved from memory to disk while the guest idles, where the engine does so.
    pub spill: Spill,
    /// Whether code may install packages into its session, where the engine can.
    pub install: bool,
}

/// Which variables are worth a file: what is larger is written to disk when the guest idles, and read again when it
/// is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spill {
    /// Bytes of a data frame.
    pub frame_bytes: u64,
    /// Bytes of an array.
    pub array_bytes: u64,
}

impl Default for Spill {
    fn default() -> Self {
        Self { frame_bytes: 50 << 20, array_bytes: 50 << 20 }
    }
}

/// When a cell is taken back, so that variables and files are as they were before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rollback {
    /// After a hard stop: a timeout that the code ignored, a crash of the interpreter, `os._exit`.
    #[default]
    OnKill,
    /// After every cell that doesn't end well: also after a Python exception, an interrupt, a timeout, and
    /// `sys.exit` with a status other than 0.
    OnError,
    /// Never. After a hard stop the session goes on with a fresh interpreter. Nothing can be undone.
    Never,
}

impl Default for GuestSpec {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            mounts: Vec::new(),
            env: BTreeMap::new(),
            argv: vec!["-c".to_owned()],
            workspace: ALIASES[0].to_owned(),
            storage: Storage::Memory,
            directories: Vec::new(),
            tools: Vec::new(),
            clock: Clock::Host,
            entropy: Entropy::Host,
            rollback: Rollback::OnKill,
            undo: 8,
            inject_setup: true,
            require: BTreeSet::new(),
            spill: Spill::default(),
            install: false,
        }
    }
}

/// Where the files of a workspace are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// In memory: part of every snapshot of the guest, and gone with it.
    #[default]
    Memory,
    /// In a directory of the host, with others who may look into it and change it. The engine neither keeps these
    /// files nor puts them back: whoever booted the guest does, and says what changed.
    Disk(PathBuf),
}

/// A host directory in the guest's tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mount {
    /// The directory on the host.
    pub host: PathBuf,
    /// Where the guest sees it.
    pub guest: String,
    /// What the guest may do there.
    pub access: MountAccess,
}

/// What a guest may do in a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountAccess {
    /// Look.
    ReadOnly,
    /// Look and change. Changes are made on the host at once and are outside rollback.
    ReadWrite,
}

/// Where a guest's time comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The host's clocks.
    #[default]
    Host,
    /// A clock that stands at this many nanoseconds since 1970 and advances by a microsecond at
    /// each look, so that a run can be repeated.
    Fixed(u64),
}

/// Where a guest's randomness comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entropy {
    /// The operating system.
    #[default]
    Host,
    /// A generator with this seed, so that a run can be repeated.
    Seeded(u64),
}
