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

/// What is used of a [`Quota`]: the in-memory tree, and what mounts have grown by through this file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Charged bytes.
    pub bytes: u64,
    /// Files, directories and symbolic links.
    pub files: u64,
}

/// The two sides of the ledger. They are apart because removing files that a mount had before must
/// not make room in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Account {
    Tree,
    Mounts,
}

/// Keeps usage within the quota.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ledger {
    quota: Quota,
    tree: Usage,
    mounts: Usage,
}

impl Ledger {
    pub(crate) fn new(quota: Quota) -> Self {
        Self { quota, tree: Usage::default(), mounts: Usage::default() }
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
        let usage = self.usage();
        let exceeds = |used: u64, more: u64, limit: u64| more > 0 && used.saturating_add(more) > limit;
        if exceeds(usage.bytes, bytes, self.quota.bytes) || exceeds(usage.files, files, self.quota.files) {
            return Err(Errno::NoSpace);
        }
        let side = self.side(account);
        side.bytes += bytes;
        side.files += files;
        Ok(())
    }

    pub(crate) fn credit(&mut self, account: Account, bytes: u64, files: u64) {
        let side = self.side(account);
        side.bytes = side.bytes.saturating_sub(bytes);
        side.files = side.files.saturating_sub(files);
    }

    /// Charges what a file grows by, or credits what it shrinks by.
    pub(crate) fn resize(&mut self, account: Account, old: u64, new: u64) -> Result<()> {
        if new < old {
            self.credit(account, old - new, 0);
            return Ok(());
        }
        self.charge(account, new - old, 0)
    }

    fn side(&mut self, account: Account) -> &mut Usage {
        match account {
            Account::Tree => &mut self.tree,
            Account::Mounts => &mut self.mounts,
        }
    }
}
