//! Makes the Python that Belljar's WebAssembly engine runs, and keeps it.
//!
//! CPython for WebAssembly comes as a Python wheel, `componentize-py`. [`Maker`] fetches it, lets it start
//! once with the guest kernel and keep its memory, and [flattens](mod@flatten) the component that comes out:
//! a *runtime* is one module without data, one memory image, the standard library and the time zones. It is
//! made once per machine and lies in a [`Cache`].
//!
//! This crate reads no environment variable, knows no home directory and prints nothing: its caller passes
//! the cache's directory and where to look for Python, and hears of the [`Progress`].
//!
//! ```no_run
//! use belljar_runtime::{Cache, Maker, Quiet};
//!
//! # fn main() -> Result<(), belljar_runtime::MakeError> {
//! let maker = Maker::new(Cache::open("/var/cache/belljar")).search(["/usr/bin".into()]);
//! let runtime = maker.ensure(&Quiet)?;
//! assert_eq!(runtime.facts.python, "3.14.0");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub use self::{
    cache::{Cache, CacheError, Entry, hash_tree},
    make::{LinkedExtension, MakeError, Maker, host},
    progress::{Progress, Quiet},
    runtime::Runtime,
};

mod cache;
pub mod flatten;
mod make;
mod progress;
mod runtime;
