//! Searching files for text.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use belljar_engine::{FileDoor, FileError, FileErrorCode, FileKind, FileStat};
use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::{Pattern, Step, part, stat, walk};

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;
/// A file with a NUL in this many bytes isn't text.
const LOOKED_AT: usize = 8 << 10;
/// Bytes of a line that are searched.
const MOST_SEARCHED: usize = 64 << 10;
/// Bytes of a line that are shown.
const MOST_SHOWN: usize = 2000;
/// Bytes of a pattern.
const MOST_PATTERN: usize = 64 << 10;
/// Bytes of a compiled pattern.
const MOST_COMPILED: usize = 4 << 20;
/// Lines around a match.
const MOST_CONTEXT: usize = 100;
/// Bytes of all lines that are shown.
const MOST_TEXT: usize = 16 << 20;
/// Bytes of one file that are searched.
const MOST_OF_ONE: u64 = 256 << 20;

/// How files are searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrepOptions {
    /// The file, or the directory, that is searched; empty for the whole workspace.
    pub path: String,
    /// Only files that match this [`Pattern`]; one without a slash is about names in any directory.
    pub glob: Option<String>,
    /// Whether `a` is also `A`.
    pub ignore_case: bool,
    /// Whether the pattern is the text itself.
    pub fixed: bool,
    /// Whether names that begin with a dot are searched.
    pub hidden: bool,
    /// Lines before and after each match that are shown, at most 100.
    pub context: usize,
    /// How many matches are found at most.
    pub most_matches: usize,
    /// Bytes that are read at most.
    pub most_bytes: u64,
    /// Seconds after which it is enough.
    pub most_seconds: u64,
}

impl Default for GrepOptions {
    /// Everything that isn't hidden, 1,000 matches, in 4 GiB, for 30 seconds.
    fn default() -> Self {
        Self {
            path: String::new(),
            glob: None,
            ignore_case: false,
            fixed: false,
            hidden: false,
            context: 0,
            most_matches: 1000,
            most_bytes: 4 << 30,
            most_seconds: 30,
        }
    }
}

/// A line that matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// The file's path.
    pub path: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// The line, without its end; cut where it is long. What isn't UTF-8 is replaced.
    pub text: String,
    /// Lines before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Lines after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// What a search came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grep {
    /// The lines, by path and number.
    pub matches: Vec<Match>,
    /// Files that were searched.
    pub files: u64,
    /// Whether that is all: no bound was met, and everything could be read.
    pub complete: bool,
}

/// Searches the lines of files for a regular expression. Files that aren't text are passed over; links aren't
/// followed.
pub fn grep(door: &dyn FileDoor, pattern: &str, options: &GrepOptions) -> Result<Grep, FileError> {
    let mut search = Search {
        door,
        regex: compile(pattern, options)?,
        context: options.context.min(MOST_CONTEXT),
        most_matches: options.most_matches,
        left: options.most_bytes,
        begun: Instant::now(),
        most_time: Duration::from_secs(options.most_seconds),
        shown: 0,
        found: Grep { complete: true, ..Grep::default() },
    };
    let glob = options.glob.as_deref().map(Pattern::new).transpose()?;
    if stat(door, &options.path)?.kind != FileKind::Directory {
        search.file(&options.path)?;
        return Ok(search.found);
    }
    let wanted = |path: &str| match &glob {
        None => true,
        Some(glob) if glob.is_name() => glob.matches(crate::path::split(path).1, options.hidden),
        Some(glob) => glob.matches(path, options.hidden),
    };
    let walked = walk(door, &options.path, &mut |path, stat: &FileStat| {
        if !options.hidden && crate::path::split(path).1.starts_with('.') {
            return Step::Past;
        }
        if stat.kind != FileKind::File || !wanted(path) {
            return Step::Into;
        }
        match search.file(path) {
            Ok(true) => Step::Into,
            Ok(false) => Step::Stop,
            // It is gone, or closed.
            Err(_) => {
                search.found.complete = false;
                Step::Into
            }
        }
    })?;
    search.found.complete &= !walked.cut && walked.skipped == 0;
    Ok(search.found)
}

fn compile(pattern: &str, options: &GrepOptions) -> Result<Regex, FileError> {
    let refuse = |message: String| {
        let shown: String = pattern.chars().take(64).collect();
        FileError::told(FileErrorCode::InvalidText, shown, message)
    };
    if pattern.len() > MOST_PATTERN {
        return Err(refuse("the pattern is too long".to_owned()));
    }
    let expression = if options.fixed { regex::escape(pattern) } else { pattern.to_owned() };
    RegexBuilder::new(&expression)
        .case_insensitive(options.ignore_case)
        .size_limit(MOST_COMPILED)
        .dfa_size_limit(MOST_COMPILED)
        .nest_limit(100)
        .build()
        .map_err(|error| refuse(format!("the pattern isn't one: {error}; ask for fixed text if it is none")))
}

struct Search<'door> {
    door: &'door dyn FileDoor,
    regex: Regex,
    context: usize,
    most_matches: usize,
    /// Bytes that may still be read.
    left: u64,
    begun: Instant,
    most_time: Duration,
    /// Bytes of lines in `found`.
    shown: usize,
    found: Grep,
}

impl Search<'_> {
    /// Searches a file; says whether to go on with others.
    fn file(&mut self, path: &str) -> Result<bool, FileError> {
        let mut lines =
            LinesOf { number: 0, line: Vec::new(), begun: false, before: VecDeque::new(), open: Vec::new() };
        let mut offset = 0;
        loop {
            if self.left == 0 {
                self.found.complete = false;
                return Ok(false);
            }
            if offset >= MOST_OF_ONE {
                self.found.complete = false;
                break;
            }
            let piece = part(self.door, path, offset, PIECE)?;
            self.left = self.left.saturating_sub(piece.len() as u64);
            if offset == 0 {
                if piece[..piece.len().min(LOOKED_AT)].contains(&0) {
                    return Ok(true);
                }
                self.found.files += 1;
            }
            offset += piece.len() as u64;
            for text in piece.split_inclusive(|byte| *byte == b'\n') {
                let (text, ended) = match text.strip_suffix(b"\n") {
                    Some(text) => (text, true),
                    None => (text, false),
                };
                let room = MOST_SEARCHED.saturating_sub(lines.line.len());
                lines.line.extend_from_slice(&text[..text.len().min(room)]);
                lines.begun = true;
                if ended && !self.line(path, &mut lines) {
                    return Ok(false);
                }
            }
            if (piece.len() as u64) < PIECE {
                break;
            }
        }
        if lines.begun && !self.line(path, &mut lines) {
            return Ok(false);
        }
        Ok(true)
    }

    /// Searches a line that is complete; says whether to go on.
    fn line(&mut self, path: &str, lines: &mut LinesOf) -> bool {
        // Some expressions take a while for a line, and most take none.
        if lines.number.is_multiple_of(256) && self.begun.elapsed() > self.most_time {
            self.found.complete = false;
            return false;
        }
        lines.number += 1;
        lines.begun = false;
        let line = lines.line.strip_suffix(b"\r").unwrap_or(&lines.line);
        let matched = self.regex.is_match(line);
        let shown = if matched || self.context > 0 { show(line) } else { String::new() };
        lines.line.clear();
        // Those that wait for lines after them are the last ones.
        lines.open.retain_mut(|(at, wanted)| {
            self.shown += shown.len();
            self.found.matches[*at].after.push(shown.clone());
            *wanted -= 1;
            *wanted > 0
        });
        if matched {
            if self.found.matches.len() >= self.most_matches || self.shown > MOST_TEXT {
                self.found.complete = false;
                return false;
            }
            let before: Vec<String> = lines.before.iter().cloned().collect();
            self.shown += shown.len() + before.iter().map(String::len).sum::<usize>();
            if self.context > 0 {
                lines.open.push((self.found.matches.len(), self.context));
            }
            let text = shown.clone();
            let found = Match { path: path.to_owned(), line: lines.number, text, before, after: Vec::new() };
            self.found.matches.push(found);
        }
        if self.context > 0 {
            if lines.before.len() == self.context {
                lines.before.pop_front();
            }
            lines.before.push_back(shown);
        }
        true
    }
}

/// Where a search is in a file.
struct LinesOf {
    number: u64,
    /// The line so far, as far as it is searched.
    line: Vec<u8>,
    /// Whether there is a line at all.
    begun: bool,
    /// Lines before, as they are shown.
    before: VecDeque<String>,
    /// Matches that lack lines after them, and how many.
    open: Vec<(usize, usize)>,
}

fn show(line: &[u8]) -> String {
    let mut shown = String::from_utf8_lossy(&line[..line.len().min(MOST_SHOWN)]).into_owned();
    if line.len() > MOST_SHOWN {
        shown.push('…');
    }
    shown
}
