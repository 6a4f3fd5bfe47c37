//! The wasm engine: CPython, flattened to one core module, on wasmtime in the caller's process.
//!
//! It needs no root, no container and no kernel feature. What makes a guest is one linear memory (a
//! copy-on-write view of an image that all guests share), a few globals, and the host's half of its files
//! and resources. All of it can be copied, so whatever a cell breaks can be put back.
//!
//! | module | its noun |
//! |---|---|
//! | [`engine`](WasmEngine) | loads the runtime once, boots guests |
//! | `prepared` | the image guests start from: the runtime's, booted and warmed |
//! | `layer` | what an environment adds: packages, and what is imported ahead of time |
//! | `guest`, `instance`, `child` | one interpreter; a cell from frame to report; a child that waits for its first |
//! | `wasi`, `tools` | what the guest imports |
//! | `memory`, `ground`, `bus` | its memory, what that starts from, and what if a file of it breaks |
//! | `pages`, `shadow`, `delta`, `undo` | the way back to the state before a cell, or before several |
//! | `snapshot` | a guest at one moment, to go back to, to fork from, to keep |
//! | `control`, `watchdog`, `waiting` | stopping a cell |
//! | `pin` | an environment put aside for sessions that are kept |
//! | `pool` | guests made ahead of time |
//!
//! Unsafe code is in `memory`, `bus`, `pages`, `shadow`, `stack` and `control`, and in three calls: `guest` begins a cell,
//! `watchdog` guards a call, `code` maps compiled code.

mod abi;
mod bus;
mod child;
mod clock;
mod code;
mod config;
mod control;
mod delta;
mod engine;
mod entropy;
mod error;
mod ground;
mod guest;
mod host;
mod instance;
mod layer;
mod memory;
mod output;
mod pages;
mod pin;
mod pool;
mod prepared;
mod resources;
mod shadow;
mod shadows;
mod snapshot;
mod stack;
mod stop;
mod tools;
mod undo;
mod waiting;
mod wasi;
mod watchdog;
mod workspace;

pub use engine::{Tracking, WasmEngine, WasmEngineBuilder};
pub use error::LoadError;
pub use layer::{Layer, Preload, Tree};
