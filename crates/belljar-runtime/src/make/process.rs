//! Runs a program to its end, watched.

use std::{
    fs::File,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::error::MakeError;
use crate::progress::Progress;

/// How often a program is looked at. Short beside the shortest of them.
const INTERVAL: Duration = Duration::from_millis(10);

/// How many lines of output an error shows.
const SHOWN_LINES: usize = 25;

/// How a program ended, and all that it wrote.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
}

impl Finished {
    /// The last lines of both streams.
    pub fn last_lines(&self) -> String {
        let lines: Vec<&str> = self.stdout.lines().chain(self.stderr.lines()).collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }
}

/// Runs `command`, and reports the time that went by as part of `expected`. Output goes through files in
/// `scratch`, so that no pipe can fill up.
///
/// # Errors
/// If it can't be started or watched. That it failed is no error: see its status.
pub fn run(
    command: &mut Command,
    scratch: &Path,
    progress: &dyn Progress,
    expected: Duration,
) -> Result<Finished, MakeError> {
    run_watched(command, scratch, &mut |elapsed| {
        progress.advance((elapsed.as_secs_f32() / expected.as_secs_f32()).min(0.99));
        Ok(())
    })
}

/// Runs `command`, and calls `look` with the time that went by every few milliseconds. If that fails the
/// program is killed.
///
/// # Errors
/// As [`run`], and those of `look`.
pub fn run_watched<E: From<MakeError>>(
    command: &mut Command,
    scratch: &Path,
    look: &mut dyn FnMut(Duration) -> Result<(), E>,
) -> Result<Finished, E> {
    let program = PathBuf::from(command.get_program());
    let failed = |source| MakeError::Run { program: program.clone(), source };
    let mut stdout = tempfile::tempfile_in(scratch).map_err(failed)?;
    let mut stderr = tempfile::tempfile_in(scratch).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(stdout.try_clone().map_err(failed)?);
    command.stderr(stderr.try_clone().map_err(failed)?);
    let mut running = Running(command.spawn().map_err(failed)?);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = running.0.try_wait().map_err(failed)? {
            break status;
        }
        look(start.elapsed())?;
        thread::sleep(INTERVAL);
    };
    let (stdout, stderr) = (read(&mut stdout).map_err(failed)?, read(&mut stderr).map_err(failed)?);
    Ok(Finished { status, stdout, stderr })
}

fn read(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Dies with whoever watches it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both do nothing for one that has ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
