//! Making a new state of a session durable: pack, then point, then record.
//!
//! A crash at any moment leaves the old record or the new one, and whatever a record names is there before it. That
//! takes three rounds: contents, the names of pack and point, the name of the record. Each round waits once for the
//! disk, however many files are in it.

use std::fs::File;
use std::path::Path;

use crate::draft::{Draft, sync_directory};
use crate::error::{At, Result, StoreError};
use crate::hash::Hash;
use crate::history::HistoryWriter;
use crate::layout::{TenantDirectory, point_file};
use crate::lease_file::LeaseFile;
use crate::pack::{self, NewPack};
use crate::record::{self, SessionRecord};

/// What is written, but neither durable nor named yet.
#[derive(Default)]
pub(crate) struct Landing<'a> {
    pub(crate) pack: Option<NewPack>,
    pub(crate) point: Option<(Hash, Draft)>,
    pub(crate) history: Option<&'a HistoryWriter>,
    /// Whether packs were marked as shared.
    pub(crate) marked: bool,
    /// Whether the session's own directory may not be durable yet.
    pub(crate) new_session: bool,
}

impl Landing<'_> {
    /// The session has the new record when this returns, whatever happens then.
    ///
    /// The caller keeps garbage from being collected.
    pub(crate) fn land(
        self,
        directory: &TenantDirectory,
        session: &Path,
        lease: &LeaseFile,
        record: &SessionRecord,
    ) -> Result<()> {
        let lost = || StoreError::LeaseLost { session: record.id.clone(), path: lease.path().to_owned() };
        let packs = directory.packs();
        let record_draft = Draft::of(session, &record.encode())?;
        let mut contents = vec![(record_draft.file(), record_draft.path())];
        contents.extend(self.pack.iter().map(|pack| (pack.draft.file(), pack.draft.path())));
        contents.extend(self.point.iter().map(|(_, draft)| (draft.file(), draft.path())));
        contents.extend(self.history.map(|history| (history.file(), history.path())));
        at_once(&contents)?;

        // Whatever has such a name already has the same contents, and somebody may need it: it isn't replaced, and not
        // removed again should something fail.
        let mut placed = Vec::new();
        let mut pack_names = self.marked;
        let mut session_names = false;
        if let Some(pack) = self.pack
            && !pack::exists(&packs, pack.reference.id)
        {
            placed.push(pack.draft.place(&pack::hot_path(&packs, pack.reference.id))?);
            pack_names = true;
        }
        if let Some((name, draft)) = self.point {
            let path = session.join(point_file(name));
            if !path.exists() {
                placed.push(draft.place(&path)?);
            }
            session_names = true;
        }
        if pack_names {
            sync_directory(&packs)?;
        }
        if session_names {
            sync_directory(session)?;
        }
        if self.new_session {
            sync_directory(&directory.sessions())?;
        }

        if !lease.is_ours() {
            return Err(lost());
        }
        record_draft.place(&session.join(record::FILE))?.keep();
        placed.into_iter().for_each(crate::draft::Placed::keep);
        sync_directory(session)
    }
}

/// Waits for all of them together: the disk serves them with one flush if they come at once.
fn at_once(files: &[(&File, &Path)]) -> Result<()> {
    let sync = |(file, path): &(&File, &Path)| rustix::fs::fdatasync(file).at("write", path);
    let Some((first, others)) = files.split_first() else { return Ok(()) };
    std::thread::scope(|scope| {
        let others: Vec<_> = others
            .iter()
            .map(|file| {
                let builder = std::thread::Builder::new().stack_size(64 << 10);
                (builder.spawn_scoped(scope, move || sync(file)), file)
            })
            .collect();
        let mut result = sync(first);
        for (thread, file) in others {
            // Where no thread can be had, it is done here.
            let other = match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => sync(file),
            };
            result = result.and(other);
        }
        result
    })
}
