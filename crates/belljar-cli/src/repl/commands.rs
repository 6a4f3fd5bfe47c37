//! Lines that begin with `%`.

use anyhow::bail;
use belljar::{ProcessInfo, ProcessOutput, Session, SessionDescription};

use super::{Parent, Repl};
use crate::failure::Usage;
use crate::limits;
use crate::session::{
    checkpoint_table, checkpoint_words, printable, tell_cell, tell_command, undone_words, which,
};
use crate::size::Size;
use crate::table::Align::{Left, Right};
use crate::table::table;

const HELP: &str = "\
Type Python. A block ends with an empty line; the value of the last expression is shown, and is `_`.
Whatever a cell does, the next one finds the variables: as they are, or as they were before the cell.

  %checkpoint [NAME]  keep variables and files as they are now
  %checkpoints        list what was kept
  %rollback [WHICH]   go back to a checkpoint, by number or name; else to the latest
  %undo [N]           take back the last cell that ended well, or the last N
  %fork               go on in a child: whatever you try there, %parent goes back to where you were
  %fork [N]           with --session: make N sessions that begin where this one is, and say their names
  %history            what was run
  %limits             what a cell may use
  %about              what runs this session, and what stands between it and this machine
  !COMMAND            run a shell command, with the native engine
  %start COMMAND      run one in the background, until you leave or the session sleeps
  %ps                 list those
  %logs ID            what one wrote since you last asked
  %kill ID            end one, with all that it started
  %reset              a new session: no variables, no files
  %help               this
  exit()              leave, as Ctrl-D does

Ctrl-C clears the line, or interrupts the running cell.";

/// More children than anybody wants by hand.
const MOST_CHILDREN: usize = 1000;

pub(super) enum Command {
    Help,
    Limits,
    Reset,
    Checkpoint(Option<String>),
    Checkpoints,
    Rollback(Option<String>),
    Undo(usize),
    Fork(usize),
    Parent,
    History,
    About,
    Start(String),
    Processes,
    Logs(u32),
    Kill(u32),
}

impl Command {
    /// Reads a line, without its `%`.
    pub(super) fn parse(line: &str) -> anyhow::Result<Self> {
        // All of the rest is the shell's.
        if let Some(command) = line.strip_prefix("start ").map(str::trim).filter(|rest| !rest.is_empty()) {
            return Ok(Self::Start(command.to_owned()));
        }
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let word = words.next();
        let text = || word.map(str::to_owned);
        let (command, takes_word) = match name {
            "help" => (Self::Help, false),
            "limits" => (Self::Limits, false),
            "reset" => (Self::Reset, false),
            "checkpoint" => (Self::Checkpoint(text()), true),
            "checkpoints" => (Self::Checkpoints, false),
            "rollback" => (Self::Rollback(text()), true),
            "undo" => (Self::Undo(count(word)?), true),
            "fork" => (Self::Fork(count(word)?), true),
            "parent" => (Self::Parent, false),
            "history" => (Self::History, false),
            "about" => (Self::About, false),
            "start" => return Err(unknown("%start takes a command".to_owned())),
            "ps" => (Self::Processes, false),
            "logs" => (Self::Logs(process(word)?), true),
            "kill" => (Self::Kill(process(word)?), true),
            _ => return Err(unknown(format!("there is no %{name}"))),
        };
        if words.next().is_some() || (word.is_some() && !takes_word) {
            return Err(unknown(format!(
                "%{name} takes {}",
                if takes_word { "one word" } else { "nothing" }
            )));
        }
        Ok(command)
    }

    /// Does it, and returns what to say.
    pub(super) fn run(self, repl: &mut Repl) -> anyhow::Result<String> {
        Ok(match self {
            Self::Help => HELP.to_owned(),
            Self::Limits => limits::describe(&repl.policy),
            Self::Reset => reset(repl)?,
            Self::Checkpoint(name) => checkpoint_words(&repl.session.checkpoint_blocking(name.as_deref())?),
            Self::Checkpoints => checkpoint_table(&repl.session.checkpoints_blocking()?),
            Self::Rollback(text) => {
                let checkpoint = repl.session.rollback_blocking(which(text.as_deref()))?;
                repl.commit();
                format!("as at {}", checkpoint_words(&checkpoint))
            }
            Self::Undo(cells) => {
                let undone = repl.session.undo_blocking(cells)?;
                repl.commit();
                undone_words(&undone, repl.session.undoable_blocking()?.len())
            }
            Self::Fork(children) if repl.kept => {
                let children: Vec<Session> = repl.session.fork_blocking(children)?;
                children.iter().map(|child| format!("{}\n", child.id())).collect()
            }
            Self::Fork(1) => {
                let Some(child) = repl.session.fork_blocking(1)?.pop() else { bail!("there is no child") };
                let session = std::mem::replace(&mut repl.session, child);
                repl.parents.push(Parent { session, cells: repl.cells.len() });
                "this is a child now; %parent goes back to where you were".to_owned()
            }
            Self::Fork(_) => {
                return Err(Usage {
                    message: "only sessions that are kept have several children".to_owned(),
                    hint: "`%fork` goes on in one child; `belljar repl --session NAME` keeps sessions",
                }
                .into());
            }
            Self::Parent => match repl.parents.pop() {
                Some(parent) => {
                    repl.session = parent.session;
                    repl.cells.truncate(parent.cells);
                    "this is the parent again; the child is gone".to_owned()
                }
                None => {
                    return Err(Usage {
                        message: "there is no parent to go back to".to_owned(),
                        hint: "`%fork` goes on in a child, of a session that is not kept",
                    }
                    .into());
                }
            },
            Self::History => history(repl)?,
            Self::About => about(&repl.session.describe_blocking()?),
            Self::Start(command) => {
                let id = repl.session.start_process_blocking(command)?;
                format!("{id}: it runs until it ends, you leave, or the session sleeps or goes back")
            }
            Self::Processes => process_table(&repl.session.processes_blocking()?),
            Self::Logs(id) => logs(&repl.session.process_output_blocking(id)?),
            Self::Kill(id) => {
                repl.session.kill_process_blocking(id)?;
                format!("{id}: ended")
            }
        })
    }
}

fn reset(repl: &mut Repl) -> anyhow::Result<String> {
    if repl.kept {
        return Err(Usage {
            message: format!("the session {} is kept, and %reset would forget it", repl.session.id()),
            hint: "leave, and use another --session, or `belljar session close NAME`",
        }
        .into());
    }
    repl.session = repl.sandbox.session_blocking()?;
    repl.parents.clear();
    repl.cells.clear();
    Ok("this is a new session".to_owned())
}

fn history(repl: &Repl) -> anyhow::Result<String> {
    let mut text = String::new();
    if repl.kept {
        for entry in repl.session.history_blocking()?.entries {
            let status = entry.outcome.as_ref().and_then(|outcome| outcome["status"].as_str());
            let about = match (entry.kind.as_str(), &entry.note) {
                ("cell", _) => status.unwrap_or("?").to_owned(),
                ("command", note) => status.or(note.as_deref()).unwrap_or("?").to_owned(),
                (kind, note) => format!("{kind}: {}", note.as_deref().unwrap_or("-")),
            };
            let tell = if entry.kind == "command" { tell_command } else { tell_cell };
            text += &tell(entry.number, &about, &entry.code);
        }
    } else {
        for cell in &repl.cells {
            let status = serde_json::to_value(cell.status)?;
            text += &tell_cell(cell.number, status.as_str().unwrap_or("?"), &cell.code);
        }
    }
    Ok(if text.is_empty() { "nothing was run yet".to_owned() } else { text })
}

fn about(session: &SessionDescription) -> String {
    let SessionDescription { engine, environment, layers, notes } = session;
    let mut text = format!("the {engine} engine, in the environment {environment}\n");
    for layer in layers {
        text += &match &layer.missing {
            None => format!("  {:<20} {}\n", layer.name, layer.stops),
            Some(reason) => format!("  {:<20} missing: {reason}\n", layer.name),
        };
    }
    for note in notes {
        text += &format!("  note: {}\n", printable(note));
    }
    text
}

fn process_table(processes: &[ProcessInfo]) -> String {
    if processes.is_empty() {
        return "nothing was started in the background".to_owned();
    }
    let columns = [("ID", Right), ("STATE", Left), ("WROTE", Right), ("COMMAND", Left)];
    let row = |process: &ProcessInfo| {
        let state = match process.exit_code {
            None => "runs".to_owned(),
            Some(code) => format!("ended ({code})"),
        };
        let wrote = Size(process.stdout_bytes.saturating_add(process.stderr_bytes)).to_string();
        vec![process.id.to_string(), state, wrote, printable(&process.line)]
    };
    table(&columns, &processes.iter().map(row).collect::<Vec<_>>())
}

fn logs(output: &ProcessOutput) -> String {
    let mut text = String::new();
    if output.lost_bytes > 0 {
        text += &format!("({} of it are lost)\n", Size(output.lost_bytes));
    }
    for stream in [&output.stdout, &output.stderr] {
        text += &String::from_utf8_lossy(stream);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
    }
    if text.is_empty() { "nothing since you last asked".to_owned() } else { text }
}

fn process(word: Option<&str>) -> anyhow::Result<u32> {
    let wrong = || unknown("a command in the background is named by its number, which %ps shows".to_owned());
    word.and_then(|word| word.parse().ok()).ok_or_else(wrong)
}

fn count(word: Option<&str>) -> anyhow::Result<usize> {
    match word.map_or(Ok(1), str::parse) {
        Ok(count @ 1..=MOST_CHILDREN) => Ok(count),
        _ => {
            Err(unknown(format!("{:?} is not a number from 1 to {MOST_CHILDREN}", word.unwrap_or_default())))
        }
    }
}

fn unknown(message: String) -> anyhow::Error {
    Usage { message, hint: "%help lists what there is" }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted() {
        for right in ["help", "undo", "undo 3", "  fork   2 ", "checkpoint a", "rollback latest", "history"] {
            assert!(Command::parse(right).is_ok(), "{right}");
        }
        for right in ["about", "ps", "logs 1", "kill 2", "start sleep 5; echo done"] {
            assert!(Command::parse(right).is_ok(), "{right}");
        }
        for wrong in ["start", "start ", "logs", "logs x", "kill -1", "ps 1"] {
            assert!(Command::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "nonsense", "help me", "undo 0", "undo x", "undo -1", "fork 1001", "checkpoint a b"]
        {
            assert!(Command::parse(wrong).is_err(), "{wrong}");
        }
    }
}
