//! A session's files: what cells and commands change on disk, and what the host reads and writes.

use std::sync::Arc;

use belljar_engine::{
    ALIASES, CellReport, Changes, ExceptionReport, FileDoor, FileError, FileErrorCode, FileOp, FileReply,
    Interrupter, Rollback, State, Status,
};
use belljar_files::operations;

use super::disk::{Disk, Poller};
use super::{Life, Live, Slot};
use crate::Error;

/// Bytes of a file that is read whole.
const MOST_READ: u64 = 1 << 30;

impl Slot {
    /// Something is about to run that may change files on disk. They are watched until what is returned is dropped.
    pub(super) fn begin(&mut self) -> Result<Option<Poller>, Error> {
        let switch = Arc::clone(&self.switch);
        match &mut self.live()?.disk {
            Some(disk) => disk.begin(switch as Arc<dyn Interrupter>),
            None => Ok(None),
        }
    }

    /// A cell that was quicker than those who look at the quota is taken back now, if that can be.
    pub(super) fn check_quota(&mut self, number: u32, report: &mut CellReport) -> Result<(), Error> {
        let keeps = self.place.spec.rollback != Rollback::Never;
        let Live { guest, disk: Some(disk), .. } = self.live()? else { return Ok(()) };
        if report.status == Status::DiskFull {
            guest.end_processes();
        }
        if report.status == Status::Error
            && disk.is_polled()
            && report.exception.as_ref().is_some_and(is_too_large)
        {
            // No file may be larger than all of them together.
            (report.status, report.reason) = (Status::DiskFull, Some(disk.quota()));
        }
        if report.state != State::Kept || !disk.is_overfull()? {
            return Ok(());
        }
        (report.status, report.reason) = (Status::DiskFull, Some(disk.quota()));
        guest.end_processes();
        if keeps {
            guest.settle();
            let undone =
                guest.undoable().is_ok_and(|cells| cells.first() == Some(&number)) && guest.undo(1).is_ok();
            if undone {
                report.state = State::RolledBack;
                report.changes = Changes::default();
            } else if let Some(note) = disk.roll_back()? {
                report.notes.push(note);
            } else {
                report.notes.push("the cell's files were taken back, and its variables stay".to_owned());
            }
        }
        Ok(())
    }

    /// Ends what runs in the background if it fills the disk.
    pub(crate) fn check_background(&mut self) {
        let hidden = self.switch.hidden_bytes();
        let Life::Live(live) = &mut self.life else { return };
        let Live { guest, disk: Some(disk), .. } = live.as_mut() else { return };
        if disk.is_filled_meanwhile(hidden).unwrap_or(false) {
            guest.end_processes();
            let note = "processes in the background were ended, since the workspace was full".to_owned();
            if !self.pending.contains(&note) {
                self.pending.push(note);
            }
        }
    }

    /// It has ended: adds what it changed on disk, or puts that back.
    pub(super) fn end(
        &mut self,
        state: State,
        changes: &mut Changes,
        notes: &mut Vec<String>,
    ) -> Result<(), Error> {
        let cell = self.cells;
        let Some(disk) = &mut self.live()?.disk else { return Ok(()) };
        match state {
            State::RolledBack => notes.extend(disk.roll_back()?),
            State::Kept | State::Lost => disk.finish(cell, changes)?,
        }
        Ok(())
    }

    /// Bytes of files on disk that the engine doesn't count.
    pub(super) fn disk_bytes(&self) -> u64 {
        match &self.life {
            Life::Live(live) => live.disk.as_ref().map_or(0, Disk::uncounted),
            Life::Asleep | Life::Closed => 0,
        }
    }

    /// Does something with the files of a workspace in memory.
    pub(crate) fn file(&mut self, operation: FileOp) -> Result<FileReply, FileError> {
        let failed = |error: Error| FileError::told(FileErrorCode::Failed, "", error.to_string());
        let changes = operation.changes();
        self.host_wrote |= changes;
        let live = self.live().map_err(failed)?;
        live.changed |= changes;
        live.guest.file(operation)
    }

    /// Reads a file, by an absolute guest path or one below the workspace.
    pub(crate) fn read_file(&mut self, path: &str) -> Result<Vec<u8>, Error> {
        match self.own_file(path) {
            Some((door, relative)) => Ok(operations::read(door.as_ref(), &relative, MOST_READ)?),
            None => {
                let path = self.place.guest_path(path);
                self.with_guest(|guest| guest.read_file(&path))
            }
        }
    }

    /// Writes a file, likewise.
    pub(crate) fn write_file(&mut self, path: &str, contents: &[u8]) -> Result<(), Error> {
        self.host_wrote = true;
        match self.own_file(path) {
            Some((door, relative)) => {
                operations::write(door.as_ref(), &relative, &mut &*contents)?;
                Ok(())
            }
            None => {
                let path = self.place.guest_path(path);
                self.live()?.changed = true;
                self.with_guest(|guest| guest.write_file(&path, contents))
            }
        }
    }

    /// A file in a workspace on disk.
    fn own_file(&mut self, path: &str) -> Option<(Arc<dyn FileDoor>, String)> {
        let door = Arc::clone(&self.live().ok()?.disk.as_ref()?.door);
        let relative = operations::path::workspace_path(path, &self.place.spec.workspace, &ALIASES).ok()?;
        Some((door, relative))
    }
}

/// Whether a file was to be larger than a file may be.
fn is_too_large(raised: &ExceptionReport) -> bool {
    raised.kind == "OSError"
        && raised.message.starts_with(&format!("[Errno {}]", rustix::io::Errno::FBIG.raw_os_error()))
}
