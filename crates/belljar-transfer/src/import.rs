use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};

use belljar_engine::{FileDoor, FileError, FileKind};

use crate::error::{Result, TransferError};
use crate::files::{Files, PIECE};
use crate::globs::Globs;
use crate::members::{Damage, Kind, Member, Members};
use crate::names::{beside, fault, leads_out, parent};
use crate::progress::Progress;
use crate::skipped::SkippedList;
use crate::walk::is_of_one;

/// How far back a compressed archive may refer, as a power of two: the memory that it can cost.
const WINDOW: u32 = 25;
/// Directories that are remembered, and bytes of their names.
const MOST_REMEMBERED: usize = 16 << 20;

/// How to import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// What is wanted.
    pub globs: Globs,
    /// Files that are there stay as they are; otherwise they are replaced.
    pub keep_existing: bool,
    /// Links that lead out of the workspace are made as well. Nothing here follows them, but others may.
    pub links_out: bool,
    /// Bytes of contents, at most.
    pub most_bytes: u64,
    /// Members, at most.
    pub most_files: u64,
}

impl Default for ImportOptions {
    /// Everything, replacing what is there, without links that lead out, 64 GB, a million members.
    fn default() -> Self {
        Self {
            globs: Globs::all(),
            keep_existing: false,
            links_out: false,
            most_bytes: 64 << 30,
            most_files: 1_000_000,
        }
    }
}

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes in files.
    pub bytes: u64,
    /// What is in the archive, but not in the workspace.
    pub skipped: SkippedList,
}

/// Reads an archive into a workspace: `.tar`, `.tar.zst` or `.tar.gz`, known by how it begins.
///
/// Members that lead out of the workspace, or that are neither files, directories nor links, are skipped and reported.
/// Nothing is written through a link. Each file appears whole.
///
/// # Errors
/// If the archive is damaged or has more than the options allow, or the workspace is full. What was imported before
/// stays.
pub fn import(
    door: &dyn FileDoor,
    reader: impl Read,
    options: &ImportOptions,
    progress: &dyn Progress,
) -> Result<Imported> {
    let mut reader = BufReader::new(reader);
    let reading = |source| TransferError::Archive { action: "read", source };
    let magic = reader.fill_buf().map_err(reading)?;
    let plain: Box<dyn Read + '_> = if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut decoder = zstd::Decoder::with_buffer(reader).map_err(reading)?;
        decoder.window_log_max(WINDOW).map_err(reading)?;
        Box::new(decoder)
    } else if magic.starts_with(&[0x1f, 0x8b]) {
        Box::new(flate2::bufread::MultiGzDecoder::new(reader))
    } else {
        Box::new(reader)
    };
    let import = Import {
        files: Files::new(door),
        members: Members::new(BufReader::with_capacity(64 << 10, plain)),
        options,
        progress,
        imported: Imported::default(),
        plain: Remembered::default(),
        times: Vec::new(),
        times_bytes: 0,
        passed: 0,
    };
    import.run()
}

struct Import<'i, R> {
    files: Files<'i>,
    members: Members<R>,
    options: &'i ImportOptions,
    progress: &'i dyn Progress,
    imported: Imported,
    /// Directories that are known to be some.
    plain: Remembered,
    /// Directories, whose times are set when nothing is written into them any more.
    times: Vec<(String, i64)>,
    times_bytes: usize,
    /// Bytes of members, imported or not.
    passed: u64,
}

#[derive(Default)]
struct Remembered {
    paths: BTreeSet<String>,
    bytes: usize,
}

impl Remembered {
    fn add(&mut self, path: &str) {
        if self.bytes > MOST_REMEMBERED {
            *self = Self::default();
        }
        self.bytes += path.len();
        self.paths.insert(path.to_owned());
    }
}

impl<R: Read> Import<'_, R> {
    fn run(mut self) -> Result<Imported> {
        let mut count = 0;
        while let Some(member) = self.members.next().map_err(|damage| damaged(&self.imported, damage))? {
            if self.progress.stop() {
                return Err(TransferError::Stopped);
            }
            let shown = match &member.path {
                Ok(path) | Err(path) => path.clone(),
            };
            self.progress.advance(&shown, self.imported.files, self.imported.bytes);
            count += 1;
            if count > self.options.most_files {
                return Err(too_much("members", self.options.most_files, &shown));
            }
            if member.size > self.options.most_bytes - self.passed {
                return Err(too_much("bytes", self.options.most_bytes, &shown));
            }
            self.passed += member.size;
            match self.member(member) {
                Ok(None) => {}
                Ok(Some(reason)) => self.imported.skipped.add(&shown, reason),
                Err(TransferError::Files(error)) if is_of_one(&error) => {
                    self.imported.skipped.add(&shown, error.message);
                }
                Err(error) => return Err(error),
            }
        }
        self.members.finish().map_err(|damage| damaged(&self.imported, damage))?;
        for (path, modified_ns) in self.times.iter().rev() {
            // It may be gone by now, or be a mount: its time isn't worth an error.
            let _ = self.files.set(path, None, Some(*modified_ns));
        }
        Ok(self.imported)
    }

    /// Imports one member, or says why not.
    fn member(&mut self, member: Member) -> Result<Option<String>> {
        let path = match &member.path {
            Ok(path) => path,
            Err(_) => return Ok(Some("its name isn't UTF-8".to_owned())),
        };
        let mut path = path.as_str();
        while let Some(rest) = path.strip_prefix("./") {
            path = rest;
        }
        if member.kind == Kind::Directory {
            path = path.strip_suffix('/').unwrap_or(path);
            // The workspace itself.
            if path == "." || (path.is_empty() && member.path.as_deref() != Ok("/")) {
                return Ok(None);
            }
        }
        if let Some(fault) = fault(path) {
            return Ok(Some(fault.to_owned()));
        }
        if !self.options.globs.wanted_anywhere(path, member.kind == Kind::Directory) {
            return Ok(None);
        }
        if let Kind::Other(reason) = member.kind {
            return Ok(Some(reason.to_owned()));
        }
        if let Some(above) = self.in_the_way(path)? {
            return Ok(Some(format!("{above} isn't a directory")));
        }
        let there = self.files.stat(path)?;
        if member.kind == Kind::Directory {
            return self.directory(path, &member, there.map(|stat| stat.kind));
        }
        match there.map(|stat| stat.kind) {
            Some(_) if self.options.keep_existing => return Ok(Some("it is there already".to_owned())),
            Some(FileKind::Directory) => return Ok(Some("there is a directory of that name".to_owned())),
            _ => {}
        }
        self.plain.paths.remove(path);
        match member.kind {
            Kind::Link => self.link(path, &member),
            Kind::HardLink => self.copy(path, &member),
            _ => self.file(path, &member).map(|()| None),
        }
    }

    /// The first of the directories above that is there, but isn't one.
    fn in_the_way(&mut self, path: &str) -> Result<Option<String>> {
        let Some(above) = parent(path) else { return Ok(None) };
        if self.plain.paths.contains(above) {
            return Ok(None);
        }
        let ends = above.match_indices('/').map(|(end, _)| end).chain([above.len()]);
        for end in ends {
            match self.files.stat(&above[..end])? {
                Some(stat) if stat.kind != FileKind::Directory => return Ok(Some(above[..end].to_owned())),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        self.plain.add(above);
        Ok(None)
    }

    fn directory(&mut self, path: &str, member: &Member, there: Option<FileKind>) -> Result<Option<String>> {
        if there.is_some_and(|kind| kind != FileKind::Directory) {
            return Ok(Some("there is something else of that name".to_owned()));
        }
        self.files.make_directory(path)?;
        if let Some(modified_ns) = member.modified_ns
            && there.is_none()
            && self.times_bytes < MOST_REMEMBERED
        {
            self.times_bytes += path.len();
            self.times.push((path.to_owned(), modified_ns));
        }
        self.imported.directories += 1;
        Ok(None)
    }

    fn file(&mut self, path: &str, member: &Member) -> Result<()> {
        let mut file = self.files.begin(path);
        let mut buffer = vec![0; PIECE.min(member.size) as usize];
        loop {
            let count = self.members.read(&mut buffer).map_err(|damage| damaged(&self.imported, damage))?;
            if count == 0 {
                break;
            }
            file.write(&buffer[..count])?;
            if self.progress.stop() {
                return Err(TransferError::Stopped);
            }
        }
        self.imported.bytes += file.finish(member.executable, member.modified_ns)?;
        self.imported.files += 1;
        Ok(())
    }

    fn link(&mut self, path: &str, member: &Member) -> Result<Option<String>> {
        let Ok(target) = &member.target else { return Ok(Some("where it leads isn't UTF-8".to_owned())) };
        if target.is_empty() || target.contains('\0') || target.len() > 4_095 {
            return Ok(Some("where it leads makes no sense".to_owned()));
        }
        if !self.options.links_out && leads_out(path, target) {
            return Ok(Some(format!("it leads out, to {}", crate::skipped::printable(target))));
        }
        place_link(self.files, path, target, member.modified_ns)?;
        self.imported.links += 1;
        Ok(None)
    }

    /// A hard link becomes a file of its own, so that a change of one never changes another.
    fn copy(&mut self, path: &str, member: &Member) -> Result<Option<String>> {
        let Ok(target) = &member.target else { return Ok(Some("the other name isn't UTF-8".to_owned())) };
        let target = target.strip_prefix("./").unwrap_or(target);
        if let Some(fault) = fault(target) {
            return Ok(Some(format!("the file that it is another name of: {fault}")));
        }
        if target == path || self.in_the_way(target)?.is_some() {
            return Ok(Some("it is another name of nothing".to_owned()));
        }
        let stat = match self.files.stat(target)? {
            Some(stat) if stat.kind == FileKind::File => stat,
            _ => return Ok(Some(format!("it is another name of {target}, which isn't there"))),
        };
        if stat.size > self.options.most_bytes - self.passed {
            return Err(too_much("bytes", self.options.most_bytes, path));
        }
        let mut file = self.files.begin(path);
        let mut offset = 0;
        while offset < stat.size {
            let piece = self.files.read(target, offset, PIECE.min(stat.size - offset))?;
            if piece.is_empty() {
                break;
            }
            offset += piece.len() as u64;
            file.write(&piece)?;
        }
        self.passed += offset;
        self.imported.bytes += file.finish(stat.executable, member.modified_ns)?;
        self.imported.files += 1;
        Ok(None)
    }
}

/// Makes a link in place of what is there, at once.
pub(crate) fn place_link(
    files: Files<'_>,
    path: &str,
    target: &str,
    modified_ns: Option<i64>,
) -> std::result::Result<(), FileError> {
    let part = beside(path);
    files.make_link(&part, target)?;
    // Not every place keeps the times of links.
    let _ = files.set(&part, None, modified_ns);
    files.rename(&part, path).inspect_err(|_| {
        let _ = files.remove(&part);
    })
}

fn damaged(imported: &Imported, damage: Damage) -> TransferError {
    TransferError::Damaged { reason: damage.0, files: imported.files }
}

fn too_much(what: &'static str, most: u64, path: &str) -> TransferError {
    TransferError::TooMuch { what, most, path: crate::skipped::printable(path) }
}
