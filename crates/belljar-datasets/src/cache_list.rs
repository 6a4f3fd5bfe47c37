//! `cache_datasets.txt`: which datasets a session was given, one name per line, for whoever looks into its directory.
//!
//! That directory may be the guest's as well, so the file is neither trusted nor followed elsewhere. What counts is
//! what a [`Shelf`](crate::Shelf) says.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;

use crate::draft::write_file;
use crate::error::{At, DatasetError, Result};
use crate::names::check;

/// What the file is called.
pub const FILE_NAME: &str = "cache_datasets.txt";
const LARGEST: u64 = 1 << 20;

/// Adds a name, unless it is there. Returns whether it wasn't.
///
/// A session has one owner at a time, so two processes don't do this at once.
///
/// # Errors
/// If the name can't be one, or the file can't be written.
pub fn append(path: &Path, name: &str) -> Result<bool> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    check("a dataset's name", name)?;
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut names = read(path)?;
    if names.iter().any(|known| known == name) {
        return Ok(false);
    }
    names.push(name.to_owned());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let text = names.join("\n") + "\n";
    write_file(directory.unwrap_or(Path::new(".")), path, text.as_bytes(), 0o644)?;
    Ok(true)
}

/// The names, each once; none if there is no file. Lines that can't be names are left out.
///
/// # Errors
/// If it isn't a file, or can't be read.
pub fn read(path: &Path) -> Result<Vec<String>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file: File = match OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        // A link. It is replaced when something is written.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error).at("open", path),
    };
    if !file.metadata().at("look at", path)?.is_file() {
        return Err(DatasetError::damaged(path, "it isn't a file"));
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).at("read", path)?;
    let mut names: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(&text).lines().map(str::trim) {
        if check("a dataset's name", line).is_ok() && !names.iter().any(|known| known == line) {
            names.push(line.to_owned());
        }
    }
    Ok(names)
}
