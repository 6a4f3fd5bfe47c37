//! The store: what it keeps, and what it does when something is wrong. `suite` is what every pair of a database and a
//! place for contents passes.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

mod bucket;
mod children;
mod disk;
mod faults;
mod kill;
mod local;
mod pairs;
mod postgres;
mod remote;
mod suite;
mod support;
mod wire;
