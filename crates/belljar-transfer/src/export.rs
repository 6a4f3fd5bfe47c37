use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use belljar_engine::{FileDoor, FileKind};
use tar::{EntryType, Header};

use crate::error::{Result, TransferError};
use crate::files::{Files, PIECE};
use crate::globs::Globs;
use crate::progress::Progress;
use crate::skipped::SkippedList;
use crate::walk::{Found, Walk, is_of_one};

/// The size of everything in a tar file is a multiple of this.
const BLOCK: u64 = 512;
/// What a small file may have grown by since it was listed, without a second look.
const GROWTH: u64 = 4_096;

/// How to export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// What is wanted.
    pub globs: Globs,
    /// How hard to compress, from 1 to 19.
    pub level: i32,
    /// Threads that compress, beside the one that reads, which compresses as well if there are none. At level 3, all
    /// takes 8 MB without one, 49 MB with one, 68 MB with two.
    pub threads: u32,
    /// Bytes of contents, at most. Holes count as what they are read as.
    pub most_bytes: u64,
    /// Files, directories and links, at most.
    pub most_files: u64,
}

impl Default for ExportOptions {
    /// Everything, level 3, one thread beside this one, 64 GB, a million files.
    fn default() -> Self {
        Self { globs: Globs::all(), level: 3, threads: 1, most_bytes: 64 << 30, most_files: 1_000_000 }
    }
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes in files, before compression.
    pub bytes: u64,
    /// Files that became shorter while they were read: what was missing is zeros in the archive. Of those that
    /// became longer, the archive has the beginning.
    pub changed: SkippedList,
    /// What isn't in the archive.
    pub skipped: SkippedList,
}

/// Writes a workspace as a `.tar.zst`, sorted by name, so that the same files give the same bytes.
///
/// The guest may be running: a file that changes meanwhile is in the archive as it was read, with the size that it had
/// in the beginning, and is reported. Owners aren't kept; of modes, whether a file is executable.
///
/// # Errors
/// If the workspace can't be listed, the writer fails, or there is more than the options allow. What was written is
/// then no archive.
pub fn export(
    door: &dyn FileDoor,
    writer: impl Write,
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<Exported> {
    let level = options.level.clamp(1, 19);
    let mut encoder = zstd::Encoder::new(writer, level).map_err(writing)?;
    encoder.include_checksum(true).map_err(writing)?;
    encoder.multithread(options.threads.min(8)).map_err(writing)?;
    let mut archive =
        Archive { writer: encoder, files: Files::new(door), options, exported: Exported::default() };

    let walk = Walk { files: Files::new(door), globs: &options.globs, most: options.most_files };
    let mut skipped = SkippedList::default();
    walk.each(&mut skipped, &mut |found, skipped| {
        if progress.stop() {
            return Err(TransferError::Stopped);
        }
        progress.advance(&found.path, archive.exported.files, archive.exported.bytes);
        archive.add(&found, skipped)?;
        Ok(ControlFlow::Continue(()))
    })?;
    archive.writer.write_all(&[0; 2 * BLOCK as usize]).map_err(writing)?;
    archive.writer.finish().and_then(|mut writer| writer.flush()).map_err(writing)?;
    archive.exported.skipped.extend(skipped);
    Ok(archive.exported)
}

/// Exports to a file, which appears when it is whole and on the disk; one that is there is replaced.
///
/// # Errors
/// Those of [`export`], and of the file system. What was at the path is then still there.
pub fn export_to_path(
    door: &dyn FileDoor,
    path: &Path,
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<Exported> {
    let at = |action, path: &Path| {
        let path = path.to_owned();
        move |source| TransferError::Host { action, path, source }
    };
    let part = Part::beside(path)?;
    let file =
        OpenOptions::new().write(true).create_new(true).open(&part.0).map_err(at("create", &part.0))?;
    let mut writer = BufWriter::new(file);
    let exported = export(door, &mut writer, options, progress)?;
    let file = writer.into_inner().map_err(|error| writing(error.into_error()))?;
    file.sync_all().map_err(at("write", &part.0))?;
    fs::rename(&part.0, path).map_err(at("put into place", path))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(at("write", directory))?;
    Ok(exported)
}

/// A file that is removed again, unless it was renamed.
struct Part(PathBuf);

impl Part {
    fn beside(path: &Path) -> Result<Self> {
        let Some(name) = path.file_name() else {
            let (given, reason) = (path.display().to_string(), "it has no name".to_owned());
            return Err(TransferError::Invalid { what: "the path of a file", given, reason });
        };
        let mut part = std::ffi::OsString::from(crate::names::beside("x"));
        part.push("-");
        part.push(name);
        Ok(Self(path.with_file_name(part)))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

struct Archive<'e, W> {
    writer: W,
    files: Files<'e>,
    options: &'e ExportOptions,
    exported: Exported,
}

impl<W: Write> Archive<'_, W> {
    fn add(&mut self, found: &Found, skipped: &mut SkippedList) -> Result<()> {
        match found.stat.kind {
            FileKind::Directory => {
                self.header(EntryType::Directory, &format!("{}/", found.path), "", 0, found)?;
                self.exported.directories += 1;
            }
            FileKind::Link => match self.files.read_link(&found.path) {
                Ok(target) => {
                    self.header(EntryType::Symlink, &found.path, &target, 0, found)?;
                    self.exported.links += 1;
                }
                Err(error) if is_of_one(&error) => skipped.add(&found.path, error.message),
                Err(error) => return Err(error.into()),
            },
            FileKind::File => self.file(found, skipped)?,
            FileKind::Other => {}
        }
        Ok(())
    }

    fn file(&mut self, found: &Found, skipped: &mut SkippedList) -> Result<()> {
        let path = &found.path;
        let asked = found.stat.size.saturating_add(GROWTH).min(PIECE);
        let first = match self.files.read(path, 0, asked) {
            Ok(first) => first,
            Err(error) if is_of_one(&error) => {
                skipped.add(path, error.message);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let mut read = first.len() as u64;
        let mut size = read;
        if read == asked {
            // There may be more, and perhaps more than when it was listed.
            let now = self.files.stat(path).ok().flatten();
            size = now.map_or(found.stat.size, |stat| stat.size).max(read);
        }
        if size > self.options.most_bytes - self.exported.bytes {
            let most = self.options.most_bytes;
            return Err(TransferError::TooMuch { what: "bytes", most, path: path.clone() });
        }
        self.header(EntryType::Regular, path, "", size, found)?;
        self.writer.write_all(&first).map_err(writing)?;
        while read < size {
            let piece = match self.files.read(path, read, PIECE.min(size - read)) {
                Ok(piece) => piece,
                Err(error) if is_of_one(&error) => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            if piece.is_empty() {
                self.exported.changed.add(path, format!("it had {size} bytes, and then {read}"));
                self.zeros(size - read)?;
                break;
            }
            self.writer.write_all(&piece).map_err(writing)?;
            read += piece.len() as u64;
        }
        self.zeros(size.next_multiple_of(BLOCK) - size)?;
        self.exported.files += 1;
        self.exported.bytes += size;
        Ok(())
    }

    fn header(&mut self, kind: EntryType, path: &str, target: &str, size: u64, found: &Found) -> Result<()> {
        self.long(EntryType::GNULongLink, target)?;
        self.long(EntryType::GNULongName, path)?;
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        let mode = match found.stat.kind {
            FileKind::Link => 0o777,
            FileKind::Directory => 0o755,
            _ if found.stat.executable => 0o755,
            _ => 0o644,
        };
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(u64::try_from(found.stat.modified_ns.div_euclid(1_000_000_000)).unwrap_or(0));
        header.set_size(size);
        let fields = header.as_old_mut();
        put(&mut fields.name, path);
        put(&mut fields.linkname, target);
        header.set_cksum();
        self.writer.write_all(header.as_bytes()).map_err(writing)
    }

    /// A name that the next header has no room for.
    fn long(&mut self, kind: EntryType, name: &str) -> Result<()> {
        let room = Header::new_gnu().as_old().name.len();
        if name.len() <= room {
            return Ok(());
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        put(&mut header.as_old_mut().name, "././@LongLink");
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        let size = name.len() as u64 + 1;
        header.set_size(size);
        header.set_cksum();
        self.writer.write_all(header.as_bytes()).map_err(writing)?;
        self.writer.write_all(name.as_bytes()).map_err(writing)?;
        self.zeros(size.next_multiple_of(BLOCK) - size + 1)
    }

    fn zeros(&mut self, count: u64) -> Result<()> {
        io::copy(&mut io::Read::take(io::repeat(0), count), &mut self.writer).map(drop).map_err(writing)
    }
}

fn put(field: &mut [u8], text: &str) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
}

fn writing(source: io::Error) -> TransferError {
    TransferError::Archive { action: "write", source }
}
