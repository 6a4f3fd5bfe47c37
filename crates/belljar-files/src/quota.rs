use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{Errno, Result};

/// What a session's files may use. Beyond `bytes` or `files`, operations answer [`Errno::NoSpace`];
/// beyond `handles`, [`Errno::TooManyOpen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Logical bytes: holes count in full, and every file and name costs its bookkeeping.
    pub bytes: u64,
    /// Files, directories and symbolic links.
    pub files: u64,
    /// Open handles.
    pub handles: u32,
    /// Host descriptors held at once; the handles beyond are closed on the host and reopened on use.
    pub descriptors: u32,
}

impl Default for Quota {
    /// 64 MiB, 100,000 files, 1,024 handles, 64 descriptors.
    fn default() -> Self {
        Self { bytes: 64 << 20, files: 100_000, handles: 1024, descriptors: 64 }
    }
}

/// What is used of a [`Quota`]: the in-memory tree, and what mounts have grown by through this file system; or,
/// of a workspace on disk, what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Charged bytes.
    pub bytes: u64,
    /// Files, directories and symbolic links.
    pub files: u64,
}

/// The sides of the ledger. They are apart because removing files that a mount had before must
/// not make room in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Account {
    Tree,
    Mounts,
    /// The workspace on the host's disk, which has a quota of its own.
    Workspace,
}

/// Keeps usage within the quota.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ledger {
    quota: Quota,
    tree: Usage,
    mounts: Usage,
    #[serde(skip)]
    workspace: WorkspaceLedger,
}

/// What a workspace on the host's disk holds. Clones share it: they share the files, too.
#[derive(Clone, Debug, Default)]
struct WorkspaceLedger {
    bytes: u64,
    files: u64,
    /// Nothing until it is counted.
    usage: Arc<Mutex<Option<Usage>>>,
}

impl WorkspaceLedger {
    fn lock(&self) -> MutexGuard<'_, Option<Usage>> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    pub(crate) fn new(quota: Quota) -> Self {
        let workspace = WorkspaceLedger::default();
        Self { quota, tree: Usage::default(), mounts: Usage::default(), workspace }
    }

    /// Begins anew for a workspace on the host's disk.
    pub(crate) fn open_workspace(&mut self, quota: Quota) {
        self.workspace =
            WorkspaceLedger { bytes: quota.bytes, files: quota.files, ..WorkspaceLedger::default() };
    }

    /// Changes what the workspace may hold.
    pub(crate) fn set_workspace_quota(&mut self, quota: Quota) {
        (self.workspace.bytes, self.workspace.files) = (quota.bytes, quota.files);
    }

    /// Files that the workspace may hold.
    pub(crate) fn workspace_files(&self) -> u64 {
        self.workspace.files
    }

    /// What the workspace holds, if it was counted.
    pub(crate) fn workspace(&self) -> Option<Usage> {
        *self.workspace.lock()
    }

    /// Says what the workspace holds; `None` if that has to be counted again.
    pub(crate) fn set_workspace(&self, usage: Option<Usage>) {
        *self.workspace.lock() = usage;
    }

    pub(crate) fn quota(&self) -> Quota {
        self.quota
    }

    pub(crate) fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
    }

    /// What the tree is charged for.
    pub(crate) fn tree(&self) -> Usage {
        self.tree
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            bytes: self.tree.bytes.saturating_add(self.mounts.bytes),
            files: self.tree.files.saturating_add(self.mounts.files),
        }
    }

    pub(crate) fn charge(&mut self, account: Account, bytes: u64, files: u64) -> Result<()> {
        let exceeds = |used: u64, more: u64, limit: u64| more > 0 && used.saturating_add(more) > limit;
        if let Account::Workspace = account {
            let WorkspaceLedger { bytes: most_bytes, files: most_files, .. } = self.workspace;
            let mut counted = self.workspace.lock();
            let usage = counted.get_or_insert_default();
            if exceeds(usage.bytes, bytes, most_bytes) || exceeds(usage.files, files, most_files) {
                return Err(Errno::NoSpace);
            }
            usage.bytes += bytes;
            usage.files += files;
            return Ok(());
        }
        let usage = self.usage();
        if exceeds(usage.bytes, bytes, self.quota.bytes) || exceeds(usage.files, files, self.quota.files) {
            return Err(Errno::NoSpace);
        }
        self.change(account, |side| {
            side.bytes += bytes;
            side.files += files;
        });
        Ok(())
    }

    pub(crate) fn credit(&mut self, account: Account, bytes: u64, files: u64) {
        self.change(account, |side| {
            side.bytes = side.bytes.saturating_sub(bytes);
            side.files = side.files.saturating_sub(files);
        });
    }

    /// Charges what a file grows by, or credits what it shrinks by.
    pub(crate) fn resize(&mut self, account: Account, old: u64, new: u64) -> Result<()> {
        if new < old {
            self.credit(account, old - new, 0);
            return Ok(());
        }
        self.charge(account, new - old, 0)
    }

    fn change(&mut self, account: Account, change: impl FnOnce(&mut Usage)) {
        match account {
            Account::Tree => change(&mut self.tree),
            Account::Mounts => change(&mut self.mounts),
            // What wasn't counted yet will be.
            Account::Workspace => {
                if let Some(usage) = &mut *self.workspace.lock() {
                    change(usage);
                }
            }
        }
    }
}
