use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{File, Metadata, MetadataExt};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::mount::MountId;
use crate::tree::InodeId;
use crate::{Errno, HandleAccess, Result};

/// An open file or directory of one [`FileSystem`](crate::FileSystem) and of its clones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle(pub u32);

/// What a handle is on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenFile {
    pub(crate) access: HandleAccess,
    pub(crate) node: Node,
    /// The epoch of the change log in which a write through this handle was recorded.
    pub(crate) recorded: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Node {
    Memory {
        inode: InodeId,
        /// The name it was opened by, followed through renames, for the change log.
        name: Option<(InodeId, Arc<str>)>,
    },
    Host {
        mount: MountId,
        place: HostPlace,
        /// Only of files; absent after deserialising and when there are too many.
        #[serde(skip)]
        descriptor: Option<Arc<Descriptor>>,
    },
}

/// How a host file is found again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HostPlace {
    /// The path below the mount, followed through renames that pass through this file system.
    Path(Arc<str>),
    /// It has no name any more; the number is shared by the handles on the same file.
    Unlinked(u64),
}

/// An open host file.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) file: File,
    /// Which file of the host it is, whatever names lead to it.
    pub(crate) identity: Identity,
    last_use: AtomicU64,
}

/// A host file's device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

impl Descriptor {
    pub(crate) fn new(file: File, metadata: &Metadata) -> Arc<Self> {
        Arc::new(Self { file, identity: Identity::of(metadata), last_use: AtomicU64::new(0) })
    }

    /// Bytes of a file that has no name any more.
    pub(crate) fn nameless_bytes(&self) -> Option<u64> {
        let metadata = self.file.metadata().ok()?;
        (metadata.nlink() == 0).then(|| metadata.len())
    }
}

/// The open files. Numbers rise, so that a stale handle is refused rather than mistaken for another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HandleTable {
    #[serde(deserialize_with = "crate::cautious::map")]
    open: OrdMap<u32, OpenFile>,
    next: u32,
    limit: u32,
    descriptors: u32,
    clock: u64,
}

impl HandleTable {
    pub(crate) fn new(limit: u32, descriptors: u32) -> Self {
        Self { open: OrdMap::new(), next: 0, limit, descriptors, clock: 0 }
    }

    /// Answers before anything is made or truncated that there will be room.
    pub(crate) fn check_room(&self) -> Result<()> {
        if self.open.len() >= self.limit as usize {
            return Err(Errno::TooManyOpen);
        }
        Ok(())
    }

    pub(crate) fn insert(&mut self, file: OpenFile) -> Result<Handle> {
        self.check_room()?;
        Ok(self.insert_beyond_limit(file))
    }

    /// For the host, which closes it again at once.
    pub(crate) fn insert_beyond_limit(&mut self, file: OpenFile) -> Handle {
        while self.open.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let handle = Handle(self.next);
        self.open.insert(handle.0, file);
        self.next = self.next.wrapping_add(1);
        handle
    }

    pub(crate) fn get(&self, handle: Handle) -> Result<&OpenFile> {
        self.open.get(&handle.0).ok_or(Errno::BadDescriptor)
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Result<&mut OpenFile> {
        self.open.get_mut(&handle.0).ok_or(Errno::BadDescriptor)
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Result<OpenFile> {
        self.open.remove(&handle.0).ok_or(Errno::BadDescriptor)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OpenFile> {
        self.open.values()
    }

    /// Whether a handle is on the inode.
    pub(crate) fn holds(&self, wanted: InodeId) -> bool {
        self.iter().any(|file| matches!(file.node, Node::Memory { inode, .. } if inode == wanted))
    }

    /// Changes the nodes that `change` answers something for. The others aren't copied from clones.
    pub(crate) fn update(&mut self, change: impl Fn(&Node) -> Option<Node>) {
        let changed: Vec<_> =
            self.open.iter().filter_map(|(handle, file)| Some((*handle, change(&file.node)?))).collect();
        for (handle, node) in changed {
            if let Some(file) = self.open.get_mut(&handle) {
                file.node = node;
            }
        }
    }

    /// Nothing can be written any more through handles on this mount's files.
    pub(crate) fn make_read_only(&mut self, wanted: MountId) {
        let written = |file: &OpenFile| {
            file.access.write && matches!(file.node, Node::Host { mount, .. } if mount == wanted)
        };
        let handles: Vec<u32> =
            self.open.iter().filter(|(_, file)| written(file)).map(|(handle, _)| *handle).collect();
        for handle in handles {
            if let Some(file) = self.open.get_mut(&handle) {
                file.access.write = false;
            }
        }
    }

    /// Closes the host's files of a mount; they are opened again on use.
    pub(crate) fn close_descriptors(&mut self, wanted: MountId) {
        self.update(|node| match node {
            Node::Host { mount, place, descriptor: Some(_) } if *mount == wanted => {
                Some(Node::Host { mount: *mount, place: place.clone(), descriptor: None })
            }
            _ => None,
        });
    }

    /// Notes that a descriptor is in use, so that it is not the next to go.
    pub(crate) fn touch(&mut self, descriptor: &Descriptor) {
        self.clock = self.clock.wrapping_add(1);
        descriptor.last_use.store(self.clock, Ordering::Relaxed);
    }

    /// Makes room for one more host descriptor, by closing the one that was used longest ago.
    pub(crate) fn make_descriptor_room(&mut self) -> Result<()> {
        let held = self.iter().filter(|file| file.node.descriptor().is_some());
        if held.count() < self.descriptors as usize {
            return Ok(());
        }
        let oldest = self
            .open
            .iter()
            .filter(|(_, file)| file.node.can_reopen())
            .filter_map(|(handle, file)| Some((*handle, file.node.descriptor()?)))
            .min_by_key(|(_, descriptor)| descriptor.last_use.load(Ordering::Relaxed))
            .map(|(handle, _)| handle)
            .ok_or(Errno::TooManyOpen)?;
        if let Some(OpenFile { node: Node::Host { descriptor, .. }, .. }) = self.open.get_mut(&oldest) {
            *descriptor = None;
        }
        Ok(())
    }
}

impl Node {
    pub(crate) fn descriptor(&self) -> Option<&Arc<Descriptor>> {
        match self {
            Self::Memory { .. } => None,
            Self::Host { descriptor, .. } => descriptor.as_ref(),
        }
    }

    fn can_reopen(&self) -> bool {
        matches!(self, Self::Host { place: HostPlace::Path(_), .. })
    }
}
