//! `wasi:sockets`: there is no network. Sockets and look-ups are refused with 'access denied'; as none can
//! be had, whatever takes one has been handed a number that the guest made up.

use wasmtime::{FuncType, Linker, Val, ValType};

use super::interface;
use crate::abi::{Call, Record};
use crate::host::HostState;
use crate::resources::Resource;
use crate::stop::Stop;

const ACCESS_DENIED: u8 = 1;

pub(super) fn define(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    linker.func_wrap(&interface("sockets/instance-network"), "instance-network", |mut call: Call<'_>| {
        call.data_mut().machine.resources.insert(Resource::Network)
    })?;
    linker.func_wrap(
        &interface("sockets/network"),
        "[resource-drop]network",
        |mut call: Call<'_>, resource: u32| {
            call.data_mut().machine.resources.remove(resource);
        },
    )?;
    for protocol in ["tcp", "udp"] {
        linker.func_wrap(
            &interface(&format!("sockets/{protocol}-create-socket")),
            &format!("create-{protocol}-socket"),
            |mut call: Call<'_>, _family: u32, result: u32| deny(&mut call, result),
        )?;
    }
    linker.func_wrap(
        &interface("sockets/ip-name-lookup"),
        "resolve-addresses",
        |mut call: Call<'_>, _network: u32, _name: u32, _length: u32, result: u32| deny(&mut call, result),
    )?;
    Ok(())
}

fn deny(call: &mut Call<'_>, result: u32) -> wasmtime::Result<()> {
    Record::<8>::new().u8(0, 1).u8(4, ACCESS_DENIED).write(call, result)
}

/// Defines a function on sockets that no guest can have.
pub(crate) fn define_unreachable(
    linker: &mut Linker<HostState>,
    module: &str,
    name: &str,
    ty: FuncType,
) -> wasmtime::Result<()> {
    let drops = name.starts_with("[resource-drop]");
    let what = format!("{name} on a socket that does not exist");
    let results: Vec<ValType> = ty.results().collect();
    linker.func_new(module, name, ty, move |_call, _arguments, out| {
        if !drops {
            return Err(Stop::violation(what.clone()));
        }
        for (slot, kind) in out.iter_mut().zip(&results) {
            *slot = Val::default_for_ty(kind).unwrap_or(Val::I32(0));
        }
        Ok(())
    })?;
    Ok(())
}
