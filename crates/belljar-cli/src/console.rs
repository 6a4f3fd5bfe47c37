//! Standard output and standard error of the command itself.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process;

/// What a shell shows for a program that wrote to a closed pipe.
const BROKEN_PIPE: i32 = 128 + 13;

/// Writes to standard output at once. Ends the process quietly if nobody reads it any more.
pub(crate) fn print(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    drop(stdout);
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => process::exit(BROKEN_PIPE),
        Err(error) => {
            note(format_args!("cannot write to standard output: {error}"));
            process::exit(crate::failure::FAILED.into());
        }
    }
}

/// Writes a line to standard output.
pub(crate) fn print_line(line: &str) {
    print(format!("{line}\n").as_bytes());
}

/// Writes to standard error. There is nowhere to complain if that fails.
pub(crate) fn print_error(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}

/// Tells something that isn't the program's own output.
pub(crate) fn note(message: Arguments<'_>) {
    // In one write, so that other writers can't come between.
    print_error(format!("belljar: {message}\n").as_bytes());
}
