//! `wasi:clocks`.

use wasmtime::Linker;

use super::interface;
use crate::abi::{Call, Record};
use crate::host::HostState;
use crate::resources::Resource;

pub(super) fn define(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    let monotonic = interface("clocks/monotonic-clock");
    linker.func_wrap(&monotonic, "now", |mut call: Call<'_>| call.data_mut().machine.clock.monotonic())?;
    linker.func_wrap(&monotonic, "resolution", |_call: Call<'_>| 1_u64)?;
    linker.func_wrap(&monotonic, "subscribe-instant", |mut call: Call<'_>, at: u64| {
        call.data_mut().machine.resources.insert(Resource::Pollable { at: Some(at) })
    })?;
    linker.func_wrap(&monotonic, "subscribe-duration", |mut call: Call<'_>, duration: u64| {
        let machine = &mut call.data_mut().machine;
        let at = machine.clock.monotonic().saturating_add(duration);
        machine.resources.insert(Resource::Pollable { at: Some(at) })
    })?;
    let wall = interface("clocks/wall-clock");
    linker.func_wrap(&wall, "now", |mut call: Call<'_>, result: u32| {
        let now = call.data_mut().machine.clock.wall();
        Record::<16>::new().u64(0, now.seconds.max(0) as u64).u32(8, now.nanoseconds).write(&mut call, result)
    })?;
    linker.func_wrap(&wall, "resolution", |mut call: Call<'_>, result: u32| {
        Record::<16>::new().u32(8, 1).write(&mut call, result)
    })?;
    Ok(())
}
