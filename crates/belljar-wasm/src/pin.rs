//! An environment put aside: whole, so that guests which were made in it can be woken after the cache was
//! cleared or Belljar was replaced by a later version.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use belljar_runtime::Runtime;

use crate::error::LoadError;
use crate::prepared;

const ID: &str = "runtime-id";
const RUNTIME: &str = "runtime";
const IMAGE: &str = "image";

/// Puts all that guests need of a runtime and its image into a directory. Files are shared with the cache
/// where the file system can: neither ever changes them.
pub(crate) fn put_aside(runtime: &Runtime, image: &Path, directory: &Path) -> io::Result<()> {
    let parts = Runtime::parts().map(|part| (runtime.root.join(part), directory.join(RUNTIME).join(part)));
    let images = prepared::PARTS.map(|part| (image.join(part), directory.join(IMAGE).join(part)));
    for inner in [RUNTIME, IMAGE] {
        fs::create_dir_all(directory.join(inner))?;
    }
    for (from, to) in parts.into_iter().chain(images) {
        share(&from, &to)?;
    }
    fs::write(directory.join(ID), &runtime.id)
}

/// What was put aside: the runtime, and where its image is.
pub(crate) fn find(directory: &Path) -> Result<(Runtime, PathBuf), LoadError> {
    let path = directory.join(ID);
    let id = fs::read_to_string(&path).map_err(|source| LoadError::File { path: path.clone(), source })?;
    let plain = !id.is_empty() && id.len() < 100 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let runtime = plain.then(|| Runtime::set_aside(&id, &directory.join(RUNTIME))).flatten();
    let reason = || "it is of a version that this Belljar does not know".to_owned();
    let runtime = runtime.ok_or_else(|| LoadError::Damaged { path, reason: reason() })?;
    Ok((runtime, directory.join(IMAGE)))
}

fn share(from: &Path, to: &Path) -> io::Result<()> {
    if !from.symlink_metadata()?.is_dir() {
        return fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(|_| ()));
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        share(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}
