//! Unpacks wheels, and the tar archives inside. Nothing is written outside of the given directory.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use super::error::MakeError;
use crate::cache::CacheError;

/// Unpacks a wheel, or another zip archive that is trusted to be of a reasonable size.
///
/// # Errors
/// If it isn't an archive, or something in it leads outside.
pub fn unzip(file: &Path, directory: &Path) -> Result<(), MakeError> {
    let refuse = |reason: String| MakeError::Archive { file: file.to_owned(), reason };
    let opened = File::open(file).map_err(|error| refuse(error.to_string()))?;
    let mut archive = zip::ZipArchive::new(opened).map_err(|error| refuse(error.to_string()))?;
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(|error| refuse(error.to_string()))?;
        let name = member.name().to_owned();
        let path =
            inside(directory, Path::new(&name)).ok_or_else(|| refuse(format!("`{name}` leads outside")))?;
        if member.is_symlink() {
            return Err(refuse(format!("`{name}` is a link")));
        } else if member.is_dir() {
            fs::create_dir_all(&path).map_err(|error| failed(file, error))?;
        } else {
            write(&path, &mut member).map_err(|error| failed(file, error))?;
        }
    }
    Ok(())
}

/// `file` is only for errors.
pub(super) fn untar(bytes: impl Read, file: &Path, directory: &Path) -> Result<(), MakeError> {
    let refuse = |reason: String| MakeError::Archive { file: file.to_owned(), reason };
    let failed = |error| failed(file, error);
    for member in tar::Archive::new(bytes).entries().map_err(failed)? {
        let mut member = member.map_err(failed)?;
        let name = member.path().map_err(failed)?.into_owned();
        let outside = || refuse(format!("`{}` leads outside", name.display()));
        let path = inside(directory, &name).ok_or_else(outside)?;
        match member.header().entry_type() {
            tar::EntryType::Directory => fs::create_dir_all(&path).map_err(failed)?,
            tar::EntryType::Regular => write(&path, &mut member).map_err(failed)?,
            other => return Err(refuse(format!("`{}` is a {other:?}", name.display()))),
        }
    }
    Ok(())
}

/// The path below `directory`; `None` for absolute ones and those with `..`.
fn inside(directory: &Path, name: &Path) -> Option<PathBuf> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let text = name.to_str()?;
    (name.components().all(plain) && !text.contains(['\\', '\0'])).then(|| directory.join(name))
}

fn write(path: &Path, content: &mut dyn Read) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    // Never through something that an earlier member made.
    let mut file = File::create_new(path)?;
    io::copy(content, &mut file).map(drop)
}

/// A full disk isn't the archive's fault.
fn failed(file: &Path, error: io::Error) -> MakeError {
    match CacheError::io(file, error) {
        CacheError::Io { source, .. } => {
            MakeError::Archive { file: file.to_owned(), reason: source.to_string() }
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::write::SimpleFileOptions;

    use super::*;

    fn unzip_one(name: &str) -> Result<Vec<u8>, MakeError> {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, into) = (directory.path().join("a.whl"), directory.path().join("into"));
        let mut writer = zip::ZipWriter::new(File::create(&file).expect("created"));
        writer.start_file(name, SimpleFileOptions::default()).expect("started");
        writer.write_all(b"content").expect("written");
        writer.finish().expect("finished");
        unzip(&file, &into)?;
        let outside = directory.path().join("evil");
        assert!(!outside.exists(), "{name} wrote outside");
        Ok(fs::read(into.join(name)).expect("unpacked"))
    }

    #[test]
    fn members_are_unpacked() {
        assert_eq!(unzip_one("package/module.py").expect("unpacked"), b"content");
    }

    #[test]
    fn members_that_lead_outside_are_refused() {
        for name in ["../evil", "/evil", "package/../../evil", "..\\evil"] {
            let error = unzip_one(name).expect_err(name);
            assert!(error.to_string().contains("leads outside"), "{error}");
        }
    }

    #[test]
    fn links_in_wheels_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("a.whl");
        let mut writer = zip::ZipWriter::new(File::create(&file).expect("created"));
        writer.add_symlink("link", "/etc", SimpleFileOptions::default()).expect("added");
        writer.finish().expect("finished");
        let error = unzip(&file, &directory.path().join("into")).expect_err("a link");
        assert!(error.to_string().contains("is a link"), "{error}");
    }

    #[test]
    fn links_in_tar_archives_are_refused() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, "link", "/etc").expect("added");
        let bytes = builder.into_inner().expect("finished");
        let directory = tempfile::tempdir().expect("a directory");
        let error = untar(&bytes[..], Path::new("a.tar"), directory.path()).expect_err("a link");
        assert!(error.to_string().contains("is a Symlink"), "{error}");
    }
}
