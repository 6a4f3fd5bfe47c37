//! Files that somebody may have put there to be read for ever.

use std::{
    fs::OpenOptions,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Larger than any list, lock or configuration.
const LARGEST: u64 = 32 << 20;

/// Reads a text from a regular file of moderate size: not from pipes and devices, which may never end.
///
/// # Errors
/// Those of the file system, and that it isn't such a file.
pub fn read_text(path: &Path) -> io::Result<String> {
    // Opening a pipe would wait for somebody who writes.
    let no_waiting = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(no_waiting).open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() || found.len() > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it isn't a file of moderate size"));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("made");
        assert!(read_text(&pipe).is_err());
        assert!(read_text(Path::new("/dev/zero")).is_err());
        assert!(read_text(directory.path()).is_err());
        let file = directory.path().join("file");
        std::fs::write(&file, "text").expect("written");
        assert_eq!(read_text(&file).expect("read"), "text");
    }
}
