//! The store, from outside.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod bucket;
mod postgres;
