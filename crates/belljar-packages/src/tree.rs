//! A directory that is filled with the files of one package, within limits.

use std::{
    collections::{HashMap, hash_map},
    fs::{self, File, Permissions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{error::PackageError, file_name, limits::Limits};

const BUFFER: usize = 64 << 10;

/// Takes files one by one, and refuses the package with the first that is wrong.
pub(crate) struct Tree<'p> {
    root: PathBuf,
    /// What the files come from; for errors.
    origin: &'p Path,
    limits: Limits,
    entries: u64,
    bytes: u64,
    /// By its name in lower case: the name, and whether it is a directory.
    seen: HashMap<String, (String, bool)>,
}

impl<'p> Tree<'p> {
    pub(crate) fn new(root: &Path, origin: &'p Path, limits: Limits) -> Self {
        Self { root: root.to_owned(), origin, limits, entries: 0, bytes: 0, seen: HashMap::new() }
    }

    /// Writes a file, and returns its hash.
    pub(crate) fn write(&mut self, name: &str, content: &mut dyn Read) -> Result<[u8; 32], PackageError> {
        let path = self.admit(name)?;
        // Never through something that an earlier file made.
        let mut file = File::create_new(&path).map_err(|error| PackageError::write(&path, error))?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; BUFFER];
        let mut length = 0;
        loop {
            let read = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.refuse(format!("`{name}` is damaged: {error}"))),
            };
            length += read as u64;
            self.charge(name, read as u64, length)?;
            hasher.update(&buffer[..read]);
            file.write_all(&buffer[..read]).map_err(|error| PackageError::write(&path, error))?;
        }
        Ok(hasher.finalize().into())
    }

    /// Takes a file over that was written by another program on the same file system.
    pub(crate) fn adopt(&mut self, name: &str, from: &Path) -> Result<(), PackageError> {
        let path = self.admit(name)?;
        let failed = |error| PackageError::write(&path, error);
        let length = fs::symlink_metadata(from).map_err(failed)?.len();
        self.charge(name, length, length)?;
        fs::set_permissions(from, Permissions::from_mode(0o644)).map_err(failed)?;
        fs::rename(from, &path).map_err(failed)
    }

    /// Has a file that was taken be a program.
    pub(crate) fn make_executable(&self, name: &str) -> Result<(), PackageError> {
        let inside = file_name::inside(name, self.limits.depth);
        let path =
            self.root.join(inside.map_err(|reason| self.refuse(format!("`{}` {reason}", shown(name))))?);
        fs::set_permissions(&path, Permissions::from_mode(0o755))
            .map_err(|error| PackageError::write(&path, error))
    }

    /// Checks the name, and makes the directories above.
    fn admit(&mut self, name: &str) -> Result<PathBuf, PackageError> {
        let refuse = |reason: &str| PackageError::refused(self.origin, format!("`{}` {reason}", shown(name)));
        let relative = file_name::inside(name, self.limits.depth).map_err(refuse)?;
        let text = relative.to_string_lossy().into_owned();
        let ends = text.match_indices('/').map(|(end, _)| (end, true)).chain([(text.len(), false)]);
        for (end, directory) in ends.collect::<Vec<_>>() {
            let part = &text[..end];
            match self.seen.entry(part.to_lowercase()) {
                hash_map::Entry::Occupied(known) => {
                    let (spelled, was_directory) = known.get();
                    if spelled != part {
                        return Err(refuse(&format!("and `{}` differ only by case", shown(spelled))));
                    }
                    if !(directory && *was_directory) {
                        return Err(refuse("is there twice"));
                    }
                }
                hash_map::Entry::Vacant(new) => {
                    new.insert((part.to_owned(), directory));
                    self.entries += 1;
                    if self.entries > self.limits.entries {
                        let reason =
                            format!("it has more than {} files and directories", self.limits.entries);
                        return Err(self.refuse(reason));
                    }
                }
            }
        }
        let path = self.root.join(relative);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| PackageError::write(parent, error))?;
        }
        Ok(path)
    }

    fn charge(&mut self, name: &str, more: u64, length: u64) -> Result<(), PackageError> {
        self.bytes += more;
        if length > self.limits.file_bytes {
            let most = self.limits.file_bytes;
            return Err(self.refuse(format!("`{}` unpacks to more than {most} bytes", shown(name))));
        }
        match self.bytes > self.limits.bytes {
            true => Err(self.refuse(format!("it unpacks to more than {} bytes", self.limits.bytes))),
            false => Ok(()),
        }
    }

    fn refuse(&self, reason: String) -> PackageError {
        PackageError::refused(self.origin, reason)
    }
}

/// All files below `root`, sorted, by their paths from there. Links and devices are refused, and directories that
/// `enter` doesn't want are passed over.
pub(crate) fn walk(
    root: &Path,
    limits: &Limits,
    enter: &dyn Fn(&str) -> bool,
) -> Result<Vec<(String, PathBuf)>, PackageError> {
    let mut files = Vec::new();
    let mut left = vec![(String::new(), root.to_owned())];
    while let Some((prefix, directory)) = left.pop() {
        let failed = |error: std::io::Error| PackageError::unreadable(&directory, error);
        for found in fs::read_dir(&directory).map_err(failed)? {
            let found = found.map_err(failed)?;
            let odd =
                |reason: &str| PackageError::refused(root, format!("`{}` {reason}", found.path().display()));
            let name = found.file_name().into_string().map_err(|_| odd("has a name that isn't UTF-8"))?;
            let inside = format!("{prefix}{name}");
            let kind = found.file_type().map_err(failed)?;
            if kind.is_dir() {
                if inside.matches('/').count() >= limits.depth {
                    return Err(odd("is nested too deeply"));
                }
                if enter(&inside) {
                    left.push((format!("{inside}/"), found.path()));
                }
            } else if kind.is_file() {
                files.push((inside, found.path()));
            } else if kind.is_symlink() {
                return Err(odd("is a link"));
            } else {
                return Err(odd("is neither a file nor a directory"));
            }
            if (files.len() + left.len()) as u64 > limits.entries {
                return Err(PackageError::refused(
                    root,
                    format!("it has more than {} files", limits.entries),
                ));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Opens all directories below `root` to everybody, as their files are: who runs sessions may be somebody else.
pub(crate) fn open_directories(root: &Path) -> std::io::Result<()> {
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        if fs::symlink_metadata(&directory)?.permissions().mode() & 0o777 != 0o755 {
            fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
        }
        for found in fs::read_dir(&directory)? {
            let found = found?;
            if found.file_type()?.is_dir() {
                left.push(found.path());
            }
        }
    }
    Ok(())
}

/// A name that is fit to be printed.
fn shown(name: &str) -> String {
    let short: String = name.chars().take(120).collect();
    short.escape_debug().to_string()
}
