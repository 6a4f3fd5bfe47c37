//! The copies of an environment's packages that older systems put into each workspace.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use belljar_engine::{FileDoor, FileKind, FileStat};
use belljar_files::DirDoor;
use rustix::fs::{Mode, OFlags};

use crate::error::{Result, TransferError};
use crate::files::Files;
use crate::globs::Globs;
use crate::names::{OURS, join};
use crate::progress::Progress;
use crate::skipped::{SkippedList, printable};
use crate::walk::Walk;

/// The directory in a workspace that older systems copied packages to.
const COPY: &str = "site-packages";
/// A copy that is being removed has this name, and something random.
const REMOVED: &str = ".belljar-removed-";
/// Files of a copy that are compared, at most.
const MOST: u64 = 1_000_000;
/// What installers write about an installation, which differs between two of the same package.
const OF_INSTALLERS: [&str; 4] = ["RECORD", "INSTALLER", "REQUESTED", "direct_url.json"];

/// What became of one workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The workspace's name below the root.
    pub thread: String,
    /// What was done with its copy, or would be.
    pub migration: Migration,
}

/// What became of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Migration {
    /// It is removed: the environment has all of it. In a dry run it would be.
    Removed {
        /// Its files.
        files: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// It is as it was: something in it isn't in the environment as well.
    Different {
        /// The first such path, below `site-packages`.
        path: String,
        /// What is the matter with it.
        reason: String,
    },
    /// It couldn't be looked at, or not be removed. What is left of it is removed by a later run.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Removes the `site-packages` of each workspace in `root` that has nothing but what is in `environment`, file by file.
///
/// Files are compared by size and BLAKE3. Not compared is what Python and installers make by themselves: `__pycache__`,
/// `*.pyc`, and in `*.dist-info` directories `RECORD`, `INSTALLER`, `REQUESTED` and `direct_url.json`. A copy may have less than the
/// environment. Links, pipes and the like in it make it different. A copy is renamed before it is removed, so that a run
/// that was interrupted leaves either all of it or something that the next run removes.
///
/// Each workspace is reached by a handle of its own: nothing in one leads to another. Workspaces with nothing to remove
/// aren't listed. Nobody should be using them meanwhile: what is written into a copy while it is compared is lost with it.
///
/// # Errors
/// If `root` or `environment` can't be read.
pub fn migrate(
    root: &Path,
    environment: &Path,
    dry_run: bool,
    progress: &dyn Progress,
) -> Result<Vec<Migrated>> {
    let host = |action, path: &Path| {
        let path = path.to_owned();
        move |source| TransferError::Host { action, path, source }
    };
    let shared = DirDoor::open(environment).map_err(host("open", environment))?;
    let mut names = Vec::new();
    for entry in fs::read_dir(root).map_err(host("list", root))? {
        let entry = entry.map_err(host("list", root))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    let root_handle =
        rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| host("open", root)(error.into()))?;
    let mut environment = Environment { files: Files::new(&shared), hashes: BTreeMap::new() };
    let mut migrated = Vec::new();
    for thread in names {
        if progress.stop() {
            return Err(TransferError::Stopped);
        }
        progress.advance(&thread, migrated.len() as u64, 0);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let migration = match rustix::fs::openat(&root_handle, thread.as_str(), flags, Mode::empty()) {
            Ok(handle) => migrate_one(&DirDoor::new(handle), &mut environment, dry_run, progress),
            // It was removed since.
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Ok(Some(Migration::Failed { reason: error.to_string() })),
        };
        let migration = match migration {
            Ok(None) => continue,
            Ok(Some(migration)) => migration,
            Err(TransferError::Stopped) => return Err(TransferError::Stopped),
            Err(error) => Migration::Failed { reason: error.to_string() },
        };
        migrated.push(Migrated { thread, migration });
    }
    Ok(migrated)
}

/// The environment's packages, with hashes that are taken once.
struct Environment<'e> {
    files: Files<'e>,
    hashes: BTreeMap<String, Option<(FileStat, blake3::Hash)>>,
}

impl Environment<'_> {
    /// The size and hash of a file, if it is one.
    fn file(&mut self, path: &str) -> Result<Option<(FileStat, blake3::Hash)>> {
        if let Some(known) = self.hashes.get(path) {
            return Ok(*known);
        }
        let known = match self.files.stat(path)? {
            Some(stat) if stat.kind == FileKind::File => Some((stat, self.files.hash(path, stat.size)?.0)),
            _ => None,
        };
        self.hashes.insert(path.to_owned(), known);
        Ok(known)
    }
}

fn migrate_one(
    door: &dyn FileDoor,
    environment: &mut Environment<'_>,
    dry_run: bool,
    progress: &dyn Progress,
) -> Result<Option<Migration>> {
    let files = Files::new(door);
    if !dry_run {
        sweep(files)?;
    }
    // A link of that name isn't a copy.
    match files.stat(COPY)? {
        Some(stat) if stat.kind == FileKind::Directory => {}
        _ => return Ok(None),
    }
    let (count, bytes) = match compare(files, environment, progress)? {
        Compared::Same { files, bytes } => (files, bytes),
        Compared::Different { path, reason } => return Ok(Some(Migration::Different { path, reason })),
    };
    if !dry_run {
        let random = crate::names::beside(COPY);
        let away = format!("{REMOVED}{}", random.trim_start_matches(OURS).trim_start_matches("part-"));
        files.rename(COPY, &away)?;
        files.remove_all(&away)?;
    }
    Ok(Some(Migration::Removed { files: count, bytes }))
}

/// Removes what an interrupted run left.
fn sweep(files: Files<'_>) -> Result<()> {
    for entry in files.list("")? {
        if entry.name.starts_with(REMOVED) && entry.stat.kind == FileKind::Directory {
            files.remove_all(&entry.name)?;
        }
    }
    Ok(())
}

enum Compared {
    Same { files: u64, bytes: u64 },
    Different { path: String, reason: String },
}

fn compare(files: Files<'_>, environment: &mut Environment<'_>, progress: &dyn Progress) -> Result<Compared> {
    let copy = Below(files);
    let globs = Globs::all();
    let walk = Walk { files: Files::new(&copy), globs: &globs, most: MOST };
    let mut skipped = SkippedList::default();
    let (mut count, mut bytes) = (0, 0);
    let mut different = None;
    let mut ours = None;
    let mut note = |path: &str| ours = ours.take().or_else(|| Some(path.to_owned()));
    walk.each_and_ours(&mut note, &mut skipped, &mut |found, skipped| {
        if progress.stop() {
            return Err(TransferError::Stopped);
        }
        if !skipped.is_empty() {
            return Ok(ControlFlow::Break(()));
        }
        let reason = match found.stat.kind {
            FileKind::Directory => None,
            FileKind::File => {
                count += 1;
                bytes += found.stat.size;
                difference(walk.files, environment, &found.path, found.stat.size)?
            }
            FileKind::Link | FileKind::Other => Some("it is a link"),
        };
        if let Some(reason) = reason {
            different = Some((printable(&found.path), reason.to_owned()));
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let unseen = skipped.first().map(|skipped| (skipped.path.clone(), skipped.reason.clone()));
    let ours = ours.map(|path| (path, "the environment has no such file".to_owned()));
    Ok(match unseen.or(different).or(ours) {
        Some((path, reason)) => Compared::Different { path, reason },
        None => Compared::Same { files: count, bytes },
    })
}

/// How a file of the copy differs from the environment's.
fn difference(
    copy: Files<'_>,
    environment: &mut Environment<'_>,
    path: &str,
    size: u64,
) -> Result<Option<&'static str>> {
    if is_installers(path) {
        return Ok(None);
    }
    if let Some(source) = source_of(path)
        && environment.file(&source)?.is_some()
    {
        return Ok(None);
    }
    let Some((stat, hash)) = environment.file(path)? else {
        let is_script = is_program(path) && size <= MOST_OF_PROGRAM && {
            let contents = copy.read(path, 0, MOST_OF_PROGRAM)?;
            contents.starts_with(b"#!") && contents.windows(CALL.len()).any(|part| part == CALL)
        };
        return Ok((!is_script).then_some("the environment has no such file"));
    };
    if stat.size != size {
        return Ok(Some("the environment's file has another size"));
    }
    Ok((copy.hash(path, size)?.0 != hash).then_some("the environment's file has other contents"))
}

/// Bytes of a program that an installer makes for an entry point.
const MOST_OF_PROGRAM: u64 = 2048;
/// What each of them ends with.
const CALL: &[u8] = b"sys.exit(";

/// Whether it is what an installer notes beside a package.
fn is_installers(path: &str) -> bool {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    directory.ends_with(".dist-info") && OF_INSTALLERS.contains(&name)
}

/// Whether it is where installers put programs.
fn is_program(path: &str) -> bool {
    path.strip_prefix("bin/").is_some_and(|name| !name.contains('/'))
}

/// The module that bytecode in `__pycache__` was made of.
fn source_of(path: &str) -> Option<String> {
    let (directory, name) = path.rsplit_once('/')?;
    let package = directory.strip_suffix("__pycache__")?;
    let (module, _) = name.strip_suffix(".pyc")?.split_once(".cpython-")?;
    Some(format!("{package}{module}.py"))
}

/// The copy, as a tree of its own.
struct Below<'f>(Files<'f>);

impl FileDoor for Below<'_> {
    fn file(
        &self,
        operation: belljar_engine::FileOp,
    ) -> Result<belljar_engine::FileReply, belljar_engine::FileError> {
        use belljar_engine::{FileError, FileErrorCode, FileOp, FileReply};
        Ok(match operation {
            FileOp::List { path } => FileReply::List(self.0.list(join(COPY, &path).trim_end_matches('/'))?),
            FileOp::Read { path, offset, length } => {
                FileReply::Contents(self.0.read(&join(COPY, &path), offset, length)?)
            }
            _ => return Err(FileError::new(FileErrorCode::PermissionDenied, "")),
        })
    }
}
