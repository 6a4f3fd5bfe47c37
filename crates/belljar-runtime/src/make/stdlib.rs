//! The guest's standard library. componentize-py carries it inside its native library, as a compressed
//! archive.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use super::{archive, error::MakeError};
use crate::cache::CacheError;

/// How every zstd frame begins.
const MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Tells the standard library from other archives.
const LANDMARK: &str = "encodings/__init__.py";

/// Looks for the archive in `wheel`, an unpacked one, and unpacks it into `directory`.
pub(super) fn extract(wheel: &Path, directory: &Path) -> Result<(), MakeError> {
    let package = wheel.join("componentize_py");
    let failed = |error| CacheError::io(&package, error);
    for file in fs::read_dir(&package).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "so" || extension == "pyd") {
            let bytes = fs::read(&path).map_err(failed)?;
            if let Some(archive) =
                frames(&bytes).filter_map(decode_archive).find(|archive| holds_stdlib(archive))
            {
                return archive::untar(&archive[..], &path, directory);
            }
        }
    }
    Err(MakeError::Archive { file: package, reason: "no standard library found in it".into() })
}

/// Everything that could be a zstd frame.
fn frames(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = bytes.windows(MAGIC.len()).enumerate().filter(|(_, window)| *window == MAGIC);
    starts.map(|(start, _)| &bytes[start..])
}

/// The frame's content, if it is a tar archive. Most are other things; of those, only the beginning is
/// decoded.
fn decode_archive(frame: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = zstd::Decoder::with_buffer(frame).ok()?.single_frame();
    let mut archive = vec![0; 512];
    decoder.read_exact(&mut archive).ok()?;
    if archive.get(257..262) != Some(b"ustar") {
        return None;
    }
    decoder.read_to_end(&mut archive).ok()?;
    Some(archive)
}

fn holds_stdlib(archive: &[u8]) -> bool {
    let landmark = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
        entry.is_ok_and(|entry| entry.path().is_ok_and(|path| path.ends_with(LANDMARK)))
    };
    tar::Archive::new(archive).entries().is_ok_and(|mut entries| entries.any(landmark))
}
