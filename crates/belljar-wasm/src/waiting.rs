//! Where the guest looks up: at loop headers, and when it wakes in the host.

use wasmtime::{AsContextMut, Linker, Val};

use crate::abi::{Call, exports};
use crate::control::Request;
use crate::host::HostState;
use crate::stop::Stop;

/// `SIGINT` in the guest.
const SIGNAL: i32 = 2;
/// Leaf functions may use this much below the stack pointer without moving it.
const RED_ZONE: i32 = 256;

pub(crate) fn define(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    linker.func_wrap("belljar:host/control", "poll", |mut call: Call<'_>| obey(&mut call))?;
    Ok(())
}

/// Does what was asked of the running cell, if anything was.
pub(crate) fn obey(call: &mut Call<'_>) -> wasmtime::Result<()> {
    match call.data().control.take_request() {
        None => Ok(()),
        Some(Request::Soft) => interrupt(call),
        Some(Request::Hard) => Err(Stop::Hard.into()),
    }
}

/// Sleeps until the guest's monotonic clock shows `at`, or the cell is asked to stop.
pub(crate) fn sleep_until(call: &mut Call<'_>, at: u64) -> wasmtime::Result<()> {
    let state = call.data_mut();
    let deadline = state.machine.clock.instant(at);
    state.control.sleep(deadline);
    obey(call)
}

/// Trips the interpreter's own signal flag, as a signal handler would between any two instructions.
fn interrupt(call: &mut Call<'_>) -> wasmtime::Result<()> {
    let exports = exports(call)?;
    let Val::I32(top) = exports.stack_pointer.get(call.as_context_mut()) else {
        return Err(Stop::violation("a stack pointer of another type"));
    };
    exports.stack_pointer.set(call.as_context_mut(), Val::I32(top - RED_ZONE))?;
    exports.set_interrupt.call(call.as_context_mut(), SIGNAL)?;
    exports.stack_pointer.set(call.as_context_mut(), Val::I32(top))
}
