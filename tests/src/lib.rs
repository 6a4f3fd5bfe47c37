//! What the test suites share.
//!
//! The suites speak only to the library's public API, so that each engine passes the same ones: a second engine
//! is chosen in [`builder`] and nowhere else.
//!
//! | module | its noun |
//! |---|---|
//! | `sandboxes` | sandboxes and sessions to test with |
//! | `schema` | a JSON schema, as far as Belljar's own uses it |
//! | `hostile` | a cell that means harm, and what must survive it |
//! | `native` | C extensions to link into a guest |
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

mod hostile;
pub mod native;
mod sandboxes;
mod schema;

pub use hostile::{Hostile, Witness};
pub use sandboxes::{block_on, builder, engine, run, sandbox, session, text, within};
pub use schema::violations;
