//! Datasets from real servers, files, functions and buckets, with all that goes wrong there.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod buckets;
mod callbacks;
mod crashes;
mod disk;
mod files;
mod http;
mod python;
mod races;
mod registry;
mod secrets;
mod server;
mod shelves;
mod support;
