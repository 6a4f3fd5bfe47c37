use std::iter;

use belljar::{Outcome, Status};
use serde_json::{Value, json};

use crate::program::Expected;

/// How a cell ended, in the words of `guest/PROTOCOL.md`'s `DONE`, with what it wrote and displayed.
pub(crate) struct Ending(Value);

const FIELDS: [&str; 7] = ["status", "stdout", "stderr", "value", "displays", "exception", "exit_code"];

/// Differing lines shown of a field.
const SHOWN: usize = 20;
/// Characters shown of a line.
const WIDTH: usize = 200;

impl Ending {
    pub(crate) fn from_component(value: Value) -> Self {
        Self(value)
    }

    pub(crate) fn from_outcome(outcome: &Outcome) -> Self {
        // The engine's word for a MemoryError at the limit; to the kernel it is one like others.
        let status = if outcome.status == Status::OutOfMemory { Status::Error } else { outcome.status };
        Self(json!({
            "status": status,
            "stdout": outcome.stdout,
            "stderr": outcome.stderr,
            "value": outcome.value.as_ref().map(|value| &value.data),
            "displays": outcome.displays.iter().map(|value| &value.data).collect::<Vec<_>>(),
            "exception": outcome.exception,
            "exit_code": outcome.exit_code,
        }))
    }

    /// What is against the program's own expectation.
    pub(crate) fn surprise(&self, expected: &Expected) -> Option<String> {
        let status = self.0["status"].as_str().unwrap_or_default();
        let raised = self.0["exception"]["type"].as_str();
        let holds = match expected {
            Expected::Ok => status == "ok",
            Expected::Raises(kind) => status == "error" && raised == Some(kind),
            Expected::Exits(code) => status == "exited" && self.0["exit_code"].as_i64() == Some(*code),
        };
        let ending = raised.map(|_| text(&self.0["exception"]["traceback"]));
        (!holds).then(|| format!("it ends with {status} {}", ending.unwrap_or_default()))
    }

    /// Where the other one, Belljar's, differs.
    pub(crate) fn differences(&self, other: &Self) -> impl Iterator<Item = String> {
        FIELDS.iter().filter_map(|field| {
            let [expected, found] = [&self.0[field], &other.0[field]].map(without_addresses);
            (expected != found).then(|| format!("{field}\n{}", describe(&expected, &found)))
        })
    }
}

/// Objects lie elsewhere in each interpreter.
fn without_addresses(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let mut pieces = text.split(" at 0x");
            let mut clean = pieces.next().unwrap_or_default().to_owned();
            for piece in pieces {
                clean.push_str(" at 0x…");
                clean.push_str(piece.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
            }
            clean.into()
        }
        Value::Array(items) => items.iter().map(without_addresses).collect(),
        Value::Object(items) => {
            items.iter().map(|(key, item)| (key.clone(), without_addresses(item))).collect()
        }
        other => other.clone(),
    }
}

/// The lines that differ, on both sides.
fn describe(expected: &Value, found: &Value) -> String {
    let [expected, found] = [expected, found].map(text);
    let lines = expected.lines().count().max(found.lines().count());
    let pad = |text: &str| -> Vec<String> {
        text.lines().map(str::to_owned).chain(iter::repeat("(nothing)".to_owned())).take(lines).collect()
    };
    let differing: Vec<String> = (1..)
        .zip(pad(&expected).iter().zip(&pad(&found)))
        .filter(|(_, (left, right))| left != right)
        .map(|(number, (left, right))| {
            let start = left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count();
            let [left, right] = [left, right].map(|line| around(line, start));
            format!("  line {number}\n    component: {left}\n    Belljar:   {right}")
        })
        .collect();
    let more = differing.len().saturating_sub(SHOWN);
    let mut described = differing.into_iter().take(SHOWN).collect::<Vec<_>>().join("\n");
    if more > 0 {
        described.push_str(&format!("\n  and {more} more lines"));
    }
    described
}

/// The part of a long line in which something happens.
fn around(line: &str, place: usize) -> String {
    let start = if place > WIDTH / 2 { place - WIDTH / 4 } else { 0 };
    let part: String = line.chars().skip(start).take(WIDTH).collect();
    if start > 0 { format!("…{part}") } else { part }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(items) if items.contains_key("traceback") => {
            format!("{}\n{:#}", text(&items["traceback"]), value)
        }
        other => format!("{other:#}"),
    }
}
