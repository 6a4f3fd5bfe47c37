//! WASI 0.2 as the flattened interpreter imports it: plain integers in, records at a pointer out.
//!
//! Whatever the guest imports must be here: [`define`] is checked against the module's own list when
//! it is linked, so that a missing function is an error at start, not a trap in a cell.

mod cli;
mod clocks;
mod filesystem;
mod io;
mod random;
mod sockets;

pub(crate) use sockets::define_unreachable;

use wasmtime::Linker;

use crate::host::HostState;

/// The version that componentize-py's libc imports.
const VERSION: &str = "0.2.9";

fn interface(name: &str) -> String {
    format!("wasi:{name}@{VERSION}")
}

/// Defines everything.
pub(crate) fn define(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    cli::define(linker)?;
    clocks::define(linker)?;
    filesystem::define(linker)?;
    io::define(linker)?;
    random::define(linker)?;
    sockets::define(linker)
}
