//! The numbers side by side.

use std::fmt::Write;

use serde::Serialize;

use super::measure::Measured;
use super::peers::Peers;
use super::row::{Promise, Reading, Row};
use super::sample::{Sample, geometric_mean};

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: u32,
    belljar: Option<Measured>,
    rows: Vec<Row>,
    /// Where sessions were kept, and what file system that is.
    state: Option<String>,
    peers: Peers,
    /// What could not be measured, and why.
    notes: Vec<String>,
}

impl Report {
    pub(super) fn new(
        belljar: Option<Measured>,
        sessions: Vec<Row>,
        state: Option<String>,
        peers: Peers,
        notes: Vec<String>,
    ) -> Self {
        let mut all = belljar.as_ref().map_or_else(Vec::new, |measured| rows(measured, &peers));
        all.extend(sessions);
        Self { version: 2, belljar, rows: all, state, peers, notes }
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let mut text =
            format!("{:<62} {:>12} {:>5}  {:<24} {:>7}  promise\n", "", "belljar", "of", "other", "ratio");
        for row in &self.rows {
            let ours = format!("{:.3} {}", row.ours, row.unit);
            let count = row.spread.map_or_else(String::new, |spread| spread.n.to_string());
            let (other, ratio) = match &row.other {
                Some(other) => (format!("{} {:.3}", other.who, other.value), format!("{:.2}", other.ratio)),
                None => (String::new(), String::new()),
            };
            let line =
                format!("{:<62} {ours:>12} {count:>5}  {other:<24} {ratio:>7}  {}", row.what, row.verdict());
            text.push_str(line.trim_end());
            text.push('\n');
        }
        // Writing to a string cannot fail.
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        if let Some(state) = &self.state {
            let _ = writeln!(text, "sessions were kept in {state}");
        }
        text
    }
}

fn rows(ours: &Measured, peers: &Peers) -> Vec<Row> {
    let eryx = |path: &str| peers.number("eryx", path);
    fn row(what: &str, reading: impl Into<Reading>, unit: &'static str, promise: Option<Promise>) -> Row {
        Row { promise, ..Row::new(what, unit, reading) }
    }
    fn against(
        what: &str,
        reading: impl Into<Reading>,
        unit: &'static str,
        who: &'static str,
        other: Option<f64>,
        promise: Promise,
    ) -> Row {
        Row::new(what, unit, reading).against(who, other).promise(promise)
    }
    let mut rows = vec![
        row("new session + print(1), drop included", &ours.fresh_ms, "ms", Some(Promise::AtMost(1.5))),
        against(
            "  ÷ eryx",
            &ours.fresh_ms,
            "ms",
            "eryx",
            eryx("fresh_ms/median"),
            Promise::RatioAtMost(0.25),
        ),
        row("the same from the warmed pool", &ours.fresh_warmed_ms, "ms", Some(Promise::AtMost(0.3))),
        against(
            "cell x += 1, back to back",
            &ours.cell_us,
            "µs",
            "eryx",
            eryx("cell_us/median"),
            Promise::RatioAtMost(0.8),
        ),
        row("  with 2 ms between cells", &ours.cell_rested_us, "µs", None),
        row("  without rollback", &ours.cell_without_rollback_us, "µs", None),
        row("tool call", &ours.tool_us, "µs", Some(Promise::AtMost(50.0))),
        against(
            "new process → exit, ÷ /usr/bin/python3",
            &ours.process_ms,
            "ms",
            "python3",
            ours.python_process_ms.map(|sample| sample.median),
            Promise::RatioAtMost(1.0),
        ),
        against(
            "  ÷ eryx",
            &ours.process_ms,
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
            sample,
            "ms",
            Some(Promise::AtMost(50.0)),
        ));
    }
    rows.push(row("next result after a hard stop", &ours.rollback_ms, "ms", None));
    rows
}

fn mean<'a>(samples: impl Iterator<Item = &'a Sample>) -> f64 {
    geometric_mean(samples.map(|sample| sample.median))
}
