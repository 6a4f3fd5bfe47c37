//! belljar-wasm
