//! Where a guest finds its workspace, and by which other names.

use belljar_engine::{ALIASES, EngineError, GuestSpec, Storage};
use belljar_files::{Dir, Errno, FileSystem, FileType, Handle, Quota};

use crate::layer::PACKAGES_ALIAS;

/// Where the image has it.
const IN_IMAGE: &str = ALIASES[0];

/// Puts the workspace of a new guest where the spec says, and its other names beside it, before anything is mounted.
pub(crate) fn place(files: &mut FileSystem, spec: &GuestSpec) -> Result<(), EngineError> {
    let workspace = spec.workspace.as_str();
    let failed = |errno: Errno| EngineError::Boot(format!("no workspace at {workspace}: {errno}"));
    check(workspace)?;
    let root = files.root().map_err(failed)?;
    let placed = move_to(files, root, workspace).and_then(|()| {
        if let Storage::Disk(_) = spec.storage {
            files.clear_directory(workspace)?;
        }
        ALIASES.iter().try_for_each(|alias| match has_alias(spec, alias) {
            true => link(files, root, alias, workspace),
            false => unlink(files, root, alias),
        })
    });
    placed.and(files.close(root)).map_err(failed)
}

/// Makes the directories that the spec asks for, after everything is mounted. On disk they are there already.
pub(crate) fn furnish(files: &mut FileSystem, spec: &GuestSpec) -> Result<(), EngineError> {
    if let Storage::Disk(_) = spec.storage {
        return Ok(());
    }
    // They are there however small the quota is.
    let quota = files.quota();
    files.set_quota(Quota::default());
    let made = spec.directories.iter().try_for_each(|directory| {
        let path = format!("{}/{directory}", spec.workspace);
        match files.make_directories(&path) {
            // What is mounted there has what it has.
            Ok(()) | Err(Errno::ReadOnly) => Ok(()),
            Err(errno) => Err(EngineError::Boot(format!("{path}: {errno}"))),
        }
    });
    files.set_quota(quota);
    made
}

/// Mounts the workspace if it is on disk. A guest that was kept with its files elsewhere isn't taken for one
/// without files.
pub(crate) fn attach(files: &mut FileSystem, spec: &GuestSpec) -> Result<(), EngineError> {
    let refused = |reason: String| EngineError::Mount { guest: spec.workspace.clone(), reason };
    let Storage::Disk(directory) = &spec.storage else {
        let mounted = |path: &str| path.trim_end_matches('/') == spec.workspace.trim_end_matches('/');
        let asked = spec.mounts.iter().any(|mount| mounted(&mount.guest));
        return match !asked && files.mounts().iter().any(|mount| mounted(&mount.guest_path)) {
            true => Err(EngineError::Restore("its files are on disk, and were to be in memory".to_owned())),
            false => Ok(()),
        };
    };
    let opened = Dir::open_ambient_dir(directory, cap_std::ambient_authority())
        .map_err(|error| refused(format!("{}: {error}", directory.display())))?;
    let quota = Quota { bytes: spec.limits.file_bytes, files: spec.limits.file_count, ..Quota::default() };
    files.mount_workspace(&spec.workspace, opened, quota).map_err(|error| refused(error.to_string()))
}

/// What the guest may hold in memory: all of its files, or, beside a workspace on disk, no more than is usual.
pub(crate) fn memory_quota(spec: &GuestSpec) -> Quota {
    let usual = Quota::default();
    let (bytes, files) = (spec.limits.file_bytes, spec.limits.file_count);
    match spec.storage {
        Storage::Memory => Quota { bytes, files, ..usual },
        Storage::Disk(_) => Quota { bytes: bytes.min(usual.bytes), files: files.min(usual.files), ..usual },
    }
}

fn check(workspace: &str) -> Result<(), EngineError> {
    let mut names = workspace.trim_end_matches('/').split('/');
    let sound = names.next() == Some("")
        && names.clone().next().is_some()
        && names.all(|name| !name.is_empty() && name != "." && name != ".." && !name.contains('\0'));
    match sound {
        true => Ok(()),
        false => Err(EngineError::Boot(format!(
            "no workspace at {workspace:?}: it takes an absolute path below /"
        ))),
    }
}

/// Moves what the image has as workspace, with what set-up code wrote there.
fn move_to(files: &mut FileSystem, root: Handle, workspace: &str) -> Result<(), Errno> {
    if workspace == IN_IMAGE {
        return Ok(());
    }
    if ALIASES.contains(&workspace) {
        unlink(files, root, workspace)?;
    }
    match files.stat_at(root, workspace, false) {
        Err(Errno::NoEntry) => {}
        Ok(found) if found.file_type == FileType::Directory => return Ok(()),
        Ok(_) => return Err(Errno::Exist),
        Err(errno) => return Err(errno),
    }
    let is_below_image = workspace.strip_prefix(IN_IMAGE).is_some_and(|rest| rest.starts_with('/'));
    let parent = workspace.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
    match is_below_image {
        true => files.make_directories(workspace),
        false => {
            if !parent.is_empty() {
                files.make_directories(parent)?;
            }
            files.rename_at(root, IN_IMAGE, root, workspace.trim_end_matches('/'))
        }
    }
}

/// Whether another name leads to the workspace: not if it is the workspace, or something is mounted there.
fn has_alias(spec: &GuestSpec, alias: &str) -> bool {
    let at_or_below =
        |path: &str| path.strip_prefix(alias).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    !at_or_below(&spec.workspace) && !spec.mounts.iter().any(|mount| at_or_below(&mount.guest))
}

fn link(files: &mut FileSystem, root: Handle, alias: &str, workspace: &str) -> Result<(), Errno> {
    match files.read_link_at(root, alias) {
        Ok(target) if target == workspace => return Ok(()),
        Ok(_) => files.unlink_at(root, alias)?,
        // A directory: older images have one with a link in it.
        Err(Errno::Invalid) => {
            if PACKAGES_ALIAS.starts_with(alias) && files.read_link_at(root, PACKAGES_ALIAS).is_ok() {
                files.unlink_at(root, PACKAGES_ALIAS)?;
            }
            match files.remove_directory_at(root, alias) {
                // What set-up code made there stays.
                Err(Errno::NotEmpty | Errno::NotDirectory) => return Ok(()),
                removed => removed?,
            }
        }
        Err(Errno::NoEntry) => {}
        Err(errno) => return Err(errno),
    }
    files.symlink_at(workspace, root, alias)
}

fn unlink(files: &mut FileSystem, root: Handle, alias: &str) -> Result<(), Errno> {
    match files.read_link_at(root, alias) {
        Ok(_) => files.unlink_at(root, alias),
        Err(_) => Ok(()),
    }
}
