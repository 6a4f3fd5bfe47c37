//! Whole workspaces on the move: archives, directories, buckets.

use std::io::{Read, Write};
use std::path::Path;

use belljar_transfer as transfer;
pub use belljar_transfer::{
    Action, DEFAULT_EXCLUDES, ExportOptions, Exported, Globs, ImportOptions, Migrated, Migration, Place,
    Progress as TransferProgress, Quiet as QuietTransfer, S3Credentials, S3Place, Skipped, SkippedList, Step,
    SyncOptions, Synced, TransferError,
};

use crate::{Error, Files, Workspaces};

/// What came of an archive.
pub use belljar_transfer::Imported as ImportedFiles;

/// Each of these blocks; none needs much memory, however large the files are.
impl Files {
    /// Writes all files into a `.tar.zst`, which appears when it is complete.
    pub fn export_blocking(
        &self,
        to: &Path,
        options: &ExportOptions,
        progress: &dyn TransferProgress,
    ) -> Result<Exported, Error> {
        Ok(transfer::export_to_path(self.door(), to, options, progress)?)
    }

    /// Writes all files as a `.tar.zst` to whoever reads it.
    pub fn export_to_blocking(
        &self,
        to: impl Write,
        options: &ExportOptions,
        progress: &dyn TransferProgress,
    ) -> Result<Exported, Error> {
        Ok(transfer::export(self.door(), to, options, progress)?)
    }

    /// Adds the files of a `.tar.zst`, `.tar.gz` or `.tar`. Nothing in it is believed.
    pub fn import_blocking(
        &self,
        from: impl Read,
        options: &ImportOptions,
        progress: &dyn TransferProgress,
    ) -> Result<ImportedFiles, Error> {
        Ok(transfer::import(self.door(), from, options, progress)?)
    }

    /// Makes a place like the workspace, by copying what changed.
    pub fn push_blocking(
        &self,
        to: &Place<'_>,
        options: &SyncOptions,
        progress: &dyn TransferProgress,
    ) -> Result<Synced, Error> {
        Ok(transfer::push(self.door(), to, options, progress)?)
    }

    /// Makes the workspace like a place, by copying what changed.
    pub fn pull_blocking(
        &self,
        from: &Place<'_>,
        options: &SyncOptions,
        progress: &dyn TransferProgress,
    ) -> Result<Synced, Error> {
        Ok(transfer::pull(self.door(), from, options, progress)?)
    }
}

impl Workspaces {
    /// Removes the copies of packages that older systems put into each directory below `threads`: those that are the
    /// same in `site`, the packages of an environment.
    pub fn migrate_blocking(
        threads: &Path,
        site: &Path,
        dry_run: bool,
        progress: &dyn TransferProgress,
    ) -> Result<Vec<Migrated>, Error> {
        Ok(transfer::migrate(threads, site, dry_run, progress)?)
    }
}
