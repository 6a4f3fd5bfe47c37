//! The files that a jail needs, put into the cache once.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use belljar_runtime::{Cache, CacheError, Quiet};

use crate::{NativeError, filters};

/// The static binary.
const JAIL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/belljar-jail"));
/// The files of the guest: the kernel's, and programs.
const GUEST: &[(&str, &[u8], bool)] = include!(concat!(env!("OUT_DIR"), "/guest.rs"));

/// What was put there.
pub(crate) struct Installed {
    pub(crate) binary: PathBuf,
    /// What sessions see at `/belljar`.
    pub(crate) guest: PathBuf,
}

pub(crate) fn install(cache: &Cache) -> Result<Installed, NativeError> {
    let filters = filters::compile()?;
    let mut hasher = blake3::Hasher::new();
    for (name, contents, _) in
        GUEST.iter().chain([&("jail", JAIL, true), &("filters", filters.as_slice(), false)])
    {
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        hasher.update(&(contents.len() as u64).to_le_bytes()).update(contents);
    }
    let key = hasher.finalize().to_hex()[..32].to_owned();
    let entry = cache.make("jail", &key, &Quiet, |directory| -> Result<(), NativeError> {
        let guest = directory.join("guest");
        for (name, contents, program) in GUEST {
            write(&guest.join(name), contents, if *program { 0o755 } else { 0o644 })?;
        }
        write(&guest.join("seccomp.bpf"), &filters, 0o644)?;
        write(&directory.join("belljar-jail"), JAIL, 0o755)
    })?;
    cache.touch("jail", &key);
    Ok(Installed { binary: entry.join("belljar-jail"), guest: entry.join("guest") })
}

fn write(path: &Path, contents: &[u8], mode: u32) -> Result<(), NativeError> {
    let io = |error: std::io::Error| NativeError::Io(format!("{}: {error}", path.display()));
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(io)?;
        // Another user reads it in the jail.
        fs::set_permissions(parent, Permissions::from_mode(0o755)).map_err(io)?;
    }
    fs::write(path, contents).map_err(io)?;
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(io)
}

impl From<CacheError> for NativeError {
    fn from(error: CacheError) -> Self {
        Self::Io(error.to_string())
    }
}
