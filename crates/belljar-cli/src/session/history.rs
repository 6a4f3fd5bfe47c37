//! What was run in a session.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use belljar::{Error, History, HistoryEntry};
use serde::Serialize;
use serde_json::Value;

use super::arguments::Common;
use crate::console;
use crate::moment::Moment;

/// So many lines of a cell's output are shown, and so much of each.
const LINES: usize = 10;
const WIDTH: usize = 160;

/// What `history --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    session: &'a str,
    entries: &'a [HistoryEntry],
    damaged: Option<String>,
}

pub(super) fn show(name: &str, notebook: Option<&Path>, common: Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.split()?;
    let registry = keeping.registry()?;
    // A session that was never used has no history either; one that isn't there is an error.
    registry.session(name)?;
    let history = registry.history(name)?;
    if let Some(error) = &history.damaged {
        console::note(format_args!("a part of the history is missing: {error}"));
    }
    if let Some(file) = notebook {
        return write_notebook(&history, file);
    }
    let damaged = history.damaged.as_ref().map(Error::to_string);
    let document = || Document { session: name, entries: &history.entries, damaged };
    answer.give(document, || {
        if history.entries.is_empty() {
            return "nothing was run yet".to_owned();
        }
        history.entries.iter().map(describe).collect()
    })
}

/// One cell: its code behind prompts.
pub(crate) fn tell_cell(number: u32, about: &str, code: &str) -> String {
    tell_prompted(number, about, code, [">>>", "..."])
}

/// One shell command.
pub(crate) fn tell_command(number: u32, about: &str, line: &str) -> String {
    tell_prompted(number, about, line, ["$", ">"])
}

fn tell_prompted(number: u32, about: &str, code: &str, [first, further]: [&str; 2]) -> String {
    let mut text = format!("[{number}] {about}\n");
    for (index, line) in code.trim_end().lines().enumerate() {
        let prompt = if index == 0 { first } else { further };
        text += format!("{prompt} {}", printable(line)).trim_end();
        text.push('\n');
    }
    text
}

fn write_notebook(history: &History, file: &Path) -> anyhow::Result<ExitCode> {
    let text = serde_json::to_string_pretty(&history.to_notebook())? + "\n";
    if file == Path::new("-") {
        console::print(text.as_bytes());
    } else {
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(entry: &HistoryEntry) -> String {
    let time = Moment(entry.started_ms);
    if entry.kind == "command" && entry.outcome.is_none() {
        let about = format!("{time}  {}", entry.note.as_deref().unwrap_or("-"));
        return tell_command(entry.number, &about, &entry.code);
    }
    if !["cell", "command"].contains(&entry.kind.as_str()) {
        return format!(
            "[{}] {time}  {}: {}\n",
            entry.number,
            entry.kind,
            entry.note.as_deref().unwrap_or("-")
        );
    }
    let outcome = entry.outcome.as_ref().unwrap_or(&Value::Null);
    let mut about = format!("{time}  {}  {:.1} ms", outcome["status"].as_str().unwrap_or("?"), entry.wall_ms);
    match outcome["session"]["state"].as_str() {
        None | Some("kept") => {}
        Some(state) => {
            // Writing into a string can't fail.
            let _ = write!(about, "  (state {})", state.replace('_', " "));
        }
    }
    let tell = if entry.kind == "command" { tell_command } else { tell_cell };
    let mut text = tell(entry.number, &about, &entry.code);
    for part in [
        &outcome["stdout"],
        &outcome["stderr"],
        &outcome["value"]["text"],
        &outcome["exception"]["traceback"],
    ] {
        text += &shortened(part.as_str().unwrap_or_default());
    }
    text
}

/// The beginning and the end, indented.
fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let mut shown = String::new();
    for (index, line) in lines.iter().enumerate() {
        let skipped = lines.len().saturating_sub(LINES);
        if skipped > 0 && index == LINES / 2 {
            // Writing into a string can't fail.
            let _ = writeln!(shown, "    … {skipped} more lines …");
        }
        if (LINES / 2..LINES / 2 + skipped).contains(&index) {
            continue;
        }
        let mut line = printable(line);
        if let Some((end, _)) = line.char_indices().nth(WIDTH) {
            line.truncate(end);
            line.push('…');
        }
        shown += format!("    {line}").trim_end();
        shown.push('\n');
    }
    shown
}

/// Without what could move a terminal's cursor.
pub(crate) fn printable(line: &str) -> String {
    // Marks that turn the direction of text could make a name look like another.
    let turns = |character| matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let odd = |character: char| character != '\t' && (character.is_control() || turns(character));
    line.chars().map(|character| if odd(character) { '\u{fffd}' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_outputs_lose_their_middle() {
        let text: String = (0..100).map(|line| format!("{line}\n")).collect();
        let shown = shortened(&text);
        assert_eq!(shown.lines().count(), LINES + 1);
        assert!(shown.starts_with("    0\n") && shown.ends_with("    99\n"), "{shown}");
        assert!(shown.contains("    … 90 more lines …\n    95\n"), "{shown}");
        assert_eq!(shortened(&"x".repeat(1000)).trim().chars().count(), WIDTH + 1);
        assert_eq!(shortened("a\u{1b}[2Jb\n\n"), "    a\u{fffd}[2Jb\n");
        assert_eq!(shortened(""), "");
    }
}
