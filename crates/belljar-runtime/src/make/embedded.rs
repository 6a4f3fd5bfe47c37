//! A runtime inside the program itself, for machines that can't or shouldn't make one.

use std::path::Path;

use super::{archive, error::MakeError};

/// A compressed archive; empty if the build was given none.
const ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runtime.tar.zst"));

pub(super) fn is_there() -> bool {
    !ARCHIVE.is_empty()
}

pub(super) fn unpack(directory: &Path) -> Result<(), MakeError> {
    let name = Path::new("the embedded runtime");
    let refuse =
        |error: std::io::Error| MakeError::Archive { file: name.to_owned(), reason: error.to_string() };
    archive::untar(zstd::Decoder::with_buffer(ARCHIVE).map_err(refuse)?, name, directory)
}
