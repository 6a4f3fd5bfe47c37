use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use belljar::{Quiet, Runtimes};
use serde_json::Value;

use crate::ending::Ending;
use crate::program::Program;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/differential");
/// Where the package is kept in the cache, and its version, which `install.py` pins.
const PACKAGE: (&str, &str) = ("differential", "50.0.1");
/// Where the compiled component is kept.
const CODE: &str = "differential-code";
const CODE_FILE: &str = "component.cwasm";

/// Runs each program in an instance of its own.
pub(crate) fn run(programs: &[Program]) -> Vec<Vec<Ending>> {
    run_programs(programs).unwrap_or_else(|error| panic!("the component could not be run: {error}"))
}

fn run_programs(programs: &[Program]) -> Result<Vec<Vec<Ending>>, Box<dyn Error>> {
    let (runtime, cache) = Runtimes::default().ensure(&Quiet)?;
    let package = cache.make(PACKAGE.0, PACKAGE.1, &Quiet, |directory| {
        python("install.py").arg(directory.join("packages")).run(&[]).map(drop)
    })?;
    let key = format!("{}-{}", runtime.id, PACKAGE.1);
    if cache.find(CODE, &key).is_none() {
        // Those of runtimes that nobody makes any more.
        cache.clean(CODE)?;
    }
    let code = cache.make(CODE, &key, &Quiet, |directory| {
        let component = directory.join("component.wasm");
        decompress(&runtime.component(), &component)?;
        let mut compile = python("component.py");
        compile.env("PYTHONPATH", package.join("packages"));
        compile.arg("compile").arg(&component).arg(directory.join(CODE_FILE)).run(&[])?;
        fs::remove_file(component).map_err(Box::<dyn Error>::from)
    })?;
    let input: Value = programs
        .iter()
        .map(|program| program.cells.iter().map(|cell| cell.code.as_str()).collect::<Value>())
        .collect();
    let mut run = python("component.py");
    run.env("PYTHONPATH", package.join("packages"));
    run.arg("run").arg(code.join(CODE_FILE)).arg(runtime.stdlib()).arg(runtime.zoneinfo());
    let output: Vec<Vec<Value>> = serde_json::from_slice(&run.run(input.to_string().as_bytes())?)?;
    Ok(output.into_iter().map(|cells| cells.into_iter().map(Ending::from_component).collect()).collect())
}

fn decompress(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let source = File::open(from).map_err(|error| {
        format!(
            "{}: {error} (a runtime that came with the program has no component: make one)",
            from.display()
        )
    })?;
    Ok(zstd::stream::copy_decode(source, File::create(to)?)?)
}

fn python(script: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg("-B").arg(PathBuf::from(SCRIPTS).join(script));
    command
}

trait Run {
    /// Runs to the end and returns the output.
    fn run(&mut self, input: &[u8]) -> Result<Vec<u8>, Box<dyn Error>>;
}

impl Run for Command {
    fn run(&mut self, input: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
        self.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self
            .spawn()
            .map_err(|error| format!("python3 could not be started ({error}): it must be on the path"))?;
        // All input is read before any output is written.
        child.stdin.take().ok_or("no input")?.write_all(input)?;
        let finished = child.wait_with_output()?;
        match finished.status.success() {
            true => Ok(finished.stdout),
            false => {
                Err(format!("{self:?}: {}\n{}", finished.status, String::from_utf8_lossy(&finished.stderr))
                    .into())
            }
        }
    }
}
