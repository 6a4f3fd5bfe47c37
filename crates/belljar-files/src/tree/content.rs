use imbl::Vector;
use serde::{Deserialize, Serialize};

use super::chunk::{CHUNK, Chunk};

/// The bytes of a regular file: holes and the zeros at a chunk's end aren't stored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Content {
    size: u64,
    #[serde(deserialize_with = "crate::cautious::vector")]
    chunks: Vector<Option<Chunk>>,
}

impl Content {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Reads up to `buffer.len()` bytes; 0 at and after the end.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let wanted = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..wanted];
        let mut done = 0;
        while done < wanted {
            let (index, begin) = position(offset + done as u64);
            let length = (CHUNK - begin).min(wanted - done);
            let target = &mut buffer[done..done + length];
            let stored = match self.chunks.get(index) {
                Some(Some(chunk)) => chunk.bytes().get(begin..).unwrap_or_default(),
                _ => &[],
            };
            let stored = &stored[..stored.len().min(length)];
            target[..stored.len()].copy_from_slice(stored);
            target[stored.len()..].fill(0);
            done += length;
        }
        wanted
    }

    /// Writes all of `data`. The caller has checked and charged the new size.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let (index, begin) = position(offset + done as u64);
            let length = (CHUNK - begin).min(data.len() - done);
            while self.chunks.len() <= index {
                self.chunks.push_back(None);
            }
            if let Some(slot) = self.chunks.get_mut(index) {
                slot.get_or_insert_default().write(begin, &data[done..done + length]);
            }
            done += length;
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    /// Cuts, or extends with a hole. The caller has checked and charged the new size.
    pub(crate) fn set_size(&mut self, size: u64) {
        if size < self.size {
            let (index, end) = position(size);
            self.chunks.truncate(index + usize::from(end > 0));
            if end > 0
                && let Some(Some(chunk)) = self.chunks.get_mut(index)
            {
                chunk.truncate(end);
            }
        }
        self.size = size;
    }

    /// Bytes of chunks that `newer` doesn't share.
    pub(crate) fn retained(&self, newer: Option<&Self>) -> u64 {
        let chunks = self.chunks.iter().enumerate();
        let alone = chunks.filter_map(|(index, chunk)| {
            let chunk = chunk.as_ref()?;
            let other = newer.and_then(|newer| newer.chunks.get(index)?.as_ref());
            (!other.is_some_and(|other| other.is_shared_with(chunk))).then(|| chunk.bytes().len() as u64)
        });
        alone.sum()
    }

    /// Whether its chunks are what its size says.
    pub(crate) fn is_sound(&self) -> bool {
        let (index, end) = position(self.size);
        self.chunks.len() <= index.saturating_add(usize::from(end > 0))
            && match self.chunks.get(index) {
                Some(Some(last)) => last.bytes().len() <= end,
                _ => true,
            }
    }
}

/// The chunk that holds a byte and the byte's place in it. Offsets are below the quota, so they fit.
fn position(offset: u64) -> (usize, usize) {
    (usize::try_from(offset / CHUNK as u64).unwrap_or(usize::MAX), (offset % CHUNK as u64) as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(content: &Content) -> Vec<u8> {
        let mut bytes = vec![0xff; content.size() as usize + 10];
        let length = content.read(0, &mut bytes);
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn what_was_cut_is_zero_when_it_comes_back() {
        let mut content = Content::default();
        content.write(0, &[7; 200_000]);
        content.set_size(70_000);
        content.set_size(200_000);
        let bytes = all(&content);
        assert!(bytes[..70_000].iter().all(|byte| *byte == 7));
        assert!(bytes[70_000..].iter().all(|byte| *byte == 0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(u32, Vec<u8>),
        SetSize(u32),
        Snapshot,
    }

    fn step() -> impl Strategy<Value = Step> {
        // Offsets around chunk edges are where the mistakes would be.
        let offset = prop_oneof![0..300_000_u32, 65_530..65_540_u32, 131_070..131_075_u32];
        prop_oneof![
            4 => (offset.clone(), 0..100_000_usize, any::<u8>())
                .prop_map(|(at, length, byte)| Step::Write(at, vec![byte; length])),
            2 => offset.prop_map(Step::SetSize),
            1 => Just(Step::Snapshot),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn content_is_a_vector_of_bytes(steps in prop::collection::vec(step(), 1..12)) {
            let mut content = Content::default();
            let mut model: Vec<u8> = Vec::new();
            let mut snapshots = Vec::new();
            for step in steps {
                match step {
                    Step::Write(offset, data) => {
                        let (offset, end) = (offset as usize, offset as usize + data.len());
                        if !data.is_empty() {
                            model.resize(model.len().max(end), 0);
                            model[offset..end].copy_from_slice(&data);
                            content.write(offset as u64, &data);
                        }
                    }
                    Step::SetSize(size) => {
                        model.resize(size as usize, 0);
                        content.set_size(size.into());
                    }
                    Step::Snapshot => snapshots.push((content.clone(), model.clone())),
                }
                prop_assert!(all(&content) == model);
            }
            for (content, model) in snapshots {
                prop_assert!(all(&content) == model);
            }
        }
    }
}
