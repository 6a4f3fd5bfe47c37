//! Where sessions' files are: a root with a directory for each thread, and the skills that threads share.
//!
//! ```text
//! root/
//!   threads/{id}/          a session's workspace, if it is on disk
//!   skills/system/         what every session sees, read-only, at .skills/system
//!   skills/{user}/         what sessions of a user see at .skills/user
//!   .belljar/              contents that cells or checkpoints need again
//! ```

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_engine::{ALIASES, FileDoor, Mount, MountAccess};
use belljar_files::operations::{DiskUsage, usage};
use belljar_files::{DirDoor, Objects};
use belljar_store::{SessionId, Tenant};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::session::SHELF;
use crate::{Error, Files, Policy, PolicyError};

/// Where a workspace's files are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageKind {
    /// In memory: kept with the session while it sleeps and in its checkpoints, gone when it is closed.
    #[default]
    Memory,
    /// In a directory of the host that people can look into; it stays when the session is closed.
    Disk,
}

/// What a session's workspace is, and what is seen in it.
///
/// | | default |
/// |---|---|
/// | `storage` | memory |
/// | `path` | `/workspace`; `/session` and `/app` lead there too |
/// | `skills` | `.skills`, where the root has any |
/// | `user`, `ticket` | none |
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkspacePolicy {
    /// Where its files are.
    pub storage: StorageKind,
    /// Where the session sees it, as its working directory and home; `{id}` is the session's name.
    pub path: String,
    /// Where skills are seen in it, as `system` and `user` below this; `None` is nowhere.
    pub skills: Option<String>,
    /// Whose skills are seen.
    pub user: Option<String>,
    /// Another thread of the same root, on disk, which is seen read-only at `.ticket`.
    pub ticket: Option<String>,
    /// The directory with threads and skills; by default one in the state directory.
    pub root: Option<PathBuf>,
    /// Whether the threads are in the root itself, instead of in `threads/`.
    pub flat: bool,
}

impl Default for WorkspacePolicy {
    fn default() -> Self {
        Self {
            storage: StorageKind::Memory,
            path: ALIASES[0].to_owned(),
            skills: Some(SKILLS.to_owned()),
            user: None,
            ticket: None,
            root: None,
            flat: false,
        }
    }
}

/// Where skills are seen.
const SKILLS: &str = ".skills";
/// Where another thread is seen.
const TICKET: &str = ".ticket";
/// Skills that all see; no user has that name.
const SYSTEM: &str = "system";
/// What is Belljar's own in a root.
const OWN: &str = ".belljar";
/// Directories that sessions in the registry find in their workspace.
pub(crate) const DIRECTORIES: [&str; 2] = ["artifacts", "data"];
/// Guest paths that are the interpreter's or the system's.
const TAKEN: [&str; 14] = [
    "/python", "/usr", "/tmp", "/proc", "/dev", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/belljar",
    "/data", "/run", "/shelf",
];

impl WorkspacePolicy {
    /// Whether sessions with it differ in nothing but their names.
    pub(crate) fn is_same_for_all(&self) -> bool {
        self.storage == StorageKind::Memory && !self.path.contains(ID) && self.ticket.is_none()
    }

    /// Refuses what can't be.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        let path = self.path_of("id");
        let names = path.strip_prefix('/').unwrap_or_default().split('/');
        let plain = path.starts_with('/') && path.len() < 1024 && { names }.all(is_name);
        if !plain || TAKEN.iter().any(|taken| Path::new(&path).starts_with(taken)) {
            return Err(PolicyError::Workspace(self.path.clone()));
        }
        if let Some(skills) = &self.skills
            && (!skills.split('/').all(is_name) || skills.split('/').next() == Some(TICKET))
        {
            return Err(PolicyError::Skills(skills.clone()));
        }
        if let Some(user) = &self.user
            && (SessionId::parse(user).is_err() || user == SYSTEM)
        {
            return Err(PolicyError::User(user.clone()));
        }
        Ok(())
    }

    /// Where a session of this name sees its workspace.
    pub(crate) fn path_of(&self, id: &str) -> String {
        self.path.replace(ID, id)
    }
}

const ID: &str = "{id}";

fn is_name(name: &str) -> bool {
    !["", ".", ".."].contains(&name) && name.len() < 256 && !name.contains(['\0', '\n'])
}

/// A root with threads and skills.
///
/// ```no_run
/// # fn main() -> Result<(), belljar::Error> {
/// let workspaces = belljar::Workspaces::open("/srv/agents");
/// for thread in workspaces.threads()? {
///     println!("{thread}: {}", workspaces.thread(&thread).display());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspaces {
    root: PathBuf,
    flat: bool,
}

/// What is in a root beside threads.
const BESIDE: [&str; 2] = ["skills", "tenants"];

impl Workspaces {
    /// The root in a directory. It needn't exist yet.
    pub fn open(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { root: std::path::absolute(&root).unwrap_or(root), flat: false }
    }

    /// The same with the threads in the root itself, instead of in `threads/`.
    pub fn flat(self, flat: bool) -> Self {
        Self { flat, ..self }
    }

    /// The root of a tenant in a state directory.
    pub fn of_state(state: &Path, tenant: &Tenant) -> Self {
        Self::open(state.join("workspaces").join(tenant.as_str()))
    }

    /// The root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of a thread, whether or not it is there.
    pub fn thread(&self, id: &SessionId) -> PathBuf {
        self.all_threads().join(id.as_str())
    }

    /// The directory of all threads.
    fn all_threads(&self) -> PathBuf {
        if self.flat { self.root.clone() } else { self.root.join("threads") }
    }

    /// The directory of the skills that every session sees.
    pub fn system_skills(&self) -> PathBuf {
        self.root.join("skills").join(SYSTEM)
    }

    /// The directory of a user's skills.
    pub fn user_skills(&self, user: &str) -> Result<PathBuf, Error> {
        let policy = WorkspacePolicy { user: Some(user.to_owned()), ..WorkspacePolicy::default() };
        policy.check()?;
        Ok(self.root.join("skills").join(user))
    }

    /// Makes a thread's directory, with nothing in it but `artifacts` and `data`. Says whether it wasn't there.
    pub fn create(&self, id: &SessionId) -> Result<bool, Error> {
        let directory = self.thread(id);
        let failed = |source| Error::Workspace { path: directory.clone(), source };
        if self.flat && BESIDE.contains(&id.as_str()) {
            let reason = "no thread can have this name where threads are in the root itself";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        let made = match fs::create_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(self.all_threads()).map_err(failed)?;
                fs::create_dir(&directory)
            }
            made => made,
        };
        let is_new = match made {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(failed(error)),
        };
        // By its handle: a link in its place would lead elsewhere.
        let opened = self.directory(id)?;
        for inside in DIRECTORIES {
            match rustix::fs::mkdirat(&opened, inside, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        Ok(is_new)
    }

    /// The threads that have a directory, by name.
    pub fn threads(&self) -> Result<Vec<SessionId>, Error> {
        let directory = self.all_threads();
        let failed = |source| Error::Workspace { path: directory.clone(), source };
        let found = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            found => found.map_err(failed)?,
        };
        let mut threads = Vec::new();
        for entry in found {
            let entry = entry.map_err(failed)?;
            let id = entry.file_name().to_str().and_then(|name| SessionId::parse(name).ok());
            let id = id.filter(|id| !self.flat || !BESIDE.contains(&id.as_str()));
            if entry.file_type().map_err(failed)?.is_dir() {
                threads.extend(id);
            }
        }
        threads.sort();
        Ok(threads)
    }

    /// Removes a thread's directory with all that is in it, and what was kept for its checkpoints.
    pub fn remove(&self, id: &SessionId) -> Result<(), Error> {
        self.forget(id)?;
        let directory = self.thread(id);
        let failed = |source| Error::Workspace { path: directory.clone(), source };
        // What is below may be closed to its owner.
        let opened = self.directory(id)?;
        belljar_files::empty_directory(&opened).map_err(failed)?;
        fs::remove_dir(&directory).map_err(failed)
    }

    /// A thread's files, with what its session sees in them. The host may write as much as the session.
    pub(crate) fn door(
        &self,
        id: &SessionId,
        policy: &Policy,
        shelf: Option<&Path>,
    ) -> Result<Arc<dyn FileDoor>, Error> {
        let mut names: Vec<String> = ALIASES.map(str::to_owned).to_vec();
        names.push(policy.workspace.path_of(id.as_str()));
        let meter = Meter {
            door: DirDoor::new(self.directory(id)?),
            most_bytes: policy.file_bytes,
            most_files: policy.file_count,
            seen: Mutex::new(None),
        };
        let room = Arc::new(move |bytes, files| meter.has_room(bytes, files));
        let mut door = DirDoor::new(self.directory(id)?).with_names(names).with_quota(room);
        for (at, host) in self.seen(id, &policy.workspace)? {
            let failed = |source| Error::Workspace { path: host.clone(), source };
            let inner = DirDoor::new(open_directory(&host).map_err(failed)?);
            door = door.with_mount(&at, Arc::new(inner));
        }
        // There needn't be one.
        if let Some(opened) = shelf.and_then(|shelf| open_directory(shelf).ok()) {
            door = door.with_root(SHELF, Arc::new(DirDoor::new(opened)));
        }
        Ok(Arc::new(door))
    }

    /// A thread's files, for hosts and agents.
    pub fn files(&self, id: &SessionId, policy: &Policy) -> Result<Files, Error> {
        self.files_and_shelf(id, policy, None)
    }

    /// The same, with what is on the session's shelf.
    pub(crate) fn files_and_shelf(
        &self,
        id: &SessionId,
        policy: &Policy,
        shelf: Option<&Path>,
    ) -> Result<Files, Error> {
        let door = self.door(id, policy, shelf)?;
        Ok(Files::new(door, policy.workspace.path_of(id.as_str()), Some(self.thread(id))))
    }

    /// The handle of a thread's directory.
    pub(crate) fn directory(&self, id: &SessionId) -> Result<OwnedFd, Error> {
        let path = self.thread(id);
        let _ = self.open_up(id);
        open_directory(&path).map_err(|source| Error::Workspace { path, source })
    }

    /// Opens the directory of a thread to its owner, who may have closed it.
    pub(crate) fn open_up(&self, id: &SessionId) -> io::Result<()> {
        let path = self.thread(id);
        let found = fs::symlink_metadata(&path)?;
        let mode = found.permissions().mode();
        if found.is_dir() && mode & 0o700 != 0o700 {
            fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777 | 0o700))?;
        }
        Ok(())
    }

    /// What a session sees in its workspace that isn't its own: where, and what.
    pub(crate) fn seen(
        &self,
        id: &SessionId,
        policy: &WorkspacePolicy,
    ) -> Result<Vec<(String, PathBuf)>, Error> {
        let mut seen = Vec::new();
        if let Some(skills) = &policy.skills {
            let user = policy.user.as_deref().map(|user| self.user_skills(user)).transpose()?;
            let user = user.map(|directory| ("user", directory));
            for (name, directory) in [(SYSTEM, self.system_skills())].into_iter().chain(user) {
                // There needn't be any. A link isn't followed.
                if fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir()) {
                    seen.push((format!("{skills}/{name}"), directory));
                }
            }
        }
        if let Some(ticket) = &policy.ticket {
            let other = SessionId::parse(ticket)?;
            let directory = self.thread(&other);
            let is_there = fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir());
            if other == *id || !is_there {
                return Err(Error::NoThread { thread: ticket.clone(), root: self.root.clone() });
            }
            seen.push((TICKET.to_owned(), directory));
        }
        Ok(seen)
    }

    /// The same as mounts.
    pub(crate) fn mounts(
        &self,
        id: &SessionId,
        policy: &WorkspacePolicy,
        workspace: &str,
    ) -> Result<Vec<Mount>, Error> {
        let mount =
            |(at, host)| Mount { host, guest: format!("{workspace}/{at}"), access: MountAccess::ReadOnly };
        Ok(self.seen(id, policy)?.into_iter().map(mount).collect())
    }

    /// Where a thread's directory is made before it is there as a whole.
    pub(crate) fn staging(&self, id: &SessionId) -> PathBuf {
        self.root.join(OWN).join("new").join(id.as_str())
    }

    /// Where contents are that running sessions may need again.
    pub(crate) fn vault(&self) -> PathBuf {
        self.root.join(OWN).join("vault")
    }

    /// Contents that checkpoints need.
    pub(crate) fn objects(&self) -> Result<Objects, Error> {
        let path = self.root.join(OWN).join("objects");
        Objects::open(&path).map_err(|source| Error::Workspace { path, source })
    }

    /// Where the lists of files are that a thread's checkpoints have.
    pub(crate) fn manifests(&self, id: &SessionId) -> PathBuf {
        self.root.join(OWN).join("checkpoints").join(id.as_str())
    }

    /// Forgets the files of a thread's checkpoints.
    pub(crate) fn forget(&self, id: &SessionId) -> Result<(), Error> {
        let path = self.manifests(id);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(Error::Workspace { path, source }),
            Ok(()) => {
                self.collect_if_possible();
                Ok(())
            }
        }
    }

    /// Removes what nobody needs, unless damage leaves it open what that is.
    pub(crate) fn collect_if_possible(&self) {
        if let Err(error) = self.collect() {
            tracing::warn!(%error, "the contents of forgotten checkpoints stay");
        }
    }

    /// Contents of checkpoints that aren't what they were, by name.
    pub fn damaged(&self) -> Result<Vec<String>, Error> {
        let path = self.root.join(OWN).join("objects");
        match path.is_dir() {
            true => self.objects()?.damaged().map_err(|source| Error::Workspace { path, source }),
            false => Ok(Vec::new()),
        }
    }

    /// Removes contents that no checkpoint needs any more; returns their bytes.
    pub fn collect(&self) -> Result<u64, Error> {
        let objects = self.objects()?;
        let path = self.root.join(OWN).join("checkpoints");
        let failed = |source| Error::Workspace { path: path.clone(), source };
        let read = || {
            let mut manifests = Vec::new();
            for thread in fs::read_dir(&path).into_iter().flatten() {
                for manifest in fs::read_dir(thread?.path())? {
                    let manifest = manifest?;
                    // Others were left by those who died while they wrote.
                    if is_manifest(manifest.file_name().as_encoded_bytes()) {
                        manifests.push(fs::read(manifest.path())?);
                    }
                }
            }
            Ok::<_, io::Error>(manifests)
        };
        // One that can't be read counts as damaged: then nothing is removed.
        let read = || read().unwrap_or_else(|_| vec![Vec::new()]);
        objects.collect(std::iter::once_with(read).flatten()).map_err(failed)
    }
}

/// Whether a file is called like a list of a checkpoint's files.
pub(crate) fn is_manifest(name: &[u8]) -> bool {
    name.len() == 32 && name.iter().all(u8::is_ascii_hexdigit)
}

/// Whether there is room for what the host writes.
struct Meter {
    door: DirDoor,
    most_bytes: u64,
    most_files: u64,
    /// What there was, and when somebody looked; what was written since is in it.
    seen: Mutex<Option<(Instant, DiskUsage)>>,
}

/// How long a count is believed.
const FRESH: Duration = Duration::from_secs(1);

impl Meter {
    fn has_room(&self, bytes: u64, files: u64) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.filter(|(at, _)| at.elapsed() < FRESH);
        // What can't be counted can't be added to.
        let counted = known.or_else(|| Some((Instant::now(), usage(&self.door, "", self.most_files).ok()?)));
        let Some((at, mut usage)) = counted.filter(|(_, usage)| usage.complete) else { return false };
        usage.bytes = usage.bytes.saturating_add(bytes);
        usage.files = usage.files.saturating_add(files);
        let fits = usage.bytes <= self.most_bytes && usage.files + usage.directories <= self.most_files;
        if fits {
            *seen = Some((at, usage));
        }
        fits
    }
}

pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}
