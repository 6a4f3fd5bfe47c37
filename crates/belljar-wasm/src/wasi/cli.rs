//! `wasi:cli`: arguments and environment are empty (the kernel sets them when it boots), the standard
//! streams are the host's, and leaving ends the cell.

use wasmtime::Linker;

use super::interface;
use crate::abi::{Call, Record};
use crate::host::HostState;
use crate::resources::Resource;
use crate::stop::Stop;

pub(super) fn define(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    let environment = interface("cli/environment");
    // The kernel's runtime has an allocator of its own and imports these once more under its name;
    // an empty list needs neither.
    for name in
        ["get-arguments", "get-environment", "get-arguments#cabi_realloc", "get-environment#cabi_realloc"]
    {
        linker.func_wrap(&environment, name, |mut call: Call<'_>, result: u32| {
            Record::<8>::new().u32(0, 4).write(&mut call, result)
        })?;
    }
    linker.func_wrap(
        &interface("cli/exit"),
        "exit",
        |_call: Call<'_>, failed: u32| -> wasmtime::Result<()> {
            Err(Stop::Exit(i32::from(failed != 0)).into())
        },
    )?;
    stream(linker, "stdin", Resource::Stdin)?;
    stream(linker, "stdout", Resource::Stdout)?;
    stream(linker, "stderr", Resource::Stderr)?;
    for kind in ["terminal-input", "terminal-output"] {
        linker.func_wrap(
            &interface(&format!("cli/{kind}")),
            &format!("[resource-drop]{kind}"),
            |_call: Call<'_>, _resource: u32| {},
        )?;
    }
    Ok(())
}

fn stream(linker: &mut Linker<HostState>, name: &str, resource: Resource) -> wasmtime::Result<()> {
    linker.func_wrap(
        &interface(&format!("cli/{name}")),
        &format!("get-{name}"),
        move |mut call: Call<'_>| call.data_mut().machine.resources.insert(resource.clone()),
    )?;
    linker.func_wrap(
        &interface(&format!("cli/terminal-{name}")),
        &format!("get-terminal-{name}"),
        |mut call: Call<'_>, result: u32| Record::<1>::new().write(&mut call, result),
    )?;
    Ok(())
}
