//! An environment put aside: whole, so that guests which were made in it can be woken after the cache was
//! cleared or Belljar was replaced by a later version.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use belljar_runtime::{Runtime, hash_tree};

use crate::error::LoadError;
use crate::layer::{Layer, Tree};
use crate::prepared;

const ID: &str = "runtime-id";
const RUNTIME: &str = "runtime";
const IMAGE: &str = "image";
const PACKAGES: &str = "packages";
/// Hashes of the packages, and of a standard library that isn't the runtime's own.
const PACKAGES_ID: &str = "packages-id";
const LIBRARY_ID: &str = "library-id";
/// Marks what came from another machine.
const FOREIGN: &str = "foreign";

/// What was put aside.
pub(crate) struct Pinned {
    pub(crate) runtime: Runtime,
    /// Where its image is.
    pub(crate) image: PathBuf,
    pub(crate) layer: Layer,
}

/// Puts all that guests need of a runtime, its image and its packages into a directory. Files are shared with
/// the cache where the file system can: neither ever changes them.
pub(crate) fn put_aside(runtime: &Runtime, image: &Path, layer: &Layer, directory: &Path) -> io::Result<()> {
    let images = prepared::PARTS.map(|part| (image.join(part), directory.join(IMAGE).join(part)));
    for inner in [RUNTIME, IMAGE] {
        fs::create_dir_all(directory.join(inner))?;
    }
    for (from, to) in images {
        share(&from, &to)?;
    }
    put_runtime_aside(runtime, layer.library.as_ref(), directory)?;
    if let Some(packages) = &layer.packages {
        share(&packages.directory, &directory.join(PACKAGES))?;
        fs::write(directory.join(PACKAGES_ID), &packages.id)?;
    }
    Ok(())
}

fn put_runtime_aside(runtime: &Runtime, library: Option<&Tree>, directory: &Path) -> io::Result<()> {
    for part in Runtime::parts() {
        let from = match library {
            Some(library) if part == Runtime::STDLIB => library.directory.clone(),
            _ => runtime.root.join(part),
        };
        share(&from, &directory.join(RUNTIME).join(part))?;
    }
    if let Some(library) = library {
        fs::write(directory.join(LIBRARY_ID), &library.id)?;
    }
    fs::write(directory.join(ID), &runtime.id)
}

/// What was put aside.
pub(crate) fn find(directory: &Path) -> Result<Pinned, LoadError> {
    let path = directory.join(ID);
    let id = read_id(&path)?;
    let runtime = id.as_ref().and_then(|id| Runtime::set_aside(id, &directory.join(RUNTIME)));
    let reason = || "it is of a version that this Belljar does not know".to_owned();
    let runtime = runtime.ok_or_else(|| LoadError::Damaged { path, reason: reason() })?;
    let tree = |id: &str, of: PathBuf| -> Result<Option<Tree>, LoadError> {
        Ok(read_id(&directory.join(id))?.map(|id| Tree { directory: of, id }))
    };
    let packages = tree(PACKAGES_ID, directory.join(PACKAGES))?;
    let library = tree(LIBRARY_ID, runtime.stdlib())?;
    let layer = Layer { packages, library, ..Layer::default() };
    Ok(Pinned { runtime, image: directory.join(IMAGE), layer })
}

/// `None` if it isn't there, or isn't one.
fn read_id(path: &Path) -> Result<Option<String>, LoadError> {
    match fs::read_to_string(path) {
        Ok(id) => {
            let plain =
                !id.is_empty() && id.len() < 100 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            Ok(plain.then_some(id))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LoadError::File { path: path.to_owned(), source }),
    }
}

/// Writes what guests need of an environment that was put aside, and that other machines may not have: its
/// image and its packages. The program and the library are the same wherever the runtime's name is.
pub(crate) fn pack(directory: &Path, output: impl Write) -> io::Result<()> {
    if directory.join(LIBRARY_ID).exists() {
        return Err(io::Error::other("its environment has a standard library of its own"));
    }
    let mut output = zstd::Encoder::new(output, 3)?;
    let id = fs::read(directory.join(ID))?;
    write_part(&mut output, &mut id.as_slice(), id.len() as u64)?;
    for part in prepared::PARTS {
        write_file(&mut output, &directory.join(IMAGE).join(part))?;
    }
    if directory.join(PACKAGES_ID).exists() {
        pack_tree(&mut output, &directory.join(PACKAGES), "")?;
    }
    output.finish().map(drop)
}

fn pack_tree(output: &mut impl Write, directory: &Path, inside: &str) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|_| io::Error::other("a name is not UTF-8"))?;
        let inside = if inside.is_empty() { name } else { format!("{inside}/{name}") };
        if entry.file_type()?.is_dir() {
            pack_tree(output, &entry.path(), &inside)?;
        } else {
            write_part(output, &mut inside.as_bytes(), inside.len() as u64)?;
            write_file(output, &entry.path())?;
        }
    }
    Ok(())
}

/// Puts aside what [`pack`] wrote, with the program and the library of this machine's runtime: `runtime` finds
/// it by its name. It may come from anywhere: an image and packages are the guest's, and are believed no more
/// than that.
pub(crate) fn unpack(
    input: impl Read,
    runtime: impl FnOnce(&str) -> Option<Runtime>,
    directory: &Path,
) -> io::Result<()> {
    let mut input = zstd::Decoder::new(input)?;
    let mut id = Vec::new();
    read_part(&mut input, &mut id, 100)?;
    let id = String::from_utf8_lossy(&id).into_owned();
    let runtime = runtime(&id).ok_or_else(|| {
        io::Error::other(format!(
            "it was made by another version of Belljar, or with native packages that are not here (runtime {id})"
        ))
    })?;
    let image = directory.join(IMAGE);
    fs::create_dir_all(&image)?;
    for part in prepared::PARTS {
        read_part(&mut input, &mut fs::File::create(image.join(part))?, LONGEST_PART)?;
    }
    unpack_tree(&mut input, directory)?;
    fs::create_dir_all(directory.join(RUNTIME))?;
    put_runtime_aside(&runtime, None, directory)?;
    fs::write(directory.join(FOREIGN), "")?;
    // Whoever is woken in it must find it whole.
    prepared::open(&image, &runtime, &find(directory).map_err(io::Error::other)?.layer)
        .map_err(|error| io::Error::other(format!("its environment is no good: {error}")))?;
    Ok(())
}

/// Whether what was put aside came from another machine. Only a part of it is in its name, so it must not be what
/// guests of this machine are woken in.
pub(crate) fn is_foreign(directory: &Path) -> bool {
    directory.join(FOREIGN).exists()
}

fn unpack_tree(input: &mut impl Read, directory: &Path) -> io::Result<()> {
    let packages = directory.join(PACKAGES);
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let (mut files, mut bytes) = (0_u64, 0_u64);
    let mut directories = HashSet::new();
    loop {
        let mut name = Vec::new();
        match read_part(input, &mut name, 4096) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && name.is_empty() => break,
            Err(error) => return Err(error),
        }
        let name = String::from_utf8(name).map_err(|_| wrong("a name is not UTF-8"))?;
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if name.is_empty() || !Path::new(&name).components().all(plain) || name.contains(['\\', '\0']) {
            return Err(wrong("a name of the packages leads outside"));
        }
        if name.split('/').count() > DEEPEST {
            return Err(wrong("its packages nest too deep"));
        }
        let path = packages.join(&name);
        if let Some(parent) = path.parent()
            && directories.insert(parent.to_owned())
        {
            fs::create_dir_all(parent)?;
        }
        let mut file = fs::File::create_new(&path)?;
        read_part(input, &mut file, LONGEST_PART)?;
        files += 1;
        bytes += file.metadata()?.len();
        if files > MOST_FILES || directories.len() > MOST_DIRECTORIES || bytes > MOST_BYTES {
            return Err(wrong("there are too many packages in it"));
        }
    }
    if files > 0 {
        fs::write(directory.join(PACKAGES_ID), hash_tree(&packages).map_err(io::Error::other)?)?;
    }
    Ok(())
}

/// What the environment in a directory is called, by what is in it.
pub(crate) fn name(directory: &Path) -> Result<String, LoadError> {
    let Pinned { runtime, image, layer } = find(directory)?;
    let bare = prepared::environment(&[&runtime.core(), &image.join(prepared::PARTS[0])])?;
    Ok(layer.environment(&bare))
}

/// What packages of a session that comes from elsewhere may have.
const MOST_FILES: u64 = 200_000;
const MOST_DIRECTORIES: usize = 20_000;
const DEEPEST: usize = 64;
const MOST_BYTES: u64 = 4 << 30;

/// Larger than any image.
const LONGEST_PART: u64 = 512 << 20;

fn write_file(output: &mut impl Write, path: &Path) -> io::Result<()> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    write_part(output, &mut file, length)
}

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
