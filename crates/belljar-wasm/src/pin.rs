//! An environment put aside: whole, so that guests which were made in it can be woken after the cache was
//! cleared or Belljar was replaced by a later version.

use std::fs;
use std::io::{self, Read, Write};
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

/// Writes what guests need of an environment that was put aside, and that every machine makes differently: its
/// image. The program and the library are the same wherever the runtime's name is.
pub(crate) fn pack(directory: &Path, output: impl Write) -> io::Result<()> {
    let mut output = zstd::Encoder::new(output, 3)?;
    let id = fs::read(directory.join(ID))?;
    let images = prepared::PARTS.map(|part| directory.join(IMAGE).join(part));
    write_part(&mut output, &mut id.as_slice(), id.len() as u64)?;
    for path in images {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        write_part(&mut output, &mut file, length)?;
    }
    output.finish().map(drop)
}

/// Puts aside what [`pack`] wrote, with the program and the library of this machine's runtime. It may come from
/// anywhere: an image is guest memory, and is believed no more than that.
pub(crate) fn unpack(input: impl Read, runtime: &Runtime, directory: &Path) -> io::Result<()> {
    let mut input = zstd::Decoder::new(input)?;
    let mut id = Vec::new();
    read_part(&mut input, &mut id, 100)?;
    if id != runtime.id.as_bytes() {
        let theirs = String::from_utf8_lossy(&id).into_owned();
        let message =
            format!("it was made by another version of Belljar (runtime {theirs}, this is {})", runtime.id);
        return Err(io::Error::other(message));
    }
    let image = directory.join(IMAGE);
    fs::create_dir_all(&image)?;
    for part in prepared::PARTS {
        read_part(&mut input, &mut fs::File::create(image.join(part))?, LONGEST_PART)?;
    }
    fs::create_dir_all(directory.join(RUNTIME))?;
    for part in Runtime::parts() {
        share(&runtime.root.join(part), &directory.join(RUNTIME).join(part))?;
    }
    fs::write(directory.join(ID), &runtime.id)
}

/// What the environment in a directory is called, by what is in it.
pub(crate) fn name(directory: &Path) -> Result<String, LoadError> {
    let (runtime, image) = find(directory)?;
    prepared::environment(&[&runtime.core(), &image.join(prepared::PARTS[0])])
}

/// Larger than any image.
const LONGEST_PART: u64 = 512 << 20;

fn write_part(output: &mut impl Write, part: &mut impl Read, length: u64) -> io::Result<()> {
    output.write_all(&length.to_le_bytes())?;
    match io::copy(&mut part.take(length), output)? == length {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn read_part(input: &mut impl Read, part: &mut impl Write, longest: u64) -> io::Result<()> {
    let mut length = [0; 8];
    input.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > longest {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a part of the environment is too large"));
    }
    match io::copy(&mut input.take(length), part)? == length {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
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
