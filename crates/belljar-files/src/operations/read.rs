//! Reading files: whole, as text, by lines.

use std::io;

use belljar_engine::{FileDoor, FileError, FileErrorCode, MOST_IN_ONE};
use serde::{Deserialize, Serialize};

use super::{part, stat};

/// Bytes that are read at once while lines are looked for.
const PIECE: u64 = 1 << 20;
/// Bytes of a line that are shown.
const MOST_LINE: usize = 64 << 10;
/// Bytes of lines that are given at once.
const MOST_TEXT: usize = 8 << 20;
/// Bytes of a file in which lines are counted.
const MOST_COUNTED: u64 = 256 << 20;

/// Some lines of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// The lines, each with its end. What isn't UTF-8 is replaced.
    pub text: String,
    /// The number of the first, from 1.
    pub first: u64,
    /// How many they are.
    pub count: u64,
    /// How many the file has, where it isn't too large to count.
    pub total_lines: Option<u64>,
    /// Whether lines were too long, or too many, to be given.
    pub cut: bool,
}

/// Reads a whole file, if it isn't larger than this.
pub fn read(door: &dyn FileDoor, path: &str, most_bytes: u64) -> Result<Vec<u8>, FileError> {
    let too_large = |size: u64| {
        let message =
            format!("it has {size} bytes, of {most_bytes} that can be read at once; read a part of it");
        FileError::told(FileErrorCode::TooLarge, path, message)
    };
    let mut contents = part(door, path, 0, MOST_IN_ONE)?;
    if contents.len() as u64 == MOST_IN_ONE {
        let size = stat(door, path)?.size;
        if size > most_bytes {
            return Err(too_large(size));
        }
        loop {
            let piece = part(door, path, contents.len() as u64, MOST_IN_ONE)?;
            contents.extend_from_slice(&piece);
            if (piece.len() as u64) < MOST_IN_ONE || contents.len() as u64 > most_bytes {
                break;
            }
        }
    }
    if contents.len() as u64 > most_bytes { Err(too_large(contents.len() as u64)) } else { Ok(contents) }
}

/// Reads a whole file of text in UTF-8.
pub fn read_text(door: &dyn FileDoor, path: &str, most_bytes: u64) -> Result<String, FileError> {
    String::from_utf8(read(door, path, most_bytes)?).map_err(|error| {
        let message = format!("it is not text in UTF-8, from byte {} on", error.utf8_error().valid_up_to());
        FileError::told(FileErrorCode::InvalidText, path, message)
    })
}

/// Reads some lines of a file, counted from 1, however large it is. Lines that aren't there are no error.
pub fn read_lines(door: &dyn FileDoor, path: &str, first_line: u64, count: u64) -> Result<Lines, FileError> {
    let first = first_line.max(1);
    let wanted = first..first.saturating_add(count);
    let mut lines = Lines { text: String::new(), first, count: 0, total_lines: None, cut: false };
    let mut full = false;
    let mut line = Vec::new();
    let (mut number, mut offset, mut begun) = (1, 0, false);
    loop {
        if offset >= MOST_COUNTED {
            lines.cut |= number < wanted.end;
            break;
        }
        let piece = part(door, path, offset, PIECE)?;
        offset += piece.len() as u64;
        for text in piece.split_inclusive(|byte| *byte == b'\n') {
            let ended = text.ends_with(b"\n");
            if wanted.contains(&number) {
                let room = MOST_LINE.saturating_sub(line.len());
                lines.cut |= text.len() > room;
                line.extend_from_slice(&text[..text.len().min(room)]);
                if ended {
                    lines.add(&mut line, true, &mut full);
                }
            }
            begun = !ended;
            number += u64::from(ended);
        }
        if (piece.len() as u64) < PIECE {
            if begun {
                if wanted.contains(&number) {
                    lines.add(&mut line, false, &mut full);
                }
                number += 1;
            }
            lines.total_lines = Some(number - 1);
            break;
        }
    }
    Ok(lines)
}

impl Lines {
    /// Adds a line, unless one before it didn't fit either.
    fn add(&mut self, line: &mut Vec<u8>, ended: bool, full: &mut bool) {
        *full |= self.text.len() + line.len() > MOST_TEXT;
        if *full {
            self.cut = true;
        } else {
            self.text.push_str(&String::from_utf8_lossy(line));
            if ended && !line.ends_with(b"\n") {
                self.text.push('\n');
            }
            self.count += 1;
        }
        line.clear();
    }
}

/// A file's contents as a stream, to copy or to export it: never more than it had when it was begun.
pub struct Contents<'door> {
    door: &'door dyn FileDoor,
    path: String,
    offset: u64,
    left: u64,
    piece: io::Cursor<Vec<u8>>,
}

impl<'door> Contents<'door> {
    /// The contents of a file, as long as it is now.
    pub fn new(door: &'door dyn FileDoor, path: &str) -> Result<Self, FileError> {
        let left = stat(door, path)?.size;
        Ok(Self::of_length(door, path, left))
    }

    /// The contents of a file, as far as they are there.
    pub fn of_length(door: &'door dyn FileDoor, path: &str, length: u64) -> Self {
        Self { door, path: path.to_owned(), offset: 0, left: length, piece: io::Cursor::default() }
    }
}

impl io::Read for Contents<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.position() == self.piece.get_ref().len() as u64 && self.left > 0 {
            let piece = part(self.door, &self.path, self.offset, self.left.min(MOST_IN_ONE))
                .map_err(io::Error::other)?;
            self.left = if piece.is_empty() { 0 } else { self.left - piece.len() as u64 };
            self.offset += piece.len() as u64;
            self.piece = io::Cursor::new(piece);
        }
        self.piece.read(buffer)
    }
}
