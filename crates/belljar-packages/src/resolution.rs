//! From specs to the text of a lock.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use belljar_runtime::Progress;

use crate::{
    archive,
    error::PackageError,
    file_name::{normalised, percent_encoded},
    limits::Limits,
    local::{self, Contents},
    lock::{Local, LocalKind, compose},
    metadata::Metadata,
    native::{self, Native},
    spec::Spec,
    target,
    uv::Uv,
};

/// A new number resolves everything anew.
const FORMAT: u32 = 1;

/// What is wanted, with everything on this machine read.
pub(crate) struct Wanted {
    /// Names all of it, so that the same isn't resolved twice.
    pub(crate) key: String,
    /// Native modules, which nothing but the cache keeps.
    pub(crate) extensions: Vec<(String, Arc<[u8]>)>,
    requirements: Vec<String>,
    files: Vec<PathBuf>,
    locals: Vec<Local>,
}

impl Wanted {
    /// Reads all that the specs name. Archives are unpacked into `scratch`.
    pub(crate) fn gather(specs: &[Spec], scratch: &Path, limits: &Limits) -> Result<Self, PackageError> {
        let mut gathering = Gathering { hasher: blake3::Hasher::new(), limits, wanted: Self::empty() };
        gathering.note(&format!("{FORMAT} {}", target::PYTHON));
        for (index, spec) in specs.iter().enumerate() {
            gathering.add(spec, &scratch.join(format!("spec-{index}")))?;
        }
        let mut wanted = gathering.wanted;
        wanted.key = gathering.hasher.finalize().to_hex()[..32].to_owned();
        Ok(wanted)
    }

    fn empty() -> Self {
        let (requirements, files, locals) = (Vec::new(), Vec::new(), Vec::new());
        Self { key: String::new(), extensions: Vec::new(), requirements, files, locals }
    }

    /// Whether the package index must be asked.
    pub(crate) fn needs_index(&self) -> bool {
        !self.requirements.is_empty() || !self.files.is_empty()
    }

    /// The text of the lock. `uv` is there if the index must be asked.
    pub(crate) fn resolve(
        &self,
        uv: Option<&Uv>,
        scratch: &Path,
        progress: &dyn Progress,
    ) -> Result<String, PackageError> {
        let Some(uv) = uv else { return compose(None, &self.locals) };
        let list = scratch.join("requirements.in");
        let output = scratch.join("pylock.toml");
        fs::write(&list, self.requirements.join("\n")).map_err(|error| PackageError::write(&list, error))?;
        let inputs: Vec<PathBuf> = self.files.iter().cloned().chain([list]).collect();
        uv.compile(&inputs, &output, scratch, progress)?;
        let found = fs::read_to_string(&output).map_err(|error| PackageError::write(&output, error))?;
        compose(Some(&found), &self.locals)
    }
}

struct Gathering<'l> {
    hasher: blake3::Hasher,
    limits: &'l Limits,
    wanted: Wanted,
}

impl Gathering<'_> {
    fn note(&mut self, text: &str) {
        self.hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }

    fn add(&mut self, spec: &Spec, scratch: &Path) -> Result<(), PackageError> {
        match spec {
            Spec::Requirement(text) => {
                self.note(text);
                self.wanted.requirements.push(text.clone());
                Ok(())
            }
            Spec::Wheel(path) => self.add_wheel(&absolute(path)?),
            Spec::Archive(path) => {
                let path = absolute(path)?;
                let sha256 =
                    archive::sha256(&path).map_err(|error| PackageError::unreadable(&path, error))?;
                let contents = local::archive(&path, scratch, self.limits)?;
                self.add_local(contents, sha256, LocalKind::Archive(path))
            }
            Spec::Directory(path) => {
                let path = absolute(path)?;
                let contents = local::directory(&path, self.limits)?;
                let sha256 = contents.sha256()?;
                self.add_local(contents, sha256, LocalKind::Directory(path))
            }
            Spec::SitePackages(path) => {
                let path = absolute(path)?;
                let contents = local::site_packages(&path, self.limits)?;
                let sha256 = contents.sha256()?;
                self.add_local(contents, sha256, LocalKind::SitePackages(path))
            }
            Spec::Requirements(path) => {
                let path = absolute(path)?;
                self.note_requirements(&path, &mut BTreeSet::new())?;
                self.wanted.files.push(path);
                Ok(())
            }
            Spec::Project(path) => {
                let path = absolute(path)?;
                let text =
                    fs::read_to_string(&path).map_err(|error| PackageError::unreadable(&path, error))?;
                Metadata::parse_project(&text).map_err(|reason| PackageError::refused(&path, reason))?;
                self.note(&text);
                self.wanted.files.push(path);
                Ok(())
            }
            Spec::Extension { name, bytes } => self.add_extension(name, bytes),
        }
    }

    /// uv reads its dependencies.
    fn add_wheel(&mut self, path: &Path) -> Result<(), PackageError> {
        let sha256 = archive::sha256(path).map_err(|error| PackageError::unreadable(path, error))?;
        let text = archive::read_from_wheel(path, ".dist-info/METADATA", self.limits)?;
        let metadata = text.as_deref().and_then(Metadata::parse);
        let metadata =
            metadata.ok_or_else(|| PackageError::refused(path, "it has no METADATA, so it isn't a wheel"))?;
        let place = path.to_str().ok_or_else(|| PackageError::unreadable(path, "its path isn't UTF-8"))?;
        self.note(&sha256);
        self.note(place);
        self.wanted.requirements.push(format!("{} @ file://{}", metadata.name, percent_encoded(place)));
        Ok(())
    }

    fn add_local(&mut self, contents: Contents, sha256: String, kind: LocalKind) -> Result<(), PackageError> {
        self.note(&format!("{kind:?} {sha256}"));
        let Contents { metadata, provides, .. } = contents;
        for requirement in metadata.requires {
            let needed = target::applies(&requirement).map_err(|reason| match &kind {
                LocalKind::Archive(path) | LocalKind::Directory(path) | LocalKind::SitePackages(path) => {
                    PackageError::refused(path, reason)
                }
                LocalKind::Extension(_) => PackageError::Lock { reason },
            })?;
            if needed {
                self.wanted.requirements.push(requirement);
            }
        }
        let Metadata { name, version, .. } = metadata;
        self.wanted.locals.push(Local { name, version, sha256, kind, provides });
        Ok(())
    }

    fn add_extension(&mut self, name: &str, bytes: &Arc<[u8]>) -> Result<(), PackageError> {
        let path = match name.ends_with(".so") {
            true => name.to_owned(),
            false => format!("{}{}", name.replace('.', "/"), target::EXTENSIONS[0]),
        };
        let start = bytes.get(..4).unwrap_or_default();
        if native::kind(&path, start) != Some(Native::Extension) {
            let what = format!("{path} isn't a WebAssembly library for Python {}", target::PYTHON);
            return Err(PackageError::Native { package: name.to_owned(), what });
        }
        let sha256 = format!("{:x}", <sha2::Sha256 as sha2::Digest>::digest(bytes));
        self.note(&path);
        self.note(&sha256);
        self.wanted.extensions.push((sha256.clone(), bytes.clone()));
        let module = path.split_once('.').map_or(path.as_str(), |(module, _)| module).replace('/', ".");
        let local = Local {
            name: normalised(&format!("extension.{module}")),
            version: "0".into(),
            sha256,
            kind: LocalKind::Extension(path),
            provides: Vec::new(),
        };
        self.wanted.locals.push(local);
        Ok(())
    }

    /// Hashes the list, the lists that it includes, and the files that it names.
    fn note_requirements(&mut self, path: &Path, seen: &mut BTreeSet<PathBuf>) -> Result<(), PackageError> {
        if !seen.insert(path.to_owned()) {
            return Ok(());
        }
        let text = fs::read_to_string(path).map_err(|error| PackageError::unreadable(path, error))?;
        self.note(&text);
        let directory = path.parent().unwrap_or(Path::new("/"));
        for line in text.lines().map(str::trim) {
            let included = ["-r", "--requirement", "-c", "--constraint"].iter().find_map(|option| {
                let rest = line.strip_prefix(option)?;
                let named = rest.strip_prefix('=').unwrap_or(rest).trim();
                (!named.contains("://") && !named.starts_with('-')).then_some(named)
            });
            if let Some(included) = included {
                self.note_requirements(&directory.join(included), seen)?;
                continue;
            }
            let wheels = line.split_whitespace().filter(|word| word.ends_with(".whl"));
            for wheel in wheels.map(|word| directory.join(word.trim_start_matches("file://"))) {
                if let Ok(sha256) = archive::sha256(&wheel) {
                    self.note(&sha256);
                }
            }
        }
        Ok(())
    }
}

fn absolute(path: &Path) -> Result<PathBuf, PackageError> {
    let path = std::path::absolute(path).map_err(|error| PackageError::unreadable(path, error))?;
    path.metadata().map_err(|error| PackageError::unreadable(&path, error))?;
    Ok(path)
}
