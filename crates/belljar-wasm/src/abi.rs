//! Reading and writing guest memory on its terms, without trusting it.

use std::sync::Arc;

use wasmtime::{AsContextMut, Caller};

use crate::host::{Exports, HostState};
use crate::stop::Stop;

/// The largest list that the host hands to the guest in one piece.
const MAX_LIST: usize = 256 << 20;

/// A call from the guest.
pub(crate) type Call<'a> = Caller<'a, HostState>;

/// The guest's exports; they are there whenever guest code runs.
pub(crate) fn exports(call: &Call<'_>) -> wasmtime::Result<Arc<Exports>> {
    call.data().exports.clone().ok_or_else(|| Stop::violation("a call before the guest was ready"))
}

/// Bytes in guest memory.
pub(crate) fn bytes<'a>(call: &'a mut Call<'_>, pointer: u32, length: u32) -> wasmtime::Result<&'a [u8]> {
    let memory = memory(call)?;
    let start = pointer as usize;
    memory
        .data(&*call)
        .get(start..start.saturating_add(length as usize))
        .ok_or_else(|| Stop::violation("a pointer outside its memory"))
}

/// Bytes in guest memory, to be changed, and the host's half beside them.
pub(crate) fn bytes_mut<'a>(
    call: &'a mut Call<'_>,
    pointer: u32,
    length: usize,
) -> wasmtime::Result<(&'a mut [u8], &'a mut HostState)> {
    let memory = memory(call)?;
    let (data, state) = memory.data_and_store_mut(call);
    let start = pointer as usize;
    let bytes = data
        .get_mut(start..start.saturating_add(length))
        .ok_or_else(|| Stop::violation("a pointer outside its memory"))?;
    Ok((bytes, state))
}

/// A string in guest memory. Paths are the only strings the host is handed, so a string that
/// isn't UTF-8 is `None`: there is no such file.
pub(crate) fn string(call: &mut Call<'_>, pointer: u32, length: u32) -> wasmtime::Result<Option<String>> {
    // No path is longer; don't copy what will be refused anyway.
    const MAX_PATH: u32 = 64 << 10;
    if length > MAX_PATH {
        return Ok(Some("x".repeat(MAX_PATH as usize)));
    }
    let bytes = bytes(call, pointer, length)?;
    Ok(std::str::from_utf8(bytes).ok().map(str::to_owned))
}

/// Writes into guest memory.
pub(crate) fn write(call: &mut Call<'_>, pointer: u32, data: &[u8]) -> wasmtime::Result<()> {
    let memory = memory(call)?;
    memory
        .write(call.as_context_mut(), pointer as usize, data)
        .map_err(|_| Stop::violation("a pointer outside its memory"))
}

/// Which of the guest's allocators a list is handed over with.
#[derive(Clone, Copy)]
pub(crate) enum Allocator {
    /// libc's, for what WASI returns.
    Wasi,
    /// The kernel's own, for frames.
    Kernel,
}

/// Allocates in the guest, for an empty list too: the guest frees whatever it is handed. The pointer is
/// the guest's word: writing through it is checked as usual.
pub(crate) fn allocate(
    call: &mut Call<'_>,
    allocator: Allocator,
    align: u32,
    size: usize,
) -> wasmtime::Result<u32> {
    if size > MAX_LIST {
        return Err(Stop::violation("a request for a list that is too large"));
    }
    let exports = exports(call)?;
    let realloc = match allocator {
        Allocator::Wasi => &exports.wasi_realloc,
        Allocator::Kernel => &exports.realloc,
    };
    realloc.call(call.as_context_mut(), (0, 0, align, size as u32))
}

/// Frees a list that the guest handed over and that was read: componentize-py 0.25 lowers byte lists into
/// memory that it never frees.
pub(crate) fn free(call: &mut Call<'_>, pointer: u32, length: u32) -> wasmtime::Result<()> {
    if length > 0 {
        let exports = exports(call)?;
        exports.free.call(call.as_context_mut(), pointer)?;
    }
    Ok(())
}

/// Copies bytes into newly allocated guest memory and returns where they are.
pub(crate) fn hand_over(
    call: &mut Call<'_>,
    allocator: Allocator,
    align: u32,
    data: &[u8],
) -> wasmtime::Result<(u32, u32)> {
    let pointer = allocate(call, allocator, align, data.len())?;
    write(call, pointer, data)?;
    Ok((pointer, data.len() as u32))
}

fn memory(call: &Call<'_>) -> wasmtime::Result<wasmtime::Memory> {
    call.data()
        .exports
        .as_ref()
        .map(|exports| exports.memory)
        .ok_or_else(|| Stop::violation("a call before the guest was ready"))
}

/// A record in the layout of the canonical ABI, built on the stack and written in one go.
pub(crate) struct Record<const N: usize>([u8; N]);

impl<const N: usize> Record<N> {
    pub(crate) fn new() -> Self {
        Self([0; N])
    }

    pub(crate) fn u8(mut self, offset: usize, value: u8) -> Self {
        self.0[offset] = value;
        self
    }

    pub(crate) fn u32(mut self, offset: usize, value: u32) -> Self {
        self.0[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, offset: usize, value: u64) -> Self {
        self.0[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn write(self, call: &mut Call<'_>, pointer: u32) -> wasmtime::Result<()> {
        write(call, pointer, &self.0)
    }
}
