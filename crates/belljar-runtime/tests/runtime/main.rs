//! What this crate claims, without network and without Python: one binary, so that it links once.

mod cache;
mod extensions;
mod flatten;
mod maker;
mod refusals;
mod sample;
