//! Reading what was mapped unread, before anything that came of it is kept.

use std::thread::{self, JoinHandle};

use belljar_store::{StoreError, Unverified};

use crate::Error;

/// Less than this is read when it is needed; more is read by a thread while the first cell runs.
const SMALL: u64 = 1 << 20;

/// What must be read before the next commit.
#[derive(Default)]
pub(crate) struct Verification {
    parts: Vec<Part>,
}

enum Part {
    Unread(Unverified),
    Reading(JoinHandle<Result<(), StoreError>>),
}

impl Verification {
    /// Something more that must be read.
    pub(crate) fn add(&mut self, unverified: Unverified) {
        if unverified.is_empty() {
            return;
        }
        if unverified.bytes() < SMALL {
            self.parts.push(Part::Unread(unverified));
            return;
        }
        let reader = unverified.clone();
        let reading = thread::Builder::new()
            .name("belljar-verify".to_owned())
            .spawn(move || reader.verify())
            .map_or(Part::Unread(unverified), Part::Reading);
        self.parts.push(reading);
    }

    /// Waits until all is read. What was wrong once stays wrong.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        while let Some(part) = self.parts.pop() {
            match part {
                Part::Unread(unverified) => {
                    if let Err(error) = unverified.verify() {
                        self.parts.push(Part::Unread(unverified));
                        return Err(error.into());
                    }
                }
                Part::Reading(thread) => {
                    thread.join().map_err(|_| Error::Abandoned)??;
                }
            }
        }
        Ok(())
    }
}
