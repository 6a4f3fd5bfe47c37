//! Copies packages for Node into a session's own files.
//!
//! Nothing is shared with the cache, and no link of the session's is followed: whatever it puts in place of a directory
//! while this goes on, files end up below its project or nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fstatvfs, openat, symlinkat, unlinkat};

use crate::installs::InstalledModules;
use crate::sys::as_owner;
use crate::tree::{Tree, below};

/// A file of a package on the host.
struct ModuleFile {
    path: PathBuf,
    inside: PathBuf,
    size: u64,
    executable: bool,
}

/// Copies the packages at these places, and all links to programs, into the project in a directory of the session's.
/// Returns how many packages there were. If it fails, what it has written is removed.
pub(crate) fn copy(
    tree: &Tree,
    modules: &InstalledModules,
    at: &str,
    wanted: &BTreeSet<String>,
) -> io::Result<usize> {
    let places: BTreeMap<&str, bool> =
        modules.packages.iter().map(|(place, _)| (place.as_str(), wanted.contains(place))).collect();
    let files = list(&modules.directory, &places)?;
    let (base, owner) = tree.directory(at)?;
    let directories: BTreeSet<&Path> = files.iter().filter_map(|file| file.inside.parent()).collect();
    let figures = fstatvfs(&base)?;
    let blocks: u64 = files.iter().map(|file| file.size.div_ceil(figures.f_frsize.max(1))).sum();
    let entries = (files.len() + directories.len() + modules.links.len() + 16) as u64;
    // Some file systems don't count files.
    if blocks > figures.f_bavail || (figures.f_files > 0 && entries > figures.f_favail) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let mut made: Vec<&Path> = Vec::new();
    let files_copied = files.iter().try_for_each(|file| {
        // With this process's own rights: the cache may be nobody else's to read.
        let contents = File::open(&file.path)?;
        made.push(&file.inside);
        as_owner(owner, || write(&base, file, &contents))
    });
    let copied = files_copied.and_then(|()| {
        modules.links.iter().try_for_each(|(path, target)| {
            made.push(Path::new(path));
            as_owner(owner, || link(&base, Path::new(path), target))
        })
    });
    if copied.is_err() {
        as_owner(owner, || {
            for inside in made {
                if let Ok((directory, name)) = below(&base, inside) {
                    let _ = unlinkat(&directory, name, AtFlags::empty());
                }
            }
        });
    }
    copied.map(|()| places.values().filter(|wanted| **wanted).count())
}

fn write(base: &OwnedFd, file: &ModuleFile, contents: &File) -> io::Result<()> {
    let (directory, name) = below(base, &file.inside)?;
    let _ = unlinkat(&directory, name, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(if file.executable { 0o755 } else { 0o644 });
    let mut written = File::from(openat(&directory, name, flags, mode)?);
    io::copy(&mut io::Read::take(contents, file.size), &mut written).map(drop)
}

fn link(base: &OwnedFd, path: &Path, target: &str) -> io::Result<()> {
    let (directory, name) = below(base, path)?;
    let _ = unlinkat(&directory, name, AtFlags::empty());
    Ok(symlinkat(target, &directory, name)?)
}

/// The files of the places that are wanted. A file is of the innermost place that it is in.
fn list(directory: &Path, places: &BTreeMap<&str, bool>) -> io::Result<Vec<ModuleFile>> {
    let mut files = Vec::new();
    let mut waiting = vec![(directory.join("node_modules"), "node_modules".to_owned(), false)];
    while let Some((directory, inside, wanted)) = waiting.pop() {
        let wanted = places.get(inside.as_str()).copied().unwrap_or(wanted);
        for found in std::fs::read_dir(&directory)? {
            let found = found?;
            let metadata = found.metadata()?;
            let name = found.file_name();
            let name = name.to_str().ok_or(io::ErrorKind::InvalidData)?;
            let path = format!("{inside}/{name}");
            if metadata.is_dir() {
                waiting.push((found.path(), path, wanted));
            } else if metadata.is_file() && wanted {
                let executable = metadata.permissions().mode() & 0o100 != 0;
                files.push(ModuleFile {
                    path: found.path(),
                    inside: path.into(),
                    size: metadata.len(),
                    executable,
                });
            }
        }
    }
    Ok(files)
}
