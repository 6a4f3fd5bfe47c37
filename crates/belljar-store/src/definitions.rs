//! Named environments: what an environment is to be made of, as somebody called it. Opaque to the store.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::draft::{Draft, make_directory, sync_directory};
use crate::error::{At, Result, StoreError};
use crate::hash::Hash;
use crate::layout;
use crate::session_id::{Tenant, check_name};
use crate::store::Store;

/// The first line of the file: then the hash of the rest, then the rest.
const MARKER: &str = "belljar environment, version 1\n";
/// No description is longer.
const LONGEST: u64 = 64 << 20;

impl Store {
    /// Keeps a description under a name, in place of the one that had it. It is durable when this returns.
    ///
    /// # Errors
    ///
    /// If the name isn't one, or nothing can be written; what was there before is there still.
    pub fn define_environment(&self, tenant: &Tenant, name: &str, description: &[u8]) -> Result<()> {
        let path = self.definition(tenant, name)?;
        let directory = self.layout.establish_tenant(tenant)?;
        make_directory(&directory.definitions())?;
        let mut bytes = format!("{MARKER}{}\n", Hash::of(description)).into_bytes();
        bytes.extend_from_slice(description);
        let draft = Draft::of(&directory.definitions(), &bytes)?;
        draft.sync()?;
        draft.place(&path)?.keep();
        sync_directory(&directory.definitions())
    }

    /// The description with this name; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If it is damaged or can't be read.
    pub fn environment_definition(&self, tenant: &Tenant, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.definition(tenant, name)?;
        match fs::metadata(&path) {
            Ok(found) if found.len() > LONGEST => return Err(StoreError::damaged(&path, "it is too long")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            _ => {}
        }
        let bytes = fs::read(&path).at("read", &path)?;
        let rest = bytes.strip_prefix(MARKER.as_bytes());
        let rest =
            rest.ok_or_else(|| StoreError::damaged(&path, "it isn't the description of an environment"))?;
        let split = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let (hash, description) = (&rest[..split], rest.get(split + 1..).unwrap_or_default());
        if hash != Hash::of(description).to_string().as_bytes() {
            return Err(StoreError::damaged(&path, "its checksum is wrong"));
        }
        Ok(Some(description.to_vec()))
    }

    /// The names of all descriptions, sorted.
    ///
    /// # Errors
    ///
    /// If the directory can't be read.
    pub fn environment_names(&self, tenant: &Tenant) -> Result<Vec<String>> {
        let mut names = layout::names(&self.layout.tenant(tenant).definitions())?;
        names.sort();
        Ok(names)
    }

    /// Forgets a description; false if there was none.
    ///
    /// # Errors
    ///
    /// If it can't be removed.
    pub fn forget_environment(&self, tenant: &Tenant, name: &str) -> Result<bool> {
        let path = self.definition(tenant, name)?;
        match fs::remove_file(&path) {
            Ok(()) => sync_directory(&self.layout.tenant(tenant).definitions()).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).at("remove", &path),
        }
    }

    fn definition(&self, tenant: &Tenant, name: &str) -> Result<PathBuf> {
        check_name("an environment", name)?;
        Ok(self.layout.tenant(tenant).definitions().join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_kept_until_it_is_forgotten() -> Result<()> {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, tenant) = (Store::open(directory.path().join("state"))?, Tenant::local());
        assert_eq!(store.environment_names(&tenant)?, [""; 0]);
        assert_eq!(store.environment_definition(&tenant, "web")?, None);
        store.define_environment(&tenant, "web", b"one")?;
        store.define_environment(&tenant, "web", b"two")?;
        assert_eq!(store.environment_definition(&tenant, "web")?.as_deref(), Some(&b"two"[..]));
        assert_eq!(store.environment_names(&tenant)?, ["web"]);
        assert!(store.forget_environment(&tenant, "web")?);
        assert!(!store.forget_environment(&tenant, "web")?);
        Ok(())
    }

    #[test]
    fn names_lead_nowhere_else() -> Result<()> {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, tenant) = (Store::open(directory.path().join("state"))?, Tenant::local());
        for name in ["", ".", "..", "a/b", "../x", ".tmp-1", "a\0"] {
            assert!(store.define_environment(&tenant, name, b"").is_err(), "{name:?}");
        }
        Ok(())
    }

    #[test]
    fn damage_is_told() -> Result<()> {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, tenant) = (Store::open(directory.path().join("state"))?, Tenant::local());
        store.define_environment(&tenant, "web", b"some description")?;
        let path = store.definition(&tenant, "web")?;
        let whole = fs::read(&path).expect("read");
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).expect("written");
            let error = store.environment_definition(&tenant, "web").expect_err("it is cut");
            assert!(error.is_damage(), "{error}");
        }
        Ok(())
    }
}
