//! Lines that begin with `%`.

use anyhow::bail;
use belljar::Session;

use super::{Parent, Repl};
use crate::failure::Usage;
use crate::limits;
use crate::session::{checkpoint_table, checkpoint_words, tell_cell, undone_words, which};

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
}

impl Command {
    /// Reads a line, without its `%`.
    pub(super) fn parse(line: &str) -> anyhow::Result<Self> {
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
                (kind, note) => format!("{kind}: {}", note.as_deref().unwrap_or("-")),
            };
            text += &tell_cell(entry.number, &about, &entry.code);
        }
    } else {
        for cell in &repl.cells {
            let status = serde_json::to_value(cell.status)?;
            text += &tell_cell(cell.number, status.as_str().unwrap_or("?"), &cell.code);
        }
    }
    Ok(if text.is_empty() { "nothing was run yet".to_owned() } else { text })
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
        for wrong in ["", "nonsense", "help me", "undo 0", "undo x", "undo -1", "fork 1001", "checkpoint a b"]
        {
            assert!(Command::parse(wrong).is_err(), "{wrong}");
        }
    }
}
