//! How guests are compiled.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use wasmtime::{Config, Engine, Inlining, OptLevel};

use crate::memory::Creator;
use crate::stack::WASM_STACK;

/// Two ways to compile the interpreter; each is compiled when it is first needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Metering {
    /// At full speed.
    None,
    /// Counting steps, for limits that don't depend on the machine. A third slower.
    Steps,
}

/// A wasmtime engine for guests.
pub(crate) fn engine(metering: Metering) -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .with_host_memory(Arc::new(Creator))
        // A reservation of all that 32 bits can address needs no bounds checks.
        .memory_reservation(4 << 30)
        .memory_may_move(false)
        .async_stack_size(WASM_STACK)
        .max_wasm_stack(WASM_STACK)
        .cranelift_opt_level(OptLevel::Speed)
        .compiler_inlining(Inlining::Yes)
        .consume_fuel(metering == Metering::Steps)
        .epoch_interruption(false)
        .wasm_backtrace_max_frames(None)
        .wasm_simd(true)
        .native_unwind_info(false);
    Engine::new(&config)
}

/// A name for everything that compiled code depends on beside its source: wasmtime's version and
/// settings, and this processor's features.
pub(crate) fn fingerprint(engine: &Engine) -> String {
    struct Collect(blake3::Hasher);
    impl Hasher for Collect {
        fn finish(&self) -> u64 {
            0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
    }
    let mut collect = Collect(blake3::Hasher::new());
    engine.precompile_compatibility_hash().hash(&mut collect);
    collect.0.finalize().to_hex()[..32].to_owned()
}
