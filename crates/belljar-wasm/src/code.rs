//! The compiled interpreter.

use std::fs;
use std::path::Path;
use std::time::Duration;

use belljar_runtime::{Cache, Progress, Runtime};
use wasmtime::{Engine, ExternType, Linker, Module};

use crate::config::fingerprint;
use crate::error::LoadError;
use crate::host::HostState;
use crate::instance::Program;
use crate::{tools, waiting, wasi};

const KIND: &str = "code";
const FILE: &str = "interpreter.cwasm";
/// On two cores, for the progress bar.
const EXPECTED: Duration = Duration::from_secs(12);

/// Loads the compiled interpreter from the cache, or compiles it.
pub(crate) fn load(
    engine: &Engine,
    runtime: &Runtime,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Program, LoadError> {
    let key = format!("{}-{}", runtime.id, fingerprint(engine));
    let entry = match cache.find(KIND, &key) {
        Some(entry) => entry,
        None => {
            progress.begin("compiling the interpreter", EXPECTED);
            let made =
                cache.make(KIND, &key, progress, |directory| compile(engine, &runtime.core(), directory));
            progress.end();
            made?
        }
    };
    cache.touch(KIND, &key);
    let path = entry.join(FILE);
    // SAFETY: the file is in our cache, which only we write: an entry is renamed into place whole, and is
    // read-only. Whoever can write there can replace this program too.
    let module = unsafe { Module::deserialize_file(engine, &path) }.map_err(code)?;
    let pre = link(engine, &module)?;
    let facts = &runtime.facts;
    Program::new(pre, &module, facts.poll_address, facts.mutable_globals as usize).map_err(code)
}

fn compile(engine: &Engine, core: &Path, directory: &Path) -> Result<(), LoadError> {
    let bytes = fs::read(core).map_err(|source| LoadError::File { path: core.to_owned(), source })?;
    let compiled = engine.precompile_module(&bytes).map_err(code)?;
    let path = directory.join(FILE);
    fs::write(&path, compiled).map_err(|source| LoadError::File { path, source })
}

fn link(engine: &Engine, module: &Module) -> Result<wasmtime::InstancePre<HostState>, LoadError> {
    let mut linker = Linker::new(engine);
    wasi::define(&mut linker).map_err(code)?;
    tools::define(&mut linker).map_err(code)?;
    waiting::define(&mut linker).map_err(code)?;
    for import in module.imports() {
        if let (true, ExternType::Func(ty)) = (import.module().starts_with("wasi:sockets/"), import.ty()) {
            // Those that are defined already stay as they are.
            let _ = wasi::define_unreachable(&mut linker, import.module(), import.name(), ty);
        }
    }
    // An import that nobody defined is an error here that names it.
    linker.instantiate_pre(module).map_err(code)
}

pub(crate) fn code(error: wasmtime::Error) -> LoadError {
    LoadError::Code(format!("{error:#}"))
}
