//! Interrupts that find the session's guest, whichever it is at the moment.

use std::sync::{Arc, Mutex, PoisonError};

use belljar_engine::Interrupter;

/// Stops the running cell of a session that may sleep and wake meanwhile.
#[derive(Default)]
pub(crate) struct Switch {
    guest: Mutex<Option<Arc<dyn Interrupter>>>,
}

impl Switch {
    /// Interrupts go to this guest from now on, or to none.
    pub(crate) fn lead_to(&self, guest: Option<Arc<dyn Interrupter>>) {
        *self.guest.lock().unwrap_or_else(PoisonError::into_inner) = guest;
    }
}

impl Interrupter for Switch {
    fn interrupt(&self) {
        let guest = self.guest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(guest) = guest {
            guest.interrupt();
        }
    }
}
