use std::borrow::Cow;
use std::sync::Arc;

use cap_std::fs::Dir;

use super::FileSystem;
use super::resolve::{Ending, Found, Last, Position};
use crate::handle::{Descriptor, HostPlace, Node, OpenFile};
use crate::host::{Create, HostOpen};
use crate::mount::MountId;
use crate::tree::{Content, Inode, InodeId, Kind, Tree};
use crate::{Access, Errno, Handle, HandleAccess, OpenOptions, Result, host};

impl FileSystem {
    /// Opens the root directory.
    pub fn root(&mut self) -> Result<Handle> {
        self.handles.insert(Self::open_root())
    }

    pub(super) fn open_root() -> OpenFile {
        open_directory(Node::Memory { inode: Tree::ROOT, name: None })
    }

    /// Opens a path relative to a directory.
    pub fn open_at(&mut self, directory: Handle, path: &str, options: OpenOptions) -> Result<Handle> {
        let start = self.position(directory)?;
        self.handles.check_room()?;
        let file = self.open(start, path, options)?;
        self.handles.insert(file)
    }

    /// Closes a handle. A file that has no name any more goes with its last handle.
    pub fn close(&mut self, handle: Handle) -> Result<()> {
        let file = self.handles.remove(handle)?;
        match file.node {
            Node::Memory { inode, .. } => self.reap(inode),
            Node::Host { mount, place: HostPlace::Unlinked(number), descriptor: Some(descriptor) } => {
                self.release_unlinked(mount, number, &descriptor)
            }
            Node::Host { .. } => {}
        }
        Ok(())
    }

    /// What a handle allows.
    pub fn access(&self, handle: Handle) -> Result<HandleAccess> {
        Ok(self.handles.get(handle)?.access)
    }

    pub(super) fn open(&mut self, start: Position, path: &str, options: OpenOptions) -> Result<OpenFile> {
        if (options.truncate && !options.write) || (options.create && options.directory) {
            return Err(Errno::Invalid);
        }
        let exclusive = options.create && options.exclusive;
        if options.create && path.ends_with(['/', '.']) {
            // Perhaps it asks for a directory, which isn't made this way, whatever is there.
            match self.resolve(start.clone(), path, Last::Entry)?.ending() {
                Ending::Name if path.ends_with('/') => return Err(Errno::IsDirectory),
                Ending::Name => {}
                _ if exclusive => return Err(Errno::Exist),
                _ => return Err(Errno::IsDirectory),
            }
        }
        let last = if options.follow_symlinks && !exclusive { Last::Follow } else { Last::NoFollow };
        match self.resolve(start, path, last)? {
            Found::Host { slash: true, .. } if exclusive => Err(Errno::Exist),
            Found::Entry { slash: true, .. } | Found::Host { slash: true, .. } if options.create => {
                Err(Errno::IsDirectory)
            }
            Found::Entry { directory, name, inode: Some(inode), .. } => {
                self.open_memory(inode, Some((directory, name)), options)
            }
            Found::Directory { inode, .. } => self.open_memory(inode, None, options),
            Found::Entry { directory, name, inode: None, .. } => self.create_memory(directory, name, options),
            Found::Host { mount, path, slash, .. } => {
                match self.open_host(mount, &path, slash, options) {
                    Err(Errno::NotPermitted) => {}
                    opened => return opened,
                }
                match self.beyond_mount(mount, &path, slash, last)? {
                    Found::Entry { slash: true, .. } | Found::Host { slash: true, .. } if options.create => {
                        Err(Errno::IsDirectory)
                    }
                    Found::Host { mount, path, slash, .. } => self.open_host(mount, &path, slash, options),
                    Found::Entry { directory, name, inode: Some(inode), .. } => {
                        self.open_memory(inode, Some((directory, name)), options)
                    }
                    Found::Directory { inode, .. } => self.open_memory(inode, None, options),
                    Found::Entry { inode: None, .. } => Err(Errno::NoEntry),
                }
            }
        }
    }

    /// The host file of an open handle, opened again if need be.
    pub(super) fn descriptor(&mut self, handle: Handle) -> Result<Arc<Descriptor>> {
        let file = self.handles.get(handle)?;
        let Node::Host { mount, place, descriptor } = &file.node else {
            return Err(Errno::BadDescriptor);
        };
        if let Some(descriptor) = descriptor.clone() {
            self.handles.touch(&descriptor);
            return Ok(descriptor);
        }
        let HostPlace::Path(path) = place else {
            return Err(Errno::Io);
        };
        let how = HostOpen {
            read: file.access.read,
            write: file.access.write,
            create: Create::Never,
            follow: true,
        };
        let dir = self.mounts.get(*mount)?.dir()?;
        // The guest holds a file that it opened; that it is gone now is no fault of its path.
        let (opened, metadata) = host::open(dir, path, how).map_err(|_| Errno::Io)?;
        if !metadata.is_file() {
            return Err(Errno::Io);
        }
        let opened = Descriptor::new(opened, &metadata);
        self.handles.make_descriptor_room()?;
        self.handles.touch(&opened);
        if let Node::Host { descriptor, .. } = &mut self.handles.get_mut(handle)?.node {
            *descriptor = Some(opened.clone());
        }
        Ok(opened)
    }

    fn open_memory(
        &mut self,
        inode: InodeId,
        name: Option<(InodeId, Arc<str>)>,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        if options.create && options.exclusive {
            return Err(Errno::Exist);
        }
        let size = match &self.tree.inode(inode)?.kind {
            Kind::Directory(_) if options.mutates() => return Err(Errno::IsDirectory),
            Kind::Directory(_) => {
                return Ok(open_directory(Node::Memory { inode, name: None }));
            }
            Kind::Regular(_) | Kind::Symlink(_) if options.directory => {
                return Err(Errno::NotDirectory);
            }
            Kind::Symlink(_) => return Err(Errno::Loop),
            Kind::Regular(content) => content.size(),
        };
        let file = open_file(Node::Memory { inode, name }, options);
        if options.truncate {
            self.tree.set_size(inode, 0, self.clock, &mut self.ledger)?;
            if size > 0 {
                self.record_write(&file);
            }
        }
        Ok(file)
    }

    fn create_memory(
        &mut self,
        directory: InodeId,
        name: Arc<str>,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        if !options.create {
            return Err(Errno::NoEntry);
        }
        self.check_unsealed(directory)?;
        let file = Inode::new(Kind::Regular(Content::default()), self.clock);
        let inode = self.tree.create(directory, &name, file, &mut self.ledger)?;
        self.record_created_in_memory(directory, &name);
        let name = Some((directory, name));
        Ok(open_file(Node::Memory { inode, name }, options))
    }

    fn open_host(
        &mut self,
        mount: MountId,
        path: &str,
        slash: bool,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        let mounted = self.mounts.get(mount)?;
        if options.mutates() && mounted.access == Access::ReadOnly {
            return Err(Errno::ReadOnly);
        }
        self.handles.make_descriptor_room()?;
        let mounted = self.mounts.get(mount)?;
        let dir = mounted.dir()?;
        let how = HostOpen {
            read: options.read,
            write: options.write,
            create: Create::Never,
            follow: options.follow_symlinks || slash,
        };
        let opened = if options.create && options.exclusive {
            Err(Errno::NoEntry)
        } else {
            host::open(dir, path, how)
        };
        let mut created = false;
        let (opened, metadata) = match opened {
            Err(Errno::NoEntry) if options.create => {
                if how.follow && !options.exclusive && self.is_link_to_inner_mount(mount, path)? {
                    return Err(Errno::IsDirectory);
                }
                self.charge_host(mount, 0, 1)?;
                created = true;
                create_on_host(self.mounts.get(mount)?.dir()?, path, how, options.exclusive)
                    .inspect_err(|_| self.credit_host(mount, 0, 1))?
            }
            // A link where a directory is asked for; but a loop on the way is a loop.
            Err(Errno::Loop) if options.directory && !how.follow && host::stat(dir, path, false).is_ok() => {
                return Err(Errno::NotDirectory);
            }
            opened => opened?,
        };
        let mounted = self.mounts.get(mount)?;
        // Changes are listed by the path without symbolic links, and renames are followed by it.
        let can_change = mounted.access == Access::ReadWrite;
        let path = if can_change && (options.mutates() || metadata.is_dir()) {
            Cow::Owned(host::canonicalise(mounted.dir()?, path)?)
        } else {
            Cow::Borrowed(path)
        };
        let guest_path = mounted.guest_path_of(&path);
        if created {
            self.changes.created(guest_path.clone());
        }
        if metadata.is_dir() {
            if options.mutates() {
                return Err(Errno::IsDirectory);
            }
            return Ok(open_directory(host_node(mount, &path, None)));
        }
        if slash || options.directory {
            return Err(Errno::NotDirectory);
        }
        if options.truncate && metadata.len() > 0 {
            opened.set_len(0)?;
            self.credit_host(mount, metadata.len(), 0);
            self.changes.modified(guest_path);
        }
        let descriptor = Descriptor::new(opened, &metadata);
        self.handles.touch(&descriptor);
        Ok(open_file(host_node(mount, &path, Some(descriptor)), options))
    }
}

/// Makes a file. One that has come in between, or the place that a dangling symbolic link names, is
/// opened or made too, unless it has to be new.
fn create_on_host(
    dir: &Dir,
    path: &str,
    how: HostOpen,
    exclusive: bool,
) -> Result<(cap_std::fs::File, cap_std::fs::Metadata)> {
    let attempt = |create| host::open(dir, path, HostOpen { create, ..how });
    match attempt(Create::Exclusive) {
        Err(Errno::Exist) if !exclusive => attempt(Create::IfMissing),
        result => result,
    }
}

fn host_node(mount: MountId, path: &str, descriptor: Option<Arc<Descriptor>>) -> Node {
    Node::Host { mount, place: HostPlace::Path(path.into()), descriptor }
}

fn open_file(node: Node, options: OpenOptions) -> OpenFile {
    OpenFile {
        access: HandleAccess { read: options.read, write: options.write, directory: false },
        node,
        recorded: 0,
    }
}

fn open_directory(node: Node) -> OpenFile {
    OpenFile { access: HandleAccess { read: true, write: false, directory: true }, node, recorded: 0 }
}
