//! Component in, one core module and one memory image out.
//!
//! componentize-py makes a component of a dozen core modules (CPython, the C library, its own runtime) that
//! call each other through stubs and tables. One flat module is instantiated thirty times faster, needs
//! neither the component model nor WASI from the engine, and its whole state is one memory and one global.
//!
//! [`flatten()`] follows every import to its definition (`resolve`), makes calls through constant table slots
//! direct (`stubs`), leaves out what the exports don't reach (`live`), turns globals that never change into
//! constants (`globals`), moves the data segments into an image (`image`), and writes the rest again with a
//! check at every loop (`emit`, `polls`). What it doesn't understand, it refuses by name: its input is
//! pinned, so nothing is guessed.

use wasmparser::{Validator, WasmFeatures};

use self::{
    component::Component, emit::Plan, exports::Exports, globals::Globals, image::Image, imports::Imports,
    live::Live, polls::Poll, resolve::Links, stubs::Stubs, tables::Tables,
};
pub use self::{
    error::FlattenError,
    facts::{Facts, ImportFact},
    image::PAGE,
    polls::Polls,
};

mod body;
mod component;
mod constants;
mod emit;
mod error;
mod exports;
mod facts;
mod globals;
mod image;
mod imports;
mod live;
mod module;
mod polls;
mod resolve;
mod stubs;
mod tables;

/// How to flatten.
#[derive(Clone, Debug)]
pub struct Options<'o> {
    /// What loops do at a poll.
    pub polls: Polls,
    /// Whether to keep function names, for profiles and backtraces.
    pub names: bool,
    /// Functions to export besides the component's own, by the name that a core module exports them under.
    pub keep: &'o [&'o str],
    /// The guest's Python version, only passed on to the facts.
    pub python: &'o str,
}

impl Default for Options<'_> {
    /// Polls call the host, no names; CPython's interrupt and libc's allocator are kept.
    fn default() -> Self {
        Self {
            polls: Polls::default(),
            names: false,
            keep: &["PyErr_SetInterruptEx", "malloc", "free"],
            python: "",
        }
    }
}

/// A flat module.
#[derive(Debug)]
pub struct Flattened {
    /// The module, without data segments.
    pub core: Vec<u8>,
    /// The initial memory, in whole pages.
    pub image: Vec<u8>,
    /// What the engine must know.
    pub facts: Facts,
}

/// Flattens a component.
///
/// # Errors
/// If the bytes are no component, or one whose layout isn't known. No bytes make it panic.
pub fn flatten(component: &[u8], options: &Options<'_>) -> Result<Flattened, FlattenError> {
    let accepted = features() | WasmFeatures::EXTENDED_CONST | WasmFeatures::COMPONENT_MODEL;
    Validator::new_with_features(accepted).validate_all(component)?;
    let component = Component::parse(component)?;
    let links = Links::follow(&component)?;
    let tables = Tables::read(&links)?;
    let stubs = Stubs::find(&links, &tables)?;
    let exports = Exports::collect(&links, &stubs, options.keep)?;
    let live = Live::trace(&links, &tables, &stubs, &exports)?;
    let globals = Globals::sort(&links, &live)?;
    let imports = Imports::collect(&links, &stubs, &exports, &live, options.polls)?;
    let image = Image::build(&links)?;
    let mut poll = Poll::new(options.polls, image.poll_address(), imports.poll);
    let numbers = live.functions.iter().copied().zip(imports.list.len() as u32..).collect();
    let plan = Plan { links, tables, stubs, exports, imports, live, globals, numbers };
    let core = plan.emit(&image, &mut poll, options.names)?;
    Validator::new_with_features(features()).validate_all(&core).map_err(FlattenError::Output)?;
    let facts = Facts {
        format: Facts::FORMAT,
        python: options.python.to_owned(),
        polls: options.polls,
        poll_address: image.poll_address(),
        initial_pages: image.pages,
        imports: plan.imports.facts(),
        mutable_globals: plan.globals.initial.len() as u32,
        stack_pointer: plan.globals.stack_pointer,
        functions: plan.live.functions.len() as u32,
        polled_loops: poll.count,
    };
    Ok(Flattened { core, image: image.bytes, facts })
}

/// What the C compiler emits. Anything else in the result would be a surprise for the engine.
fn features() -> WasmFeatures {
    WasmFeatures::MUTABLE_GLOBAL
        | WasmFeatures::SATURATING_FLOAT_TO_INT
        | WasmFeatures::SIGN_EXTENSION
        | WasmFeatures::REFERENCE_TYPES
        | WasmFeatures::MULTI_VALUE
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::SIMD
        | WasmFeatures::FLOATS
        | WasmFeatures::GC_TYPES
}
