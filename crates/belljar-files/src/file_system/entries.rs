use std::sync::Arc;

use super::FileSystem;
use super::resolve::{Ending, Found, Last, Position};
use crate::handle::{HostPlace, Node};
use crate::path::check;
use crate::tree::{Inode, Kind};
use crate::{DirectoryEntry, DirectoryStream, Errno, FileType, Handle, Result, host};

impl FileSystem {
    /// The names in a directory, as they are now.
    pub fn read_directory(&mut self, handle: Handle) -> Result<DirectoryStream> {
        let file = self.handles.get(handle)?;
        if !file.access.directory {
            return Err(Errno::NotDirectory);
        }
        match &file.node {
            Node::Memory { inode, .. } => {
                let entries = self.tree.directory(*inode)?.entries.clone();
                Ok(DirectoryStream::shared(entries))
            }
            Node::Host { mount, place, .. } => {
                let HostPlace::Path(path) = place else {
                    return Ok(DirectoryStream::held(Vec::new()));
                };
                let mounted = self.mounts.get(*mount)?;
                let mut entries = host::list(mounted.dir()?, path)?;
                if !mounted.inner.is_empty() {
                    let directory = self.real_host_directory(*mount, path)?;
                    for name in mounted.inner.iter().filter_map(|inner| inner.step_below(&directory)) {
                        // What the host has there is hidden, unless it is a directory on the way.
                        entries.retain(|entry| entry.name != name);
                        let name = name.to_owned();
                        entries.push(DirectoryEntry { name, file_type: FileType::Directory });
                    }
                }
                Ok(DirectoryStream::held(entries))
            }
        }
    }

    /// Makes a directory.
    pub fn make_directory_at(&mut self, directory: Handle, path: &str) -> Result<()> {
        self.make_directory(self.position(directory)?, path)
    }

    /// Makes a symbolic link at `path`. `target` is kept as it is; in a mount it can't be absolute, unless that is
    /// the workspace.
    pub fn symlink_at(&mut self, target: &str, directory: Handle, path: &str) -> Result<()> {
        check(target)?;
        match self.resolve_vacant(self.position(directory)?, path)? {
            Vacant::Memory { directory, name } => {
                let link = Inode::new(Kind::Symlink(target.into()), self.clock);
                self.tree.create(directory, &name, link, &mut self.ledger)?;
                self.record_created_in_memory(directory, &name);
            }
            Vacant::Host { mount, path } => {
                self.mounts.get(mount)?.writable_dir()?;
                self.charge_host(mount, 0, 1)?;
                let mounted = self.mounts.get(mount)?;
                let dir = mounted.writable_dir()?;
                let made = match mounted.is_workspace {
                    true => dir.symlink_contents(target, &path),
                    false => dir.symlink(target, &path),
                };
                if let Err(error) = made {
                    self.credit_host(mount, 0, 1);
                    return Err(error.into());
                }
                self.changes.created(mounted.guest_path_of(&path));
            }
        }
        Ok(())
    }

    /// Gives the file at `old_path` another name; `follow` concerns a symbolic link there.
    pub fn link_at(
        &mut self,
        old_directory: Handle,
        old_path: &str,
        follow: bool,
        new_directory: Handle,
        new_path: &str,
    ) -> Result<()> {
        let last = if follow { Last::Follow } else { Last::NoFollow };
        let old = self.resolve(self.position(old_directory)?, old_path, last)?;
        let mut is_directory = false;
        match &old {
            Found::Entry { inode: None, .. } => return Err(Errno::NoEntry),
            Found::Host { mount, path, slash, .. } => {
                let dir = self.mounts.get(*mount)?.dir()?;
                is_directory = host::stat(dir, path, follow || *slash)?.is_dir();
                if *slash && !is_directory {
                    return Err(Errno::NotDirectory);
                }
            }
            _ => {}
        }
        let new = self.resolve_vacant(self.position(new_directory)?, new_path)?;
        match (old, new) {
            (Found::Directory { .. }, Vacant::Memory { .. }) => Err(Errno::NotPermitted),
            (Found::Entry { inode: Some(inode), .. }, Vacant::Memory { directory, name }) => {
                self.tree.link(directory, &name, inode, self.clock, &mut self.ledger)?;
                self.record_created_in_memory(directory, &name);
                Ok(())
            }
            (Found::Host { mount, path: old, .. }, Vacant::Host { mount: new_mount, path: new })
                if mount == new_mount =>
            {
                let mount = self.mounts.get(mount)?;
                let dir = mount.writable_dir()?;
                if is_directory {
                    let is_taken = host::stat(dir, &new, false).is_ok();
                    return Err(if is_taken { Errno::Exist } else { Errno::NotPermitted });
                }
                let old = if follow { host::canonicalise(dir, &old)? } else { old };
                dir.hard_link(&old, dir, &new)?;
                self.changes.created(mount.guest_path_of(&new));
                Ok(())
            }
            _ => Err(Errno::CrossDevice),
        }
    }

    /// The target of a symbolic link. An absolute one in a mount isn't told, unless that is the workspace: it names a
    /// host path.
    pub fn read_link_at(&mut self, directory: Handle, path: &str) -> Result<String> {
        self.read_link_from(self.position(directory)?, path)
    }

    /// The target of the symbolic link at an absolute path.
    pub(super) fn resolve_link(&self, path: &str) -> Result<String> {
        self.read_link_from(Position::ROOT, path)
    }

    fn read_link_from(&self, start: Position, path: &str) -> Result<String> {
        match self.resolve(start, path, Last::NoFollow)? {
            Found::Directory { .. } => Err(Errno::Invalid),
            Found::Entry { inode: None, .. } => Err(Errno::NoEntry),
            Found::Entry { inode: Some(inode), .. } => match &self.tree.inode(inode)?.kind {
                Kind::Symlink(target) => Ok(target.to_string()),
                Kind::Regular(_) | Kind::Directory(_) => Err(Errno::Invalid),
            },
            Found::Host { mount, path, slash, .. } => {
                let dir = self.mounts.get(mount)?.dir()?;
                if slash {
                    // What a slash follows is a directory, or nothing.
                    self.real_host_directory(mount, &path)?;
                    return Err(Errno::Invalid);
                }
                if path.is_empty() {
                    return Err(Errno::Invalid);
                }
                let target = match self.mounts.get(mount)?.is_workspace {
                    true => dir.read_link_contents(&path)?,
                    false => dir.read_link(&path)?,
                };
                target.into_os_string().into_string().map_err(|_| Errno::IllegalByteSequence)
            }
        }
    }

    pub(super) fn make_directory(&mut self, start: Position, path: &str) -> Result<()> {
        match self.resolve_new(start, path, true)? {
            Vacant::Memory { directory, name } => {
                let made = Inode::new_directory(directory, &name, self.clock);
                self.tree.create(directory, &name, made, &mut self.ledger)?;
            }
            Vacant::Host { mount, path } => {
                self.mounts.get(mount)?.writable_dir()?;
                self.charge_host(mount, 0, 1)?;
                if let Err(error) = self.mounts.get(mount)?.writable_dir()?.create_dir(&path) {
                    self.credit_host(mount, 0, 1);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    fn resolve_vacant(&self, start: Position, path: &str) -> Result<Vacant> {
        self.resolve_new(start, path, false)
    }

    /// Where something new is to be. In memory it is known to be free; in a mount the host will say.
    fn resolve_new(&self, start: Position, path: &str, is_directory: bool) -> Result<Vacant> {
        let found = self.resolve(start, path, Last::Entry)?;
        if found.ending() != Ending::Name {
            return Err(Errno::Exist);
        }
        match found {
            Found::Directory { .. } | Found::Entry { inode: Some(_), .. } => Err(Errno::Exist),
            // Only a directory can have a slash after its name.
            Found::Entry { slash: true, .. } if !is_directory => Err(Errno::NoEntry),
            Found::Host { mount, path, slash: true, .. } if !is_directory => {
                host::stat(self.mounts.get(mount)?.dir()?, &path, false)?;
                Err(Errno::Exist)
            }
            // A removed directory that a handle still holds takes no new names.
            Found::Entry { directory, .. } if self.tree.inode(directory)?.links == 0 => Err(Errno::NoEntry),
            Found::Entry { directory, name, .. } => {
                self.check_unsealed(directory)?;
                Ok(Vacant::Memory { directory, name })
            }
            Found::Host { mount, path, .. } => Ok(Vacant::Host { mount, path }),
        }
    }
}

enum Vacant {
    Memory { directory: crate::tree::InodeId, name: Arc<str> },
    Host { mount: crate::mount::MountId, path: String },
}
