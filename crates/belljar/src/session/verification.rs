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
    Reading(Unverified, JoinHandle<Result<(), StoreError>>),
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
        let thread = thread::Builder::new().name("belljar-verify".to_owned());
        self.parts.push(match thread.spawn(move || reader.verify()) {
            Ok(thread) => Part::Reading(unverified, thread),
            Err(_) => Part::Unread(unverified),
        });
    }

    /// Waits until all is read. What was wrong once stays wrong.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        while let Some(part) = self.parts.pop() {
            let (unverified, read) = match part {
                Part::Unread(unverified) => {
                    let read = unverified.verify();
                    (unverified, read)
                }
                Part::Reading(unverified, thread) => match thread.join() {
                    Ok(read) => (unverified, read),
                    Err(_) => {
                        let read = unverified.verify();
                        (unverified, read)
                    }
                },
            };
            if let Err(error) = read {
                self.parts.push(Part::Unread(unverified));
                return Err(error.into());
            }
        }
        Ok(())
    }
}
