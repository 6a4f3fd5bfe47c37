//! Files of this host.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::channel::Failure;
use super::{Ending, Run, Setback};
use crate::error::At;
use crate::partial::Partial;

const PIECE: usize = 1 << 20;

/// Copies it. Its owner may change it whenever they like, so it is neither linked nor trusted to stay as it is.
pub(super) fn copy(run: &Run<'_>, path: &Path, partial: &mut Partial) -> Result<Ending, Setback> {
    let refused = |reason: String| Setback::Again(Failure::fatal(reason));
    // A pipe would keep us waiting before it can be looked at.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .map_err(|error| refused(format!("{}: {error}", path.display())))?;
    let before = opened.metadata().at("look at", path)?;
    if !before.is_file() {
        return Err(refused(format!("{} isn't a file", path.display())));
    }
    run.begin(partial, 0, Some(before.len()), None)?;
    if rustix::fs::ioctl_ficlone(partial.file(), &opened).is_ok() {
        // It may have grown just before.
        let copied = partial.file().metadata().at("look at", &partial.path)?.len();
        run.expect(partial, copied)?;
        partial.hash_written()?;
        run.progress.advance(&run.dataset.name, partial.length(), Some(copied));
    } else {
        copy_pieces(run, &opened, path, partial)?;
    }
    let after = opened.metadata().at("look at", path)?;
    let state = |found: &std::fs::Metadata| (found.len(), found.mtime(), found.mtime_nsec());
    if state(&before) != state(&after) {
        return Err(Setback::Again(Failure::again(format!(
            "{} changed while it was copied",
            path.display()
        ))));
    }
    Ok(Ending { sha256: None, version: None })
}

fn copy_pieces(run: &Run<'_>, mut from: &File, path: &Path, partial: &mut Partial) -> Result<(), Setback> {
    let mut piece = vec![0; PIECE];
    loop {
        run.go_on(partial)?;
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => run.write(partial, &piece[..count])?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).at("read", path).map_err(Setback::Fatal),
        }
    }
}
