//! What hosts do with the files of a workspace in memory.
//!
//! Each operation is done on a clone, which then takes the place of the file system: it is done whole or not at all.

use std::collections::VecDeque;

use belljar_engine::{
    FileEntry, FileError, FileErrorCode, FileKind, FileOp, FileReply, FileStat, MOST_IN_ONE, MOST_LISTED,
    WriteHow,
};

use super::FileSystem;
use super::resolve::Position;
use crate::path::{LINK_LIMIT, join};
use crate::{Access, Errno, FileType, Handle, Metadata, OpenOptions, SetTime, Timestamp};

impl FileSystem {
    /// For the host: does one operation on the files below a guest path. Links are followed inside it, and into
    /// mounts that can only be read.
    pub fn operate(&mut self, workspace: &str, operation: FileOp) -> Result<FileReply, FileError> {
        let (path, other) = paths(&operation);
        let path = path.to_owned();
        for given in std::iter::once(path.as_str()).chain(other) {
            check(given).map_err(|failure| failure.at(given))?;
        }
        let mut trial = self.clone();
        let root = trial.handles.insert_beyond_limit(Self::open_root());
        let mut door = Door { files: &mut trial, root, workspace: workspace.trim_end_matches('/') };
        let reply = door.operate(operation).map_err(|failure| failure.at(&path))?;
        trial.close(root).map_err(|errno| Failure::from(errno).at(&path))?;
        *self = trial;
        Ok(reply)
    }
}

struct Door<'a> {
    files: &'a mut FileSystem,
    root: Handle,
    /// Where the workspace is.
    workspace: &'a str,
}

/// What an operation fails with, before it is known which path is to blame.
struct Failure {
    code: FileErrorCode,
    message: Option<String>,
}

impl Failure {
    fn told(code: FileErrorCode, message: &str) -> Self {
        Self { code, message: Some(message.to_owned()) }
    }

    fn at(self, path: &str) -> FileError {
        match self.message {
            Some(message) => FileError::told(self.code, path, message),
            None => FileError::new(self.code, path),
        }
    }
}

impl From<FileErrorCode> for Failure {
    fn from(code: FileErrorCode) -> Self {
        Self { code, message: None }
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NoEntry => FileErrorCode::FileNotFound.into(),
            Errno::Access | Errno::NotPermitted | Errno::ReadOnly | Errno::Busy => {
                FileErrorCode::PermissionDenied.into()
            }
            Errno::IsDirectory => FileErrorCode::IsDirectory.into(),
            Errno::NotDirectory => FileErrorCode::NotDirectory.into(),
            Errno::Exist => FileErrorCode::AlreadyExists.into(),
            Errno::NotEmpty => FileErrorCode::NotEmpty.into(),
            Errno::NoSpace => FileErrorCode::DiskFull.into(),
            Errno::TooLarge => FileErrorCode::TooLarge.into(),
            Errno::NotSupported => FileErrorCode::NotAFile.into(),
            Errno::NameTooLong | Errno::Invalid | Errno::Loop | Errno::IllegalByteSequence => {
                FileErrorCode::InvalidPath.into()
            }
            errno => Self::told(FileErrorCode::Failed, &errno.to_string()),
        }
    }
}

impl Door<'_> {
    fn operate(&mut self, operation: FileOp) -> Result<FileReply, Failure> {
        match operation {
            FileOp::Stat { path, follow } => {
                let place = self.place(&path, follow)?;
                Ok(FileReply::Stat(self.stat(&place)?))
            }
            FileOp::List { path } => self.list(&path),
            FileOp::Read { path, offset, length } => self.read(&path, offset, length),
            FileOp::Write { path, contents, how } => self.write(&path, &contents, how),
            FileOp::MakeDirectory { path } => {
                let place = self.place(&path, true)?;
                match self.stat(&place) {
                    Ok(stat) if stat.kind != FileKind::Directory => Err(FileErrorCode::AlreadyExists.into()),
                    _ => Ok(self.files.make_directories(&place).map(|()| FileReply::Done)?),
                }
            }
            FileOp::MakeLink { path, target } => {
                let place = self.place_for_new(&path)?;
                self.files.symlink_at(&target, self.root, &place)?;
                Ok(FileReply::Done)
            }
            FileOp::ReadLink { path } => {
                let place = self.place(&path, false)?;
                match self.stat(&place)?.kind {
                    FileKind::Link => {
                        let target = self.files.read_link_at(self.root, &place)?;
                        Ok(FileReply::Contents(target.into_bytes()))
                    }
                    _ => Err(Failure::told(FileErrorCode::Failed, "it is not a symbolic link")),
                }
            }
            FileOp::Rename { from, to } => self.rename(&from, &to),
            FileOp::Remove { path } => {
                let place = self.named_place(&path)?;
                match self.stat(&place)?.kind {
                    FileKind::Directory => self.files.remove_directory_at(self.root, &place)?,
                    FileKind::File | FileKind::Link | FileKind::Other => {
                        self.files.unlink_at(self.root, &place)?
                    }
                }
                Ok(FileReply::Done)
            }
            FileOp::Set { path, executable: _, modified_ns } => {
                // Files in memory have no mode: the guest has nothing to execute them with.
                let place = self.place(&path, false)?;
                if self.stat(&place)?.read_only {
                    return Err(FileErrorCode::PermissionDenied.into());
                }
                if let Some(time) = modified_ns {
                    let time = SetTime::At(Timestamp::from_nanoseconds(time.into()));
                    self.files.set_times_at(self.root, &place, false, SetTime::Keep, time)?;
                }
                Ok(FileReply::Done)
            }
        }
    }

    fn list(&mut self, path: &str) -> Result<FileReply, Failure> {
        let place = self.place(path, true)?;
        let options = OpenOptions { directory: true, ..OpenOptions::reading() };
        let file = self.files.open(Position::ROOT, &place, options)?;
        let handle = self.files.handles.insert_beyond_limit(file);
        let names = self.files.read_directory(handle)?;
        self.files.close(handle)?;
        let mut entries = Vec::new();
        for entry in names {
            if entries.len() >= MOST_LISTED {
                return Err(FileErrorCode::TooLarge.into());
            }
            // What has gone in between isn't there.
            if let Ok(stat) = self.stat(&join(&place, &entry.name)) {
                entries.push(FileEntry { name: entry.name, stat });
            }
        }
        Ok(FileReply::List(entries))
    }

    fn read(&mut self, path: &str, offset: u64, length: u64) -> Result<FileReply, Failure> {
        if length > MOST_IN_ONE {
            return Err(FileErrorCode::TooLarge.into());
        }
        let file = self.files.open(Position::ROOT, &self.place(path, true)?, OpenOptions::reading())?;
        if file.access.directory {
            return Err(FileErrorCode::IsDirectory.into());
        }
        let left = self.files.size_of(&file)?.saturating_sub(offset);
        let mut contents = vec![0; length.min(left) as usize];
        let mut done = 0;
        while done < contents.len() {
            match self.files.read_from(&file, offset + done as u64, &mut contents[done..])? {
                0 => break,
                count => done += count,
            }
        }
        contents.truncate(done);
        Ok(FileReply::Contents(contents))
    }

    fn write(&mut self, path: &str, contents: &[u8], how: WriteHow) -> Result<FileReply, Failure> {
        if contents.len() as u64 > MOST_IN_ONE {
            return Err(FileErrorCode::TooLarge.into());
        }
        let place = match how {
            WriteHow::Create => self.place_for_new(path)?,
            WriteHow::Replace | WriteHow::Append => {
                let place = self.place(path, true)?;
                self.make_parent(&place)?;
                place
            }
        };
        if let WriteHow::Replace = how {
            self.files.write_file(&place, contents)?;
            return Ok(FileReply::Done);
        }
        let exclusive = how == WriteHow::Create;
        let options = OpenOptions { write: true, create: true, exclusive, ..OpenOptions::default() };
        let file = self.files.open(Position::ROOT, &place, options)?;
        let start = self.files.size_of(&file)?;
        let mut done = 0;
        while done < contents.len() {
            done += self.files.write_to(&file, start + done as u64, &contents[done..])?;
        }
        Ok(FileReply::Done)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<FileReply, Failure> {
        let from = self.named_place(from)?;
        let moved = self.stat(&from)?.kind;
        let to = self.named_place(to)?;
        match (moved, self.stat(&to).map(|found| found.kind)) {
            (FileKind::Directory, Ok(_)) => return Err(FileErrorCode::AlreadyExists.into()),
            (_, Ok(FileKind::Directory)) => return Err(FileErrorCode::IsDirectory.into()),
            _ => {}
        }
        self.make_parent(&to)?;
        self.files.rename_at(self.root, &from, self.root, &to)?;
        Ok(FileReply::Done)
    }

    fn stat(&self, place: &str) -> Result<FileStat, Failure> {
        let found = self.files.stat_from(Position::ROOT, place, false)?;
        Ok(FileStat {
            kind: match found.file_type {
                FileType::Regular => FileKind::File,
                FileType::Directory => FileKind::Directory,
                FileType::Symlink => FileKind::Link,
                FileType::Other => FileKind::Other,
            },
            size: found.size,
            modified_ns: i64::try_from(found.modified.as_nanoseconds()).unwrap_or_default(),
            executable: false,
            read_only: self.is_read_only(&found),
        })
    }

    fn is_read_only(&self, found: &Metadata) -> bool {
        let mount =
            found.device.checked_sub(1).and_then(|index| self.files.mounts.iter().nth(index as usize));
        mount.is_some_and(|mount| mount.access == Access::ReadOnly)
    }

    /// Where something new is to be, with the directories above it.
    fn place_for_new(&mut self, path: &str) -> Result<String, Failure> {
        let place = self.named_place(path)?;
        if self.stat(&place).is_ok() {
            return Err(FileErrorCode::AlreadyExists.into());
        }
        self.make_parent(&place)?;
        Ok(place)
    }

    fn make_parent(&mut self, place: &str) -> Result<(), Failure> {
        let parent = place.rsplit_once('/').map_or(self.workspace, |(parent, _)| parent);
        Ok(self.files.make_directories(parent)?)
    }

    /// A name in the workspace, which isn't followed. The workspace itself has none there.
    fn named_place(&self, path: &str) -> Result<String, Failure> {
        match path.is_empty() {
            true => Err(Failure::told(FileErrorCode::InvalidPath, "it is the workspace itself")),
            false => self.place(path, false),
        }
    }

    /// The guest path of what a path leads to, with no link in memory left on the way. What is in a mount is its
    /// own: links there lead nowhere else.
    fn place(&self, path: &str, follow: bool) -> Result<String, Failure> {
        let outside = || Failure::told(FileErrorCode::InvalidPath, "it leads out of the workspace");
        let mut rest: VecDeque<String> = path.split('/').map(str::to_owned).collect();
        let mut base = self.workspace;
        let mut names: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            match name.as_str() {
                "" | "." => continue,
                ".." => {
                    names.pop().ok_or_else(outside)?;
                    continue;
                }
                _ => names.push(name),
            }
            let place = absolute(base, &names);
            let is_meant = rest.is_empty() && !follow;
            match self.files.stat_from(Position::ROOT, &place, false) {
                Ok(found) if found.file_type == FileType::Symlink && found.device == 0 && !is_meant => {}
                Err(Errno::NoEntry) if rest.iter().any(|name| name == "..") => {
                    return Err(Errno::NoEntry.into());
                }
                Ok(_) | Err(Errno::NoEntry) => continue,
                Err(errno) => return Err(errno.into()),
            }
            links += 1;
            if links > LINK_LIMIT {
                return Err(Errno::Loop.into());
            }
            let Ok(found) = self.files.resolve_link(&place) else { return Err(Errno::NoEntry.into()) };
            names.pop();
            let mut target = found.as_str();
            if target.starts_with('/') {
                names.clear();
                (base, target) = self.base_of(target).ok_or_else(outside)?;
            }
            for name in target.split('/').rev() {
                rest.push_front(name.to_owned());
            }
        }
        Ok(absolute(base, &names))
    }

    /// Where an absolute link leads: the workspace or a mount that can only be read, and the path there.
    fn base_of<'t>(&self, target: &'t str) -> Option<(&str, &'t str)> {
        let rest_in = |base: &str| -> Option<&'t str> {
            let rest = target.strip_prefix(base)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        };
        if let Some(rest) = rest_in(self.workspace) {
            return Some((self.workspace, rest));
        }
        let mounts = self.files.mounts.iter().filter_map(|mount| Some((mount, rest_in(&mount.guest_path)?)));
        let (mount, rest) = mounts.min_by_key(|(_, rest)| rest.len())?;
        (mount.access == Access::ReadOnly).then_some((mount.guest_path.as_str(), rest))
    }
}

fn absolute(base: &str, names: &[String]) -> String {
    names.iter().fold(base.to_owned(), |path, name| join(&path, name))
}

/// The path that an operation is about, and another if there is one.
fn paths(operation: &FileOp) -> (&str, Option<&str>) {
    match operation {
        FileOp::Stat { path, .. }
        | FileOp::List { path }
        | FileOp::Read { path, .. }
        | FileOp::Write { path, .. }
        | FileOp::MakeDirectory { path }
        | FileOp::MakeLink { path, .. }
        | FileOp::ReadLink { path }
        | FileOp::Remove { path }
        | FileOp::Set { path, .. } => (path, None),
        FileOp::Rename { from, to } => (from, Some(to)),
    }
}

fn check(path: &str) -> Result<(), Failure> {
    let is_sound = path.is_empty()
        || path.split('/').all(|name| !matches!(name, "" | "." | "..") && !name.contains('\0'));
    match is_sound {
        true => Ok(()),
        false => Err(FileErrorCode::InvalidPath.into()),
    }
}
