//! A session at one moment: a sleeping shadow while the session lives, a file once it is kept.
//!
//! The file is the guest's own: pickles, which nobody but a guest ever reads.

use std::any::Any;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_engine::{BLOCK, EngineError, Limits, PageRun, SavedGuest, SavedMemory, Snapshot, Tag};
use serde::{Deserialize, Serialize};

use crate::guest::Past;
use crate::init::Init;
use crate::kernel::Kernel;
use crate::tree::{Moment, SavedEntry};

const SAVE: u8 = 5;
const LOAD: u8 = 6;
const SAVED: u8 = 20;
const LOADED: u8 = 21;

/// How long writing or reading all variables may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// The form in which states are kept.
const VERSION: u32 = 1;
/// Bytes of variables that are brought into memory to be mapped.
const MOST_IN_MEMORY: u64 = 1 << 30;
/// Names of lost variables that are told of.
const MOST_LOST: usize = 50;

/// Variables in a file.
pub(crate) struct Kept {
    file: Arc<File>,
    length: u64,
    lost: Vec<String>,
}

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    lost: Vec<Lost>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Lost {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    reason: String,
}

impl Lost {
    fn describe(&self) -> String {
        let short = |text: &str| text.chars().filter(|c| !c.is_control()).take(200).collect::<String>();
        format!("`{}` could not be kept ({}): {}", short(&self.name), short(&self.kind), short(&self.reason))
    }
}

impl Kept {
    /// Lets a kernel write its variables into a new file.
    pub(crate) fn write(kernel: &mut Kernel, scratch: &Path) -> Result<Self, EngineError> {
        let fail = |error: String| EngineError::Unsupported {
            engine: "native",
            what: format!("keep the variables: {error}"),
        };
        let file = memory_file()
            .or_else(|_| tempfile::tempfile_in(scratch))
            .map_err(|error| fail(error.to_string()))?;
        let message = [&[SAVE][..], b"{}"].concat();
        let reply =
            kernel.ask(&message, &[file.as_fd()], PATIENCE).map_err(|error| fail(error.to_string()))?;
        let reply = read(&reply, SAVED).map_err(|error| fail(error.to_string()))?;
        if let Some(error) = reply.error {
            return Err(fail(error.chars().take(500).collect()));
        }
        let length = file.metadata().map_err(|error| fail(error.to_string()))?.len();
        if length < reply.bytes {
            return Err(fail("the file is shorter than was said".to_owned()));
        }
        // The guest has the file open, and could change it: it is sealed, or what is kept is a copy.
        let padded = length.next_multiple_of(BLOCK);
        let sealed = file.set_len(padded).is_ok() && seal(&file).is_ok();
        let file = match sealed {
            true => file,
            false => copy(&file, length, padded, scratch).map_err(|error| fail(error.to_string()))?,
        };
        if file.metadata().map_err(|error| fail(error.to_string()))?.len() != padded {
            return Err(fail("the file changed while it was kept".to_owned()));
        }
        let lost = reply.lost.iter().take(MOST_LOST).map(Lost::describe).collect();
        Ok(Self { file: Arc::new(file), length, lost })
    }

    /// Lets a fresh kernel read them. Returns what it couldn't.
    pub(crate) fn load(&self, kernel: &mut Kernel) -> io::Result<Vec<String>> {
        // Opened anew, so that it can't be written to.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&*self.file));
        let file = File::open(path)?;
        let message = [&[LOAD][..], b"{}"].concat();
        let reply = kernel.ask(&message, &[file.as_fd()], PATIENCE)?;
        let reply = read(&reply, LOADED)?;
        if let Some(error) = reply.error {
            return Err(io::Error::other(error.chars().take(500).collect::<String>()));
        }
        let mut lost = self.lost.clone();
        for described in reply.lost.iter().take(MOST_LOST).map(Lost::describe) {
            if !lost.contains(&described) {
                lost.push(described);
            }
        }
        Ok(lost)
    }
}

fn read(reply: &[u8], kind: u8) -> io::Result<Reply> {
    match reply.split_first() {
        Some((found, payload)) if *found == kind => Ok(serde_json::from_slice(payload)?),
        _ => Err(io::Error::other("it did not answer as it should")),
    }
}

/// A session at one moment.
pub(crate) struct NativeSnapshot {
    environment: String,
    pub(crate) files: Moment,
    source: Mutex<Source>,
    memory: u64,
    limits: Limits,
    scratch: PathBuf,
}

/// Where the variables are.
pub(crate) enum Source {
    /// In a sleeping shadow.
    Asleep(Asleep),
    /// In a file.
    Kept(Arc<Kept>),
    /// As they came from the keeper.
    Stored { memory: SavedMemory, length: u64, lost: Vec<String> },
}

/// A state of a session that lives, and those before it.
#[derive(Clone)]
pub(crate) struct Asleep {
    pub(crate) now: Arc<Past>,
    pub(crate) past: VecDeque<Arc<Past>>,
    pub(crate) from_fresh: bool,
    /// Shadows live as long as their namespaces.
    pub(crate) init: Arc<Init>,
}

/// The engine's own part of what is kept.
#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    /// Bytes of the variables.
    length: u64,
    lost: Vec<String>,
    files: Vec<SavedEntry>,
    file_bytes: u64,
}

impl NativeSnapshot {
    pub(crate) fn new(
        environment: String,
        files: Moment,
        source: Source,
        memory: u64,
        limits: Limits,
        scratch: PathBuf,
    ) -> Self {
        Self { environment, files, source: Mutex::new(source), memory, limits, scratch }
    }

    /// The process that it is, if it is one.
    pub(crate) fn pid(&self) -> Option<i32> {
        match &*self.source.lock().unwrap_or_else(PoisonError::into_inner) {
            Source::Asleep(asleep) => Some(asleep.now.pid()),
            _ => None,
        }
    }

    /// Becomes a file.
    pub(crate) fn put_to_sleep(&self) -> Result<(), EngineError> {
        let kept = self.kept(&self.scratch)?;
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Source::Kept(kept);
        Ok(())
    }

    pub(crate) fn restore(saved: SavedGuest, environment: &str) -> Result<Self, EngineError> {
        let fail = |reason: &str| EngineError::Restore(reason.to_owned());
        if saved.environment != environment {
            return Err(fail("it was made in another environment"));
        }
        let head: Head = postcard::from_bytes(&saved.state).map_err(|_| fail("its head makes no sense"))?;
        if head.version != VERSION {
            return Err(fail("it is of another version"));
        }
        if head.length > saved.memory.length || saved.memory.length - head.length >= BLOCK {
            return Err(fail("its length makes no sense"));
        }
        let limits = Limits { file_bytes: head.file_bytes, ..Limits::default() };
        let files = Moment::load(head.files, &saved.chunks, u64::MAX).map_err(|reason| fail(&reason))?;
        let memory = saved.memory.length;
        let lost = head.lost.into_iter().take(MOST_LOST).collect();
        let source = Source::Stored { memory: saved.memory, length: head.length, lost };
        Ok(Self {
            environment: saved.environment,
            files,
            source: Mutex::new(source),
            memory,
            limits,
            scratch: PathBuf::new(),
        })
    }

    /// The variables as a file, written now if they weren't.
    pub(crate) fn kept(&self, scratch: &Path) -> Result<Arc<Kept>, EngineError> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *source {
            Source::Kept(kept) => Ok(Arc::clone(kept)),
            // By a shadow of the shadow, since writing may change what is written.
            Source::Asleep(asleep) => {
                let writer = asleep.now.wake(&asleep.init);
                let mut writer = writer.map_err(|error| EngineError::Gone(error.to_string()))?;
                Kept::write(&mut writer, scratch).map(Arc::new)
            }
            Source::Stored { memory, length, lost } => {
                let kept = assemble(memory, *length, lost.clone(), scratch)
                    .map_err(|error| EngineError::Restore(error.to_string()))?;
                let kept = Arc::new(kept);
                *source = Source::Kept(Arc::clone(&kept));
                Ok(kept)
            }
        }
    }

    /// The state, if it is one of this very session.
    pub(crate) fn asleep_in(&self, init: &Arc<Init>) -> Option<Asleep> {
        match &*self.source.lock().unwrap_or_else(PoisonError::into_inner) {
            Source::Asleep(asleep) if Arc::ptr_eq(&asleep.init, init) => Some(asleep.clone()),
            _ => None,
        }
    }
}

/// A file in memory that can be sealed.
fn memory_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(memfd_create("kept", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?.into())
}

/// Nobody can change it any more, whoever has it open. Fails if somebody has it mapped for writing.
fn seal(file: &File) -> io::Result<()> {
    use rustix::fs::{SealFlags, fcntl_add_seals};
    Ok(fcntl_add_seals(file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::WRITE | SealFlags::SEAL)?)
}

/// A copy of the first so many bytes of a file, with nothing after them.
fn copy(file: &File, length: u64, padded: u64, scratch: &Path) -> io::Result<File> {
    let copied = tempfile::tempfile_in(scratch)?;
    copied.set_len(padded)?;
    copy_range(file, 0, &copied, 0, length)?;
    Ok(copied)
}

/// Copies bytes from one file to another, in the kernel where it can.
fn copy_range(source: &File, from: u64, target: &File, to: u64, length: u64) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let (mut source_at, mut target_at) = (from + done, to + done);
        let left = usize::try_from(length - done).unwrap_or(usize::MAX).min(1 << 30);
        match rustix::fs::copy_file_range(source, Some(&mut source_at), target, Some(&mut target_at), left) {
            Ok(0) => break,
            Ok(copied) => done += copied as u64,
            Err(_) => {
                let mut buffer = vec![0; left.min(1 << 20)];
                let read = source.read_at(&mut buffer, from + done)?;
                if read == 0 {
                    break;
                }
                target.write_all_at(&buffer[..read], to + done)?;
                done += read as u64;
            }
        }
    }
    Ok(())
}

/// Puts the pieces of what was stored together.
fn assemble(memory: &SavedMemory, length: u64, lost: Vec<String>, scratch: &Path) -> io::Result<Kept> {
    // Read from disk once, and mapped; what is very large is left to the disk.
    let file = match length > MOST_IN_MEMORY {
        true => tempfile::tempfile_in(scratch)?,
        false => memory_file().or_else(|_| tempfile::tempfile_in(scratch))?,
    };
    file.set_len(length.next_multiple_of(BLOCK))?;
    for run in &memory.runs {
        let wanted = run.length.min(length.saturating_sub(run.start));
        copy_range(&run.file, run.offset, &file, run.start, wanted)?;
    }
    Ok(Kept { file: Arc::new(file), length, lost })
}

impl Snapshot for NativeSnapshot {
    fn save(&self) -> Result<SavedGuest, EngineError> {
        let kept = self.kept(&self.scratch)?;
        let (files, chunks) = self.files.save();
        let head = Head {
            version: VERSION,
            length: kept.length,
            lost: kept.lost.clone(),
            files,
            file_bytes: self.limits.file_bytes,
        };
        let length = kept.length.next_multiple_of(BLOCK);
        let run = PageRun { start: 0, length, file: Arc::clone(&kept.file), offset: 0 };
        Ok(SavedGuest {
            environment: self.environment.clone(),
            state: postcard::to_stdvec(&head).map_err(|error| EngineError::Gone(error.to_string()))?,
            undo: Vec::new(),
            memory: SavedMemory { length, runs: vec![run], known: None },
            chunks,
        })
    }

    fn set_stored(&self, _tag: Tag) {}

    fn memory_bytes(&self) -> u64 {
        self.memory
    }

    fn file_bytes(&self) -> u64 {
        self.files.bytes()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
