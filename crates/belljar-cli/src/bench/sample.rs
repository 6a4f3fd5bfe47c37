//! Many measurements of one thing.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What is told of many measurements.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) median: f64,
    pub(super) p10: f64,
    pub(super) p90: f64,
    pub(super) min: f64,
    pub(super) n: usize,
}

impl Sample {
    pub(super) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at =
            |part: usize| values.get(values.len() * part / 100).or(values.last()).copied().unwrap_or(0.0);
        Self { median: at(50), p10: at(10), p90: at(90), min: at(0), n: values.len() }
    }

    /// Calls `body` so many times and keeps what it returns, in the unit that it chooses.
    pub(super) fn collect(
        count: usize,
        mut body: impl FnMut() -> anyhow::Result<f64>,
    ) -> anyhow::Result<Self> {
        (0..count).map(|_| body()).collect::<anyhow::Result<Vec<f64>>>().map(Self::new)
    }
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(super) fn microseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// How long `body` takes.
pub(super) fn time<T>(body: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(Duration, T)> {
    let started = Instant::now();
    let result = body()?;
    Ok((started.elapsed(), result))
}

/// The geometric mean.
pub(super) fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    (logarithms.iter().sum::<f64>() / logarithms.len().max(1) as f64).exp()
}
