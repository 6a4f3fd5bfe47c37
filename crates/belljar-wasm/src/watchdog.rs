//! One thread that stops cells whose time is over.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use belljar_engine::Interrupter;

use crate::control::{Cause, Control, Request};
use crate::instance::Instance;
use crate::shadows::Shadows;

/// How long guest code outside a cell may take to give way.
const GUARD_GRACE: Duration = Duration::from_millis(100);
/// How often idle shadows are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// Watches running cells.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next_ticket: u64,
    watched: HashMap<u64, Watched>,
    /// When the thread will look next.
    next_look: Option<Instant>,
    closed: bool,
}

#[derive(Debug)]
struct Watched {
    control: Weak<Control>,
    cell: u64,
    cause: Cause,
    at: Instant,
    grace: Duration,
    request: Request,
}

impl Watchdog {
    /// Starts the thread. It also gives up shadows that nobody uses.
    pub(crate) fn start(shadows: Arc<Shadows>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        thread::Builder::new().name("belljar-watchdog".to_owned()).spawn(move || watched.watch(&shadows))?;
        Ok(Self { shared })
    }

    /// Stops the cell softly at `at`, and hard if it still runs `grace` later. Dropping the ticket
    /// ends the watch.
    pub(crate) fn watch(
        &self,
        control: &Arc<Control>,
        cell: u64,
        cause: Cause,
        at: Instant,
        grace: Duration,
    ) -> Ticket {
        let number = self.add(control, cell, cause, at, grace);
        Ticket { shared: Arc::clone(&self.shared), number }
    }

    /// Runs guest code outside any cell, and stops it hard if it isn't done by `at`.
    pub(crate) fn guard<T>(
        &self,
        instance: &mut Instance,
        at: Instant,
        body: impl FnOnce(&mut Instance) -> wasmtime::Result<T>,
    ) -> wasmtime::Result<T> {
        let word = instance.poll_word()?;
        let control = Arc::clone(&instance.store.data().control);
        // SAFETY: the word is in this instance's memory, which lives until after `end` below.
        let call = unsafe { control.begin(word) };
        let ticket = self.watch(&control, call, Cause::Deadline, at, GUARD_GRACE);
        let result = body(instance);
        control.end();
        drop(ticket);
        result
    }

    fn add(&self, control: &Arc<Control>, cell: u64, cause: Cause, at: Instant, grace: Duration) -> u64 {
        let mut state = self.shared.lock();
        state.next_ticket += 1;
        let number = state.next_ticket;
        let control = Arc::downgrade(control);
        state.watched.insert(number, Watched { control, cell, cause, at, grace, request: Request::Soft });
        if state.next_look.is_none_or(|look| at < look) {
            state.next_look = Some(at);
            self.shared.wake.notify_one();
        }
        number
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_one();
    }
}

/// A watch; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.lock().watched.remove(&self.number);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, shadows: &Shadows) {
        let mut next_sweep = Instant::now();
        let mut state = self.lock();
        while !state.closed {
            if Instant::now() >= next_sweep {
                drop(state);
                shadows.sweep();
                next_sweep = Instant::now() + SWEEP;
                state = self.lock();
            }
            let now = Instant::now();
            state.watched.retain(|_, watched| watched.look(now));
            let look = state.watched.values().map(|watched| watched.at).fold(next_sweep, Instant::min);
            state.next_look = Some(look);
            let left = look.saturating_duration_since(Instant::now());
            state = self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Watched {
    /// Acts if it is time; returns whether there is still something to watch.
    fn look(&mut self, now: Instant) -> bool {
        if now < self.at {
            return true;
        }
        let Some(control) = self.control.upgrade() else { return false };
        let runs = control.stop(self.cell, self.request, self.cause);
        // A hard stop is repeated: guest code could have overwritten the polled word.
        self.at = now + if self.request == Request::Soft { self.grace } else { Duration::from_millis(1) };
        self.request = Request::Hard;
        runs
    }
}

/// Interrupts whatever cell runs in one guest.
#[derive(Debug)]
pub(crate) struct GuestInterrupter {
    pub(crate) control: Arc<Control>,
    pub(crate) watchdog: Arc<Watchdog>,
}

/// How long code may clean up after an interrupt: longer than after a deadline, because somebody
/// who interrupts wants to keep the session.
const INTERRUPT_GRACE: Duration = Duration::from_millis(250);

impl Interrupter for GuestInterrupter {
    fn interrupt(&self) {
        if let Some(cell) = self.control.running() {
            // No ticket: the watch ends with the cell.
            self.watchdog.add(&self.control, cell, Cause::Interrupt, Instant::now(), INTERRUPT_GRACE);
        }
    }
}
