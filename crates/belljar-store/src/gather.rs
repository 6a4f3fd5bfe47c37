//! Extents of a memory, from the runs of pages that it is given as.

use std::os::unix::fs::FileExt;

use belljar_engine::{BLOCK, EXTENT, PageRun, SavedMemory};

use crate::error::{Result, StoreError};
use crate::session_id::SessionId;

/// The blocks of one extent, and the runs that have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) number: u32,
    pub(crate) mask: u16,
    /// The first run that reaches into the extent.
    first_run: usize,
}

/// All extents that the runs touch, by number; or which rule the runs break.
pub(crate) fn extents(memory: &SavedMemory) -> Result<Vec<Source>, String> {
    let mut sources: Vec<Source> = Vec::new();
    let mut end = 0;
    for (index, run) in memory.runs.iter().enumerate() {
        let run_end = run.start.checked_add(run.length).filter(|end| *end <= memory.length);
        let aligned = [run.start, run.length, run.offset].iter().all(|number| number % BLOCK == 0);
        let Some(run_end) = run_end.filter(|_| aligned && run.length > 0 && run.start >= end) else {
            return Err(format!("its run of pages at {:#x} is out of place", run.start));
        };
        end = run_end;
        let mut at = run.start;
        while at < run_end {
            let number = (at / EXTENT) as u32;
            let stop = run_end.min((at / EXTENT + 1) * EXTENT);
            let mask = blocks(at, stop);
            match sources.last_mut() {
                Some(source) if source.number == number => source.mask |= mask,
                _ => sources.push(Source { number, mask, first_run: index }),
            }
            at = stop;
        }
    }
    Ok(sources)
}

/// Reads the blocks of one extent, without gaps between them.
pub(crate) fn read(
    session: &SessionId,
    runs: &[PageRun],
    source: &Source,
    mut into: &mut [u8],
) -> Result<()> {
    let start = u64::from(source.number) * EXTENT;
    for run in &runs[source.first_run..] {
        let from = run.start.max(start);
        let to = (run.start + run.length).min(start + EXTENT);
        if from >= to || into.is_empty() {
            break;
        }
        let (part, rest) = into.split_at_mut((to - from) as usize);
        run.file.read_exact_at(part, run.offset + (from - run.start)).map_err(|error| StoreError::Unfit {
            session: session.clone(),
            reason: format!("its memory at {from:#x} can't be read: {error}"),
        })?;
        into = rest;
    }
    Ok(())
}

/// The mask of the blocks from one address to another in the same extent.
fn blocks(from: u64, to: u64) -> u16 {
    let first = (from % EXTENT / BLOCK) as u32;
    let count = ((to - from) / BLOCK) as u32;
    ((u32::from(u16::MAX) >> (16 - count)) << first) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks() {
        assert_eq!(blocks(0, EXTENT), 0xffff);
        assert_eq!(blocks(EXTENT + BLOCK, EXTENT + 3 * BLOCK), 0b110);
        assert_eq!(blocks(15 * BLOCK, EXTENT), 0x8000);
    }
}
