//! Runs componentize-py.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{error::MakeError, kernel, process, python::Python};
use crate::progress::Progress;

/// Takes the unpacked wheel's directory off the arguments and leaves the rest to componentize-py.
const LAUNCH: &str = "\
import sys
sys.path.insert(0, sys.argv.pop(1))
import componentize_py
sys.exit(componentize_py.script())
";

/// Makes the component out of the kernel, in `scratch`.
pub(super) fn make(
    python: &Python,
    wheel: &Path,
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
    command.arg("--python-path").arg(&modules).arg("--output").arg(&component).arg(kernel::ENTRY);
    // It unpacks its libraries there; what a kill leaves is swept with the rest.
    command.current_dir(scratch).env("TMPDIR", scratch);
    let finished = process::run(&mut command, scratch, progress, expected)?;
    match finished.status.success() {
        true => Ok(component),
        false => Err(MakeError::Componentize {
            status: finished.status.to_string(),
            output: finished.last_lines(),
        }),
    }
}
