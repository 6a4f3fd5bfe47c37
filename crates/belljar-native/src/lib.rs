//! The native engine: real CPython with real wheels, in a kernel jail, forked from a preloaded interpreter.
//!
//! | module | its noun |
//! |---|---|
//! | `plan` | what the jail is told, as data |
//! | `filters` | the system calls that sessions may make |
//! | `layers` | what stands between sessions and the host here |
//! | `cgroup` | limits of all processes of a session together |
//! | `jail` | the steward, the warden and the gate |
//! | `zygote` | the preloaded interpreter |
//! | `init` | pid 1 of a session |
//! | `kernel` | the socket of an interpreter, live or a shadow |
//! | `conversation` | one cell from its first frame to its last |
//! | `pipes` | standard output and error |
//! | `tree` | a session's own files |
//! | `guest` | a session |
//! | `commands` | shell commands beside the interpreter |
//! | `installs` | packages that a session asks for while it runs |
//! | `nameless` | files that a session holds open and that no directory shows |
//! | `modules` | Node's packages, copied into a session |
//! | `snapshot` | a session at one moment |
//! | `pool` | what is made ahead of time |
#![deny(unsafe_op_in_unsafe_fn)]

mod cgroup;
mod commands;
mod control;
mod conversation;
mod engine;
mod environment;
mod filters;
mod guest;
mod init;
mod install;
mod installs;
mod jail;
mod kernel;
mod layers;
mod modules;
mod nameless;
mod pipes;
mod plan;
mod pool;
mod snapshot;
mod sys;
mod tree;
mod zygote;

pub use engine::NativeEngine;
pub use environment::{NativeEnvironment, NativeError};
pub use installs::{
    InstallFailure, InstallRequest, InstalledModules, InstalledPackage, Installer, ModulesRequest,
    is_requirement,
};
pub use layers::layers;
pub use plan::sees_node;
