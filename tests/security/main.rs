//! What hostile code can't do. Every cell here runs in a session with a variable, beside another session: the
//! host must live, the neighbour must not notice, and the next cell must see the variable (`Hostile::run`).
#![expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

mod artifacts;
mod cells;

mod crashers;
mod deadlines;
mod exits;
mod files;
mod fuzz;
mod garbage;
mod host_memory;
mod isolation;
mod kernel;
mod memory;
mod network;
mod output;
mod packages;
mod recursion;
mod stored;
mod tools;
