//! The store: what it keeps, and what it does when something is wrong.

#![expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

mod crashes;
mod disk;
mod environments;
mod faults;
mod fencing;
mod leases;
mod model;
mod parcels;
mod races;
mod registry;
mod saving;
mod support;
