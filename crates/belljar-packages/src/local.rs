//! Packages in directories and archives of this machine, which no installer made: which of their files go where.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{
    archive,
    error::PackageError,
    fetch::is_executable,
    file_name::normalised,
    limits::Limits,
    metadata::Metadata,
    scripts,
    target::Target,
    tree::{Tree, walk},
};

/// What makes a directory a project.
const PROJECT: [&str; 4] = ["pyproject.toml", "setup.py", "setup.cfg", "PKG-INFO"];

/// What lies beside a project's packages.
const BESIDE: [&str; 12] = [
    "tests",
    "test",
    "docs",
    "doc",
    "examples",
    "example",
    "build",
    "dist",
    "scripts",
    "tools",
    "benchmarks",
    "bin",
];
const MODULES_BESIDE: [&str; 3] = ["setup.py", "conftest.py", "noxfile.py"];

/// The files of a package, by their paths in site-packages.
pub(crate) struct Contents {
    pub(crate) metadata: Metadata,
    /// The distributions that are in it.
    pub(crate) provides: Vec<String>,
    origin: PathBuf,
    /// Programs stay such.
    keep_modes: bool,
    files: Vec<(String, Content)>,
}

enum Content {
    File(PathBuf),
    Text(String),
}

/// A project, a package, or a place with several.
pub(crate) fn directory(path: &Path, limits: &Limits, target: &Target) -> Result<Contents, PackageError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    contents(path, path, &name, limits, target)
}

/// What an archive holds, unpacked into `scratch`.
pub(crate) fn archive(
    file: &Path,
    scratch: &Path,
    limits: &Limits,
    target: &Target,
) -> Result<Contents, PackageError> {
    archive::unpack_tar(file, scratch, limits)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name =
        [".tar.gz", ".tgz", ".tar.zst"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    let root = single_directory(scratch).unwrap_or_else(|| scratch.to_owned());
    contents(&root, file, name, limits, target)
}

/// A directory that is taken as it is.
pub(crate) fn site_packages(path: &Path, limits: &Limits, target: &Target) -> Result<Contents, PackageError> {
    let programs = target.is_native();
    let enter = |inside: &str| !inside.ends_with("__pycache__") && (programs || inside != scripts::BIN);
    let files = walk(path, limits, &enter)?;
    let provides = distributions(&files);
    let placed = files
        .into_iter()
        .filter_map(|(name, file)| Some((archive::place(&name, target)?, Content::File(file))));
    let mut contents = Contents {
        metadata: Metadata { version: "0".into(), ..Metadata::default() },
        provides,
        origin: path.to_owned(),
        keep_modes: target.is_native(),
        files: placed.collect(),
    };
    // Directories like this one are all called the same.
    contents.metadata.name = format!("site-packages-{}", &contents.sha256()?[..8]);
    Ok(contents)
}

impl Contents {
    /// A hash over all names and contents.
    pub(crate) fn sha256(&self) -> Result<String, PackageError> {
        let mut all = Sha256::new();
        for (name, content) in &self.files {
            let mut hasher = Sha256::new();
            let read = content.open().and_then(|mut content| std::io::copy(&mut content, &mut hasher));
            read.map_err(|error| PackageError::unreadable(&self.origin.join(name), error))?;
            add(&mut all, name, &hasher.finalize().into());
        }
        Ok(format!("{:x}", all.finalize()))
    }

    /// Writes the files, and returns the hash of what was written: the directory may change at any time.
    pub(crate) fn write(&self, into: &Path, limits: &Limits) -> Result<String, PackageError> {
        let mut tree = Tree::new(into, &self.origin, *limits);
        let mut all = Sha256::new();
        for (name, content) in &self.files {
            let opened = content.open();
            let mut opened =
                opened.map_err(|error| PackageError::unreadable(&self.origin.join(name), error))?;
            add(&mut all, name, &tree.write(name, &mut opened)?);
            if self.keep_modes && matches!(content, Content::File(file) if is_executable(file)) {
                tree.make_executable(name)?;
            }
        }
        Ok(format!("{:x}", all.finalize()))
    }
}

impl Content {
    fn open(&self) -> std::io::Result<Box<dyn Read + '_>> {
        Ok(match self {
            Self::File(path) => Box::new(File::open(path)?),
            Self::Text(text) => Box::new(text.as_bytes()),
        })
    }
}

fn add(all: &mut Sha256, name: &str, content: &[u8; 32]) {
    all.update((name.len() as u64).to_le_bytes());
    all.update(name.as_bytes());
    all.update(content);
}

fn contents(
    root: &Path,
    origin: &Path,
    name: &str,
    limits: &Limits,
    target: &Target,
) -> Result<Contents, PackageError> {
    if !root.is_dir() {
        return Err(PackageError::unreadable(root, "it isn't a directory"));
    }
    let is_project = PROJECT.iter().any(|file| root.join(file).is_file());
    let source = root.join("src");
    let (base, wanted): (_, fn(&str) -> bool) = match is_project {
        true if source.symlink_metadata().is_ok_and(|found| found.is_dir()) => (source, |_| true),
        true => (root.to_owned(), is_part_of_project),
        false => (root.to_owned(), |_| true),
    };
    let enter = |inside: &str| {
        let last = inside.rsplit('/').next().unwrap_or(inside);
        let hidden = last.starts_with('.') || ["__pycache__", "node_modules", "venv"].contains(&last);
        !hidden && !last.ends_with(".egg-info") && (inside.contains('/') || wanted(inside))
    };
    let files = walk(&base, limits, &enter)?;
    let provides = distributions(&files);
    let metadata = describe(root, &files, origin, name)?;
    // A package by itself is imported by its directory's name.
    let prefix = match !is_project && root.join("__init__.py").is_file() {
        true => format!("{name}/"),
        false => String::new(),
    };
    let kept = files.into_iter().filter(|(name, _)| name.contains('/') || !is_project || is_module(name));
    let placed = kept.filter_map(|(name, file)| {
        Some((archive::place(&format!("{prefix}{name}"), target)?, Content::File(file)))
    });
    let mut files: Vec<_> = placed.collect();
    if provides.is_empty() {
        let directory = format!("{}-{}.dist-info", metadata.name.replace('-', "_"), metadata.version);
        files.push((format!("{directory}/METADATA"), Content::Text(metadata.text())));
    }
    let provides = if provides.is_empty() { vec![metadata.name.clone()] } else { provides };
    let keep_modes = target.is_native();
    Ok(Contents { metadata, provides, origin: origin.to_owned(), keep_modes, files })
}

/// From the best source that there is.
fn describe(
    root: &Path,
    files: &[(String, PathBuf)],
    origin: &Path,
    name: &str,
) -> Result<Metadata, PackageError> {
    let installed: Vec<&PathBuf> =
        files.iter().filter(|(name, _)| is_metadata(name)).map(|(_, file)| file).collect();
    let text = |file: &Path| fs::read_to_string(file).map_err(|error| PackageError::unreadable(file, error));
    let candidates = installed.first().filter(|_| installed.len() == 1).map(|file| (*file).clone());
    for file in candidates.into_iter().chain([root.join("PKG-INFO")]).filter(|file| file.is_file()) {
        if let Some(metadata) = Metadata::parse(&text(&file)?) {
            return Ok(metadata);
        }
    }
    let project = root.join("pyproject.toml");
    if project.is_file() {
        let parsed = Metadata::parse_project(&text(&project)?);
        if let Some(metadata) = parsed.map_err(|reason| PackageError::refused(origin, reason))? {
            return Ok(metadata);
        }
    }
    let mut requires = Vec::new();
    for file in installed {
        requires.extend(Metadata::parse(&text(file)?).into_iter().flat_map(|metadata| metadata.requires));
    }
    match normalised(name) {
        name if name.is_empty() => Err(PackageError::refused(origin, "its name can't name a package")),
        name => Ok(Metadata { name, version: "0".into(), requires }),
    }
}

fn distributions(files: &[(String, PathBuf)]) -> Vec<String> {
    let names = files.iter().filter(|(name, _)| is_metadata(name));
    names.filter_map(|(name, _)| name.split('-').next()).map(normalised).collect()
}

fn is_metadata(name: &str) -> bool {
    name.strip_suffix(".dist-info/METADATA").is_some_and(|start| !start.contains('/'))
}

fn is_module(name: &str) -> bool {
    (name.ends_with(".py") || name.ends_with(".so")) && !MODULES_BESIDE.contains(&name)
}

fn is_part_of_project(directory: &str) -> bool {
    !BESIDE.contains(&directory)
}

/// The one directory at the top, if it only wraps the rest.
fn single_directory(root: &Path) -> Option<PathBuf> {
    let mut found = fs::read_dir(root).ok()?.flatten();
    let only = found.next()?.path();
    let wraps = PROJECT.iter().any(|file| only.join(file).is_file()) || only.ends_with("site-packages");
    (found.next().is_none() && only.is_dir() && wraps).then_some(only)
}
