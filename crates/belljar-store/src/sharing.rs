//! Which packs more than one session may need.
//!
//! Before a session names a pack that another session wrote, it marks the pack with an empty file beside it. What
//! isn't marked is needed by its writer only, who may remove it without asking anybody. One lock keeps the two from
//! missing each other.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustix::fs::FlockOperation;

use crate::error::{At, Result};
use crate::hash::Hash;
use crate::layout::TenantDirectory;
use crate::pack;

/// Marks packs, and returns those that are there. The caller makes the directory durable before it names them.
pub(crate) fn mark(directory: &TenantDirectory, ids: &[Hash]) -> Result<HashSet<Hash>> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let packs = directory.packs();
    let _lock = lock(directory)?;
    let mut there = HashSet::new();
    for id in ids.iter().filter(|id| pack::exists(&packs, **id)) {
        let path = mark_path(directory, *id);
        OpenOptions::new().create(true).append(true).mode(0o600).open(&path).at("create", &path)?;
        there.insert(*id);
    }
    Ok(there)
}

/// Removes those of the packs that aren't marked; returns those that stay.
pub(crate) fn remove_unmarked(directory: &TenantDirectory, ids: Vec<Hash>) -> Result<Vec<Hash>> {
    if ids.is_empty() {
        return Ok(ids);
    }
    let packs = directory.packs();
    let _lock = lock(directory)?;
    Ok(ids
        .into_iter()
        .filter(|id| {
            let marked = mark_path(directory, *id).exists();
            if !marked {
                pack::remove(&packs, *id);
            }
            marked
        })
        .collect())
}

/// The pack that a mark's file name is for.
pub(crate) fn marked_pack(file: &str) -> Option<Hash> {
    Hash::parse(file.strip_suffix(".shared")?)
}

fn mark_path(directory: &TenantDirectory, id: Hash) -> PathBuf {
    directory.packs().join(format!("{id}.shared"))
}

fn lock(directory: &TenantDirectory) -> Result<File> {
    let path = directory.path.join("sharing");
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).at("open", &path)?;
    loop {
        match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
            Err(rustix::io::Errno::INTR) => {}
            result => return result.map(|()| file).at("lock", &path),
        }
    }
}
