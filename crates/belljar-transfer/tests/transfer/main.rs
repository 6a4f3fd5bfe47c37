//! What is moved, and what is refused.

#![expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

mod archives;
mod buckets;
mod directories;
mod hostile;
mod migration;
mod server;
mod tree;
