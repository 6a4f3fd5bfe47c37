//! What a cell changed in the memory, so that it can be changed back.

use std::io;

use serde::{Deserialize, Serialize};

use crate::ground::Ground;
use crate::pages::HOST_PAGE;

/// A page is compared and kept in pieces of this size.
const LINE: usize = 64;
/// It is first looked at in larger ones.
const BLOCK: usize = 512;

/// What pages held before a cell: of each the lines that are different now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Delta {
    /// A page's number, and a bit for each line that was kept. No bit: the page was as in the ground.
    pages: Vec<(u32, u64)>,
    lines: Vec<u8>,
    /// Keep no more lines than this.
    #[serde(skip)]
    room: usize,
    #[serde(skip)]
    is_full: bool,
}

impl Delta {
    /// Room for so many bytes.
    pub(crate) fn with_room(room: usize) -> Self {
        Self { room, ..Self::default() }
    }

    /// More was changed than there is room for: it can't be changed back.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The page wasn't the guest's own before.
    pub(crate) fn was_ground(&mut self, start: usize) {
        if self.room > 0 {
            self.pages.push(((start / HOST_PAGE) as u32, 0));
        }
    }

    /// Notes where `old` differs, and makes it equal to `new`; says whether it did. Most of a page doesn't, so
    /// that looking is cheaper than copying.
    pub(crate) fn exchange(&mut self, start: usize, old: &mut [u8], new: &[u8]) -> bool {
        let begin = self.lines.len();
        let mut mask = 0_u64;
        let blocks = old.as_chunks_mut::<BLOCK>().0.iter_mut().zip(new.as_chunks::<BLOCK>().0);
        for (number, (old, new)) in blocks.enumerate() {
            if old == new {
                continue;
            }
            let lines = old.as_chunks_mut::<LINE>().0.iter_mut().zip(new.as_chunks::<LINE>().0);
            for (index, (old, new)) in lines.enumerate() {
                if differ(old, new) {
                    mask |= 1 << (number * (BLOCK / LINE) + index);
                    if self.room > 0 {
                        self.lines.extend_from_slice(old);
                    }
                    *old = *new;
                }
            }
        }
        if self.lines.len() > self.room {
            self.is_full = true;
            self.lines.truncate(begin);
        } else if mask != 0 && self.room > 0 {
            self.pages.push(((start / HOST_PAGE) as u32, mask));
        }
        mask != 0
    }

    /// The pages, by address: what to lay over the newer page, or nothing where it was the ground's.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (usize, Option<Lines<'_>>)> {
        let mut rest = self.lines.as_slice();
        self.pages.iter().map(move |&(page, mask)| {
            let (lines, left) = rest.split_at(rest.len().min(mask.count_ones() as usize * LINE));
            rest = left;
            (page as usize * HOST_PAGE, (mask != 0).then_some(Lines { mask, lines }))
        })
    }

    /// Whether one that came from elsewhere is one, for a memory of this size.
    pub(crate) fn is_sound(&self, length: usize) -> bool {
        let lines: usize = self.pages.iter().map(|(_, mask)| mask.count_ones() as usize * LINE).sum();
        let inside = self.pages.iter().all(|&(page, mask)| {
            mask != 0 && (page as usize).checked_add(1).is_some_and(|end| end * HOST_PAGE <= length)
        });
        lines == self.lines.len() && inside
    }
}

/// Without a call, which would cost more than the comparison.
fn differ(one: &[u8; LINE], other: &[u8; LINE]) -> bool {
    let words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    words.fold(0, |different, (one, other)| {
        different | (u64::from_ne_bytes(*one) ^ u64::from_ne_bytes(*other))
    }) != 0
}

/// Some lines of a page.
pub(crate) struct Lines<'a> {
    mask: u64,
    lines: &'a [u8],
}

impl Lines<'_> {
    /// Puts them into the page.
    pub(crate) fn apply(&self, page: &mut [u8]) {
        let indices = (0..64).filter(|index| self.mask & 1 << index != 0);
        for (index, line) in indices.zip(self.lines.chunks_exact(LINE)) {
            page[index * LINE..(index + 1) * LINE].copy_from_slice(line);
        }
    }
}

/// What a page held before, given what it held after.
pub(crate) fn older_page(
    lines: Option<Lines<'_>>,
    ground: &Ground,
    address: usize,
    page: &mut [u8],
) -> io::Result<()> {
    match lines {
        Some(lines) => lines.apply(page),
        None => ground.read_page(address, page)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        let before = [1_u8; HOST_PAGE];
        let mut after = before;
        after[100] = 7;
        after[4095] = 9;
        let mut delta = Delta::with_room(1 << 20);
        let mut old = before;
        delta.exchange(8192, &mut old, &after);
        assert_eq!(old, after);
        assert_eq!(delta.lines.len(), 2 * LINE);
        for (address, lines) in delta.pages() {
            assert_eq!(address, 8192);
            if let Some(lines) = lines {
                lines.apply(&mut old);
            }
        }
        assert_eq!(old, before);
        assert!(delta.is_sound(3 * HOST_PAGE) && !delta.is_sound(2 * HOST_PAGE));
    }

    #[test]
    fn a_page_that_did_not_change_costs_nothing() {
        let mut delta = Delta::with_room(1 << 20);
        delta.exchange(0, &mut [3; HOST_PAGE], &[3; HOST_PAGE]);
        assert!(delta.pages.is_empty() && delta.lines.is_empty());
    }

    #[test]
    fn what_is_too_much_is_told() {
        let mut delta = Delta::with_room(LINE);
        let mut old = [0; HOST_PAGE];
        delta.exchange(0, &mut old, &[1; HOST_PAGE]);
        assert!(delta.is_full() && old == [1; HOST_PAGE]);
    }
}
