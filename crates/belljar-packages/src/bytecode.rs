//! Compiles packages with a Python of this machine. Nothing of a package is run: its source is only parsed, by a
//! process with limits of its own.

use std::{fs, path::Path, process::Command, time::Duration};

use belljar_runtime::{
    MakeError, Progress,
    host::{self, Finished},
};

use crate::{Compiler, HostPython, Limits, tree::walk};

const PROGRAM: &str = include_str!("bytecode.py");
/// Raised when other bytecode comes out.
const FORMAT: u32 = 1;
/// Where packages are seen, so in tracebacks too.
const SEEN_AT: &str = "/data/site-packages";
/// Of one source; larger ones are data.
const LARGEST: u64 = 8 << 20;
/// For one package.
const TIME: Duration = Duration::from_secs(15 * 60);
/// So many sources of a package may end the compiler, until it isn't started again.
const CRASHES: usize = 8;

impl Compiler for HostPython {
    /// All that understand the same bytecode share it.
    fn version(&self) -> String {
        format!("{} {} {FORMAT}", self.tag, self.magic)
    }

    fn compile(&self, directory: &Path, progress: &dyn Progress) -> Result<(), String> {
        let in_words = |error: &dyn std::fmt::Display| error.to_string();
        let names = modules(directory)?;
        if names.is_empty() {
            return Ok(());
        }
        let scratch = tempfile::tempdir().map_err(|error| in_words(&error))?;
        let list = scratch.path().join("names.json");
        let json = serde_json::to_vec(&names).map_err(|error| in_words(&error))?;
        fs::write(&list, json).map_err(|error| in_words(&error))?;
        let mut start = 0;
        for _ in 0..CRASHES {
            let finished = self.run(directory, &list, start, scratch.path(), progress)?;
            if finished.status.success() {
                return Ok(());
            }
            let last = finished.stdout.lines().last().and_then(|line| line.parse::<usize>().ok());
            let Some(last) = last else { return Err(finished.last_lines()) };
            let name = names.get(last).map_or("", String::as_str);
            tracing::warn!(name, status = %finished.status, "compiling it ended the compiler");
            start = last + 1;
        }
        Err(format!("{CRASHES} modules end the compiler"))
    }
}

impl HostPython {
    fn run(
        &self,
        directory: &Path,
        list: &Path,
        start: usize,
        scratch: &Path,
        progress: &dyn Progress,
    ) -> Result<Finished, String> {
        let mut command = Command::new(self.program());
        command.args(["-I", "-S", "-B", "-c", PROGRAM]).arg(directory).arg(list).arg(SEEN_AT);
        command.arg(start.to_string()).env_clear().current_dir("/");
        let late = || MakeError::Run { program: self.program(), source: std::io::ErrorKind::TimedOut.into() };
        let mut look = |elapsed: Duration| {
            progress.advance((elapsed.as_secs_f32() / 10.0).min(0.99));
            if elapsed > TIME { Err(late()) } else { Ok(()) }
        };
        host::run_watched(&mut command, scratch, &mut look).map_err(|error: MakeError| error.to_string())
    }
}

/// The modules below a directory but for tests, which nobody imports.
fn modules(directory: &Path) -> Result<Vec<String>, String> {
    let enter = |inside: &str| {
        let last = inside.rsplit('/').next().unwrap_or(inside);
        !["tests", "test", "__pycache__"].contains(&last) && inside != "bin"
    };
    // It was within limits when it was unpacked.
    let limits = Limits { entries: u64::MAX, depth: usize::MAX, ..Limits::default() };
    let files = walk(directory, &limits, &enter).map_err(|error| error.to_string())?;
    let small = |file: &Path| file.metadata().is_ok_and(|found| found.len() <= LARGEST);
    let sources = files.into_iter().filter(|(name, file)| name.ends_with(".py") && small(file));
    Ok(sources.map(|(name, _)| name).collect())
}
