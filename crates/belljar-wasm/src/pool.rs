//! Guests made ahead of time, and taken apart, by a thread of its own.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use belljar_engine::GuestSpec;

use crate::engine::{Shared, WeakShared};
use crate::guest::WasmGuest;
use crate::instance::Instance;

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
    /// Interpreters whose guests are gone.
    dead: Vec<Instance>,
    closed: bool,
}

/// How long the pool holds still after a guest was taken, so as not to compete with its first cell.
const PAUSE: Duration = Duration::from_millis(2);

/// How many interpreters may wait to be taken apart; with more, whoever drops one does it himself.
const MOST_DEAD: usize = 32;

/// Where a guest leaves its interpreter when it is dropped, instead of unmapping its memory itself.
#[derive(Clone)]
pub(crate) struct Graveyard(Weak<Ready>);

impl Graveyard {
    pub(crate) fn bury(&self, instance: Instance) {
        let Some(ready) = self.0.upgrade() else { return };
        let mut state = ready.lock();
        if !state.closed && state.dead.len() < MOST_DEAD {
            state.dead.push(instance);
            drop(state);
            ready.changed.notify_one();
        }
    }
}

/// An interpreter that goes to the graveyard, if it has one, instead of being dropped.
pub(crate) struct Mortal {
    /// There until this is dropped.
    instance: Option<Instance>,
    graveyard: Option<Graveyard>,
}

impl Mortal {
    pub(crate) fn new(instance: Instance) -> Self {
        Self { instance: Some(instance), graveyard: None }
    }

    pub(crate) fn bury_in(&mut self, graveyard: Graveyard) {
        self.graveyard = Some(graveyard);
    }

    pub(crate) fn replace(&mut self, instance: Instance) {
        *self = Self { instance: Some(instance), graveyard: self.graveyard.clone() };
    }
}

impl Deref for Mortal {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        self.instance.as_ref().expect("it is there until this is dropped")
    }
}

impl DerefMut for Mortal {
    fn deref_mut(&mut self) -> &mut Instance {
        self.instance.as_mut().expect("it is there until this is dropped")
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        if let (Some(graveyard), Some(instance)) = (&self.graveyard, self.instance.take()) {
            graveyard.bury(instance);
        }
    }
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
        let mut guest = self.ready.lock().guests.pop()?;
        self.ready.changed.notify_one();
        guest.bury_in(Graveyard(Arc::downgrade(&self.ready)));
        Some(guest)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.ready.lock();
        state.closed = true;
        state.guests.clear();
        state.dead.clear();
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
            while !state.closed && state.guests.len() >= count && state.dead.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !state.closed && !state.guests.is_empty() && state.guests.len() < count {
                state = self.changed.wait_timeout(state, PAUSE).unwrap_or_else(PoisonError::into_inner).0;
            }
            let closed = state.closed;
            let (dead, full) = (state.dead.pop(), state.guests.len() >= count);
            drop(state);
            drop(dead);
            if full && !closed {
                continue;
            }
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
