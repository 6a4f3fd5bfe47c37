//! The cells that a session's state comes from.
//!
//! A session in the registry has its history on disk, and the lineage is read from that when an artifact asks for it.
//! Others remember theirs, the last of it.

use std::collections::VecDeque;

use belljar_artifacts::{CellRecord, DatasetUse, RecordId, RecordKind, Redactor};
use belljar_engine::State;
use belljar_store::HistoryEntry;

/// Steps that are remembered.
const MOST_STEPS: usize = 10_000;
/// Bytes of code that are remembered.
const MOST_CODE: usize = 16 << 20;
/// What a step is to the history.
const COMMAND: &str = "command";
/// In an outcome of the history: the code without its secrets.
pub(crate) const RECORDED_CODE: &str = "recorded_code";
/// How notes about what was taken back begin; what follows is read again here.
const UNDONE: &str = "taken back: cells ";
const ROLLED_BACK: &str = "back to checkpoint ";

/// Something that was run and is in effect, or was.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) session: String,
    pub(crate) kind: RecordKind,
    pub(crate) number: u32,
    pub(crate) code: String,
    pub(crate) started_ms: u64,
    pub(crate) status: String,
    pub(crate) tool_calls: u64,
    pub(crate) datasets: Vec<DatasetUse>,
    /// The cell after which it came.
    pub(super) before: u32,
    /// Counts all steps.
    pub(super) serial: u64,
    /// The id of its record, if that is in the store.
    pub(super) stored: Option<RecordId>,
}

/// What a session's state comes from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lineage {
    steps: VecDeque<Step>,
    code: usize,
    /// The number of the last cell in effect.
    head: u32,
    next_serial: u64,
    /// Steps that were forgotten.
    lost: bool,
}

/// What is to be stored of a lineage.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) cells: Vec<CellRecord>,
    serials: Vec<u64>,
    /// There were earlier ones, which nobody knows any more.
    pub(crate) lost: bool,
}

impl Lineage {
    /// Something was run. What was taken back at once has changed nothing.
    pub(crate) fn add(&mut self, mut step: Step, state: State) {
        if state == State::RolledBack {
            return;
        }
        (step.before, step.serial, step.stored) = (self.head, self.next_serial, None);
        self.next_serial += 1;
        if step.kind == RecordKind::Cell {
            self.head = step.number;
        }
        self.code += step.code.len();
        self.steps.push_back(step);
        while self.steps.len() > MOST_STEPS || self.code > MOST_CODE {
            self.lost = true;
            match self.steps.pop_front() {
                Some(first) => self.code -= first.code.len(),
                None => break,
            }
        }
    }

    /// Cells were taken back: what was in effect before the first of them is again.
    pub(crate) fn undo(&mut self, first: u32) {
        let found =
            self.steps.iter().rev().find(|step| step.kind == RecordKind::Cell && step.number == first);
        if let Some(step) = found {
            self.head = step.before;
        }
    }

    /// It is again what it was after a cell.
    pub(crate) fn roll_back(&mut self, cell: u32) {
        self.head = cell;
    }

    /// What is in effect and isn't in the store yet, the oldest first.
    pub(crate) fn records(&self, origin: &str, redactor: &Redactor) -> Records {
        let (mut chain, mut at, mut previous) = (Vec::new(), self.head, None);
        // What a step comes after was before it.
        for step in self.steps.iter().rev() {
            let is_next = match step.kind {
                RecordKind::Cell => step.number == at,
                RecordKind::Command | RecordKind::HostFile => step.before == at,
            };
            if !is_next {
                continue;
            }
            if let Some(id) = &step.stored {
                previous = Some(id.clone());
                break;
            }
            chain.push(step);
            if step.kind == RecordKind::Cell {
                at = step.before;
            }
        }
        let lost = previous.is_none() && (self.lost || at != 0);
        let record = |step: &Step| {
            let (code, redacted) = redactor.redact(&step.code);
            let made = CellRecord {
                previous: previous.take(),
                origin: origin.to_owned(),
                session: step.session.clone(),
                kind: step.kind,
                number: step.number,
                code,
                started_ms: step.started_ms,
                status: step.status.clone(),
                datasets: step.datasets.clone(),
                tool_calls: step.tool_calls,
                redacted,
            };
            previous = Some(made.id());
            made
        };
        let serials = chain.iter().rev().map(|step| step.serial).collect();
        Records { cells: chain.into_iter().rev().map(record).collect(), serials, lost }
    }

    /// Nothing of it is in the store any more.
    pub(crate) fn forget_stored(&mut self) {
        self.steps.iter_mut().for_each(|step| step.stored = None);
    }

    /// These are in the store.
    pub(crate) fn mark_stored(&mut self, records: &Records) {
        let first = self.steps.front().map_or(0, |step| step.serial);
        for (serial, record) in records.serials.iter().zip(&records.cells) {
            let index = usize::try_from(serial - first).unwrap_or(usize::MAX);
            if let Some(step) = self.steps.get_mut(index) {
                step.stored = Some(record.id());
            }
        }
    }

    /// One of which nothing is known, up to a cell.
    pub(crate) fn unknown(cell: u32) -> Self {
        Self { head: cell, lost: true, ..Self::default() }
    }

    /// The lineage that a history tells of, beginning with that of the parent.
    pub(crate) fn read(mut self, session: &str, entries: &[HistoryEntry]) -> Self {
        for entry in entries {
            let note = entry.note.as_deref().unwrap_or_default();
            match entry.kind.as_str() {
                "undo" => {
                    if let Some(first) = number_after(note, UNDONE) {
                        self.undo(first);
                    }
                }
                "rollback" => {
                    if let Some(cell) = number_after(note, "after cell ") {
                        self.roll_back(cell);
                    }
                }
                // What was run before the process ended and wasn't kept has a note.
                "cell" if entry.note.is_some() => {}
                "cell" | COMMAND => {
                    let (step, state) = step(session, entry);
                    self.add(step, state);
                }
                _ => {}
            }
        }
        self
    }
}

/// What the history says of cells that were taken back.
pub(crate) fn undo_note(first: u32, last: u32) -> String {
    format!("{UNDONE}{first} to {last}")
}

/// What the history says of going back to a checkpoint.
pub(crate) fn rollback_note(checkpoint: u32, cell: u32) -> String {
    format!("{ROLLED_BACK}{checkpoint}, after cell {cell}")
}

fn number_after(note: &str, words: &str) -> Option<u32> {
    let rest = &note[note.find(words)? + words.len()..];
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

impl Step {
    pub(crate) fn new(session: &str, kind: RecordKind, number: u32, code: String, started_ms: u64) -> Self {
        Self {
            session: session.to_owned(),
            kind,
            number,
            code,
            started_ms,
            status: String::new(),
            tool_calls: 0,
            datasets: Vec::new(),
            before: 0,
            serial: 0,
            stored: None,
        }
    }
}

fn step(session: &str, entry: &HistoryEntry) -> (Step, State) {
    let outcome = entry.outcome.clone().unwrap_or_default();
    let kind = if entry.kind == COMMAND { RecordKind::Command } else { RecordKind::Cell };
    let state = serde_json::from_value(outcome["session"]["state"].clone()).unwrap_or(State::Kept);
    let datasets = serde_json::from_value(outcome["datasets"].clone()).unwrap_or_default();
    let code = outcome[RECORDED_CODE].as_str().unwrap_or(&entry.code).to_owned();
    let step = Step {
        status: outcome["status"].as_str().unwrap_or_default().to_owned(),
        tool_calls: outcome["usage"]["tool_calls"].as_u64().unwrap_or_default(),
        datasets,
        ..Step::new(session, kind, entry.number, code, entry.started_ms)
    };
    (step, state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing_hidden() -> Redactor {
        Redactor::new([], [])
    }

    fn ran(lineage: &mut Lineage, number: u32) {
        let step = Step::new("s", RecordKind::Cell, number, format!("cell {number}"), 0);
        lineage.add(step, State::Kept);
    }

    fn numbers(lineage: &Lineage) -> Vec<u32> {
        let Records { cells, lost, .. } = lineage.records("origin", &nothing_hidden());
        assert!(!lost);
        for pair in cells.windows(2) {
            assert_eq!(pair[1].previous, Some(pair[0].id()));
        }
        cells.iter().map(|record| record.number).collect()
    }

    #[test]
    fn what_was_taken_back_is_no_part_of_it() {
        let mut lineage = Lineage::default();
        assert!(numbers(&lineage).is_empty());
        (1..=3).for_each(|number| ran(&mut lineage, number));
        lineage.add(Step::new("s", RecordKind::Cell, 4, "killed".to_owned(), 0), State::RolledBack);
        assert_eq!(numbers(&lineage), [1, 2, 3]);
        lineage.undo(2);
        assert_eq!(numbers(&lineage), [1]);
        ran(&mut lineage, 5);
        assert_eq!(numbers(&lineage), [1, 5]);
        // A checkpoint that was made after cell 3 is still there.
        lineage.roll_back(3);
        ran(&mut lineage, 6);
        assert_eq!(numbers(&lineage), [1, 2, 3, 6]);
        lineage.add(Step::new("s", RecordKind::Command, 6, "ls".to_owned(), 0), State::Kept);
        assert_eq!(numbers(&lineage), [1, 2, 3, 6, 6]);
        ran(&mut lineage, 7);
        assert_eq!(numbers(&lineage), [1, 2, 3, 6, 6, 7]);
    }

    #[test]
    fn a_history_tells_the_same() {
        let entry = |kind: &str, number, note: Option<String>| HistoryEntry {
            number,
            kind: kind.to_owned(),
            note,
            ..HistoryEntry::default()
        };
        let history = [
            entry("command", 0, None),
            entry("cell", 1, None),
            entry("cell", 2, None),
            entry("cell", 3, None),
            entry("undo", 3, Some(undo_note(2, 3))),
            entry("cell", 4, None),
            entry("rollback", 4, Some(rollback_note(7, 2))),
            entry("cell", 5, None),
        ];
        let lineage = Lineage::default().read("s", &history);
        assert_eq!(numbers(&lineage), [0, 1, 2, 5]);
        let child = lineage.clone().read("child", &[entry("cell", 6, None)]);
        assert_eq!(numbers(&child), [0, 1, 2, 5, 6]);
    }

    #[test]
    fn a_long_one_is_cut_and_says_so() {
        let mut lineage = Lineage::default();
        let cells = u32::try_from(MOST_STEPS).expect("it is small") + 5;
        (1..=cells).for_each(|number| ran(&mut lineage, number));
        let records = lineage.records("origin", &nothing_hidden());
        assert_eq!((records.cells.len(), records.lost), (MOST_STEPS, true));
        lineage.mark_stored(&records);
        ran(&mut lineage, cells + 1);
        let next = lineage.records("origin", &nothing_hidden());
        assert_eq!((next.cells.len(), next.lost), (1, false));
        assert_eq!(next.cells[0].previous, records.cells.last().map(CellRecord::id));
    }
}
