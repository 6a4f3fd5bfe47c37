//! Where cells are typed: a terminal with history, or a pipe.

use std::env;
use std::fs;
use std::io::{self, BufRead, IsTerminal, StdinLock};
use std::path::PathBuf;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::block::Block;

pub(crate) enum Input {
    Terminal { editor: Box<DefaultEditor>, history: Option<PathBuf> },
    Pipe(StdinLock<'static>),
}

/// What somebody typed.
pub(crate) enum Typed {
    Cell(Vec<u8>),
    /// A line that begins with `%`, without it.
    Command(String),
    /// A line that begins with `!`, without it.
    Shell(String),
    End,
}

enum Line {
    Text(Vec<u8>),
    /// Ctrl-C: what was typed of this block is forgotten.
    Discarded,
    End,
}

impl Input {
    pub(crate) fn open() -> anyhow::Result<Self> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Pipe(io::stdin().lock()));
        }
        let mut editor = Box::new(DefaultEditor::new()?);
        let history = history_file();
        if let Some(file) = &history {
            // There is none before the first time.
            let _ = editor.load_history(file);
        }
        Ok(Self::Terminal { editor, history })
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal { .. })
    }

    /// Reads until a cell is complete.
    pub(crate) fn next(&mut self) -> anyhow::Result<Typed> {
        let mut block = Block::default();
        loop {
            match self.line(&block)? {
                Line::Text(line) => {
                    if let Some(typed) = special(&line).filter(|_| block.is_empty()) {
                        if matches!(typed, Typed::Shell(_)) {
                            self.remember(&line);
                        }
                        return Ok(typed);
                    }
                    block.push(&line);
                }
                Line::Discarded => block = Block::default(),
                Line::End if block.is_empty() || self.is_terminal() => return Ok(Typed::End),
                Line::End => return Ok(Typed::Cell(block.into_source())),
            }
            if block.is_complete() {
                let source = block.into_source();
                self.remember(&source);
                return Ok(Typed::Cell(source));
            }
        }
    }

    fn line(&mut self, block: &Block) -> anyhow::Result<Line> {
        match self {
            Self::Pipe(stdin) => {
                let mut line = Vec::new();
                let read = stdin.read_until(b'\n', &mut line)?;
                Ok(if read == 0 { Line::End } else { Line::Text(line) })
            }
            Self::Terminal { editor, .. } => {
                let prompt = if block.is_empty() { ">>> " } else { "... " };
                match editor.readline_with_initial(prompt, (&block.indentation(), "")) {
                    Ok(line) => Ok(Line::Text(line.into_bytes())),
                    Err(ReadlineError::Interrupted) => Ok(Line::Discarded),
                    Err(ReadlineError::Eof) => Ok(Line::End),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Keeps a cell in the history. Nobody is bothered where that can't be written.
    fn remember(&mut self, source: &[u8]) {
        let Self::Terminal { editor, history } = self else { return };
        let entry = String::from_utf8_lossy(source.trim_ascii_end());
        let _ = editor.add_history_entry(entry);
        if let Some(file) = history {
            let _ = editor.append_history(file);
        }
    }
}

/// A line that isn't Python.
fn special(line: &[u8]) -> Option<Typed> {
    let text = |rest: &[u8]| String::from_utf8_lossy(rest.trim_ascii()).into_owned();
    match line.trim_ascii() {
        [b'%', rest @ ..] => Some(Typed::Command(text(rest))),
        [b'!', rest @ ..] => Some(Typed::Shell(text(rest))),
        _ => None,
    }
}

fn history_file() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let directory = state.join("belljar");
    fs::create_dir_all(&directory).ok()?;
    Some(directory.join("history"))
}
