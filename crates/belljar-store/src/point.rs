//! Points: one saved moment each, as a file that says where everything is.
//!
//! ```text
//! magic, version, length and hash of the summary | summary | tables | state | undo
//! ```
//!
//! The summary has the lengths and hashes of what follows, so the hash of the summary, which is the name of the
//! point, vouches for all of it; and who only wants to know which packs a point needs reads no further.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use belljar_engine::EXTENT;
use serde::{Deserialize, Serialize};

use crate::error::{At, Result, StoreError};
use crate::hash::Hash;
use crate::layout::point_file;
use crate::pack::{MOST_CHUNK, PackReference, bytes_of};
use crate::table::{ChunkEntry, ExtentEntry};

const MAGIC: [u8; 8] = *b"BJpoint\n";
const VERSION: u32 = 1;
const HEAD: usize = 8 + 4 + 4 + Hash::LENGTH;
const MOST_MEMORY: u64 = 4 << 30;
const MOST_PACKS: usize = 4096;
const MOST_SUMMARY: usize = 1 << 20;
/// 4 GiB of memory and a few GiB of files have tables of some MB.
const MOST_TABLES: u64 = 512 << 20;
/// What engines keep of their own.
const MOST_BLOB: u64 = 1 << 30;

/// What a point is about, and what it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) environment: String,
    /// The length of the memory.
    pub(crate) memory: u64,
    pub(crate) packs: Vec<PackReference>,
    tables: Section,
    state: Section,
    undo: Section,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Section {
    length: u64,
    hash: Hash,
}

impl Section {
    fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len() as u64, hash: Hash::of(bytes) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tables {
    pub(crate) extents: Vec<ExtentEntry>,
    pub(crate) chunks: Vec<ChunkEntry>,
}

/// A whole point, checked.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) summary: Summary,
    pub(crate) tables: Tables,
    pub(crate) state: Vec<u8>,
    pub(crate) undo: Vec<u8>,
}

impl Point {
    /// How many bytes of memory and files it leads to.
    pub(crate) fn bytes(&self) -> u64 {
        let memory = self.tables.extents.iter().map(|extent| bytes_of(extent.mask) as u64);
        memory.chain(self.tables.chunks.iter().map(|chunk| u64::from(chunk.length))).sum()
    }
}

/// A point in the form that is written.
pub(crate) struct Encoded {
    pub(crate) name: Hash,
    pub(crate) bytes: Vec<u8>,
}

/// The tables as bytes, or why they can't be a point.
pub(crate) fn encode(
    environment: &str,
    memory: u64,
    packs: &[PackReference],
    tables: &Tables,
    state: &[u8],
    undo: &[u8],
) -> Result<Encoded, String> {
    if state.len() as u64 > MOST_BLOB || undo.len() as u64 > MOST_BLOB {
        return Err("its engine keeps more than 1 GiB of its own".to_owned());
    }
    let table_bytes = postcard::to_allocvec(tables).map_err(|error| error.to_string())?;
    let summary = Summary {
        environment: environment.to_owned(),
        memory,
        packs: packs.to_vec(),
        tables: Section::of(&table_bytes),
        state: Section::of(state),
        undo: Section::of(undo),
    };
    // What is written can be read: the same checks as when it comes back.
    check_summary(&summary)?;
    check_tables(&summary, tables)?;
    let summary = postcard::to_allocvec(&summary).map_err(|error| error.to_string())?;
    if summary.len() > MOST_SUMMARY {
        return Err("its environment has too long a name".to_owned());
    }
    let name = Hash::of(&summary);
    let mut bytes = Vec::with_capacity(HEAD + summary.len() + table_bytes.len() + state.len() + undo.len());
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((summary.len() as u32).to_le_bytes());
    bytes.extend(name.as_bytes());
    for part in [&summary[..], &table_bytes, state, undo] {
        bytes.extend_from_slice(part);
    }
    Ok(Encoded { name, bytes })
}

/// An open point, of which only the summary was read.
pub(crate) struct PointFile {
    path: PathBuf,
    file: File,
    pub(crate) summary: Summary,
    /// Where the tables begin.
    start: u64,
}

impl PointFile {
    pub(crate) fn open(session: &Path, name: Hash) -> Result<Self> {
        let path = session.join(point_file(name));
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(StoreError::damaged(&path, "it isn't there"));
            }
            result => result.at("open", &path)?,
        };
        Self::read(file, path, name)
    }

    pub(crate) fn read(file: File, path: PathBuf, name: Hash) -> Result<Self> {
        let damaged = |reason: &str| Err(StoreError::damaged(&path, reason));
        let metadata = file.metadata().at("read", &path)?;
        if !metadata.is_file() {
            return damaged("it isn't a file");
        }
        // One read gets everything that most summaries have.
        let mut front = vec![0; metadata.len().min(8 << 10) as usize];
        file.read_exact_at(&mut front, 0).at("read", &path)?;
        let Some((head, _)) = front.split_at_checked(HEAD) else {
            return damaged("it is too short to be a point");
        };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..8] != MAGIC {
            return damaged("it doesn't begin like a point");
        }
        match word(8) {
            VERSION => {}
            version if version > VERSION => return Err(StoreError::Future { path, version }),
            _ => return damaged("its version makes no sense"),
        }
        let length = word(12) as usize;
        if length > MOST_SUMMARY || (HEAD + length) as u64 > metadata.len() {
            return damaged("its summary is longer than it is");
        }
        if head[16..] != name.as_bytes()[..] {
            return damaged("it is another point than its name says");
        }
        let end = HEAD + length;
        if front.len() < end {
            front.resize(end, 0);
            file.read_exact_at(&mut front, 0).at("read", &path)?;
        }
        if Hash::of(&front[HEAD..end]) != name {
            return damaged("the checksum of its summary is wrong");
        }
        let Ok((summary, [])) = postcard::take_from_bytes::<Summary>(&front[HEAD..end]) else {
            return damaged("its summary makes no sense");
        };
        check_summary(&summary).map_err(|reason| StoreError::damaged(&path, reason))?;
        let sections = summary.tables.length + summary.state.length + summary.undo.length;
        let start = end as u64;
        if start + sections != metadata.len() {
            return damaged("its length isn't what its summary says");
        }
        Ok(Self { path, file, summary, start })
    }

    /// Reads and checks the rest.
    pub(crate) fn load(self) -> Result<Point> {
        let Summary { tables, state, undo, .. } = self.summary;
        let mut offset = self.start;
        let mut section = |section: Section, what: &str| -> Result<Vec<u8>> {
            // The lengths add up to the length of the file: no more is allocated than there is.
            let mut bytes = vec![0; section.length as usize];
            self.file.read_exact_at(&mut bytes, offset).at("read", &self.path)?;
            offset += section.length;
            if Hash::of(&bytes) != section.hash {
                return Err(StoreError::damaged(&self.path, format!("the checksum of its {what} is wrong")));
            }
            Ok(bytes)
        };
        let tables = section(tables, "tables")?;
        let state = section(state, "state")?;
        let undo = section(undo, "undo")?;
        let Ok((tables, [])) = postcard::take_from_bytes::<Tables>(&tables) else {
            return Err(StoreError::damaged(&self.path, "its tables make no sense"));
        };
        check_tables(&self.summary, &tables).map_err(|reason| StoreError::damaged(&self.path, reason))?;
        Ok(Point { summary: self.summary, tables, state, undo })
    }
}

fn check_summary(summary: &Summary) -> Result<(), String> {
    if summary.memory > MOST_MEMORY || !summary.memory.is_multiple_of(belljar_engine::BLOCK) {
        return Err(format!("a memory of {} bytes is impossible", summary.memory));
    }
    if summary.packs.len() > MOST_PACKS {
        return Err("it needs more packs than a point may".to_owned());
    }
    if summary.tables.length > MOST_TABLES
        || summary.state.length > MOST_BLOB
        || summary.undo.length > MOST_BLOB
    {
        return Err("it has a part of an impossible length".to_owned());
    }
    Ok(())
}

fn check_tables(summary: &Summary, tables: &Tables) -> Result<(), String> {
    let packs = summary.packs.len();
    let mut next = 0;
    for extent in &tables.extents {
        let last_block = 15 - u64::from(extent.mask.leading_zeros().min(15));
        let end = u64::from(extent.number) * EXTENT + (last_block + 1) * belljar_engine::BLOCK;
        if extent.mask == 0 || u64::from(extent.number) < next || end > summary.memory {
            return Err(format!("extent {} is out of place", extent.number));
        }
        if usize::from(extent.pack) >= packs {
            return Err(format!("extent {} is in a pack that isn't named", extent.number));
        }
        next = u64::from(extent.number) + 1;
    }
    for (number, chunk) in tables.chunks.iter().enumerate() {
        if chunk.length > MOST_CHUNK || usize::from(chunk.pack) >= packs {
            return Err(format!("chunk {number} makes no sense"));
        }
    }
    Ok(())
}
