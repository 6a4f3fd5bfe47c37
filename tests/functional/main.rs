//! What Belljar does, shown from outside. One module for each thing that a user of the library counts on.
#![expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

mod artifacts;
mod awaiting;
mod checkpoints;
mod concurrency;
mod datasets;
mod determinism;
mod displays;
mod exits;
mod files;
mod hibernation;
mod host_files;
mod installs;
mod interrupts;
mod leaks;
mod mounts;
mod native_packages;
mod outcome_json;
mod output;
mod packages;
mod policy;
mod rewinding;
mod rollback;
mod standard_library;
mod surroundings;
mod tools;
mod tracebacks;
mod variables;
mod workspace_files;
mod workspaces;
