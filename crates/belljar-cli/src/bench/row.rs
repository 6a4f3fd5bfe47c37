//! One line of the report: a number, somebody else's beside it, and what was promised.

use serde::Serialize;

use super::sample::Sample;

/// What was measured, and what was promised of it.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) ours: f64,
    pub(super) unit: &'static str,
    /// How it varied, if it is a median.
    pub(super) spread: Option<Spread>,
    pub(super) other: Option<Other>,
    pub(super) promise: Option<Promise>,
}

/// Nine of ten are between these, of so many.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Spread {
    pub(super) p10: f64,
    pub(super) p90: f64,
    pub(super) n: usize,
}

/// Somebody else's number.
#[derive(Debug, Serialize)]
pub(super) struct Other {
    pub(super) who: &'static str,
    pub(super) value: f64,
    /// Ours ÷ theirs.
    pub(super) ratio: f64,
}

/// What must not be exceeded, or fallen short of.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Promise {
    AtMost(f64),
    AtLeast(f64),
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// The other takes so many times as long.
    Faster(f64),
    /// One of the two is enough.
    EitherAtLeast {
        value: f64,
        ratio: f64,
    },
}

/// A number, or the median of many.
pub(super) struct Reading {
    value: f64,
    spread: Option<Spread>,
}

impl From<f64> for Reading {
    fn from(value: f64) -> Self {
        Self { value, spread: None }
    }
}

impl From<&Sample> for Reading {
    fn from(sample: &Sample) -> Self {
        let Sample { median, p10, p90, n, .. } = *sample;
        Self { value: median, spread: Some(Spread { p10, p90, n }) }
    }
}

impl Row {
    pub(super) fn new(what: impl Into<String>, unit: &'static str, reading: impl Into<Reading>) -> Self {
        let Reading { value, spread } = reading.into();
        Self { what: what.into(), ours: value, unit, spread, other: None, promise: None }
    }

    /// Puts somebody else's number beside it, where there is one.
    pub(super) fn against(mut self, who: &'static str, other: Option<f64>) -> Self {
        self.other = other.map(|value| Other { who, value, ratio: self.ours / value });
        self
    }

    pub(super) fn promise(mut self, promise: Promise) -> Self {
        self.promise = Some(promise);
        self
    }

    /// For people: what was promised, and whether it is kept.
    pub(super) fn verdict(&self) -> String {
        let Some(promise) = self.promise else { return String::new() };
        let (value, ratio) = (self.ours, self.other.as_ref().map(|other| other.ratio));
        let (kept, words) = match promise {
            Promise::AtMost(most) => (Some(value <= most), format!("≤ {most} {}", self.unit)),
            Promise::AtLeast(least) => (Some(value >= least), format!("≥ {least} {}", self.unit)),
            Promise::RatioAtMost(most) => (ratio.map(|ratio| ratio <= most), format!("ratio ≤ {most}")),
            Promise::RatioAtLeast(least) => (ratio.map(|ratio| ratio >= least), format!("ratio ≥ {least}")),
            Promise::Faster(times) => {
                let found = ratio.map(|ratio| 1.0 / ratio);
                let words = found.map_or_else(String::new, |found| format!(" ({found:.1})"));
                (found.map(|found| found >= times), format!("≥ {times} × as fast{words}"))
            }
            Promise::EitherAtLeast { value: least, ratio: part } => (
                Some(value >= least || ratio.is_some_and(|ratio| ratio >= part)),
                format!("≥ {least} {} or ratio ≥ {part}", self.unit),
            ),
        };
        match kept {
            Some(true) => format!("{words}: kept"),
            Some(false) => format!("{words}: NOT kept"),
            None => words,
        }
    }
}
