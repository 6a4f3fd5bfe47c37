//! Shows how making the interpreter goes. Does nothing until something must be made.

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use belljar::{Progress, Quiet};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::console;

/// Who reads what the command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    Person,
    /// It reads standard output, and should find nothing on standard error.
    Program,
}

/// A bar on a terminal, else a line for each step.
pub(crate) fn for_audience(audience: Audience) -> Arc<dyn Progress + Send + Sync> {
    if io::stderr().is_terminal() {
        Arc::new(Bar::default())
    } else if audience == Audience::Person {
        Arc::new(Lines)
    } else {
        Arc::new(Quiet)
    }
}

struct Lines;

impl Progress for Lines {
    fn begin(&self, step: &str, expected: Duration) {
        console::note(format_args!("{step} (about {})", Seconds(expected)));
    }

    fn advance(&self, _: f32) {}

    fn end(&self) {}
}

#[derive(Default)]
struct Bar {
    steps: Arc<Mutex<Vec<Step>>>,
    bar: OnceLock<ProgressBar>,
}

/// A step that has begun. Steps can be inside each other; the innermost is shown.
struct Step {
    name: String,
    expected: Duration,
    begun: Instant,
    /// As told; many steps tell nothing.
    fraction: f32,
}

impl Progress for Bar {
    fn begin(&self, step: &str, expected: Duration) {
        let step = Step { name: step.to_owned(), expected, begun: Instant::now(), fraction: 0.0 };
        lock(&self.steps).push(step);
        self.bar.get_or_init(|| bar(Arc::clone(&self.steps))).tick();
    }

    fn advance(&self, fraction: f32) {
        if let Some(step) = lock(&self.steps).last_mut() {
            step.fraction = fraction;
        }
    }

    fn end(&self) {
        lock(&self.steps).pop();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn bar(steps: Arc<Mutex<Vec<Step>>>) -> ProgressBar {
    let draw = move |_: &ProgressState, line: &mut dyn fmt::Write| {
        if let Some(step) = lock(&steps).last() {
            // The line is only a drawing: it can't fail in a way that matters.
            let _ = step.draw(line);
        }
    };
    let style = ProgressStyle::with_template("{spinner} {step}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .with_key("step", draw);
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

impl Step {
    const WIDTH: usize = 24;

    fn draw(&self, line: &mut dyn fmt::Write) -> fmt::Result {
        let elapsed = self.begun.elapsed();
        let filled = (f64::from(self.done(elapsed)) * Self::WIDTH as f64) as usize;
        for cell in 0..Self::WIDTH {
            line.write_char(if cell < filled { '━' } else { '┄' })?;
        }
        write!(line, " {} of about {}: {}", Seconds(elapsed), Seconds(self.expected.max(elapsed)), self.name)
    }

    /// By the clock where the step doesn't tell; never quite done before it says so.
    fn done(&self, elapsed: Duration) -> f32 {
        let by_clock = elapsed.as_secs_f32() / self.expected.as_secs_f32().max(0.1);
        by_clock.min(0.95).max(self.fraction.min(1.0))
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} s", self.0.as_secs_f64().ceil())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(fraction: f32) -> Step {
        Step {
            name: "boiling".to_owned(),
            expected: Duration::from_secs(10),
            begun: Instant::now(),
            fraction,
        }
    }

    #[test]
    fn the_clock_never_finishes_a_step() {
        assert_eq!(step(0.0).done(Duration::from_secs(5)), 0.5);
        assert_eq!(step(0.0).done(Duration::from_secs(100)), 0.95);
        assert_eq!(step(0.7).done(Duration::from_secs(5)), 0.7);
        assert_eq!(step(1.0).done(Duration::ZERO), 1.0);
    }
}
