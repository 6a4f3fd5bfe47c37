//! Unpacks wheels and tar archives. Both are hostile until proven otherwise.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use sha2::{Digest, Sha256};
use tar::EntryType;
use zip::{ZipArchive, result::ZipError};

use self::record::Record;
use crate::{
    error::PackageError, fetch::BESIDE, file_name, limits::Limits, scripts, target::Target, tree::Tree,
};

mod record;

/// Where a zip archive's directory ends; at most this far from its own end.
const END_OF_DIRECTORY: &[u8] = b"PK\x05\x06";
const END_OF_DIRECTORY_64: &[u8] = b"PK\x06\x06";
const FARTHEST_END: u64 = (64 << 10) + 22 + 20 + 56;

/// `RECORD`s are read whole.
const LONGEST_RECORD: u64 = 64 << 20;

/// Long names and other attributes of one file in a tar archive.
const LONGEST_TAR_HEADER: u64 = 1 << 20;

/// The SHA-256 of a file, in hexadecimal digits.
pub(crate) fn sha256(file: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(file)?, &mut hasher)?;
    Ok(format!("{:x}", hasher.finalize()))
}

/// Unpacks a wheel as an installer would: what isn't for site-packages stays out.
pub(crate) fn unpack_wheel(
    file: &Path,
    into: &Path,
    limits: &Limits,
    target: &Target,
) -> Result<(), PackageError> {
    let mut archive = open_zip(file, limits)?;
    let refuse = |reason: String| PackageError::refused(file, reason);
    let mut tree = Tree::new(into, file, *limits);
    let mut hashes = HashMap::new();
    let mut record = None;
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(|error| refuse(in_words(&error)))?;
        let name = member.name().to_owned();
        file_name::inside(&name, limits.depth)
            .map_err(|reason| refuse(format!("`{}` {reason}", name.escape_debug())))?;
        if member.is_symlink() {
            return Err(refuse(format!("`{name}` is a link")));
        }
        let Some(place) = place(&name, target).filter(|_| !member.is_dir()) else { continue };
        if is_record(&name) {
            let mut text = String::new();
            let read = member.by_ref().take(LONGEST_RECORD).read_to_string(&mut text);
            read.map_err(|error| refuse(format!("`{name}` is damaged: {error}")))?;
            tree.write(&place, &mut text.as_bytes())?;
            record = Some(text);
        } else {
            let executable = target.is_native() && member.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
            hashes.insert(name, tree.write(&place, &mut member)?);
            if executable {
                tree.make_executable(&place)?;
            }
        }
    }
    let record = record.ok_or_else(|| refuse("it has no RECORD, so it isn't a wheel".into()))?;
    Record(&record).check(&hashes).map_err(refuse)
}

/// The text of the one file in a wheel whose name ends so.
pub(crate) fn read_from_wheel(
    file: &Path,
    ending: &str,
    limits: &Limits,
) -> Result<Option<String>, PackageError> {
    let mut archive = open_zip(file, limits)?;
    let Some(name) = archive.file_names().find(|name| name.ends_with(ending)).map(str::to_owned) else {
        return Ok(None);
    };
    let member = archive.by_name(&name).map_err(|error| PackageError::refused(file, in_words(&error)))?;
    let mut text = String::new();
    let read = member.take(LONGEST_RECORD).read_to_string(&mut text);
    read.map_err(|error| PackageError::refused(file, format!("`{name}` is damaged: {error}")))?;
    Ok(Some(text))
}

/// Unpacks a `.tar.gz`, `.tgz` or `.tar.zst` as it is.
pub(crate) fn unpack_tar(file: &Path, into: &Path, limits: &Limits) -> Result<(), PackageError> {
    let refuse = |reason: String| PackageError::refused(file, reason);
    let damaged = |error: io::Error| refuse(format!("it is damaged: {error}"));
    check_tar_headers(file, limits)?;
    let mut tree = Tree::new(into, file, *limits);
    for member in open_tar(file, limits)?.entries().map_err(damaged)? {
        let mut member = member.map_err(damaged)?;
        let path = member.path().map_err(damaged)?.into_owned();
        let name = path.to_str().ok_or_else(|| refuse("it has a name that isn't UTF-8".into()))?;
        match member.header().entry_type() {
            EntryType::Directory | EntryType::XGlobalHeader => {}
            EntryType::Regular | EntryType::Continuous => tree.write(name, &mut member).map(drop)?,
            EntryType::Symlink | EntryType::Link => return Err(refuse(format!("`{name}` is a link"))),
            other => return Err(refuse(format!("`{name}` is neither a file nor a directory ({other:?})"))),
        }
    }
    Ok(())
}

/// Counts members, and looks at those that only describe the next one: the reader holds them in memory.
fn check_tar_headers(file: &Path, limits: &Limits) -> Result<(), PackageError> {
    let refuse = |reason: String| PackageError::refused(file, reason);
    let damaged = |error: io::Error| refuse(format!("it is damaged: {error}"));
    let mut archive = open_tar(file, limits)?;
    for (number, member) in archive.entries().map_err(damaged)?.raw(true).enumerate() {
        let member = member.map_err(damaged)?;
        // Each file may have three headers.
        if number as u64 > 4 * limits.entries {
            return Err(refuse(format!("it has more than {} files and directories", limits.entries)));
        }
        let kind = member.header().entry_type();
        let describes = matches!(kind, EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader);
        if (describes || kind == EntryType::XGlobalHeader) && member.size() > LONGEST_TAR_HEADER {
            return Err(refuse("it has a name that is too long".into()));
        }
    }
    Ok(())
}

fn open_tar(file: &Path, limits: &Limits) -> Result<tar::Archive<Box<dyn Read>>, PackageError> {
    let opened = BufReader::new(File::open(file).map_err(|error| PackageError::unreadable(file, error))?);
    let bytes: Box<dyn Read> = match file.extension().is_some_and(|extension| extension == "zst") {
        true => {
            let decoder = zstd::Decoder::new(opened);
            Box::new(decoder.map_err(|error| PackageError::refused(file, format!("it is damaged: {error}")))?)
        }
        false => Box::new(flate2::bufread::MultiGzDecoder::new(opened)),
    };
    // What is skipped counts too, or an archive of nothing but headers would go on forever.
    Ok(tar::Archive::new(Box::new(bytes.take(limits.bytes + (limits.entries << 11)))))
}

/// Where a file of a wheel goes in site-packages; `None` if it is left out. Programs are of use only where processes
/// can be started, and so is what installers put beside the packages: libraries may be there.
pub(crate) fn place(name: &str, target: &Target) -> Option<String> {
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let program: Vec<&str>;
    let parts = match parts.as_slice() {
        [first, "purelib" | "platlib", rest @ ..] if first.ends_with(".data") => rest,
        [first, "scripts", rest @ ..] if first.ends_with(".data") && target.is_native() => {
            program = [scripts::BIN].iter().chain(rest).copied().collect();
            program.as_slice()
        }
        [first, "data", rest @ ..] if first.ends_with(".data") && target.is_native() => {
            if rest.len() < 2 || BESIDE.contains(&rest[0]) {
                return None;
            }
            rest
        }
        [first, ..] if first.ends_with(".data") => return None,
        parts => parts,
    };
    let out = match parts {
        [] => true,
        // They run code at start-up, for every program.
        [file] => file.ends_with(".pth") || *file == ".lock",
        // They tell of the host, not of the package.
        [directory, "INSTALLER" | "REQUESTED" | "direct_url.json" | "uv_cache.json"] => {
            directory.ends_with(".dist-info")
        }
        _ => false,
    };
    (!out && !parts.contains(&"__pycache__")).then(|| parts.join("/"))
}

fn is_record(name: &str) -> bool {
    name.strip_suffix(".dist-info/RECORD").is_some_and(|start| !start.contains('/'))
}

fn open_zip(file: &Path, limits: &Limits) -> Result<ZipArchive<BufReader<File>>, PackageError> {
    let refuse = |reason: String| PackageError::refused(file, reason);
    let unreadable = |error| PackageError::unreadable(file, error);
    let mut opened = File::open(file).map_err(unreadable)?;
    let declared = declared_entries(&mut opened).map_err(unreadable)?;
    if declared > limits.entries {
        return Err(refuse(format!("it has more than {} files and directories", limits.entries)));
    }
    let archive = ZipArchive::new(BufReader::new(opened)).map_err(|error| refuse(in_words(&error)))?;
    // The reader keeps the last of those with the same name.
    match archive.len() as u64 == declared {
        true => Ok(archive),
        false => Err(refuse("it has files of the same name".into())),
    }
}

/// How many entries the archive says to have: the reader allocates by that.
fn declared_entries(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(FARTHEST_END)))?;
    let mut tail = Vec::new();
    file.take(FARTHEST_END).read_to_end(&mut tail)?;
    file.rewind()?;
    let last = |signature: &[u8]| tail.windows(4).rposition(|window| window == signature);
    let number = |at: usize, bytes: usize| {
        let found = tail.get(at..at + bytes).unwrap_or_default();
        found.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let short = last(END_OF_DIRECTORY).map_or(0, |at| number(at + 10, 2));
    Ok(match (short, last(END_OF_DIRECTORY_64)) {
        (0xffff, Some(at)) => number(at + 32, 8),
        _ => short,
    })
}

fn in_words(error: &ZipError) -> String {
    match error {
        ZipError::Io(error) => format!("it is damaged: {error}"),
        ZipError::InvalidArchive(reason) => format!("it isn't a whole zip archive: {reason}"),
        other => other.to_string(),
    }
}
