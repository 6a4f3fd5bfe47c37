//! What is kept survives: processes that are killed, disks that are full, files that are damaged, clocks that go back.
//! One module for each thing that goes wrong; the interpreter is the real one throughout.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

mod clock;
mod damage;
mod disk;
mod kill;
mod ledger;
mod noise;
mod places;
mod race;
mod tally;
mod user;
