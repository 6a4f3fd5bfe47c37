//! Pieces of files, and their way out of a serialised file system and back.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Contents are copied on write in pieces of this size.
pub(crate) const CHUNK: usize = 64 << 10;

/// At most 64 KiB of a file, shared with clones until one writes.
#[derive(Clone, Default)]
pub struct Chunk {
    /// The bytes.
    pub bytes: Arc<Vec<u8>>,
    /// For whoever keeps chunks: where these bytes are. A chunk that is written to gets a new one.
    pub tag: Arc<OnceLock<Arc<dyn Any + Send + Sync>>>,
}

impl Chunk {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes)
    }

    pub(super) fn write(&mut self, begin: usize, data: &[u8]) {
        self.forget_tag();
        let end = begin + data.len();
        if begin == 0 && end >= self.bytes.len() {
            // All of it is replaced: no need to copy what others share.
            if Arc::get_mut(&mut self.bytes).is_none() {
                self.bytes = Arc::new(data.to_vec());
                return;
            }
        }
        let bytes = Arc::make_mut(&mut self.bytes);
        if bytes.len() < begin {
            bytes.resize(begin, 0);
        }
        let overlap = bytes.len().min(end) - begin;
        bytes[begin..begin + overlap].copy_from_slice(&data[..overlap]);
        if bytes.capacity() < end {
            // Doubling, but never beyond the chunk.
            let capacity = (bytes.capacity() * 2).clamp(end, CHUNK.max(end));
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(&data[overlap..]);
    }

    pub(super) fn truncate(&mut self, length: usize) {
        if self.bytes.len() > length {
            self.forget_tag();
            let bytes = Arc::make_mut(&mut self.bytes);
            bytes.truncate(length);
            bytes.shrink_to_fit();
        }
    }

    fn forget_tag(&mut self) {
        if self.tag.get().is_some() || Arc::strong_count(&self.tag) > 1 {
            self.tag = Arc::default();
        }
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Chunk({} bytes)", self.bytes.len())
    }
}

thread_local! {
    static APART: RefCell<Option<Apart>> = const { RefCell::new(None) };
}

/// Chunks on their way.
enum Apart {
    Out { chunks: Vec<Chunk>, numbers: HashMap<*const Vec<u8>, u32> },
    In(Vec<Chunk>),
}

/// What `body` serialises of file systems on this thread has numbers in place of the contents of files; the
/// contents are returned beside it, each once.
pub fn with_chunks_apart<T>(body: impl FnOnce() -> T) -> (T, Vec<Chunk>) {
    // One may be inside another.
    let outer = APART.replace(Some(Apart::Out { chunks: Vec::new(), numbers: HashMap::new() }));
    let result = body();
    match APART.replace(outer) {
        Some(Apart::Out { chunks, .. }) => (result, chunks),
        _ => (result, Vec::new()),
    }
}

/// What `body` deserialises on this thread takes its contents from `chunks`.
pub fn with_chunks_from<T>(chunks: Vec<Chunk>, body: impl FnOnce() -> T) -> T {
    let outer = APART.replace(Some(Apart::In(chunks)));
    let result = body();
    APART.set(outer);
    result
}

impl Serialize for Chunk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = APART.with_borrow_mut(|apart| match apart {
            Some(Apart::Out { chunks, numbers }) => {
                // The list holds each, so that no address is used twice.
                Some(*numbers.entry(Arc::as_ptr(&self.bytes)).or_insert_with(|| {
                    chunks.push(self.clone());
                    chunks.len() as u32 - 1
                }))
            }
            _ => None,
        });
        match number {
            Some(number) => serializer.serialize_u32(number),
            None => serializer.serialize_bytes(&self.bytes),
        }
    }
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !APART.with_borrow(|apart| matches!(apart, Some(Apart::In(_)))) {
            return deserializer.deserialize_byte_buf(ChunkVisitor);
        }
        let number = u32::deserialize(deserializer)?;
        let found = APART.with_borrow(|apart| match apart {
            Some(Apart::In(chunks)) => chunks.get(number as usize).cloned(),
            _ => None,
        });
        let sound = found.filter(|chunk| chunk.bytes.len() <= CHUNK);
        sound.ok_or_else(|| serde::de::Error::custom("a chunk that is not there"))
    }
}

struct ChunkVisitor;

impl<'de> Visitor<'de> for ChunkVisitor {
    type Value = Chunk;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at most {CHUNK} bytes")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Chunk, E> {
        self.visit_byte_buf(bytes.to_vec())
    }

    fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Chunk, E> {
        if bytes.len() > CHUNK {
            return Err(E::invalid_length(bytes.len(), &self));
        }
        Ok(Chunk { bytes: Arc::new(bytes), tag: Arc::default() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Chunk, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = sequence.next_element()? {
            if bytes.len() == CHUNK {
                return Err(serde::de::Error::invalid_length(CHUNK + 1, &self));
            }
            bytes.push(byte);
        }
        Ok(Chunk { bytes: Arc::new(bytes), tag: Arc::default() })
    }
}
