//! Reading what somebody else wrote, piece by piece, while its hash is computed beside.

use std::io::{self, Read};
use std::sync::mpsc;
use std::thread;

use crate::error::Result;
use crate::hash::Hasher;

/// What is read at once.
pub(crate) const PIECE: usize = 1 << 20;
/// One is read or written, one is hashed, one waits.
const PIECES: usize = 3;

/// How reading ended.
pub(crate) enum Streamed {
    Whole { size: u64, sha256: String },
    TooLong,
    Unreadable(io::Error),
}

/// Reads up to `most` bytes, of which `first` were read before, and gives each piece to `sink`.
///
/// # Errors
/// Those of `sink`.
pub(crate) fn stream(
    first: Vec<u8>,
    reader: &mut dyn Read,
    most: u64,
    mut sink: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Streamed> {
    let (full, filled) = mpsc::sync_channel::<Vec<u8>>(PIECES);
    let (spent, empty) = mpsc::sync_channel::<Vec<u8>>(PIECES);
    let hash = move || {
        let mut hasher = Hasher::default();
        for piece in filled {
            hasher.update(&piece);
            // Nobody may want it any more.
            let _ = spent.send(piece);
        }
        hasher.finish()
    };
    thread::scope(|scope| {
        let beside = thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, hash);
        let Ok(beside) = beside else {
            return Ok(Streamed::Unreadable(io::Error::other("there are too many threads")));
        };
        let mut size = 0;
        let mut pieces = 1;
        let mut piece = first;
        loop {
            size += piece.len() as u64;
            if size > most {
                return Ok(Streamed::TooLong);
            }
            sink(&piece)?;
            if full.send(piece).is_err() {
                break;
            }
            piece = match empty.try_recv() {
                Ok(piece) => piece,
                Err(_) if pieces < PIECES => {
                    pieces += 1;
                    Vec::new()
                }
                Err(_) => empty.recv().unwrap_or_default(),
            };
            piece.resize(PIECE, 0);
            let wanted = (PIECE as u64).min((most - size).saturating_add(1)) as usize;
            match fill(reader, &mut piece[..wanted]) {
                Ok(0) => break,
                Ok(length) => piece.truncate(length),
                Err(error) => return Ok(Streamed::Unreadable(error)),
            }
        }
        drop(full);
        let sha256 = beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Streamed::Whole { size, sha256 })
    })
}

/// Reads until there is no room or nothing more.
fn fill(reader: &mut dyn Read, room: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < room.len() {
        match reader.read(&mut room[length..]) {
            Ok(0) => break,
            // A reader that tells of more than there was room for is not believed.
            Ok(more) => length = (length + more).min(room.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash;

    fn streamed(bytes: &[u8], first: usize, most: u64) -> (Streamed, Vec<u8>) {
        let mut sunk = Vec::new();
        let (first, mut rest) = bytes.split_at(first);
        let streamed = stream(first.to_vec(), &mut rest, most, |piece| {
            sunk.extend_from_slice(piece);
            Ok(())
        });
        (streamed.expect("the sink takes all"), sunk)
    }

    #[test]
    fn what_is_written_is_what_is_hashed() {
        let bytes: Vec<u8> = (0..5 * PIECE + 7).map(|place| ((place * 31) >> 3) as u8).collect();
        for (length, first) in [(0, 0), (1, 0), (PIECE, 0), (PIECE + 1, PIECE), (bytes.len(), 77)] {
            let bytes = &bytes[..length];
            let (Streamed::Whole { size, sha256 }, sunk) = streamed(bytes, first, u64::MAX) else {
                panic!("it is readable")
            };
            assert_eq!((size, sha256, sunk.as_slice()), (length as u64, hash::of(bytes), bytes));
            let exact = streamed(bytes, first, length as u64);
            assert!(matches!(exact.0, Streamed::Whole { .. }));
        }
    }

    #[test]
    fn reading_ends_where_there_is_too_much() {
        let mut endless = io::repeat(7);
        let mut sunk = 0;
        let streamed = stream(Vec::new(), &mut endless, 3 * PIECE as u64 + 1, |piece| {
            sunk += piece.len();
            Ok(())
        });
        assert!(matches!(streamed, Ok(Streamed::TooLong)));
        assert!(sunk <= 3 * PIECE + 1, "{sunk}");
    }
}
