//! Exports a directory, to be measured: `export DIRECTORY FILE [THREADS]`

use std::path::Path;

use belljar_files::DirDoor;
use belljar_transfer::{ExportOptions, Quiet, export_to_path};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, from, to, rest @ ..] = arguments.as_slice() else {
        return Err("export DIRECTORY FILE [THREADS]".into());
    };
    let mut options = ExportOptions::default();
    if let [threads] = rest {
        options.threads = threads.parse()?;
    }
    let exported = export_to_path(&DirDoor::open(Path::new(from))?, Path::new(to), &options, &Quiet)?;
    if exported.files == 0 { Err("there is nothing".into()) } else { Ok(()) }
}
