//! What the jail is told, as plain data.
//!
//! The native engine starts one `belljar-jail` per environment. It is four processes of one static binary:
//!
//! ```text
//! steward   outside: writes id maps, clones mounts for root, takes cgroups away at the end
//! └ warden  pid 1 of the outer namespaces; sees the host's files, runs nothing; clones mounts for ordinary users
//!   └ gate  pid 1 of the inner ones, in the read-only root; starts what it is told to
//!     ├ zygote           CPython with everything imported; it only forks
//!     └ session's init   pid 1 of one session: reaps, starts commands, ends processes
//! ```
//!
//! What each does to its surroundings is a plan: [`Step`]s in an order, carried out by one loop. Whoever makes plans
//! needs no privileges, so plans can be looked at and tested anywhere.
//!
//! Everything ends with the engine: when its sockets close, the warden exits, and the kernel ends all that is below.
#![deny(unsafe_op_in_unsafe_fn)]

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub mod wire;

/// The descriptor on which mounts are asked for.
pub const MOUNTS: i32 = 3;
/// The descriptor of the gate.
pub const GATE: i32 = 4;
/// The descriptor with the [`Launch`], as JSON.
pub const LAUNCH: i32 = 5;

/// The user that sessions run as, in their own eyes.
pub const USER: u32 = 1000;

/// How a jail is built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The id maps of the warden's user namespace: what is written to `uid_map` and `gid_map`.
    pub outer: Maps,
    /// The same for the gate's.
    pub inner: Maps,
    /// Builds the root that everything below sees.
    pub root: Vec<Step>,
    /// What the gate does in its own namespaces.
    pub gate: Vec<Step>,
    /// Directories of cgroups that end with the jail.
    pub cgroups: Vec<PathBuf>,
    /// Root's mounts of host directories show root's files as the sessions' own. This is that id on the host.
    pub owner: Option<u32>,
}

/// The id maps of a user namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maps {
    /// `uid_map`.
    pub users: String,
    /// `gid_map`.
    pub groups: String,
    /// Whether `setgroups` must be forbidden first, as it must be for ordinary users.
    pub deny_groups: bool,
}

/// One change of a process or of what it sees. Paths are as they are at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// What is mounted here later isn't seen elsewhere, nor the reverse.
    Private,
    /// Makes a directory, with those above it.
    Directory(String),
    /// Makes a file that can only be read.
    File {
        /// Where.
        path: String,
        /// What is in it.
        contents: String,
    },
    /// Makes a symbolic link.
    Link {
        /// Where.
        path: String,
        /// Where it leads.
        target: String,
    },
    /// Shows something of the host, with all that is mounted below it, for reading only.
    Show {
        /// On the host.
        source: PathBuf,
        /// Where.
        target: String,
    },
    /// The same, if it is there.
    ShowIfPresent {
        /// On the host.
        source: PathBuf,
        /// Where.
        target: String,
    },
    /// Shows a device of the host.
    Device(String),
    /// Files in memory.
    Memory {
        /// Where.
        target: String,
        /// Bytes that fit.
        bytes: u64,
        /// Files and directories that fit.
        files: u64,
        /// Whether programs can be started from there.
        execute: bool,
    },
    /// Shows one directory of the jail at another place, for writing.
    Again {
        /// The directory.
        source: String,
        /// Where.
        target: String,
    },
    /// Attaches a mount that came as a descriptor.
    Attach {
        /// Its place among the descriptors.
        descriptor: usize,
        /// Where.
        target: String,
        /// Whether the mount point is made, if it isn't there: not on the host.
        make: bool,
    },
    /// Makes a directory below one that sessions write to, with those above it. Nothing is followed, and whatever is
    /// there stays.
    Make {
        /// The directory that sessions write to.
        base: String,
        /// The path below it.
        path: String,
    },
    /// The same, in place of whatever isn't a directory; and nobody in the session can move it or take it away.
    Hold {
        /// The directory that sessions write to.
        base: String,
        /// The path below it.
        path: String,
    },
    /// Attaches a mount that came as a descriptor below a directory that sessions write to. Nothing is followed.
    AttachInside {
        /// Its place among the descriptors.
        descriptor: usize,
        /// The directory that sessions write to.
        base: String,
        /// The path below it.
        path: String,
        /// Whether the mount point is made, in place of whatever isn't a directory: not on the host.
        make: bool,
    },
    /// Listens on a socket. The engine gets it when all is furnished.
    Listen(String),
    /// Takes the path of a mount away; what was opened or shown elsewhere stays.
    Forget(String),
    /// The processes of this namespace, at `/proc` of the root given.
    Processes(String),
    /// Makes this the root, and forgets the old one.
    Root(String),
    /// Nothing can be written to this mount any more.
    Seal(String),
    /// The name of the machine.
    Host(String),
    /// Turns the loopback interface on.
    Loopback,
    /// Enters a new user namespace and becomes this user there.
    User(u32),
    /// No further user namespaces below this one.
    NoUserNamespaces,
    /// Where it works.
    Enter(String),
    /// A resource limit, soft and hard.
    Limit {
        /// `RLIMIT_…`.
        which: u32,
        /// The most, for both.
        most: u64,
    },
    /// Gives up every capability for good.
    DropCapabilities,
    /// No program it starts gains rights.
    NoNewPrivileges,
    /// Others can't look into it.
    Hide,
    /// Only what this Landlock ruleset allows.
    Landlock,
    /// Only the system calls of the list.
    Seccomp,
}

/// What Landlock lets a session do beneath a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beneath {
    /// Look and run.
    pub read: Vec<String>,
    /// Anything.
    pub write: Vec<String>,
}

/// What the mount server is asked: a clone of a host directory that nobody sees yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloneMount {
    /// The directory on the host.
    pub source: PathBuf,
    /// Whether it can be written to.
    pub writable: bool,
    /// Whether its files must be the sessions' own to them.
    pub own: bool,
}

/// What the gate is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateRequest {
    /// Start a program, with the descriptors that come along from 3 on (the first three are its standard streams).
    Program {
        /// What and with which arguments.
        argv: Vec<String>,
        /// Its whole environment.
        env: Vec<String>,
    },
    /// Start the init of a session; the first descriptor is its control socket, the others are mounts.
    Session(SessionPlan),
}

/// How a session's namespaces are furnished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPlan {
    /// What its init does first.
    pub steps: Vec<Step>,
    /// What commands do before they start.
    pub lockdown: Vec<Step>,
    /// What Landlock lets it do, if there is Landlock.
    pub landlock: Option<Beneath>,
    /// The compiled system call filters.
    pub filters: String,
}

/// What a session's init is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitRequest {
    /// Start a command, with the three descriptors that come along.
    Command {
        /// What and with which arguments.
        argv: Vec<String>,
        /// Its whole environment.
        env: Vec<String>,
        /// Where.
        directory: String,
    },
    /// End every process that was started after this moment (in clock ticks since the machine started), and those
    /// named, but not those to keep.
    End {
        /// Ticks.
        since: u64,
        /// Processes that end in any case.
        also: Vec<i32>,
        /// Processes that stay.
        keep: Vec<i32>,
    },
    /// End the group of a command.
    EndGroup {
        /// Its process.
        pid: i32,
        /// With which signal.
        signal: i32,
    },
    /// Which processes are there.
    List,
    /// A descriptor of a process.
    Watch {
        /// Which.
        pid: i32,
    },
}

/// What a session's init says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitReply {
    /// It is furnished. With it come the session's own tree, and if there are such the Landlock ruleset and the socket
    /// of [`Step::Listen`], in this order.
    Ready {
        /// Whether there is a ruleset.
        landlock: bool,
        /// Whether there is such a socket.
        listener: bool,
    },
    /// A command was started, or is to be watched; with it comes its pidfd.
    Started {
        /// Its process in the session.
        pid: i32,
    },
    /// Done.
    Done {
        /// How many processes it concerned.
        count: u64,
    },
    /// What [`InitRequest::List`] asked for.
    Processes(Vec<i32>),
    /// A command ended. Comes unasked.
    Ended {
        /// Its process in the session.
        pid: i32,
        /// As a shell has it: 128 and the signal's number.
        code: i32,
    },
    /// It failed.
    Failed {
        /// At what, and why.
        reason: String,
        /// The error's number.
        errno: i32,
    },
}

/// What the steward, the warden and the gate say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JailReply {
    /// The gate is open.
    Open,
    /// It was started; with it comes its pidfd.
    Started,
    /// It was cloned; with it comes the mount.
    Mount,
    /// It failed.
    Failed {
        /// At what, and why.
        reason: String,
        /// The error's number.
        errno: i32,
    },
}
