use std::{
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use pep508_rs::{Requirement, VerbatimUrl};

use crate::{error::PackageError, file_name::WheelName, list::List, target};

/// Something that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// A requirement for the package index, as in PEP 508: `jinja2>=3`.
    Requirement(String),
    /// A wheel. Its dependencies come along.
    Wheel(PathBuf),
    /// A `.tar.gz`, `.tgz` or `.tar.zst` with modules: a source release that needs no building, or packages as they
    /// lie in site-packages. Its dependencies come along.
    Archive(PathBuf),
    /// A directory with modules: a project, a package, or a place with several. Dependencies come along.
    Directory(PathBuf),
    /// A `requirements.txt`.
    Requirements(PathBuf),
    /// A `pyproject.toml`: the dependencies of the project, not the project.
    Project(PathBuf),
    /// A directory that is taken as it is, for example one that `pip install --target` filled.
    SitePackages(PathBuf),
    /// One native module that was built for WASI.
    Extension {
        /// Its path in site-packages, `package/module.cpython-314-wasm32-wasi.so`, or its name, `package.module`.
        name: String,
        /// The WebAssembly library.
        bytes: Arc<[u8]>,
    },
}

impl Spec {
    /// Reads a requirement, or the path of a file or directory. Relative paths begin at `base`.
    ///
    /// A path ends in `.whl`, `.tar.gz`, `.tgz`, `.tar.zst`, `.txt` or `pyproject.toml`, or begins with `./`, `../` or
    /// `/`, or is a directory that is there and couldn't be a requirement. So `jinja2` is always the package.
    ///
    /// # Errors
    /// If it is neither, or a file that isn't there.
    pub fn parse(text: &str, base: &Path) -> Result<Self, PackageError> {
        let text = text.trim();
        if let Some(reason) = target::is_dangerous(text) {
            let text = text.escape_debug().take(100).collect();
            return Err(PackageError::Spec { text, reason: reason.to_owned(), position: 1 });
        }
        if let Some(name) = wheel_address(text) {
            return Ok(Self::Requirement(format!("{name} @ {text}")));
        }
        match Requirement::<VerbatimUrl>::from_str(text) {
            Ok(_) if !is_path(text) => Ok(Self::Requirement(text.to_owned())),
            _ if is_path(text) || (!text.is_empty() && base.join(text).is_dir()) => {
                Self::path(&base.join(text))
            }
            Err(error) => {
                // The position is in bytes, and its own Display believes that it is always inside of the text.
                let before = text.get(..error.start).unwrap_or(text);
                let reason = error.message.to_string().lines().next().unwrap_or_default().to_owned();
                Err(PackageError::Spec {
                    text: text.to_owned(),
                    reason,
                    position: before.chars().count() + 1,
                })
            }
            Ok(_) => Ok(Self::Requirement(text.to_owned())),
        }
    }

    /// The files and directories that it names, and those that these include as far as they may be read.
    ///
    /// # Errors
    /// If a list can't be read.
    pub fn files(&self, may_read: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>, PackageError> {
        Ok(match self {
            Self::Requirement(_) | Self::Extension { .. } => Vec::new(),
            Self::Requirements(path) => List::files(path, may_read)?.collect(),
            Self::Wheel(path)
            | Self::Archive(path)
            | Self::Directory(path)
            | Self::Project(path)
            | Self::SitePackages(path) => vec![path.clone()],
        })
    }

    fn path(path: &Path) -> Result<Self, PackageError> {
        let found = path.metadata().map_err(|error| PackageError::unreadable(path, error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = path.to_owned();
        if found.is_dir() {
            return Ok(match has_distributions(&path) {
                true => Self::SitePackages(path),
                false => Self::Directory(path),
            });
        }
        match name.as_str() {
            "pyproject.toml" => Ok(Self::Project(path)),
            name if name.ends_with(".whl") => Ok(Self::Wheel(path)),
            name if is_archive(name) => Ok(Self::Archive(path)),
            name if name.ends_with(".txt") => Ok(Self::Requirements(path)),
            _ => Err(PackageError::refused(
                &path,
                "it is no wheel (.whl), archive (.tar.gz, .tgz, .tar.zst), list of requirements (.txt), pyproject.toml or \
                 directory",
            )),
        }
    }
}

pub(crate) fn is_archive(name: &str) -> bool {
    [".tar.gz", ".tgz", ".tar.zst"].iter().any(|ending| name.ends_with(ending))
}

fn is_path(text: &str) -> bool {
    let begins =
        ["./", "../", "/"].iter().any(|start| text.starts_with(start)) || text == "." || text == "..";
    let ends = text.ends_with(".whl")
        || text.ends_with(".txt")
        || is_archive(text)
        || text == "pyproject.toml"
        || text.ends_with("/pyproject.toml");
    begins || (ends && !text.contains('@') && !text.contains("://"))
}

/// The name of the package, if `text` is the address of a wheel.
pub(crate) fn wheel_address(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let file = rest.rsplit('/').next()?.split(['#', '?']).next()?;
    ["http", "https", "file"].contains(&scheme).then(|| WheelName::parse(file))?.map(|wheel| wheel.name)
}

/// Whether packages were installed into the directory.
fn has_distributions(directory: &Path) -> bool {
    let names = directory.read_dir().into_iter().flatten().flatten().map(|found| found.file_name());
    names.into_iter().any(|name| name.to_string_lossy().ends_with(".dist-info"))
}
