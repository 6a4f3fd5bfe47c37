//! What was run in a session.

use belljar_store::HistoryEntry;
use serde_json::{Value, json};

use crate::Error;

/// What was run in a session, the oldest first.
#[derive(Debug, Default)]
pub struct History {
    /// Cells with their outcomes, and what else happened.
    pub entries: Vec<HistoryEntry>,
    /// Something in the file couldn't be read; the entries are the rest.
    pub damaged: Option<Error>,
}

impl History {
    /// What was written, with a note at each cell that isn't part of the session, which has had `cells` cells:
    /// the process ended before they were kept, and a later one has gone on with the same numbers.
    pub(crate) fn new(history: belljar_store::History, cells: u32) -> Self {
        let mut entries = history.entries;
        let mut next = cells.saturating_add(1);
        for entry in entries.iter_mut().rev().filter(|entry| entry.kind == "cell") {
            if entry.number >= next {
                entry.note = Some("not kept: the process ended before the session was".to_owned());
            } else {
                next = entry.number;
            }
        }
        Self { entries, damaged: history.damaged.map(Error::from) }
    }

    /// As a Jupyter notebook (`.ipynb`, format 4.5): a code cell for each cell, with its outputs.
    pub fn to_notebook(&self) -> Value {
        let cells: Vec<Value> =
            self.entries.iter().enumerate().map(|(index, entry)| cell(index, entry)).collect();
        json!({
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {
                "kernelspec": { "display_name": "Python 3", "language": "python", "name": "python3" },
                "language_info": { "name": "python", "file_extension": ".py", "mimetype": "text/x-python" },
            },
            "cells": cells,
        })
    }
}

fn cell(index: usize, entry: &HistoryEntry) -> Value {
    let id = format!("belljar-{index}");
    let is_command = entry.kind == "command" && entry.outcome.is_some();
    if entry.kind != "cell" && !is_command {
        let note = entry.note.as_deref().unwrap_or_default();
        let note = if entry.code.is_empty() { note.to_owned() } else { format!("`{}`, {note}", entry.code) };
        return json!({
            "cell_type": "markdown", "id": id, "metadata": {},
            "source": lines(&format!("*{}*: {note}", entry.kind)),
        });
    }
    json!({
        "cell_type": "code",
        "id": id,
        "metadata": { "belljar": { "started_ms": entry.started_ms, "wall_ms": entry.wall_ms } },
        "execution_count": if is_command { Value::Null } else { entry.number.into() },
        "source": lines(&if is_command { as_magic(&entry.code) } else { entry.code.clone() }),
        "outputs": entry.outcome.as_ref().map(|outcome| outputs(entry.number, outcome)).unwrap_or_default(),
    })
}

/// A shell command as notebooks have it.
fn as_magic(line: &str) -> String {
    if line.contains('\n') { format!("%%bash\n{line}") } else { format!("!{line}") }
}

fn outputs(number: u32, outcome: &Value) -> Vec<Value> {
    let mut outputs = Vec::new();
    for name in ["stdout", "stderr"] {
        if let Some(text) = outcome[name].as_str().filter(|text| !text.is_empty()) {
            outputs.push(json!({ "output_type": "stream", "name": name, "text": lines(text) }));
        }
    }
    for display in outcome["displays"].as_array().into_iter().flatten() {
        outputs.push(json!({ "output_type": "display_data", "data": bundle(display), "metadata": {} }));
    }
    if outcome["value"].is_object() {
        outputs.push(json!({
            "output_type": "execute_result", "execution_count": number,
            "data": bundle(&outcome["value"]), "metadata": {},
        }));
    }
    let exception = &outcome["exception"];
    if exception.is_object() {
        let traceback = exception["traceback"].as_str().unwrap_or_default();
        outputs.push(json!({
            "output_type": "error",
            "ename": exception["type"], "evalue": exception["message"],
            "traceback": traceback.lines().collect::<Vec<_>>(),
        }));
    }
    outputs
}

/// The forms of a value; texts as lists of lines, as notebooks have them.
fn bundle(value: &Value) -> Value {
    let forms = value["data"].as_object().cloned().unwrap_or_default();
    let forms = forms.into_iter().map(|(mime, form)| {
        let is_text = mime.starts_with("text/") || mime == "image/svg+xml";
        let form = match form.as_str() {
            Some(text) if is_text => lines(text),
            _ => form,
        };
        (mime, form)
    });
    Value::Object(forms.collect())
}

fn lines(text: &str) -> Value {
    Value::Array(text.split_inclusive('\n').map(Value::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notebook_has_code_and_outputs() {
        let entry = HistoryEntry {
            number: 3,
            kind: "cell".to_owned(),
            code: "print(1)\n2".to_owned(),
            started_ms: 5,
            wall_ms: 0.5,
            outcome: Some(json!({
                "stdout": "1\n", "stderr": "", "displays": [], "exception": null,
                "value": { "text": "2", "data": { "text/plain": "2" } },
            })),
            note: None,
        };
        let history = History { entries: vec![entry.clone()], damaged: None };
        let again = HistoryEntry { number: 2, ..entry.clone() };
        let stored = belljar_store::History {
            entries: vec![again.clone(), entry.clone(), again, entry],
            damaged: None,
        };
        let notes: Vec<bool> =
            History::new(stored, 2).entries.iter().map(|entry| entry.note.is_some()).collect();
        assert_eq!(notes, [true, true, false, true]);
        let notebook = history.to_notebook();
        let cell = &notebook["cells"][0];
        assert_eq!(cell["source"], json!(["print(1)\n", "2"]));
        assert_eq!(cell["outputs"][0]["text"], json!(["1\n"]));
        assert_eq!(cell["outputs"][1]["data"]["text/plain"], json!(["2"]));
        assert_eq!(cell["execution_count"], 3);
        let command = HistoryEntry {
            kind: "command".to_owned(),
            code: "ls -l".to_owned(),
            outcome: Some(json!({ "status": "ok", "stdout": "total 0\n", "stderr": "" })),
            ..HistoryEntry::default()
        };
        let cells = History { entries: vec![command], damaged: None }.to_notebook()["cells"].take();
        assert_eq!((&cells[0]["source"], &cells[0]["execution_count"]), (&json!(["!ls -l"]), &Value::Null));
        assert_eq!(cells[0]["outputs"][0]["text"], json!(["total 0\n"]));
    }
}
