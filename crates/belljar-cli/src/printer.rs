//! Shows what a cell writes and displays, while it runs.

use belljar::{Cut, Event, MimeBundle};

use crate::console;
use crate::size::Size;

/// Prints an event of a cell.
pub(crate) fn hear(event: Event) {
    match event {
        Event::Stdout(bytes) => console::print(&bytes),
        Event::Stderr(bytes) => console::print_error(&bytes),
        Event::Display(bundle) => show(&bundle),
    }
}

/// Says at the end how much was too much to be printed.
pub(crate) fn finish(stdout: Option<&Cut>, stderr: Option<&Cut>) {
    for (name, cut) in [("standard output", stdout), ("standard error", stderr)] {
        if let Some(Cut { total_bytes, cut_bytes, .. }) = cut {
            let (total, missing) = (Size(*total_bytes), Size(*cut_bytes));
            console::note(format_args!("{missing} of {total} of {name} were cut; --output raises the limit"));
        }
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
