//! Events on their way to somebody who may be slow to read them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use belljar_engine::Event;
use tokio::sync::Notify;

/// Pieces of a stream that nobody has read yet are joined up to this length, so that what waits is bounded by
/// the policy's limits and not by how finely the guest writes.
const JOINED: usize = 64 << 10;

/// A cell's events in order.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    closed: bool,
}

impl EventQueue {
    pub(crate) fn push(&self, event: Event) {
        let mut state = self.lock();
        match (state.events.back_mut(), event) {
            (Some(Event::Stdout(last)), Event::Stdout(more)) if last.len() < JOINED => last.extend(more),
            (Some(Event::Stderr(last)), Event::Stderr(more)) if last.len() < JOINED => last.extend(more),
            (_, event) => state.events.push_back(event),
        }
        drop(state);
        self.changed.notify_one();
    }

    /// There will be no more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// The next event; `None` when there will be no more.
    pub(crate) async fn next(&self) -> Option<Event> {
        loop {
            {
                let mut state = self.lock();
                if let Some(event) = state.events.pop_front() {
                    return Some(event);
                }
                if state.closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
