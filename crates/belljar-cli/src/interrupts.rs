//! Ctrl-C.

use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;

/// The exit status of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 128 + 2;

type Interrupter = Arc<dyn Fn() + Send + Sync>;

/// From now on Ctrl-C reaches the running cell. A second one, and one between cells, ends the process.
pub(crate) struct Interrupts {
    target: Arc<Mutex<Option<Interrupter>>>,
}

impl Interrupts {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let target: Arc<Mutex<Option<Interrupter>>> = Arc::default();
        let heard = Arc::clone(&target);
        ctrlc::set_handler(move || match lock(&heard).take() {
            Some(interrupt) => interrupt(),
            None => process::exit(INTERRUPTED),
        })
        .context("cannot listen to Ctrl-C")?;
        Ok(Self { target })
    }

    /// Says what Ctrl-C is to call until the result is dropped.
    pub(crate) fn reach(&self, interrupter: Interrupter) -> Reach<'_> {
        *lock(&self.target) = Some(interrupter);
        Reach { interrupts: self }
    }
}

#[must_use = "Ctrl-C ends the process when it is dropped"]
pub(crate) struct Reach<'a> {
    interrupts: &'a Interrupts,
}

impl Drop for Reach<'_> {
    fn drop(&mut self) {
        *lock(&self.interrupts.target) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
