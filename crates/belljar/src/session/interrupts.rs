//! Interrupts that find the session's guest, whichever it is at the moment.

use std::sync::{Arc, Mutex, PoisonError};

use belljar_engine::{FileDoor, Guest, Interrupter};

/// Stops the running cell of a session that may sleep and wake meanwhile.
#[derive(Default)]
pub(crate) struct Switch {
    guest: Mutex<Option<Arc<dyn Interrupter>>>,
    /// A way to its files that is open while cells run.
    door: Mutex<Option<Arc<dyn FileDoor>>>,
}

impl Switch {
    /// Interrupts go to this guest from now on.
    pub(crate) fn lead_to(&self, guest: &dyn Guest) {
        *self.guest.lock().unwrap_or_else(PoisonError::into_inner) = Some(guest.interrupter());
        *self.door.lock().unwrap_or_else(PoisonError::into_inner) = guest.door();
    }

    /// The guest is gone.
    pub(crate) fn lead_nowhere(&self) {
        *self.guest.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.door.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A way to the guest's files that is open while cells run, if there is one.
    pub(crate) fn door(&self) -> Option<Arc<dyn FileDoor>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn guest(&self) -> Option<Arc<dyn Interrupter>> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Interrupter for Switch {
    fn interrupt(&self) {
        if let Some(guest) = self.guest() {
            guest.interrupt();
        }
    }

    fn fill(&self) {
        if let Some(guest) = self.guest() {
            guest.fill();
        }
    }

    fn hidden_bytes(&self) -> u64 {
        self.guest().map_or(0, |guest| guest.hidden_bytes())
    }
}
