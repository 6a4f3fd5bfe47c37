//! Shows what a cell writes and displays, while it runs.

use std::str;
use std::sync::{Mutex, MutexGuard, PoisonError};

use belljar::{Cut, Event, MimeBundle, Outcome};

use crate::console;
use crate::size::Size;

/// Prints a cell's events, and at its end what was too much to be streamed.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    printed: Mutex<Printed>,
}

#[derive(Debug, Default)]
struct Printed {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Printer {
    pub(crate) fn hear(&self, event: Event) {
        match event {
            Event::Stdout(bytes) => {
                console::print(&bytes);
                self.lock().stdout.extend_from_slice(&bytes);
            }
            Event::Stderr(bytes) => {
                console::print_error(&bytes);
                self.lock().stderr.extend_from_slice(&bytes);
            }
            Event::Display(bundle) => show(&bundle),
        }
    }

    /// Prints the rest: streams stop at three quarters of their limit, and their end is in the outcome.
    pub(crate) fn finish(&self, outcome: &Outcome) {
        let printed = self.lock();
        console::print(rest(&printed.stdout, &outcome.stdout));
        console::print_error(rest(&printed.stderr, &outcome.stderr));
        for (name, cut) in [("standard output", &outcome.stdout_cut), ("standard error", &outcome.stderr_cut)]
        {
            if let Some(Cut { total_bytes, cut_bytes, .. }) = cut {
                let (total, missing) = (Size(*total_bytes), Size(*cut_bytes));
                console::note(format_args!(
                    "{missing} of {total} of {name} were cut; --output raises the limit"
                ));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Printed> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn show(bundle: &MimeBundle) {
    match bundle.0.keys().find(|mime| mime.starts_with("image/")) {
        Some(mime) => {
            let encoded = bundle.get_str(mime).unwrap_or_default().len() as u64;
            let bytes = if mime == "image/svg+xml" { encoded } else { encoded / 4 * 3 };
            let size = Size(bytes);
            console::note(format_args!("the cell displayed {mime} ({size}); use `run --json` to get it"));
        }
        None => console::print_line(bundle.text()),
    }
}

/// What `text` has beyond the bytes that were printed. Nothing for a stream that isn't text.
fn rest<'t>(printed: &[u8], text: &'t str) -> &'t [u8] {
    let (whole, split) = match str::from_utf8(printed) {
        Ok(_) => (printed, &[][..]),
        Err(error) if error.error_len().is_none() => printed.split_at(error.valid_up_to()),
        Err(_) => return &[],
    };
    let rest = text.as_bytes().strip_prefix(whole).unwrap_or_default();
    // Of a character that was split, the first bytes are there.
    rest.strip_prefix(split).unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_what_was_not_printed() {
        assert_eq!(rest(b"ab", "abcd"), b"cd");
        assert_eq!(rest(b"abcd", "abcd"), b"");
        assert_eq!(rest(b"a\xc3", "a\u{e4}b"), b"\xa4b");
        assert_eq!(rest(b"a\xff", "a\u{fffd}b"), b"");
        assert_eq!(rest(b"", ""), b"");
    }
}
