use serde::{Deserialize, Serialize};

use super::polls::Polls;

/// What the engine must know about a flat module: `runtime.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// [`Facts::FORMAT`] when written.
    pub format: u32,
    /// The guest's Python, for example `3.14.0`.
    pub python: String,
    /// What loops do at a poll.
    pub polls: Polls,
    /// Where the polled word is: the first of the memory's last initial page.
    pub poll_address: u32,
    /// The memory's initial size in pages of 64 KiB, the polled one included; the image has the same.
    pub initial_pages: u32,
    /// The imports, in the module's order.
    pub imports: Vec<ImportFact>,
    /// How many mutable globals there are: the exports `global_0` and so on. They are all the state besides
    /// the memory.
    pub mutable_globals: u32,
    /// Which of them is the C stack pointer, also exported as `stack_pointer`.
    pub stack_pointer: u32,
    /// How many functions the module defines.
    pub functions: u32,
    /// How many loops have a poll.
    pub polled_loops: u32,
}

impl Facts {
    /// Raised whenever the meaning of a field changes.
    pub const FORMAT: u32 = 1;
}

/// A function that the host must provide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportFact {
    /// The interface, `$root` for the world's own functions.
    pub module: String,
    /// The function. One that is imported twice, with two allocators, has `#` and the allocator behind its
    /// name the second time.
    pub name: String,
    /// Its parameters in the canonical ABI: `i32`, `i64`, `f32` or `f64`.
    pub params: Vec<String>,
    /// Its results.
    pub results: Vec<String>,
    /// The export to allocate with, for results that don't fit into `results`.
    pub realloc: Option<String>,
}
