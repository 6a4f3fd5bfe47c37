//! Runs componentize-py on the kernel, and on native modules to link with it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use wasmparser::{Parser, Payload, Validator, WasmFeatures};

use super::{error::MakeError, kernel, process, python::Python};
use crate::{cache::CacheError, progress::Progress};

/// Takes the unpacked wheel's directory off the arguments and leaves the rest to componentize-py.
const LAUNCH: &str = "\
import sys
sys.path.insert(0, sys.argv.pop(1))
import componentize_py
sys.exit(componentize_py.script())
";

/// What the linker calls native modules by: they are in the second directory that componentize-py is given.
/// The guest opens them under these names.
const LINKED: &str = "/1/";

/// The first section of a WebAssembly library.
const LIBRARY: &str = "dylink.0";

/// A native module that is linked into the interpreter, since WebAssembly can't load code later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkedExtension {
    /// Its path among the packages, such as `numpy/random/mtrand.cpython-314-wasm32-wasi.so`.
    pub path: String,
    /// Where it is.
    pub file: PathBuf,
    /// The BLAKE3 hash of its content, in hexadecimal. Checked when it is linked.
    pub hash: String,
}

impl LinkedExtension {
    /// How the names end of what can be linked. Libraries that aren't modules have to be part of one.
    pub const SUFFIXES: [&str; 2] = [".cpython-314-wasm32-wasi.so", ".abi3.so"];

    /// What it holds, if that is what it should be.
    fn read(&self) -> Result<Vec<u8>, MakeError> {
        let refuse = |reason: String| MakeError::Extension { path: self.path.clone(), reason };
        if !self.path.split('/').all(is_file_name) {
            return Err(refuse("its path is not below the packages".into()));
        }
        if !Self::SUFFIXES.iter().any(|suffix| self.path.ends_with(suffix)) {
            return Err(refuse(format!("its name doesn't end in {}", Self::SUFFIXES.join(" or "))));
        }
        let content = fs::read(&self.file).map_err(|error| CacheError::io(&self.file, error))?;
        let found = blake3::hash(&content).to_hex();
        if *found != *self.hash {
            let hash = &self.hash;
            return Err(refuse(format!("{} has BLAKE3 {found}, not {hash}", self.file.display())));
        }
        if !is_library(&content) {
            return Err(refuse("it is not a WebAssembly library".into()));
        }
        // The flattener would find the same, but not say where.
        let known = WasmFeatures::WASM2 | WasmFeatures::EXTENDED_CONST;
        let valid = Validator::new_with_features(known).validate_all(&content);
        valid.map_err(|error| refuse(error.to_string()))?;
        Ok(content)
    }
}

/// Writes the native modules below `directory`, as they are among the packages, and returns their size. Only
/// they are there: componentize-py looks for settings as well.
pub(super) fn lay_out(extensions: &[LinkedExtension], directory: &Path) -> Result<u64, MakeError> {
    let mut size = 0;
    let mut paths = BTreeSet::new();
    for extension in extensions {
        if !paths.insert(&extension.path) {
            let reason = "it is there twice".to_owned();
            return Err(MakeError::Extension { path: extension.path.clone(), reason });
        }
        let content = extension.read()?;
        let path = directory.join(&extension.path);
        let parent = path.parent().unwrap_or(directory);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, &content));
        written.map_err(|error| CacheError::io(&path, error))?;
        size += content.len() as u64;
    }
    Ok(size)
}

/// Makes the component out of the kernel, in `scratch`, with the native modules in `extensions`.
pub(super) fn make(
    python: &Python,
    wheel: &Path,
    extensions: Option<&Path>,
    scratch: &Path,
    progress: &dyn Progress,
    expected: Duration,
) -> Result<PathBuf, MakeError> {
    let (modules, interfaces) = (scratch.join("kernel"), scratch.join("wit"));
    kernel::write(&modules, &interfaces)?;
    let component = scratch.join("component.wasm");
    let mut command = python.isolated();
    command.args(["-c", LAUNCH]).arg(wheel);
    command.arg("--wit-path").arg(&interfaces).args(["--world", kernel::WORLD, "componentize"]);
    // Without a path of ours, it would add the packages of the Python that runs it.
    for directory in [modules.as_path()].into_iter().chain(extensions) {
        command.arg("--python-path").arg(directory);
    }
    command.arg("--output").arg(&component).arg(kernel::ENTRY);
    // It unpacks its libraries there; what a kill leaves is swept with the rest.
    command.current_dir(scratch).env("TMPDIR", scratch);
    // A backtrace would hide what it says.
    command.env("RUST_BACKTRACE", "0").env_remove("RUST_LIB_BACKTRACE");
    let finished = process::run(&mut command, scratch, progress, expected)?;
    if finished.status.success() {
        return Ok(component);
    }
    let missing = unresolved(&finished.stderr);
    Err(match missing.is_empty() {
        true => {
            MakeError::Componentize { status: finished.status.to_string(), output: finished.last_lines() }
        }
        false => MakeError::Unresolved { missing },
    })
}

/// The linker's complaints, each a line such as `/1/thing.abi3.so needs missing_function (function [] -> [])`.
fn unresolved(output: &str) -> Vec<String> {
    let complaints = output.lines().filter_map(|line| line.trim().strip_prefix(LINKED));
    complaints.filter(|complaint| complaint.contains(" needs ")).map(ToOwned::to_owned).collect()
}

fn is_file_name(name: &str) -> bool {
    !["", ".", ".."].contains(&name) && !name.contains(['\\', '\0'])
}

fn is_library(content: &[u8]) -> bool {
    let mut payloads = Parser::new(0).parse_all(content).flatten();
    matches!(payloads.next(), Some(Payload::Version { .. }))
        && matches!(payloads.next(), Some(Payload::CustomSection(section)) if section.name() == LIBRARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_name_module_and_symbol() {
        let output = "Traceback (most recent call last):\n  File \"<string>\", line 4, in <module>\n\
            AssertionError: unresolved symbol(s):\n\
            \t/1/a/one.abi3.so needs missing (function [I32] -> [])\n\
            \t/1/two.abi3.so needs libthing.so\n";
        let expected =
            ["a/one.abi3.so needs missing (function [I32] -> [])", "two.abi3.so needs libthing.so"];
        assert_eq!(unresolved(output), expected);
        assert!(unresolved("AssertionError: no module named 'thing'").is_empty());
    }
}
