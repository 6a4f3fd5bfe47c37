//! The guest's own Python files, as they were when this crate was built.

use std::{fs, path::Path};

use super::component::LinkedExtension;
use crate::cache::CacheError;

include!(concat!(env!("OUT_DIR"), "/kernel.rs"));

/// What componentize-py imports.
pub(super) const ENTRY: &str = "belljar_guest_wasm";

/// The world that it implements.
pub(super) const WORLD: &str = "guest";

/// Names a runtime with native modules, by their paths and contents.
pub(super) fn id_with(extensions: &[LinkedExtension]) -> String {
    if extensions.is_empty() {
        return ID.to_owned();
    }
    let mut hasher = blake3::Hasher::new();
    let named = extensions.iter().flat_map(|extension| [&*extension.path, &*extension.hash]);
    for part in [ID].into_iter().chain(named) {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..ID.len()].to_owned()
}

/// Writes the kernel's modules and the interface files, to be given to componentize-py.
pub(super) fn write(modules: &Path, interfaces: &Path) -> Result<(), CacheError> {
    for (name, content) in FILES {
        let path = match name.strip_prefix("wit/") {
            Some(name) => interfaces.join(name),
            None => modules.join(name),
        };
        let parent = path.parent().unwrap_or(&path);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, content));
        written.map_err(|error| CacheError::io(&path, error))?;
    }
    Ok(())
}
