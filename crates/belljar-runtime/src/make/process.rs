//! Runs a program to its end, watched.

use std::{
    fs::File,
    io::{self, Read, Seek},
    path::Path,
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

pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Finished {
    /// The last lines of both streams.
    pub(super) fn last_lines(&self) -> String {
        let lines: Vec<&str> = self.stdout.lines().chain(self.stderr.lines()).collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }
}

/// Runs `command`, and reports the time that went by as part of `expected`. Output goes through files in
/// `scratch`, so that no pipe can fill up.
pub(super) fn run(
    command: &mut Command,
    scratch: &Path,
    progress: &dyn Progress,
    expected: Duration,
) -> Result<Finished, MakeError> {
    let program = command.get_program().to_owned();
    watch(command, scratch, progress, expected)
        .map_err(|source| MakeError::Run { program: program.into(), source })
}

fn watch(
    command: &mut Command,
    scratch: &Path,
    progress: &dyn Progress,
    expected: Duration,
) -> io::Result<Finished> {
    let mut stdout = tempfile::tempfile_in(scratch)?;
    let mut stderr = tempfile::tempfile_in(scratch)?;
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let mut running = Running(command.spawn()?);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = running.0.try_wait()? {
            break status;
        }
        progress.advance((start.elapsed().as_secs_f32() / expected.as_secs_f32()).min(0.99));
        thread::sleep(INTERVAL);
    };
    Ok(Finished { status, stdout: read(&mut stdout)?, stderr: read(&mut stderr)? })
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
