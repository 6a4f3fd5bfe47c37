//! JSON files with a version and a checksum: damage is seen, not guessed at.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::draft::{write_file, write_file_soon};
use crate::error::{At, DatasetError, Result};
use crate::layout::hexadecimal;

const FORMAT: u32 = 1;
/// Bytes of such a file, at most.
const LARGEST: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Sealed {
    format: u32,
    sha256: String,
    contents: Box<RawValue>,
}

/// Puts it in place, durably, for its owner's eyes.
pub(crate) fn write<T: Serialize>(directory: &Path, path: &Path, contents: &T) -> Result<()> {
    write_file(directory, path, &seal(path, contents)?, 0o600)
}

/// The same, durable some time later. Nobody else writes it meanwhile.
pub(crate) fn write_soon<T: Serialize>(draft: &Path, path: &Path, contents: &T) -> Result<()> {
    write_file_soon(draft, path, &seal(path, contents)?, 0o600)
}

fn seal<T: Serialize>(path: &Path, contents: &T) -> Result<Vec<u8>> {
    let unfit = |error: serde_json::Error| io::Error::other(error);
    let contents = serde_json::value::to_raw_value(contents).map_err(unfit).at("write", path)?;
    let sha256 = hexadecimal(&Sha256::digest(contents.get()));
    let sealed = Sealed { format: FORMAT, sha256, contents };
    serde_json::to_vec(&sealed).map_err(unfit).at("write", path)
}

/// Nothing if there is no such file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).at("open", path),
    };
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).at("read", path)?;
    let sealed: Sealed =
        serde_json::from_slice(&bytes).map_err(|_| DatasetError::damaged(path, "it isn't whole"))?;
    if sealed.format > FORMAT {
        return Err(DatasetError::Future { path: path.to_owned(), version: sealed.format });
    }
    if hexadecimal(&Sha256::digest(sealed.contents.get())) != sealed.sha256 {
        return Err(DatasetError::damaged(path, "its checksum is another one"));
    }
    serde_json::from_str(sealed.contents.get())
        .map(Some)
        .map_err(|_| DatasetError::damaged(path, "what it says makes no sense"))
}
