//! All of a tree at one moment.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::contents::{Body, Contents};
use super::entry::{Entry, Kind};
use super::ground::Ground;
use super::manifest::{self, SavedEntry, SavedKind};
use super::objects::Objects;

/// A tree as it was, with all contents. It is cheap to clone, and valid as long as it lives.
#[derive(Clone, Debug)]
pub struct Moment {
    entries: Arc<BTreeMap<Vec<u8>, Entry>>,
}

impl Moment {
    pub(super) fn new(entries: BTreeMap<Vec<u8>, Entry>) -> Self {
        Self { entries: Arc::new(entries) }
    }

    pub(super) fn entries(&self) -> &BTreeMap<Vec<u8>, Entry> {
        &self.entries
    }

    /// Bytes of all contents, but for holes.
    pub fn bytes(&self) -> u64 {
        let files = self.entries.values().filter(|entry| matches!(entry.kind, Kind::File(_)));
        files.map(|entry| entry.stamp.size.min(entry.stamp.blocks.saturating_mul(512))).sum()
    }

    /// Files, directories and links.
    pub fn files(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Saves contents among objects, and returns what [`load`](Self::load) needs to find them: a manifest with a version
    /// and a checksum. [`Objects::hold`] keeps them from being collected until it is stored.
    pub fn save(&self, objects: &Objects) -> io::Result<Vec<u8>> {
        let _hold = objects.hold()?;
        let mut saved = Vec::new();
        for (path, entry) in &*self.entries {
            let kind = match &entry.kind {
                Kind::Directory => SavedKind::Directory,
                Kind::Link(target) => SavedKind::Link(target.clone()),
                Kind::File(Some(contents)) => {
                    SavedKind::File { size: contents.size, digest: objects.save(contents)? }
                }
                Kind::File(None) | Kind::Other => continue,
            };
            let (mode, modified) = (entry.stamp.rights(), entry.stamp.modified);
            saved.push(SavedEntry { path: path.clone(), mode, modified, kind });
        }
        manifest::write(&saved)
    }

    /// Reads a manifest. Contents are looked for now, and checked when they are put back.
    pub fn load(manifest: &[u8], objects: &Objects) -> io::Result<Self> {
        let mut known = HashMap::new();
        let mut entries = BTreeMap::new();
        for saved in manifest::read(manifest)? {
            let kind = match &saved.kind {
                SavedKind::Directory => Kind::Directory,
                SavedKind::Link(target) => Kind::Link(target.clone()),
                SavedKind::File { size, digest } => {
                    let contents = match known.get(&(*digest, *size)) {
                        Some(known) => Arc::clone(known),
                        None => {
                            let object = objects.object(*digest);
                            if object.open()?.metadata()?.len() != *size {
                                let what = "an object has another size than it should have";
                                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                            }
                            let contents = Arc::new(Contents::new(*size, Body::Object(object)));
                            known.insert((*digest, *size), Arc::clone(&contents));
                            contents
                        }
                    };
                    Kind::File(Some(contents))
                }
            };
            let stamp = saved.stamp(&kind);
            entries.insert(saved.path, Entry { stamp, kind, recent: true });
        }
        Ok(Self::new(entries))
    }

    /// Writes everything into an empty directory.
    pub fn write_to(&self, directory: OwnedFd) -> io::Result<()> {
        let ground = Ground::new(directory)?;
        for (path, entry) in &*self.entries {
            ground.put(path, entry)?;
        }
        for (path, entry) in self.entries.iter().rev() {
            if entry.is_directory() {
                ground.set_mode(path, entry.stamp.rights())?;
            }
        }
        Ok(())
    }
}
