//! Reading everything, to find damage before anybody needs what is damaged.

use crate::error::{Result, StoreError};
use crate::history;
use crate::layout::{self, TenantDirectory};
use crate::load;
use crate::pack::{self, Pack, pack_name};
use crate::record::SessionRecord;
use crate::session_id::{SessionId, Tenant};
use crate::store::Store;

impl Store {
    /// Reads all that a tenant has, and returns what is wrong with it.
    ///
    /// # Errors
    ///
    /// If a directory can't be listed.
    pub fn verify(&self, tenant: &Tenant) -> Result<Vec<StoreError>> {
        let directory = self.layout.tenant(tenant);
        let mut found = Vec::new();
        for id in self.session_ids(tenant)? {
            verify_session(&directory, &id, &mut found);
        }
        let packs = directory.packs();
        for name in layout::names(&packs)? {
            let Some((id, _)) = pack_name(&name) else { continue };
            if let Err(error) = Pack::open(&packs, id).and_then(|pack| pack.verify())
                // Its session may have left it meanwhile.
                && pack::exists(&packs, id)
            {
                found.push(error);
            }
        }
        Ok(found)
    }
}

fn verify_session(directory: &TenantDirectory, id: &SessionId, found: &mut Vec<StoreError>) {
    let path = directory.session(id);
    let read = || match SessionRecord::read(&path, id, &directory.tenant) {
        Err(StoreError::NotFound { .. }) => Ok(None),
        result => result.map(Some),
    };
    match read() {
        Ok(None) => return,
        Ok(Some(record)) => {
            for point in record.points() {
                if let Err(error) = load::verify(directory, &path, point)
                    // Its owner may have gone on meanwhile.
                    && read().is_ok_and(|now| now.is_some_and(|now| now.points().any(|named| named == point)))
                {
                    found.push(error);
                }
            }
        }
        Err(error) => found.push(error),
    }
    match history::read(&path) {
        Ok(history) => found.extend(history.damaged),
        Err(error) => found.push(error),
    }
}
