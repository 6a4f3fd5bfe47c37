//! The numbers side by side.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use super::measure::Measured;
use super::sample::{Sample, geometric_mean};

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: u32,
    belljar: Measured,
    rows: Vec<Row>,
    peers: Option<Value>,
}

/// One promise: what was promised, and what was reached.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    ours: f64,
    unit: &'static str,
    other: Option<Other>,
    promise: Option<Promise>,
}

/// Somebody else's number.
#[derive(Debug, Serialize)]
struct Other {
    who: &'static str,
    value: f64,
    /// Ours ÷ theirs.
    ratio: f64,
}

/// What must not be exceeded, or fallen short of.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Promise {
    AtMost(f64),
    RatioAtMost(f64),
    RatioAtLeast(f64),
}

impl Report {
    pub(super) fn new(belljar: Measured, peers: Option<Value>) -> Self {
        let rows = rows(&belljar, peers.as_ref());
        Self { version: 1, belljar, rows, peers }
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let mut text = format!("{:<52} {:>12}  {:<22} {:>7}  promise\n", "", "belljar", "other", "ratio");
        for row in &self.rows {
            let ours = format!("{:.3} {}", row.ours, row.unit);
            let (other, ratio) = match &row.other {
                Some(other) => (format!("{} {:.3}", other.who, other.value), format!("{:.2}", other.ratio)),
                None => (String::new(), String::new()),
            };
            let promise = row.promise.map_or_else(String::new, |promise| promise.verdict(row));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:<52} {ours:>12}  {other:<22} {ratio:>7}  {promise}", row.what);
        }
        text
    }
}

impl Promise {
    fn verdict(self, row: &Row) -> String {
        let ratio = row.other.as_ref().map(|other| other.ratio);
        let (kept, words) = match self {
            Self::AtMost(most) => (Some(row.ours <= most), format!("≤ {most} {}", row.unit)),
            Self::RatioAtMost(most) => (ratio.map(|ratio| ratio <= most), format!("ratio ≤ {most}")),
            Self::RatioAtLeast(least) => (ratio.map(|ratio| ratio >= least), format!("ratio ≥ {least}")),
        };
        match kept {
            Some(true) => format!("{words}: kept"),
            Some(false) => format!("{words}: NOT kept"),
            None => words,
        }
    }
}

fn rows(ours: &Measured, peers: Option<&Value>) -> Vec<Row> {
    let eryx = |path: &str| {
        peers.and_then(|peers| peers.pointer(&format!("/peers/eryx/{path}"))).and_then(Value::as_f64)
    };
    let row = |what: &str, value: f64, unit: &'static str, promise: Option<Promise>| Row {
        what: what.to_owned(),
        ours: value,
        unit,
        other: None,
        promise,
    };
    let against = |what: &str, value: f64, unit, who: &'static str, other: Option<f64>, promise| Row {
        what: what.to_owned(),
        ours: value,
        unit,
        other: other.map(|other| Other { who, value: other, ratio: value / other }),
        promise: Some(promise),
    };
    let mut rows = vec![
        row("new session + print(1), drop included", ours.fresh_ms.median, "ms", Some(Promise::AtMost(1.5))),
        against(
            "  ÷ eryx",
            ours.fresh_ms.median,
            "ms",
            "eryx",
            eryx("fresh_ms/median"),
            Promise::RatioAtMost(0.25),
        ),
        row("the same from the warmed pool", ours.fresh_warmed_ms.median, "ms", Some(Promise::AtMost(0.3))),
        against(
            "cell x += 1, back to back",
            ours.cell_us.median,
            "µs",
            "eryx",
            eryx("cell_us/median"),
            Promise::RatioAtMost(0.8),
        ),
        row("  with 2 ms between cells", ours.cell_rested_us.median, "µs", None),
        row("  without rollback", ours.cell_without_rollback_us.median, "µs", None),
        row("tool call", ours.tool_us.median, "µs", Some(Promise::AtMost(50.0))),
        against(
            "new process → exit, ÷ /usr/bin/python3",
            ours.process_ms.median,
            "ms",
            "python3",
            ours.python_process_ms.map(|sample| sample.median),
            Promise::RatioAtMost(1.0),
        ),
        against(
            "  ÷ eryx",
            ours.process_ms.median,
            "ms",
            "eryx",
            eryx("process_ms/exit/median"),
            Promise::RatioAtMost(0.2),
        ),
        row(
            "memory of a live session, after a cell",
            ours.memory.after_cell_mb,
            "MB",
            Some(Promise::AtMost(1.5)),
        ),
        row("  after common imports", ours.memory.after_imports_mb, "MB", Some(Promise::AtMost(3.0))),
        against(
            "sessions with one cell, two threads",
            ours.throughput.threads_2_per_s,
            "/s",
            "eryx",
            eryx("throughput/threads_2_per_s")
                .into_iter()
                .chain(eryx("throughput/reused_threads_2_per_s"))
                .reduce(f64::max),
            Promise::RatioAtLeast(4.0),
        ),
    ];
    rows.push(against(
        "CPU of six programs, geometric mean, ÷ python3",
        mean(ours.cpu_ms.values()),
        "ms",
        "python3",
        (!ours.python_cpu_ms.is_empty()).then(|| mean(ours.python_cpu_ms.values())),
        Promise::RatioAtMost(2.2),
    ));
    let eryx_programs: Option<Vec<f64>> =
        ours.cpu_ms.keys().map(|name| eryx(&format!("cpu_ms/{name}/median"))).collect();
    rows.push(against(
        "  ÷ eryx",
        mean(ours.cpu_ms.values()),
        "ms",
        "eryx",
        eryx_programs.map(|times| geometric_mean(times.into_iter())),
        Promise::RatioAtMost(0.55),
    ));
    for (name, sample) in &ours.deadline_late_ms {
        rows.push(row(
            &format!("late after the deadline: {name}"),
            sample.median,
            "ms",
            Some(Promise::AtMost(50.0)),
        ));
    }
    rows.push(row("next result after a hard stop", ours.rollback_ms.median, "ms", None));
    rows
}

fn mean<'a>(samples: impl Iterator<Item = &'a Sample>) -> f64 {
    geometric_mean(samples.map(|sample| sample.median))
}
