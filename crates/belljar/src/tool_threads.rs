//! Threads that tools run on, so that a slow tool doesn't hold up its cell's deadline.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// How long an idle thread stays.
const IDLE: Duration = Duration::from_secs(5);

/// Runs jobs at once, on an idle thread or a new one.
#[derive(Clone, Default)]
pub(crate) struct ToolThreads {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
}

impl ToolThreads {
    /// Runs the job; gives it back if there can be no thread for it.
    pub(crate) fn run(&self, job: Job) -> Result<(), Job> {
        let mut state = self.shared.lock();
        if state.idle > state.jobs.len() {
            state.jobs.push_back(job);
            drop(state);
            self.shared.wake.notify_one();
            return Ok(());
        }
        state.jobs.push_back(job);
        drop(state);
        let shared = Arc::clone(&self.shared);
        let started = thread::Builder::new().name("belljar-tool".to_owned()).spawn(move || shared.work());
        match (started, self.shared.lock()) {
            (Err(_), mut state) if state.idle == 0 => match state.jobs.pop_back() {
                Some(job) => Err(job),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, timeout) =
                self.wake.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                return;
            }
        }
    }
}
