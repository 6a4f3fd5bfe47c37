use super::FileSystem;
use crate::handle::{HostPlace, Node, OpenFile};
use crate::mount::MountId;
use crate::tree::InodeId;
use crate::{Handle, Result, host};

/// A moved directory is noted file by file, up to this many.
const MOVED_LIMIT: usize = 20_000;

impl FileSystem {
    pub(super) fn record_created_in_memory(&mut self, directory: InodeId, name: &str) {
        match self.tree.path_of(directory, name) {
            Some(path) => self.changes.created(path),
            None => self.changes.truncate(),
        }
    }

    pub(super) fn record_deleted_in_memory(&mut self, directory: InodeId, name: &str) {
        match self.tree.path_of(directory, name) {
            Some(path) => self.changes.deleted(path),
            None => self.changes.truncate(),
        }
    }

    /// Notes a write through a handle, once until the changes are next taken.
    pub(super) fn record_handle_write(&mut self, handle: Handle, file: &OpenFile) -> Result<()> {
        let epoch = self.changes.epoch();
        if file.recorded != epoch {
            self.record_write(file);
            self.handles.get_mut(handle)?.recorded = epoch;
        }
        Ok(())
    }

    /// Notes that an open file was written. One without a name isn't anybody's change.
    pub(super) fn record_write(&mut self, file: &OpenFile) {
        let path = match &file.node {
            Node::Memory { name: Some((directory, name)), .. } => self.tree.path_of(*directory, name),
            Node::Host { mount, place: HostPlace::Path(path), .. } => {
                self.mounts.get(*mount).ok().map(|mount| mount.guest_path_of(path))
            }
            _ => return,
        };
        match path {
            Some(path) => self.changes.modified(path),
            None => self.changes.truncate(),
        }
    }

    /// Notes that a directory in memory has moved, with all files in it.
    pub(super) fn record_moved_in_memory(&mut self, directory: InodeId, old: &str, new: &str) {
        let files = self.tree.files_below(directory, MOVED_LIMIT);
        self.record_moved(files, old, new);
    }

    /// Notes that a directory in a mount has moved to `path`, with all files in it.
    pub(super) fn record_moved_on_host(&mut self, mount: MountId, path: &str, old: &str, new: &str) {
        let files =
            self.mounts.get(mount).and_then(|mount| host::files_below(mount.dir()?, path, MOVED_LIMIT));
        self.record_moved(files, old, new);
    }

    fn record_moved(&mut self, files: Result<Vec<String>>, old: &str, new: &str) {
        let Ok(files) = files else {
            return self.changes.truncate();
        };
        for file in files {
            self.changes.deleted(format!("{old}/{file}"));
            self.changes.created(format!("{new}/{file}"));
        }
    }
}
