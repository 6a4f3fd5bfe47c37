//! One instantiated interpreter: a store with its memory, and calls into it.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use belljar_engine::frame::{self, Reply};
use wasmtime::{Extern, InstancePre, Module, ModuleExport, Store, TypedFunc, Val};

use crate::bus;
use crate::control::Control;
use crate::ground::Ground;
use crate::host::{Exports, HostState, Machine, MemoryLimit};
use crate::memory::with_ground;
use crate::stop::Stop;

/// The largest reply that is looked at.
const MAX_REPLY: usize = 64 << 20;

/// A module that is ready to be instantiated.
pub(crate) struct Program {
    pub(crate) pre: InstancePre<HostState>,
    pub(crate) poll_address: u32,
    exports: ExportIndices,
}

/// Where in the module its exports are, so that no guest looks them up by name.
struct ExportIndices {
    named: BTreeMap<&'static str, ModuleExport>,
    globals: Vec<ModuleExport>,
}

const NAMES: [&str; 9] = [
    "memory",
    "handle",
    "cabi_post_handle",
    "cabi_realloc",
    "wasi_realloc",
    "malloc",
    "free",
    "PyErr_SetInterruptEx",
    "stack_pointer",
];

impl Program {
    pub(crate) fn new(
        pre: InstancePre<HostState>,
        module: &Module,
        poll_address: u32,
        globals: usize,
    ) -> wasmtime::Result<Self> {
        let named = NAMES.iter().filter_map(|name| Some((*name, module.get_export_index(name)?))).collect();
        let globals = (0..globals)
            .map(|index| {
                module
                    .get_export_index(&format!("global_{index}"))
                    .ok_or_else(|| Stop::violation(format!("it has no global_{index}")))
            })
            .collect::<wasmtime::Result<_>>()?;
        Ok(Self { pre, poll_address, exports: ExportIndices { named, globals } })
    }
}

/// One interpreter.
pub(crate) struct Instance {
    pub(crate) store: Store<HostState>,
    pub(crate) exports: Arc<Exports>,
    instance: wasmtime::Instance,
    poll_address: usize,
}

impl Instance {
    /// Makes one whose memory starts as the ground.
    pub(crate) fn new(
        program: &Program,
        ground: &Arc<Ground>,
        globals: &[i32],
        machine: Machine,
        control: Arc<Control>,
        memory_limit: usize,
    ) -> wasmtime::Result<Self> {
        let state = HostState {
            exports: None,
            error_word: program.poll_address + 4,
            machine,
            control,
            memory_limit: MemoryLimit { bytes: memory_limit, refused: false },
            cell: None,
        };
        let mut store = Store::new(program.pre.module().engine(), state);
        store.limiter(|state| &mut state.memory_limit);
        let instance = with_ground(ground, || program.pre.instantiate(&mut store))?;
        let exports = Arc::new(exports(&mut store, instance, &program.exports)?);
        store.data_mut().exports = Some(Arc::clone(&exports));
        let mut made = Self { store, exports, instance, poll_address: program.poll_address as usize };
        made.set_globals(globals)?;
        Ok(made)
    }

    /// Values of the mutable globals: what a guest has beside its memory.
    pub(crate) fn globals(&mut self) -> Vec<i32> {
        let Self { store, exports, .. } = self;
        exports.globals.iter().map(|global| global.get(&mut *store).i32().unwrap_or_default()).collect()
    }

    pub(crate) fn set_globals(&mut self, values: &[i32]) -> wasmtime::Result<()> {
        for (global, value) in self.exports.globals.iter().zip(values) {
            global.set(&mut self.store, Val::I32(*value))?;
        }
        Ok(())
    }

    /// The guest's memory.
    pub(crate) fn memory(&self) -> &[u8] {
        self.exports.memory.data(&self.store)
    }

    pub(crate) fn memory_mut(&mut self) -> &mut [u8] {
        self.exports.memory.data_mut(&mut self.store)
    }

    /// Whether a part of its memory was lost because a file was damaged.
    pub(crate) fn is_torn(&self) -> bool {
        bus::is_any_torn() && bus::is_torn(self.memory().as_ptr() as usize)
    }

    /// Makes the memory at least so large, whatever the limit.
    pub(crate) fn grow_to(&mut self, length: usize) -> wasmtime::Result<()> {
        let current = self.memory().len();
        if length > current {
            let limit = std::mem::replace(&mut self.store.data_mut().memory_limit.bytes, usize::MAX);
            let grown = self.exports.memory.grow(&mut self.store, ((length - current) >> 16) as u64);
            self.store.data_mut().memory_limit.bytes = limit;
            grown?;
        }
        Ok(())
    }

    /// The guest's `malloc` and `free`.
    pub(crate) fn allocator(&mut self) -> wasmtime::Result<(TypedFunc<u32, u32>, TypedFunc<u32, ()>)> {
        let allocate = self.instance.get_typed_func(&mut self.store, "malloc")?;
        let free = self.instance.get_typed_func(&mut self.store, "free")?;
        Ok((allocate, free))
    }

    /// The word that compiled code polls.
    pub(crate) fn poll_word(&mut self) -> wasmtime::Result<NonNull<AtomicU32>> {
        let address = self.poll_address;
        let word = self
            .memory_mut()
            .get_mut(address..address.saturating_add(4))
            .ok_or_else(|| Stop::violation("its polled word is outside its memory"))?;
        NonNull::new(word.as_mut_ptr().cast()).ok_or_else(|| Stop::violation("it has no memory"))
    }

    /// Hands the guest a frame and reads its reply. An error means that the interpreter is broken.
    pub(crate) fn handle(&mut self, frame: &[u8]) -> wasmtime::Result<Reply> {
        let length = u32::try_from(frame.len()).map_err(|_| Stop::violation("a frame of 4 GiB"))?;
        let pointer = self.exports.realloc.call(&mut self.store, (0, 0, 1, length))?;
        self.exports
            .memory
            .write(&mut self.store, pointer as usize, frame)
            .map_err(|_| Stop::violation("a pointer outside its memory"))?;
        let result = self.exports.handle.call(&mut self.store, (pointer, length))?;
        let (start, length) = self.find_reply(result)?;
        let reply = &self.memory()[start..start + length];
        let reply = frame::decode_reply(reply).map_err(|error| Stop::violation(error.to_string()))?;
        // Without this the guest's stack pointer drifts.
        if let Some(post) = &self.exports.post_handle {
            post.call(&mut self.store, result)?;
        }
        // componentize-py 0.25 lowers a list of bytes into memory that it never frees.
        if length > 0 {
            self.exports.free.call(&mut self.store, start as u32)?;
        }
        Ok(reply)
    }

    /// Whether so many bytes can be allocated.
    pub(crate) fn has_room(&mut self, bytes: u32) -> wasmtime::Result<bool> {
        let pointer = self.exports.malloc.call(&mut self.store, bytes)?;
        self.exports.free.call(&mut self.store, pointer)?;
        Ok(pointer != 0)
    }

    /// A kernel that nobody tore at keeps the value within the output limit, at most six times as long as
    /// JSON, and the traceback within its own. Reading JSON costs a multiple of its length, so no more is read.
    fn max_reply(&self) -> usize {
        let output = self.store.data().cell.as_ref().map_or(0, |cell| cell.limits.output);
        usize::try_from(output.saturating_mul(8)).unwrap_or(usize::MAX).saturating_add(4 << 20).min(MAX_REPLY)
    }

    /// Where in the memory the reply is, and how long.
    fn find_reply(&self, result: u32) -> wasmtime::Result<(usize, usize)> {
        let memory = self.memory();
        let word = |address: usize| {
            let bytes = memory.get(address..address.checked_add(4)?)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
        };
        let find = || {
            let start = word(result as usize)?;
            let length = word(result as usize + 4)?;
            if length > self.max_reply() {
                return None;
            }
            memory.get(start..start.checked_add(length)?).map(|_| (start, length))
        };
        find().ok_or_else(|| Stop::violation("a reply outside its memory"))
    }
}

fn exports(
    store: &mut Store<HostState>,
    instance: wasmtime::Instance,
    indices: &ExportIndices,
) -> wasmtime::Result<Exports> {
    let mut find = |name: &'static str| -> wasmtime::Result<Extern> {
        indices
            .named
            .get(name)
            .and_then(|index| instance.get_module_export(&mut *store, index))
            .ok_or_else(|| Stop::violation(format!("it has no export {name}")))
    };
    let memory = find("memory")?.into_memory();
    let handle = find("handle")?.into_func();
    let post_handle = find("cabi_post_handle").ok().and_then(Extern::into_func);
    let realloc = find("cabi_realloc")?.into_func();
    let wasi_realloc = find("wasi_realloc").or_else(|_| find("cabi_realloc"))?.into_func();
    let malloc = find("malloc")?.into_func();
    let free = find("free")?.into_func();
    let set_interrupt = find("PyErr_SetInterruptEx")?.into_func();
    let stack_pointer = find("stack_pointer")?.into_global();
    let globals = indices
        .globals
        .iter()
        .filter_map(|index| instance.get_module_export(&mut *store, index)?.into_global())
        .collect();
    let missing = || Stop::violation("an export is of another kind");
    Ok(Exports {
        memory: memory.ok_or_else(missing)?,
        handle: handle.ok_or_else(missing)?.typed(&*store)?,
        post_handle: post_handle.map(|function| function.typed(&*store)).transpose()?,
        realloc: realloc.ok_or_else(missing)?.typed(&*store)?,
        wasi_realloc: wasi_realloc.ok_or_else(missing)?.typed(&*store)?,
        malloc: malloc.ok_or_else(missing)?.typed(&*store)?,
        free: free.ok_or_else(missing)?.typed(&*store)?,
        set_interrupt: set_interrupt.ok_or_else(missing)?.typed(&*store)?,
        stack_pointer: stack_pointer.ok_or_else(missing)?,
        globals,
    })
}
