//! Turns what somebody asks for into packages that a guest can import.
//!
//! A [`Spec`] says what is wanted: a requirement (`jinja2>=3`), a wheel, an archive, a directory, a list of
//! requirements, a native module. [`Resolver::lock`] settles which releases that means and writes it down as a
//! [`Lock`], a `pylock.toml` (PEP 751) with a hash for everything. [`Resolver::install`] makes a [`Site`] of a
//! lock: a directory in the cache that never changes. The same lock gives the same directory everywhere.
//!
//! What packages are for is a [`Target`]. The guest of the `wasm` engine is CPython 3.14 on WASI. Packages are pure
//! Python, or carry modules that were built for WASI. Of a few (`optional-native.toml`) the native parts only make them
//! faster, and are left out. The `native` engine runs a [`HostPython`], and its packages are wheels for Linux, whole.
//!
//! **No code of a package is ever run on the host.** Only wheels are taken from the index, never source releases:
//! building one runs its code. The index is asked by uv, which is found on this machine or fetched once; its settings
//! and credentials count. Files of this machine are unpacked by this crate, with limits that are counted while
//! unpacking; what uv fetches is unpacked by uv, watched, and looked at file by file afterwards.
//!
//! Layout: `spec` → `resolution` (asks uv) → `lock` → `wheel` (one cache entry for each package, with its bytecode)
//! → `site` (hard links to those).
//!
//! ```no_run
//! use belljar_packages::{NoBytecode, Resolver, Spec};
//! use belljar_runtime::{Cache, Quiet};
//!
//! # fn main() -> Result<(), belljar_packages::PackageError> {
//! let resolver = Resolver::new(Cache::open("/var/cache/belljar")).search(["/usr/bin".into()]);
//! let specs = [Spec::parse("jinja2>=3", "/srv/project".as_ref())?];
//! let lock = resolver.lock(&specs, &Quiet)?;
//! let site = match resolver.find(&lock, &NoBytecode) {
//!     Some(site) => site,
//!     None => resolver.install(&lock, &NoBytecode, &Quiet)?,
//! };
//! assert!(site.directory.join("jinja2/__init__.py").is_file());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub use self::{
    compiler::{Compiler, NoBytecode},
    error::PackageError,
    interpreter::HostPython,
    limits::Limits,
    lock::{Lacking, Lock, LockedPackage},
    node::{NodeModules, NodeProject, NodeResolver, node_directory},
    resolver::Resolver,
    site::{Extension, InstalledPackage, Site, UnpackedPackage},
    spec::Spec,
    target::{Platform, Target},
    text_file::read_text,
};

mod archive;
mod bytecode;
mod compiler;
mod error;
mod fetch;
mod file_name;
mod interpreter;
mod limits;
mod list;
mod local;
mod lock;
mod metadata;
mod native;
mod node;
mod resolution;
mod resolver;
mod scripts;
mod site;
mod spec;
mod steps;
mod target;
mod text_file;
mod tree;
mod uv;
mod wheel;
