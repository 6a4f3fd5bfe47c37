//! Many files at once: what fails doesn't stop the rest.

use belljar_engine::{FileDoor, FileError, FileErrorCode};
use serde::{Deserialize, Serialize};

use super::{read, write};

/// What became of a file that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uploaded {
    /// Its path.
    pub path: String,
    /// Why it wasn't written.
    pub error: Option<FileError>,
}

/// A file that was downloaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Downloaded {
    /// Its path.
    pub path: String,
    /// Its contents.
    pub contents: Option<Vec<u8>>,
    /// Why there are none.
    pub error: Option<FileError>,
}

/// Writes many files, and says for each what became of it.
pub fn upload<P: Into<String>, C: AsRef<[u8]>>(
    door: &dyn FileDoor,
    files: impl IntoIterator<Item = (P, C)>,
) -> Vec<Uploaded> {
    let files = files.into_iter().map(|(path, contents)| {
        let path = path.into();
        let error = write(door, &path, &mut contents.as_ref()).err();
        Uploaded { path, error }
    });
    files.collect()
}

/// Reads many files, of at most this many bytes together, and says for each what became of it.
pub fn download<P: Into<String>>(
    door: &dyn FileDoor,
    paths: impl IntoIterator<Item = P>,
    most_bytes: u64,
) -> Vec<Downloaded> {
    let mut left = most_bytes;
    let files = paths.into_iter().map(|path| {
        let path = path.into();
        match read(door, &path, left) {
            Ok(contents) => {
                left -= contents.len() as u64;
                Downloaded { path, contents: Some(contents), error: None }
            }
            Err(error) if error.code == FileErrorCode::TooLarge => {
                let message = format!("{}; {most_bytes} bytes can be downloaded at once", error.message);
                Downloaded { path, contents: None, error: Some(FileError { message, ..error }) }
            }
            Err(error) => Downloaded { path, contents: None, error: Some(error) },
        }
    });
    files.collect()
}
