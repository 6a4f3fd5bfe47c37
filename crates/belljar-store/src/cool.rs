//! Packs that nobody wrote lately are compressed.

use std::time::Duration;

use crate::error::{Result, StoreError};
use crate::layout;
use crate::pack::{self, pack_name};
use crate::session_id::Tenant;
use crate::store::Store;

/// What cooling did.
#[derive(Debug, Default)]
pub struct Cooled {
    /// How many packs were compressed.
    pub packs: u64,
    /// How many bytes that freed.
    pub freed_bytes: u64,
    /// Packs that can't be: they stay as they are.
    pub damaged: Vec<StoreError>,
}

impl Store {
    /// Compresses a tenant's packs that are older than this. Sessions that use them aren't disturbed.
    ///
    /// # Errors
    ///
    /// If there is no room for the compressed form, or it can't be written; the former one stays.
    pub fn cool(&self, tenant: &Tenant, older_than: Duration) -> Result<Cooled> {
        let directory = self.layout.tenant(tenant);
        let packs = directory.packs();
        let mut cooled = Cooled::default();
        for entry in layout::entries(&packs)? {
            let Some((id, true)) = entry.file_name().to_str().and_then(pack_name) else { continue };
            let age = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            let age = age.and_then(|time| time.elapsed().ok()).unwrap_or_default();
            if age < older_than {
                continue;
            }
            // For each anew, so that nobody who collects garbage waits for long.
            let _held = directory.hold_garbage()?;
            match pack::cool(&packs, id) {
                Ok(freed) => {
                    cooled.packs += 1;
                    cooled.freed_bytes += u64::try_from(freed).unwrap_or(0);
                }
                // Its session doesn't need it any more, or somebody else was faster.
                Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error @ (StoreError::Damaged { .. } | StoreError::Future { .. })) => {
                    cooled.damaged.push(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(cooled)
    }
}
