//! Files that appear whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::clock;
use crate::error::{At, Result};
use crate::names::UNFINISHED;

/// Puts a file in place with these bytes, durably. `directory` is where it is.
pub(crate) fn write_file(directory: &Path, path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    replace_file(&unfinished_name(directory), path, bytes, mode, |file| Ok(rustix::fs::fdatasync(file)?))?;
    sync_directory(directory)
}

/// The same by way of a draft that nobody else uses meanwhile, but that it is left to the system when it becomes
/// durable: whoever is killed loses nothing by that, a machine that loses power may.
pub(crate) fn write_file_soon(draft: &Path, path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    remove_file(draft)?;
    replace_file(draft, path, bytes, mode, |_| Ok(()))
}

fn replace_file(
    draft: &Path,
    path: &Path,
    bytes: &[u8],
    mode: u32,
    sync: impl Fn(&File) -> io::Result<()>,
) -> Result<()> {
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(draft)?;
        file.write_all(bytes)?;
        sync(&file)?;
        fs::rename(draft, path)
    };
    written()
        .inspect_err(|_| {
            let _ = fs::remove_file(draft);
        })
        .at("write", path)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> Result<()> {
    let handle = File::open(directory).at("open", directory)?;
    rustix::fs::fsync(handle).at("write", directory)
}

/// Makes a directory and those above it; it is fine if they are there. Each is durable where it is.
pub(crate) fn make_directory(directory: &Path, mode: u32) -> Result<()> {
    match DirBuilder::new().mode(mode).create(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = directory.parent() else { return Err(error).at("create", directory) };
            make_directory(parent, mode)?;
            match DirBuilder::new().mode(mode).create(directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result.at("create", directory)?,
            }
        }
        Err(error) => return Err(error).at("create", directory),
    }
    // The directory above may be somebody else's, and not readable.
    let _ = directory.parent().map(sync_directory);
    Ok(())
}

/// A name in this directory that nobody else uses.
pub(crate) fn unfinished_name(directory: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    directory.join(format!("{UNFINISHED}{}-{count}-{:08x}", std::process::id(), clock::random() as u32))
}

pub(crate) fn is_unfinished(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
}

/// Everything in a directory; nothing if there is no such directory.
pub(crate) fn entries(directory: &Path) -> Result<Vec<fs::DirEntry>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.collect::<io::Result<_>>().at("list", directory),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).at("list", directory),
    }
}

/// Removes a file; it is fine if there is none.
pub(crate) fn remove_file(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).at("remove", path),
    }
}

/// A lock that is released when it is dropped, and by the kernel when the process dies.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits as long as it takes: whoever has such a lock has it shortly.
    pub(crate) fn wait(path: &Path, operation: FlockOperation) -> Result<Self> {
        loop {
            let file = open_lock(path)?;
            match rustix::fs::flock(&file, operation) {
                Err(rustix::io::Errno::INTR) => continue,
                result => result.at("lock", path)?,
            }
            if is_still(&file, path) {
                return Ok(Self { _file: file });
            }
        }
    }

    /// Waits for a while, and asks now and then whether to go on. Nothing if that was in vain.
    pub(crate) fn within(path: &Path, bound: Duration, go_on: &dyn Fn() -> bool) -> Result<Option<Self>> {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let file = open_lock(path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_still(&file, path) => return Ok(Some(Self { _file: file })),
                Ok(()) | Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error).at("lock", path),
            }
            if begun.elapsed() >= bound || !go_on() {
                return Ok(None);
            }
            std::thread::sleep(pause.min(bound.saturating_sub(begun.elapsed())));
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}

fn open_lock(path: &Path) -> Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).at("open", path)
}

/// Whoever cleans up may have removed the file between opening and locking it.
fn is_still(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
