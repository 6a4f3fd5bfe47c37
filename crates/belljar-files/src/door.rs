//! A host directory as a [`FileDoor`], while whoever is hostile changes what is in it.
//!
//! Nothing is found by a path of the host: the directory is a descriptor, and each object below it is opened by
//! `openat2`, which refuses to leave it, to cross into another file system and to follow any link. Links are read
//! and followed here, one by one (`door/place.rs`); what comes out is again opened without any. So a link that
//! changes meanwhile makes an operation fail or be tried again, and never leads anywhere.

mod change;
mod failure;
mod look;
mod place;
mod write;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use belljar_engine::{
    FileDoor, FileEntry, FileError, FileErrorCode, FileKind, FileOp, FileReply, FileStat, MOST_IN_ONE,
};

use crate::operations::path::check;
use failure::Failure;
use place::{Last, Place};

/// Calls what it is given, once, with the rights that the files need.
pub type RunAs = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;
/// Whether there is room for so many more bytes and so many more files.
pub type Room = Arc<dyn Fn(u64, u64) -> bool + Send + Sync>;

/// A directory of the host, as operations on files see it.
pub struct DirDoor {
    directory: OwnedFd,
    names: Vec<String>,
    mounts: Vec<Inner>,
    roots: Vec<Inner>,
    run_as: Option<RunAs>,
    room: Option<Room>,
}

/// Another door, below this one or beside it.
struct Inner {
    /// The relative path of one below, the guest's path of one beside.
    at: String,
    door: Arc<dyn FileDoor>,
}

/// What an operation on the directory comes to.
enum Answer<'door> {
    Reply(FileReply),
    /// The entries that the directory has at this path, without mounts.
    List(Vec<FileEntry>, Vec<u8>),
    /// It is another door's matter, at this path of it.
    Inside(&'door Inner, String),
}

impl DirDoor {
    /// The door of a directory. The guest knows it by no name, nothing is mounted, and there is no quota.
    pub fn new(directory: OwnedFd) -> Self {
        Self { directory, names: Vec::new(), mounts: Vec::new(), roots: Vec::new(), run_as: None, room: None }
    }

    /// Opens a directory of the host. The path is trusted.
    pub fn open(path: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self::new(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Shows another door at a relative path, read-only. It hides what the directory has there; it and the
    /// directories above it can be neither removed nor renamed. A path that makes no sense shows nothing.
    #[must_use]
    pub fn with_mount(mut self, at: &str, inner: Arc<dyn FileDoor>) -> Self {
        if !at.is_empty() && check(at).is_ok() {
            self.mounts.retain(|mount| mount.at != at);
            self.mounts.push(Inner { at: at.to_owned(), door: inner });
        }
        self
    }

    /// Says what the guest sees at an absolute path elsewhere, read-only: links that lead there are followed. What is
    /// in a link after that is taken by its words. A path that isn't absolute is never met.
    #[must_use]
    pub fn with_root(mut self, guest_path: &str, door: Arc<dyn FileDoor>) -> Self {
        let at = guest_path.trim_end_matches('/');
        if at.starts_with('/') {
            self.roots.retain(|root| root.at != at);
            self.roots.push(Inner { at: at.to_owned(), door });
        }
        self
    }

    /// Says where the guest sees the directory, so that links to `/workspace/x` are understood.
    #[must_use]
    pub fn with_names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names =
            names.into_iter().map(Into::into).filter(|name: &String| name.starts_with('/')).collect();
        self
    }

    /// Has every system call made inside this hook: by another user's rights, for example.
    #[must_use]
    pub fn with_owner(mut self, run_as: RunAs) -> Self {
        self.run_as = Some(run_as);
        self
    }

    /// Has this asked before anything is added. It is called inside the hook of [`DirDoor::with_owner`].
    #[must_use]
    pub fn with_quota(mut self, room: Room) -> Self {
        self.room = Some(room);
        self
    }

    /// Runs as the owner of the files.
    fn as_owner<T>(&self, body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let Some(run_as) = &self.run_as else { return body() };
        let mut body = Some(body);
        let mut done = Err(Failure::told(FileErrorCode::Failed, "the rights for it could not be had"));
        run_as(&mut || {
            if let Some(body) = body.take() {
                done = body();
            }
        });
        done
    }

    /// Asks whether there is room.
    fn ask(&self, bytes: u64, files: u64) -> Result<(), Failure> {
        match &self.room {
            Some(room) if (bytes > 0 || files > 0) && !room(bytes, files) => {
                Err(Failure::told(FileErrorCode::DiskFull, "the quota of the workspace is used up"))
            }
            _ => Ok(()),
        }
    }

    fn perform(&self, operation: &FileOp) -> Result<Answer<'_>, Failure> {
        let done = |()| Answer::Reply(FileReply::Done);
        match operation {
            FileOp::Stat { path, follow } => {
                let last = if *follow { Last::Followed } else { Last::Named };
                self.look(path, last, |place| Ok(Answer::Reply(FileReply::Stat(self.stat(place, last)?))))
            }
            FileOp::List { path } => {
                self.look(path, Last::Followed, |place| Ok(Answer::List(self.list(place)?, place.to_vec())))
            }
            FileOp::Read { path, offset, length } => self.look(path, Last::Followed, |place| {
                Ok(Answer::Reply(FileReply::Contents(self.read(place, *offset, *length)?)))
            }),
            FileOp::ReadLink { path } => self.look(path, Last::Named, |place| {
                Ok(Answer::Reply(FileReply::Contents(self.read_link(place)?)))
            }),
            FileOp::Write { path, contents, how } => self.write(path, contents, *how).map(done),
            FileOp::MakeDirectory { path } => self.make_directory(path).map(done),
            FileOp::MakeLink { path, target } => self.make_link(path, target).map(done),
            FileOp::Rename { from, to } => self.rename(from, to).map(done),
            FileOp::Remove { path } => self.remove(path).map(done),
            FileOp::Set { path, executable, modified_ns } => {
                self.set(path, *executable, *modified_ns).map(done)
            }
        }
    }

    /// Does something that changes nothing, in the directory or not.
    fn look<'door>(
        &'door self,
        path: &str,
        last: Last,
        mut body: impl FnMut(&[u8]) -> Result<Answer<'door>, Failure>,
    ) -> Result<Answer<'door>, Failure> {
        self.at_place(path, last, |place| match place {
            Place::Directory(place) => body(place),
            Place::Mount(inner, rest) => Ok(Answer::Inside(inner, rest.clone())),
        })
    }

    /// Adds the mounts, and the directories that are there because of them only, to a listing.
    fn with_mounts_listed(&self, entries: &mut Vec<FileEntry>, place: &[u8]) {
        for mount in &self.mounts {
            let Some((name, is_mount)) = place::child_towards(place, &mount.at) else { continue };
            let found = entries.iter().position(|entry| entry.name == name);
            let stat = match is_mount {
                true => inner_stat(mount),
                false => match found {
                    Some(found) if entries[found].stat.kind == FileKind::Directory => continue,
                    _ => virtual_directory(),
                },
            };
            match found {
                Some(found) => entries[found].stat = stat,
                None => entries.push(FileEntry { name: name.to_owned(), stat }),
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

impl FileDoor for DirDoor {
    fn file(&self, operation: FileOp) -> Result<FileReply, FileError> {
        let path = check_operation(&operation)?.to_owned();
        let answer = self.as_owner(|| self.perform(&operation)).map_err(|failure| failure.at(&path))?;
        match answer {
            Answer::Reply(reply) => Ok(reply),
            Answer::List(mut entries, place) => {
                self.with_mounts_listed(&mut entries, &place);
                Ok(FileReply::List(entries))
            }
            Answer::Inside(inner, rest) => {
                let reply = inner.door.file(moved(operation, rest));
                reply.map(read_only).map_err(|error| FileError { path, ..error })
            }
        }
    }
}

impl fmt::Debug for DirDoor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mounts: Vec<_> = self.mounts.iter().map(|mount| &mount.at).collect();
        let roots: Vec<_> = self.roots.iter().map(|root| &root.at).collect();
        formatter
            .debug_struct("DirDoor")
            .field("directory", &self.directory)
            .field("names", &self.names)
            .field("mounts", &mounts)
            .field("roots", &roots)
            .finish_non_exhaustive()
    }
}

/// Checks whatever can be wrong with an operation by itself, and says which path it is about.
fn check_operation(operation: &FileOp) -> Result<&str, FileError> {
    let most = |path: &str, bytes: u64| {
        let message = format!("at most {MOST_IN_ONE} bytes can be read or written at once");
        if bytes > MOST_IN_ONE {
            Err(FileError::told(FileErrorCode::TooLarge, path, message))
        } else {
            Ok(())
        }
    };
    let path = match operation {
        FileOp::Read { path, length, .. } => {
            most(path, *length)?;
            path
        }
        FileOp::Write { path, contents, .. } => {
            most(path, contents.len() as u64)?;
            path
        }
        FileOp::Rename { from, to } => {
            check(to)?;
            from
        }
        FileOp::MakeLink { path, target } => {
            if target.is_empty() || target.len() > crate::path::PATH_LIMIT || target.contains('\0') {
                let message = "a link leads to at least 1 and less than 4096 bytes, without NUL";
                return Err(FileError::told(FileErrorCode::InvalidPath, path, message));
            }
            path
        }
        FileOp::Stat { path, .. }
        | FileOp::List { path }
        | FileOp::MakeDirectory { path }
        | FileOp::ReadLink { path }
        | FileOp::Remove { path }
        | FileOp::Set { path, .. } => path,
    };
    check(path)?;
    Ok(path)
}

/// The same for another door. Only what changes nothing comes here.
fn moved(operation: FileOp, path: String) -> FileOp {
    match operation {
        FileOp::Stat { follow, .. } => FileOp::Stat { path, follow },
        FileOp::List { .. } => FileOp::List { path },
        FileOp::Read { offset, length, .. } => FileOp::Read { path, offset, length },
        FileOp::ReadLink { .. } => FileOp::ReadLink { path },
        other => other,
    }
}

fn read_only(reply: FileReply) -> FileReply {
    match reply {
        FileReply::Stat(stat) => FileReply::Stat(FileStat { read_only: true, ..stat }),
        FileReply::List(mut entries) => {
            entries.iter_mut().for_each(|entry| entry.stat.read_only = true);
            FileReply::List(entries)
        }
        other => other,
    }
}

/// What a mount point is, whatever its door says.
fn inner_stat(mount: &Inner) -> FileStat {
    match mount.door.file(FileOp::Stat { path: String::new(), follow: true }) {
        Ok(FileReply::Stat(stat)) => FileStat { kind: FileKind::Directory, read_only: true, ..stat },
        _ => FileStat { read_only: true, ..virtual_directory() },
    }
}

/// A directory that is there because of a mount only.
fn virtual_directory() -> FileStat {
    FileStat { kind: FileKind::Directory, size: 0, modified_ns: 0, executable: true, read_only: false }
}
