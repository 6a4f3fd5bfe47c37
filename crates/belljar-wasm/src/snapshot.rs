//! A guest at one moment.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_engine::{EngineError, SavedChunk, SavedGuest, Snapshot, Tag};
use belljar_files::{Chunk, with_chunks_apart, with_chunks_from};
use serde::{Deserialize, Serialize};

use crate::ground::Ground;
use crate::host::Machine;
use crate::memory::Image;
use crate::undo::{Attach, UndoLog};

/// Raised when [`State`] changes; older ones stay readable.
const VERSION: u32 = 1;

/// A guest at one moment: what it stands on is all there is of its memory.
pub(crate) struct WasmSnapshot {
    pub(crate) environment: Arc<str>,
    pub(crate) ground: Arc<Ground>,
    pub(crate) globals: Vec<i32>,
    pub(crate) machine: Machine,
    pub(crate) attach: Option<Attach>,
    pub(crate) undo: Mutex<UndoLog>,
    pub(crate) undo_depth: usize,
    /// What the guest was told of its surroundings, in short.
    pub(crate) told: [u8; 16],
    pub(crate) file_bytes: u64,
}

/// The part of a kept guest that isn't pages or contents of files.
#[derive(Serialize, Deserialize)]
struct State<M> {
    version: u32,
    globals: Vec<i32>,
    machine: M,
    attach: Option<Attach>,
    told: [u8; 16],
    undo_depth: u32,
    file_bytes: u64,
}

impl WasmSnapshot {
    /// A snapshot of this engine's.
    pub(crate) fn of<'a>(
        snapshot: &'a dyn Snapshot,
        environment: &Arc<str>,
    ) -> Result<&'a Self, EngineError> {
        let ours = snapshot.as_any().downcast_ref::<Self>();
        ours.filter(|snapshot| snapshot.environment == *environment)
            .ok_or_else(|| EngineError::Restore("it is a snapshot of another engine's guest".to_owned()))
    }

    /// Reads what was kept. Nothing of it is believed.
    pub(crate) fn restore(
        saved: SavedGuest,
        environment: &Arc<str>,
        image: &Arc<Image>,
    ) -> Result<Self, EngineError> {
        let refused = |reason: String| EngineError::Restore(reason);
        if *saved.environment != **environment {
            return Err(refused(format!(
                "it was made in the environment {}, and this is {environment}",
                saved.environment
            )));
        }
        let chunks: Vec<Chunk> =
            saved.chunks.into_iter().map(|SavedChunk { bytes, tag }| Chunk { bytes, tag }).collect();
        let decode = || postcard::take_from_bytes::<State<Machine>>(&saved.state);
        let (state, rest) =
            with_chunks_from(chunks.clone(), decode).map_err(|error| refused(error.to_string()))?;
        if !rest.is_empty() {
            return Err(refused("something follows its state".to_owned()));
        }
        if state.version != VERSION {
            return Err(refused(format!("its state is of version {}", state.version)));
        }
        if !state.machine.files.is_sound() {
            return Err(refused("its files do not fit together".to_owned()));
        }
        let ground = Ground::from_saved(image, saved.memory).map_err(refused)?;
        Ok(Self {
            environment: Arc::clone(environment),
            ground: Arc::new(ground),
            globals: state.globals,
            machine: state.machine.started(),
            attach: state.attach,
            undo: Mutex::new(UndoLog::kept(saved.undo, chunks)),
            undo_depth: state.undo_depth as usize,
            told: state.told,
            file_bytes: state.file_bytes,
        })
    }
}

impl Snapshot for WasmSnapshot {
    fn save(&self) -> Result<SavedGuest, EngineError> {
        let failed = |error: String| EngineError::Exhausted(format!("a guest could not be kept: {error}"));
        let mut undo = self.undo.lock().unwrap_or_else(PoisonError::into_inner);
        let state = State {
            version: VERSION,
            globals: self.globals.clone(),
            machine: self.machine.stopped(),
            attach: self.attach.clone(),
            told: self.told,
            undo_depth: self.undo_depth as u32,
            file_bytes: self.file_bytes,
        };
        let (parts, chunks) = with_chunks_apart(|| {
            let state = postcard::to_stdvec(&state).map_err(|error| failed(error.to_string()))?;
            // Not to be able to undo is no reason to lose the guest.
            let undo = undo.save(&self.ground, self.undo_depth).unwrap_or_default();
            Ok((state, undo))
        });
        let (state, undo) = parts?;
        Ok(SavedGuest {
            environment: self.environment.to_string(),
            state,
            undo,
            memory: self.ground.save(),
            chunks: chunks.into_iter().map(|Chunk { bytes, tag }| SavedChunk { bytes, tag }).collect(),
        })
    }

    fn set_stored(&self, tag: Tag) {
        self.ground.set_stored(tag);
    }

    fn memory_bytes(&self) -> u64 {
        self.ground.bytes()
    }

    fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
