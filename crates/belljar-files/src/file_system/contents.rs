use cap_std::fs::FileExt;

use super::FileSystem;
use crate::handle::{Node, OpenFile};
use crate::{Errno, Handle, Result};

/// As in Linux, where offsets are signed.
const OFFSET_LIMIT: u64 = i64::MAX as u64;

impl FileSystem {
    /// Reads at an offset; 0 at and after the end.
    pub fn read(&mut self, handle: Handle, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let file = self.handles.get(handle)?;
        if file.access.directory {
            return Err(Errno::IsDirectory);
        }
        if !file.access.read {
            return Err(Errno::BadDescriptor);
        }
        if offset > OFFSET_LIMIT {
            return Err(Errno::Invalid);
        }
        match &file.node {
            Node::Memory { inode, .. } => Ok(self.tree.content(*inode)?.read(offset, buffer)),
            Node::Host { .. } => Ok(self.descriptor(handle)?.file.read_at(buffer, offset)?),
        }
    }

    /// Writes at an offset. What lies between the end and the offset becomes zeros, and counts.
    pub fn write(&mut self, handle: Handle, offset: u64, data: &[u8]) -> Result<usize> {
        let file = self.writable(handle, Errno::BadDescriptor)?;
        self.write_recorded(handle, &file, offset, data)
    }

    /// Writes at the end.
    pub fn append(&mut self, handle: Handle, data: &[u8]) -> Result<usize> {
        let file = self.writable(handle, Errno::BadDescriptor)?;
        let end = self.size_of(&file)?;
        self.write_recorded(handle, &file, end, data)
    }

    /// Cuts or extends with zeros, which count.
    pub fn set_size(&mut self, handle: Handle, size: u64) -> Result<()> {
        let file = self.writable(handle, Errno::Invalid)?;
        if size > OFFSET_LIMIT {
            return Err(Errno::TooLarge);
        }
        self.resize(&file, size)?;
        self.record_handle_write(handle, &file)
    }

    /// Has the host make a mounted file durable. Memory has nothing to do.
    pub fn sync(&mut self, handle: Handle) -> Result<()> {
        let file = self.handles.get(handle)?;
        match file.node {
            Node::Host { .. } if file.access.write => Ok(self.descriptor(handle)?.file.sync_all()?),
            _ => Ok(()),
        }
    }

    pub(super) fn size_of(&self, file: &OpenFile) -> Result<u64> {
        match &file.node {
            Node::Memory { inode, .. } => Ok(self.tree.content(*inode)?.size()),
            Node::Host { .. } => Ok(host_file(file)?.metadata()?.len()),
        }
    }

    pub(super) fn read_from(&self, file: &OpenFile, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match &file.node {
            Node::Memory { inode, .. } => Ok(self.tree.content(*inode)?.read(offset, buffer)),
            Node::Host { .. } => Ok(host_file(file)?.read_at(buffer, offset)?),
        }
    }

    pub(super) fn write_to(&mut self, file: &OpenFile, offset: u64, data: &[u8]) -> Result<usize> {
        if offset > OFFSET_LIMIT {
            return Err(Errno::Invalid);
        }
        if data.is_empty() {
            return Ok(0);
        }
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|end| *end <= OFFSET_LIMIT)
            .ok_or(Errno::TooLarge)?;
        let mount = match &file.node {
            Node::Memory { inode, .. } => {
                self.tree.write(*inode, offset, data, self.clock, &mut self.ledger)?;
                return Ok(data.len());
            }
            Node::Host { mount, .. } => *mount,
        };
        let host = host_file(file)?;
        let size = host.metadata()?.len();
        let grown = size.max(end);
        self.resize_host(mount, size, grown)?;
        let written = host.write_at(data, offset);
        let really = match written {
            Ok(length) if length > 0 => size.max(offset + length as u64),
            _ => size,
        };
        self.resize_host(mount, grown, really)?;
        match written? {
            0 => Err(Errno::Io),
            length => Ok(length),
        }
    }

    pub(super) fn resize(&mut self, file: &OpenFile, size: u64) -> Result<()> {
        let mount = match &file.node {
            Node::Memory { inode, .. } => {
                return self.tree.set_size(*inode, size, self.clock, &mut self.ledger);
            }
            Node::Host { mount, .. } => *mount,
        };
        let host = host_file(file)?;
        let old = host.metadata()?.len();
        self.resize_host(mount, old, size)?;
        if let Err(error) = host.set_len(size) {
            self.resize_host(mount, size, old)?;
            return Err(error.into());
        }
        Ok(())
    }

    fn write_recorded(&mut self, handle: Handle, file: &OpenFile, offset: u64, data: &[u8]) -> Result<usize> {
        let written = self.write_to(file, offset, data)?;
        if written > 0 {
            self.record_handle_write(handle, file)?;
        }
        Ok(written)
    }

    /// What a handle is on, with its host file open; refused with `refusal` when it isn't for writing.
    fn writable(&mut self, handle: Handle, refusal: Errno) -> Result<OpenFile> {
        let file = self.handles.get(handle)?;
        if !file.access.write {
            return Err(refusal);
        }
        if matches!(file.node, Node::Host { .. }) {
            self.descriptor(handle)?;
        }
        self.handles.get(handle).cloned()
    }
}

fn host_file(file: &OpenFile) -> Result<&cap_std::fs::File> {
    file.node.descriptor().map(|descriptor| &descriptor.file).ok_or(Errno::Io)
}
