//! What an entry holds: `manifest.json`.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::error::CacheError;

const NAME: &str = "manifest.json";
const FORMAT: u32 = 1;
const READ_ONLY: u32 = 0o444;
/// A tool stays one.
const EXECUTABLE: u32 = 0o111;

#[derive(PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: u32,
    /// What is directly in the entry. Trees count as one item, so that opening an entry of a thousand files
    /// is cheap.
    items: BTreeMap<String, Item>,
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Item {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    tree: bool,
    size: u64,
    blake3: String,
}

impl Manifest {
    /// Makes every file below `entry` read-only and durable, and writes the manifest.
    pub(super) fn seal(entry: &Path) -> Result<(), CacheError> {
        let manifest = Self::survey(entry, &mut |path| {
            let executable = fs::metadata(path)?.permissions().mode() & EXECUTABLE;
            fs::set_permissions(path, Permissions::from_mode(READ_ONLY | executable))
        })?;
        let path = entry.join(NAME);
        let json = serde_json::to_vec_pretty(&manifest).map_err(io::Error::from);
        let written = json.and_then(|json| {
            fs::write(&path, json)?;
            fs::set_permissions(&path, Permissions::from_mode(READ_ONLY))
        });
        written.map_err(|error| CacheError::io(&path, error))?;
        sync(entry)
    }

    /// Whether the directory is an entry at all, whole or damaged.
    pub(super) fn is_in(entry: &Path) -> bool {
        entry.join(NAME).is_file()
    }

    /// Whether the entry is there with all its items, and its files have their sizes. Says nothing of their
    /// contents.
    pub(super) fn is_complete(entry: &Path) -> bool {
        let Ok(manifest) = Self::read(entry) else { return false };
        manifest.format == FORMAT
            && manifest.items.iter().all(|(name, item)| match fs::symlink_metadata(entry.join(name)) {
                Ok(found) if item.tree => found.is_dir(),
                Ok(found) => found.is_file() && found.len() == item.size,
                Err(_) => false,
            })
    }

    /// Reads every byte below `entry`.
    pub(super) fn verify(entry: &Path) -> Result<(), CacheError> {
        let damaged = |what: String| CacheError::Damaged { entry: entry.to_owned(), what };
        let expected = Self::read(entry).map_err(|error| damaged(format!("{NAME}: {error}")))?;
        let found = Self::survey(entry, &mut |_| Ok(()))?;
        if expected.format != FORMAT {
            return Err(damaged(format!("{NAME} has format {}", expected.format)));
        }
        let names = expected.items.keys().chain(found.items.keys());
        match names.into_iter().find(|name| expected.items.get(*name) != found.items.get(*name)) {
            Some(name) => Err(damaged(name.clone())),
            None => Ok(()),
        }
    }

    /// The hash of a tree in the entry, as it was when it was made.
    pub(super) fn tree(entry: &Path, name: &str) -> Option<String> {
        let mut manifest = Self::read(entry).ok()?;
        manifest.items.remove(name).filter(|item| item.tree).map(|item| item.blake3)
    }

    fn read(entry: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(entry.join(NAME))?)?)
    }

    fn survey(entry: &Path, visit: &mut dyn FnMut(&Path) -> io::Result<()>) -> Result<Self, CacheError> {
        let mut items = BTreeMap::new();
        for name in names(entry)?.into_iter().filter(|name| name != NAME) {
            let mut walk = Walk { hasher: blake3::Hasher::new(), size: 0, visit };
            let path = entry.join(&name);
            let tree = path.is_dir();
            walk.enter(&path, "")?;
            items.insert(
                name,
                Item { tree, size: walk.size, blake3: walk.hasher.finalize().to_hex().to_string() },
            );
        }
        Ok(Self { format: FORMAT, items })
    }
}

/// A hash over all names and contents below a directory: what an entry's manifest says of such a tree.
///
/// # Errors
/// If something can't be read, or is neither a file nor a directory.
pub fn hash_tree(directory: &Path) -> Result<String, CacheError> {
    let mut walk = Walk { hasher: blake3::Hasher::new(), size: 0, visit: &mut |_| Ok(()) };
    walk.enter(directory, "")?;
    Ok(walk.hasher.finalize().to_hex().to_string())
}

struct Walk<'v> {
    hasher: blake3::Hasher,
    size: u64,
    visit: &'v mut dyn FnMut(&Path) -> io::Result<()>,
}

impl Walk<'_> {
    /// `inside` is the path within the item; it is hashed, so that renaming a file is found.
    fn enter(&mut self, path: &Path, inside: &str) -> Result<(), CacheError> {
        let failed = |error| CacheError::io(path, error);
        let found = fs::symlink_metadata(path).map_err(failed)?;
        if found.is_dir() {
            for name in names(path)? {
                self.enter(&path.join(&name), &format!("{inside}/{name}"))?;
            }
        } else if found.is_file() {
            self.hasher.update(&(inside.len() as u64).to_le_bytes()).update(inside.as_bytes());
            self.hasher.update(&found.len().to_le_bytes());
            self.hasher.update_reader(File::open(path).map_err(failed)?).map_err(failed)?;
            self.size += found.len();
            (self.visit)(path).map_err(failed)?;
        } else {
            return Err(failed(io::Error::other("neither a file nor a directory")));
        }
        Ok(())
    }
}

/// One call for the whole file system: for a thousand small files that is thirty times faster than one for each.
#[cfg(target_os = "linux")]
fn sync(entry: &Path) -> Result<(), CacheError> {
    let synced = File::open(entry).and_then(|directory| Ok(rustix::fs::syncfs(directory)?));
    synced.map_err(|error| CacheError::io(entry, error))
}

#[cfg(not(target_os = "linux"))]
fn sync(path: &Path) -> Result<(), CacheError> {
    if path.is_dir() {
        for name in names(path)? {
            sync(&path.join(name))?;
        }
    }
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| CacheError::io(path, error))
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Result<Vec<String>, CacheError> {
    let failed = |error| CacheError::io(directory, error);
    let mut names = Vec::new();
    for found in fs::read_dir(directory).map_err(failed)? {
        let name = found.map_err(failed)?.file_name().into_string();
        names.push(name.map_err(|_| failed(io::Error::other("a file name isn't UTF-8")))?);
    }
    names.sort();
    Ok(names)
}
