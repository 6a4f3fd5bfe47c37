//! WASI's resources: what the guest holds numbers of.

use std::collections::BTreeMap;

use belljar_files::{DirectoryStream, Handle};
use serde::{Deserialize, Serialize};

use crate::stop::Stop;

/// More than CPython ever holds at once; a guest that asks for more is out of its mind.
const MAX_RESOURCES: usize = 8192;

/// The resources of one guest.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Resources {
    held: BTreeMap<u32, Resource>,
    next: u32,
}

/// Something that the guest holds a number of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Resource {
    /// An open file or directory.
    Descriptor(Handle),
    /// Reading a file from an offset on.
    FileInput { handle: Handle, offset: u64 },
    /// Writing a file from an offset on, or at its end.
    FileOutput { handle: Handle, offset: Option<u64> },
    /// Standard input: empty.
    Stdin,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Names of a directory.
    Directory(DirectoryStream),
    /// Ready at a moment of the guest's monotonic clock, or always.
    Pollable { at: Option<u64> },
    /// The network, which nobody can use.
    Network,
}

impl Resources {
    pub(crate) fn insert(&mut self, resource: Resource) -> wasmtime::Result<u32> {
        if self.held.len() >= MAX_RESOURCES {
            return Err(Stop::violation("too many resources held"));
        }
        // Numbers come back only after all others have been used.
        loop {
            self.next = self.next % (i32::MAX as u32 - 1) + 1;
            if !self.held.contains_key(&self.next) {
                break;
            }
        }
        self.held.insert(self.next, resource);
        Ok(self.next)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Resource> {
        self.held.remove(&number)
    }

    pub(crate) fn get(&self, number: u32) -> wasmtime::Result<&Resource> {
        self.held.get(&number).ok_or_else(|| Stop::violation("a resource that it does not hold"))
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> wasmtime::Result<&mut Resource> {
        self.held.get_mut(&number).ok_or_else(|| Stop::violation("a resource that it does not hold"))
    }

    pub(crate) fn descriptor(&self, number: u32) -> wasmtime::Result<Handle> {
        match self.get(number)? {
            Resource::Descriptor(handle) => Ok(*handle),
            _ => Err(Stop::violation("a resource of another kind")),
        }
    }
}
