use super::FileSystem;
use super::resolve::{Found, Last, Position};
use crate::handle::{HostPlace, Node};
use crate::host::{Create, HostOpen};
use crate::mount::MountId;
use crate::tree::InodeId;
use crate::{Errno, FileType, Handle, Metadata, Result, SetTime, Timestamp, host};

impl FileSystem {
    /// What an open handle is on.
    pub fn stat(&mut self, handle: Handle) -> Result<Metadata> {
        let file = self.handles.get(handle)?;
        match &file.node {
            Node::Memory { inode, .. } => Ok(self.tree.inode(*inode)?.metadata(*inode)),
            Node::Host { mount, place, .. } if file.access.directory => {
                let HostPlace::Path(path) = place else {
                    return Err(Errno::NoEntry);
                };
                let dir = self.mounts.get(*mount)?.dir()?;
                Ok(host::metadata(&host::stat(dir, path, true)?, mount.device()))
            }
            Node::Host { mount, .. } => {
                let device = mount.device();
                let metadata = self.descriptor(handle)?.file.metadata()?;
                Ok(host::metadata(&metadata, device))
            }
        }
    }

    /// What a path leads to; with `follow` false, a symbolic link itself.
    pub fn stat_at(&mut self, directory: Handle, path: &str, follow: bool) -> Result<Metadata> {
        self.stat_from(self.position(directory)?, path, follow)
    }

    /// Sets the times of what a handle is on.
    pub fn set_times(&mut self, handle: Handle, accessed: SetTime, modified: SetTime) -> Result<()> {
        let (accessed, modified) = self.times(accessed, modified)?;
        let file = self.handles.get(handle)?;
        match &file.node {
            Node::Memory { inode, .. } => self.set_memory_times(*inode, accessed, modified),
            Node::Host { mount, place, .. } if file.access.directory => {
                let HostPlace::Path(path) = place else {
                    return Err(Errno::NoEntry);
                };
                self.set_host_times(*mount, path, true, accessed, modified)
            }
            Node::Host { mount, .. } => {
                self.mounts.get(*mount)?.writable_dir()?;
                host::set_times(&self.descriptor(handle)?.file, accessed, modified)
            }
        }
    }

    /// Sets the times of what a path leads to; with `follow` false, of a symbolic link itself.
    pub fn set_times_at(
        &mut self,
        directory: Handle,
        path: &str,
        follow: bool,
        accessed: SetTime,
        modified: SetTime,
    ) -> Result<()> {
        let (accessed, modified) = self.times(accessed, modified)?;
        match self.resolve(self.position(directory)?, path, last(follow))? {
            Found::Directory { inode, .. } | Found::Entry { inode: Some(inode), .. } => {
                self.set_memory_times(inode, accessed, modified)
            }
            Found::Entry { inode: None, .. } => Err(Errno::NoEntry),
            Found::Host { mount, path, slash, .. } => {
                self.set_host_times(mount, &path, follow || slash, accessed, modified)
            }
        }
    }

    pub(super) fn stat_from(&self, start: Position, path: &str, follow: bool) -> Result<Metadata> {
        self.stat_found(self.resolve(start, path, last(follow))?, follow)
    }

    pub(super) fn stat_found(&self, found: Found, follow: bool) -> Result<Metadata> {
        match found {
            Found::Directory { inode, .. } | Found::Entry { inode: Some(inode), .. } => {
                Ok(self.tree.inode(inode)?.metadata(inode))
            }
            Found::Entry { inode: None, .. } => Err(Errno::NoEntry),
            Found::Host { mount, path, slash, .. } => {
                match self.stat_host(mount, &path, slash, follow) {
                    Err(Errno::NotPermitted) => {}
                    stat => return stat,
                }
                match self.beyond_mount(mount, &path, slash, last(follow))? {
                    Found::Host { mount, path, slash, .. } => self.stat_host(mount, &path, slash, follow),
                    in_memory => self.stat_found(in_memory, follow),
                }
            }
        }
    }

    fn stat_host(&self, mount: MountId, path: &str, slash: bool, follow: bool) -> Result<Metadata> {
        let dir = self.mounts.get(mount)?.dir()?;
        let found = host::stat(dir, path, follow || slash)?;
        if slash && !found.is_dir() {
            return Err(Errno::NotDirectory);
        }
        Ok(host::metadata(&found, mount.device()))
    }

    fn set_memory_times(
        &mut self,
        inode: InodeId,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        let now = self.clock;
        let inode = self.tree.inode_mut(inode)?;
        inode.accessed = accessed.unwrap_or(inode.accessed);
        inode.modified = modified.unwrap_or(inode.modified);
        inode.changed = now;
        Ok(())
    }

    fn set_host_times(
        &self,
        mount: MountId,
        path: &str,
        follow: bool,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        let dir = self.mounts.get(mount)?.writable_dir()?;
        let is_symlink = || -> Result<bool> {
            let found = host::stat(dir, path, false)?;
            Ok(host::file_type(found.file_type()) == FileType::Symlink)
        };
        if !follow && is_symlink()? {
            return host::set_symlink_times(dir, path, accessed, modified);
        }
        // Not by path: that would open a FIFO and wait.
        let how = HostOpen { read: true, write: false, create: Create::Never, follow: true };
        let (file, _) = host::open(dir, path, how)?;
        host::set_times(&file, accessed, modified)
    }

    fn times(&self, accessed: SetTime, modified: SetTime) -> Result<(Option<Timestamp>, Option<Timestamp>)> {
        let time = |time: SetTime| match time.resolve(self.clock) {
            Some(time) if time.nanoseconds > 999_999_999 => Err(Errno::Invalid),
            time => Ok(time),
        };
        Ok((time(accessed)?, time(modified)?))
    }
}

fn last(follow: bool) -> Last {
    if follow { Last::Follow } else { Last::NoFollow }
}
