//! One line of progress for work that goes on in several threads.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use belljar_runtime::Progress;

/// Tells of fetching as long as something is fetched, and of compiling afterwards.
pub(crate) struct Steps<'p> {
    progress: &'p dyn Progress,
    all: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    fetched: usize,
    shown: bool,
}

impl<'p> Steps<'p> {
    pub(crate) fn begin(progress: &'p dyn Progress, packages: usize) -> Self {
        let plural = if packages == 1 { "" } else { "s" };
        progress.begin(
            &format!("fetching {packages} package{plural}"),
            Duration::from_millis(700 * packages as u64),
        );
        Self { progress, all: packages, state: Mutex::new(State { fetched: 0, shown: true }) }
    }

    /// A package is there, and its modules are compiled next.
    pub(crate) fn compiling(&self, name: &str) {
        let mut state = self.state();
        state.fetched += 1;
        if state.fetched < self.all {
            return self.progress.advance(state.fetched as f32 / self.all as f32);
        }
        if state.shown {
            self.progress.end();
        }
        self.progress.begin(&format!("compiling {name}"), Duration::from_secs(1));
        state.shown = true;
    }

    pub(crate) fn end(&self) {
        if std::mem::take(&mut self.state().shown) {
            self.progress.end();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in it can be half-written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
