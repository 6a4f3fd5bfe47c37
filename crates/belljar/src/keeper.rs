//! Puts sessions to sleep that nobody has used for a while, or that take too much memory together.

use std::cmp::Reverse;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Mutex as SessionMutex;

use crate::session::Slot;

/// How often the keeper looks at the clock.
const ROUND: Duration = Duration::from_millis(500);
/// How soon it looks again when sessions woke.
const SOON: Duration = Duration::from_millis(20);

/// What sessions in the registry may have while they are awake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// How long one may be idle; `None` is forever.
    pub(crate) idle: Option<Duration>,
    /// Bytes that all together may have of their own; `None` is a quarter of the machine's.
    pub(crate) memory: Option<u64>,
}

/// Watches over the sessions of a sandbox.
pub(crate) struct Keeper {
    shared: Arc<Watched>,
    rules: Rules,
}

#[derive(Default)]
struct Watched {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    sessions: Vec<Weak<SessionMutex<Slot>>>,
    running: bool,
    closed: bool,
    soon: bool,
}

impl Keeper {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { shared: Arc::default(), rules }
    }

    /// Watches over one more session.
    pub(crate) fn add(&self, session: &Arc<SessionMutex<Slot>>) {
        let mut state = self.shared.lock();
        if state.sessions.len() == state.sessions.capacity() {
            state.sessions.retain(|session| session.strong_count() > 0);
        }
        state.sessions.push(Arc::downgrade(session));
        state.soon = true;
        if !state.running {
            let (shared, rules) = (Arc::clone(&self.shared), self.rules);
            let thread = thread::Builder::new().name("belljar-keeper".to_owned());
            // Without the thread nobody sleeps by himself, and all else works.
            state.running = thread.spawn(move || shared.watch(rules)).is_ok();
        }
        self.shared.changed.notify_one();
    }

    /// Memory is used that wasn't before.
    pub(crate) fn look_again(&self) {
        let mut state = self.shared.lock();
        if !state.soon {
            state.soon = true;
            self.shared.changed.notify_one();
        }
    }

    /// All sessions that are still there.
    pub(crate) fn sessions(&self) -> Vec<Arc<SessionMutex<Slot>>> {
        self.shared.lock().sessions.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, rules: Rules) {
        let memory = rules.memory.unwrap_or_else(quarter_of_memory);
        loop {
            let state = self.lock();
            if state.closed {
                return;
            }
            let wait = if state.soon { SOON } else { ROUND };
            let waited = self.changed.wait_timeout(state, wait);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.closed {
                return;
            }
            state.soon = false;
            let sessions: Vec<_> = state.sessions.iter().filter_map(Weak::upgrade).collect();
            drop(state);
            round(&sessions, rules.idle, memory);
        }
    }
}

/// Looks at all sessions once.
fn round(sessions: &[Arc<SessionMutex<Slot>>], limit: Option<Duration>, memory: u64) {
    let now = Instant::now();
    let mut awake = Vec::new();
    let mut total = 0;
    for session in sessions {
        // One that runs a cell isn't idle, and can't be put to sleep.
        let Ok(mut slot) = session.try_lock() else { continue };
        let idle = now.saturating_duration_since(slot.used);
        if slot.is_live() && limit.is_some_and(|limit| idle >= limit) && !is_busy(&mut slot) {
            sleep(&mut slot);
        } else if slot.is_live() {
            if limit.is_some_and(|limit| idle >= limit / 2) {
                // What is large goes to disk before the whole session does.
                slot.rest();
            }
            let bytes = slot.memory();
            total += bytes;
            awake.push((Reverse(idle), bytes, session));
        }
    }
    if total <= memory {
        return;
    }
    // The longest idle first.
    awake.sort_by_key(|(idle, ..)| *idle);
    for (_, bytes, session) in awake {
        if total <= memory {
            break;
        }
        if let Ok(mut slot) = session.try_lock()
            && sleep(&mut slot)
        {
            total = total.saturating_sub(bytes);
        }
    }
}

/// Whether something runs in the background of a session that sleeping would end.
fn is_busy(slot: &mut Slot) -> bool {
    let busy = slot.is_busy();
    if busy {
        // It is looked at again when it has been idle for as long once more.
        slot.used = Instant::now();
    }
    busy
}

fn sleep(slot: &mut Slot) -> bool {
    match slot.hibernate() {
        Ok(slept) => slept,
        Err(error) => {
            // It stays awake; nothing is lost. The disk may be full.
            tracing::warn!(session = %slot.id, %error, "a session could not be put to sleep");
            // Not again at once.
            slot.used = Instant::now();
            false
        }
    }
}

/// A quarter of the machine's memory, as far as it tells.
fn quarter_of_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|total| total.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.map_or(1 << 30, |kilobytes| kilobytes * 1024 / 4)
}
