//! Guests made ahead of time by a thread of their own.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use belljar_engine::GuestSpec;

use crate::engine::{Shared, WeakShared};
use crate::guest::WasmGuest;

/// Ready guests of one spec.
pub(crate) struct Pool {
    spec: Arc<GuestSpec>,
    ready: Arc<Ready>,
}

#[derive(Default)]
struct Ready {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    guests: Vec<WasmGuest>,
    closed: bool,
}

impl Pool {
    /// Keeps `count` guests ready. `None` if there can be no thread for it.
    pub(crate) fn start(shared: &Arc<Shared>, spec: &Arc<GuestSpec>, count: usize) -> Option<Self> {
        let ready = Arc::new(Ready::default());
        let filled = Arc::clone(&ready);
        let (shared, filled_with) = (Arc::downgrade(shared), Arc::clone(spec));
        thread::Builder::new()
            .name("belljar-pool".to_owned())
            .spawn(move || filled.fill(&shared, &filled_with, count))
            .ok()?;
        Some(Self { spec: Arc::clone(spec), ready })
    }

    /// A ready guest of this very spec.
    pub(crate) fn take(&self, spec: &Arc<GuestSpec>) -> Option<WasmGuest> {
        if !Arc::ptr_eq(&self.spec, spec) {
            return None;
        }
        let guest = self.ready.lock().guests.pop();
        self.ready.changed.notify_one();
        guest
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.ready.lock();
        state.closed = true;
        state.guests.clear();
        self.ready.changed.notify_one();
    }
}

impl Ready {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, shared: &WeakShared, spec: &Arc<GuestSpec>, count: usize) {
        loop {
            let mut state = self.lock();
            while !state.closed && state.guests.len() >= count {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let closed = state.closed;
            drop(state);
            let (false, Some(shared)) = (closed, shared.upgrade()) else { return };
            let Ok(mut guest) = WasmGuest::boot(&shared, spec) else { return };
            if guest.warm().is_err() {
                return;
            }
            let mut state = self.lock();
            if !state.closed {
                state.guests.push(guest);
            }
        }
    }
}
