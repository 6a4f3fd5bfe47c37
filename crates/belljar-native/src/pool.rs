//! What is made ahead of time: namespaces for the next sessions, and whole sessions where that was asked for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use belljar_engine::{GuestSpec, Storage};

use crate::engine::{Room, Shared};
use crate::guest::NativeGuest;

/// How many namespaces are kept ready for the spec that was last used.
const ROOMS: usize = 2;

#[derive(Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// For this spec.
    rooms_for: Option<Arc<GuestSpec>>,
    rooms: Vec<Room>,
    /// Somebody is making some.
    making_rooms: bool,
    guests_for: Option<Arc<GuestSpec>>,
    wanted: usize,
    guests: Vec<NativeGuest>,
    making_guests: bool,
}

impl Pool {
    /// A session that is ready, if there is one for this very spec.
    pub(crate) fn take(&self, spec: &Arc<GuestSpec>) -> Option<NativeGuest> {
        let mut state = self.lock();
        let fits = state.guests_for.as_ref().is_some_and(|ready| Arc::ptr_eq(ready, spec));
        state.guests.retain(|guest| guest.room.is_alive());
        let guest = if fits { state.guests.pop() } else { None };
        let shared = guest.as_ref().map(|guest| Arc::clone(&guest.shared));
        drop(state);
        if let Some(shared) = shared {
            self.fill(&shared);
        }
        guest
    }

    /// Keeps so many sessions of this spec ready.
    pub(crate) fn keep(&self, shared: &Arc<Shared>, spec: &Arc<GuestSpec>, count: usize) {
        let mut state = self.lock();
        state.guests_for = (count > 0).then(|| Arc::clone(spec));
        state.wanted = count;
        let old = std::mem::take(&mut state.guests);
        drop(state);
        drop(old);
        self.fill(shared);
    }

    fn fill(&self, shared: &Arc<Shared>) {
        let mut state = self.lock();
        if state.making_guests || state.guests.len() >= state.wanted {
            return;
        }
        state.making_guests = true;
        drop(state);
        let weak = Arc::downgrade(shared);
        let made = thread::Builder::new().name("belljar-pool".to_owned()).spawn(move || {
            while let Some(shared) = weak.upgrade() {
                let mut state = shared.pool.lock();
                let spec = state.guests_for.clone().filter(|_| state.guests.len() < state.wanted);
                let Some(spec) = spec else {
                    state.making_guests = false;
                    return;
                };
                drop(state);
                let made =
                    NativeGuest::boot(&shared, &spec).and_then(|mut guest| guest.warm().map(|()| guest));
                let mut state = shared.pool.lock();
                match made {
                    Ok(guest)
                        if state.guests_for.as_ref().is_some_and(|wanted| Arc::ptr_eq(wanted, &spec)) =>
                    {
                        state.guests.push(guest);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(%error, "no session can be made ahead of time");
                        state.making_guests = false;
                        return;
                    }
                }
            }
        });
        if made.is_err() {
            self.lock().making_guests = false;
        }
    }

    /// Namespaces for this spec, if there are some.
    pub(crate) fn take_room(&self, spec: &Arc<GuestSpec>) -> Option<Room> {
        let mut state = self.lock();
        let fits = state.rooms_for.as_ref().is_some_and(|ready| Arc::ptr_eq(ready, spec));
        state.rooms.retain(Room::is_alive);
        if fits { state.rooms.pop() } else { None }
    }

    /// Makes namespaces for the next sessions of this spec, in the background.
    pub(crate) fn refill(&self, shared: &Arc<Shared>, spec: &Arc<GuestSpec>) {
        // A directory has one session, whose spec nobody else has.
        if spec.storage != Storage::Memory {
            return;
        }
        let mut state = self.lock();
        let mut old = Vec::new();
        if !state.rooms_for.as_ref().is_some_and(|ready| Arc::ptr_eq(ready, spec)) {
            state.rooms_for = Some(Arc::clone(spec));
            old = std::mem::take(&mut state.rooms);
        }
        let enough = state.making_rooms || state.rooms.len() >= ROOMS;
        state.making_rooms = true;
        if enough {
            return;
        }
        drop(state);
        drop(old);
        let weak = Arc::downgrade(shared);
        let made = thread::Builder::new().name("belljar-rooms".to_owned()).spawn(move || {
            while let Some(shared) = weak.upgrade() {
                let mut state = shared.pool.lock();
                let spec = state.rooms_for.clone().filter(|_| state.rooms.len() < ROOMS);
                let Some(spec) = spec else {
                    state.making_rooms = false;
                    return;
                };
                drop(state);
                let made = shared.room(&spec);
                let mut state = shared.pool.lock();
                match made {
                    Ok(room) if state.rooms_for.as_ref().is_some_and(|wanted| Arc::ptr_eq(wanted, &spec)) => {
                        state.rooms.push(room);
                    }
                    Ok(_) => {}
                    Err(_) => {
                        state.making_rooms = false;
                        return;
                    }
                }
            }
        });
        if made.is_err() {
            self.lock().making_rooms = false;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
