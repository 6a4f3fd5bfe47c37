//! From specs to the text of a lock.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use belljar_runtime::Progress;

use crate::{
    archive,
    error::PackageError,
    file_name::{WheelName, normalised},
    limits::Limits,
    list::{List, Pinned},
    local::{self, Contents},
    lock::{Local, LocalKind, Lock, compose},
    metadata::Metadata,
    native::{self, Native},
    spec::Spec,
    target::{self, Target},
    text_file::read_text,
    uv::{Question, Uv},
};

/// A new number resolves everything anew.
const FORMAT: u32 = 2;

/// What sessions of the native engine are kept with.
pub(crate) const NEEDED_BY_NATIVE: (&str, &str) = ("cloudpickle", "cloudpickle>=3,<4");

/// What is wanted, with everything on this machine read.
pub(crate) struct Wanted {
    /// Names all of it, so that the same isn't resolved twice.
    pub(crate) key: String,
    /// Native modules, which nothing but the cache keeps.
    pub(crate) extensions: Vec<(String, Arc<[u8]>)>,
    requirements: Vec<String>,
    constraints: Vec<String>,
    locals: Vec<Local>,
    pinned: Vec<Pinned>,
    target: Target,
}

impl Wanted {
    /// Reads all that the specs name. Archives are unpacked into `scratch`.
    pub(crate) fn gather(
        specs: &[Spec],
        scratch: &Path,
        limits: &Limits,
        target: &Target,
    ) -> Result<Self, PackageError> {
        let wanted = Self::empty(target.clone());
        let mut gathering = Gathering { hasher: blake3::Hasher::new(), limits, wanted };
        gathering.note(&format!("{FORMAT} {}", target.key()));
        for (index, spec) in specs.iter().enumerate() {
            gathering.add(spec, &scratch.join(format!("spec-{index}")))?;
        }
        let mut wanted = gathering.wanted;
        wanted.add_needed();
        wanted.key = gathering.hasher.finalize().to_hex()[..32].to_owned();
        Ok(wanted)
    }

    fn empty(target: Target) -> Self {
        let (requirements, constraints, locals) = (Vec::new(), Vec::new(), Vec::new());
        let (extensions, pinned) = (Vec::new(), Vec::new());
        Self { key: String::new(), extensions, requirements, constraints, locals, pinned, target }
    }

    /// Adds what all environments of the target have, unless it was asked for already.
    fn add_needed(&mut self) {
        let (name, requirement) = NEEDED_BY_NATIVE;
        let is_it = |line: &String| {
            let end = line.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
            normalised(&line[..end.unwrap_or(line.len())]) == name
        };
        let asked_for = self.requirements.iter().any(is_it)
            || self.locals.iter().any(|local| local.provides.iter().any(|provided| provided == name));
        if self.target.is_native() && !asked_for {
            self.requirements.push(requirement.to_owned());
        }
    }

    /// Whether the package index must be asked.
    pub(crate) fn needs_index(&self) -> bool {
        !self.requirements.is_empty()
    }

    /// Looks whether what was chosen has the hashes that the lists give.
    pub(crate) fn check(&self, lock: &Lock) -> Result<(), PackageError> {
        for Pinned { package, list, hashes } in &self.pinned {
            let chosen = lock.packages().find(|chosen| chosen.name == *package);
            if let Some(chosen) = chosen.filter(|chosen| !hashes.contains(&chosen.sha256)) {
                return Err(PackageError::UnlistedHash {
                    package: chosen.release(),
                    list: list.clone(),
                    found: chosen.sha256.clone(),
                });
            }
        }
        Ok(())
    }

    /// The text of the lock. `uv` is there if the index must be asked.
    pub(crate) fn resolve(
        &self,
        uv: Option<&Uv>,
        scratch: &Path,
        limits: &Limits,
        progress: &dyn Progress,
    ) -> Result<String, PackageError> {
        let Some(uv) = uv else { return compose(None, &self.locals, &self.target) };
        let list = scratch.join("requirements.in");
        let output = scratch.join("pylock.toml");
        let constraints = scratch.join("constraints.in");
        for (file, lines) in [(&list, &self.requirements), (&constraints, &self.constraints)] {
            // Nothing but requirements: a line of another kind could have packages built, or files read.
            if let Some(line) = lines.iter().find(|line| !target::is_requirement(line)) {
                let text = line.escape_debug().take(100).collect();
                let reason = "it can't be given to uv".to_owned();
                return Err(PackageError::Spec { text, reason, position: 1 });
            }
            fs::write(file, lines.join("\n")).map_err(|error| PackageError::write(file, error))?;
        }
        let question =
            Question { list: &list, constraints: &constraints, output: &output, target: &self.target };
        uv.compile(&question, scratch, limits.bytes, progress)?;
        let found = fs::read_to_string(&output).map_err(|error| PackageError::write(&output, error))?;
        compose(Some(&found), &self.locals, &self.target)
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
                let contents = local::archive(&path, scratch, self.limits, &self.wanted.target)?;
                self.add_local(contents, sha256, LocalKind::Archive(path))
            }
            Spec::Directory(path) => {
                let path = absolute(path)?;
                let contents = local::directory(&path, self.limits, &self.wanted.target)?;
                let sha256 = contents.sha256()?;
                self.add_local(contents, sha256, LocalKind::Directory(path))
            }
            Spec::SitePackages(path) => {
                let path = absolute(path)?;
                let contents = local::site_packages(&path, self.limits, &self.wanted.target)?;
                let sha256 = contents.sha256()?;
                self.add_local(contents, sha256, LocalKind::SitePackages(path))
            }
            Spec::Requirements(path) => {
                let path = absolute(path)?;
                let list = List::read(&path, &self.wanted.target)?;
                list.texts.iter().for_each(|text| self.note(text));
                self.wanted.pinned.extend(list.pinned);
                self.wanted.requirements.extend(list.requirements);
                self.wanted.constraints.extend(list.constraints);
                Ok(())
            }
            Spec::Project(path) => {
                let path = absolute(path)?;
                let text = read_text(&path).map_err(|error| PackageError::unreadable(&path, error))?;
                let read =
                    Metadata::parse_project(&text).map_err(|reason| PackageError::refused(&path, reason))?;
                let wrong = |reason| PackageError::List { place: path.display().to_string(), reason };
                let project = read
                    .ok_or_else(|| wrong("it has no [project] table, so it names no dependencies".into()))?;
                self.note(&text);
                for requirement in project.requires {
                    if self.wanted.target.applies(&requirement).map_err(wrong)? {
                        self.wanted.requirements.push(requirement);
                    }
                }
                Ok(())
            }
            Spec::Extension { name, bytes } => self.add_extension(name, bytes),
        }
    }

    fn add_wheel(&mut self, path: &Path) -> Result<(), PackageError> {
        let sha256 = archive::sha256(path).map_err(|error| PackageError::unreadable(path, error))?;
        let text = archive::read_from_wheel(path, ".dist-info/METADATA", self.limits)?;
        let metadata = text.as_deref().and_then(Metadata::parse);
        let metadata =
            metadata.ok_or_else(|| PackageError::refused(path, "it has no METADATA, so it isn't a wheel"))?;
        let file = path.file_name().and_then(|name| name.to_str()).and_then(WheelName::parse);
        let called = file.ok_or_else(|| PackageError::refused(path, "its name isn't that of a wheel"))?.name;
        if called != metadata.name {
            let reason = format!("it is called {called}, and says that it is {}", metadata.name);
            return Err(PackageError::refused(path, reason));
        }
        let provides = vec![metadata.name.clone()];
        self.add_described(metadata, provides, sha256, LocalKind::Wheel(path.to_owned()))
    }

    fn add_local(&mut self, contents: Contents, sha256: String, kind: LocalKind) -> Result<(), PackageError> {
        let Contents { metadata, provides, .. } = contents;
        self.add_described(metadata, provides, sha256, kind)
    }

    fn add_described(
        &mut self,
        metadata: Metadata,
        provides: Vec<String>,
        sha256: String,
        kind: LocalKind,
    ) -> Result<(), PackageError> {
        self.note(&format!("{kind:?} {sha256}"));
        for requirement in metadata.requires {
            let needed = self.wanted.target.applies(&requirement).map_err(|reason| match &kind {
                LocalKind::Wheel(path)
                | LocalKind::Archive(path)
                | LocalKind::Directory(path)
                | LocalKind::SitePackages(path) => PackageError::refused(path, reason),
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
        if self.wanted.target.is_native() {
            return Err(PackageError::WasmOnly { what: format!("the module {name}") });
        }
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
}

fn absolute(path: &Path) -> Result<PathBuf, PackageError> {
    let path = std::path::absolute(path).map_err(|error| PackageError::unreadable(path, error))?;
    path.metadata().map_err(|error| PackageError::unreadable(&path, error))?;
    Ok(path)
}
