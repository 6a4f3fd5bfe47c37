//! `wasi:random`.

use wasmtime::{AsContextMut, Linker};

use super::interface;
use crate::abi::{Allocator, Call, Record, allocate, exports};
use crate::host::HostState;
use crate::stop::Stop;

pub(super) fn define(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    linker.func_wrap(
        &interface("random/random"),
        "get-random-bytes",
        |mut call: Call<'_>, length: u64, result: u32| {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let pointer = allocate(&mut call, Allocator::Wasi, 1, length)?;
            let memory = exports(&call)?.memory;
            let (data, state) = memory.data_and_store_mut(call.as_context_mut());
            let start = pointer as usize;
            let buffer = data
                .get_mut(start..start.saturating_add(length))
                .ok_or_else(|| Stop::violation("a pointer outside its memory"))?;
            state.machine.entropy.fill(buffer)?;
            Record::<8>::new().u32(0, pointer).u32(4, length as u32).write(&mut call, result)
        },
    )?;
    Ok(())
}
