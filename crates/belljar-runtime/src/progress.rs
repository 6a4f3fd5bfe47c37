use std::time::Duration;

/// Hears how the work goes. This crate never prints; whoever has a terminal does.
pub trait Progress: Sync {
    /// A step begins, and should take about this long.
    fn begin(&self, step: &str, expected: Duration);
    /// This part of the current step is done, from 0 to 1.
    fn advance(&self, fraction: f32);
    /// The current step is over. After an error no call follows.
    fn end(&self);
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn begin(&self, _: &str, _: Duration) {}
    fn advance(&self, _: f32) {}
    fn end(&self) {}
}
