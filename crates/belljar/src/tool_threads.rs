//! Threads that tools run on, so that a slow tool doesn't hold up its cell's deadline.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Does its work, or answers that there is nobody to do it.
pub(crate) type Job = Box<dyn FnOnce(Run) + Send>;

/// What becomes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// It is done now.
    Now,
    /// There can be no thread for it.
    Never,
}

/// How long an idle thread stays.
const IDLE: Duration = Duration::from_secs(5);
/// A guest decides how many calls are under way; the host how many threads that may cost. The rest wait.
const MOST: usize = 128;

/// Runs jobs on an idle thread or a new one, or when one becomes free.
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
    threads: usize,
    idle: usize,
}

impl ToolThreads {
    pub(crate) fn run(&self, job: Job) {
        let mut state = self.shared.lock();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads >= MOST {
            drop(state);
            self.shared.wake.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = Arc::clone(&self.shared);
        if thread::Builder::new().name("belljar-tool".to_owned()).spawn(move || shared.work()).is_ok() {
            return;
        }
        let mut state = self.shared.lock();
        state.threads -= 1;
        if state.threads == 0
            && let Some(job) = state.jobs.pop_back()
        {
            drop(state);
            job(Run::Never);
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
                job(Run::Now);
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, timeout) =
                self.wake.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}
