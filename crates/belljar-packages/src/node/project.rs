//! What somebody wants for Node: dependencies and locks, of which only what is understood is taken.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};

use super::{LOCK, MANIFEST, names};
use crate::error::PackageError;

/// Bytes of what is asked for, with its lock.
const MOST_BYTES: usize = 4 << 20;
/// Dependencies of a project.
const MOST_DEPENDENCIES: usize = 500;
/// Packages of a lock.
const MOST_PACKAGES: usize = 10_000;

type Ranges = BTreeMap<String, String>;

/// The dependencies of a `package.json`, perhaps with a lock.
#[derive(Clone, Debug, Default)]
pub struct NodeProject {
    manifest: Manifest,
    lock: Option<Lock>,
    /// Whether only what the lock says is installed.
    pub(super) frozen: bool,
    /// Whether newer versions are wanted.
    pub(super) upgrade: bool,
    /// Whether what only developers need is left out.
    pub(super) production: bool,
}

/// What npm is given, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Manifest {
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_nothing")]
    dependencies: Ranges,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_nothing")]
    dev_dependencies: Ranges,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_nothing")]
    optional_dependencies: Ranges,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_nothing")]
    peer_dependencies: Ranges,
}

/// Without `flatten`, which would keep everything that is passed over.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Asked {
    #[serde(deserialize_with = "or_nothing")]
    dependencies: Ranges,
    #[serde(deserialize_with = "or_nothing")]
    dev_dependencies: Ranges,
    #[serde(deserialize_with = "or_nothing")]
    optional_dependencies: Ranges,
    #[serde(deserialize_with = "or_nothing")]
    peer_dependencies: Ranges,
    lock: Option<Lock>,
}

/// A lock file of the third or second version.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lock {
    #[serde(default)]
    lockfile_version: u32,
    #[serde(default)]
    packages: BTreeMap<String, Package>,
}

/// A package of a lock. Where it comes from isn't taken from there: the registry says so.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Package {
    /// Its own, if it is found by another.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    integrity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    license: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_nothing")]
    dependencies: Ranges,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_nothing")]
    dev_dependencies: Ranges,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_nothing")]
    optional_dependencies: Ranges,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_nothing")]
    peer_dependencies: Ranges,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    peer_dependencies_meta: BTreeMap<String, Meta>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bin: Option<Programs>,
    #[serde(skip_serializing_if = "Words::is_empty")]
    os: Words,
    #[serde(skip_serializing_if = "Words::is_empty")]
    cpu: Words,
    #[serde(skip_serializing_if = "Words::is_empty")]
    libc: Words,
    #[serde(skip_serializing_if = "no")]
    dev: bool,
    #[serde(skip_serializing_if = "no")]
    optional: bool,
    #[serde(skip_serializing_if = "no")]
    dev_optional: bool,
    #[serde(skip_serializing_if = "no")]
    peer: bool,
    #[serde(skip_serializing_if = "no")]
    in_bundle: bool,
    #[serde(skip_serializing_if = "no")]
    has_install_script: bool,
    #[serde(skip_serializing)]
    link: bool,
    #[serde(skip_serializing)]
    resolved: Option<IgnoredAny>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Meta {
    optional: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Programs {
    One(String),
    Several(BTreeMap<String, String>),
}

/// One word, or several.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Words(Vec<String>);

impl Words {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'d> Deserialize<'d> for Words {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            One(String),
            Several(Vec<String>),
        }
        Ok(Self(match Either::deserialize(deserializer)? {
            Either::One(word) => vec![word],
            Either::Several(words) => words,
        }))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn no(value: &bool) -> bool {
    !value
}

fn or_nothing<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Ranges, D::Error> {
    Ok(Option::<Ranges>::deserialize(deserializer)?.unwrap_or_default())
}

/// Some old packages have a structure there.
fn lenient<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Text(String),
        Other(IgnoredAny),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::Text(text) => Some(text.chars().filter(|letter| !letter.is_control()).take(200).collect()),
        Either::Other(_) => None,
    })
}

impl NodeProject {
    /// Reads what is asked for: a `package.json` whose `lock` is what a `package-lock.json` holds. Everything in it but
    /// dependencies is passed over.
    ///
    /// # Errors
    /// If a dependency isn't one of the registry, or there are too many.
    pub fn parse(text: &[u8]) -> Result<Self, PackageError> {
        if text.len() > MOST_BYTES {
            return Err(refuse(MANIFEST, format!("with its lock it has more than {MOST_BYTES} bytes")));
        }
        let asked: Asked =
            serde_json::from_slice(text).map_err(|error| refuse(MANIFEST, error.to_string()))?;
        let manifest = Manifest {
            dependencies: asked.dependencies,
            dev_dependencies: asked.dev_dependencies,
            optional_dependencies: asked.optional_dependencies,
            peer_dependencies: asked.peer_dependencies,
        };
        manifest.check(MANIFEST)?;
        if manifest.len() == 0 {
            return Err(refuse(MANIFEST, "it has no dependencies".to_owned()));
        }
        if manifest.len() > MOST_DEPENDENCIES {
            return Err(refuse(MANIFEST, format!("it has more than {MOST_DEPENDENCIES} dependencies")));
        }
        let lock = asked.lock.map(|lock| lock.checked(&manifest)).transpose()?;
        Ok(Self { manifest, lock, ..Self::default() })
    }

    /// Whether only what the lock says is installed, as `npm ci` does.
    #[must_use]
    pub fn frozen(mut self, frozen: bool) -> Self {
        self.frozen = frozen;
        self
    }

    /// Whether newer versions are wanted than those of the lock.
    #[must_use]
    pub fn upgrade(mut self, upgrade: bool) -> Self {
        self.upgrade = upgrade;
        if upgrade {
            self.lock = None;
        }
        self
    }

    /// Whether what only developers need is left out.
    #[must_use]
    pub fn production(mut self, production: bool) -> Self {
        self.production = production;
        self
    }

    pub(super) fn locked(&self) -> Result<Locked, PackageError> {
        let lock = self.lock.clone().ok_or_else(|| {
            refuse(LOCK, "it isn't there, or of a version before 2; `npm install` makes one".to_owned())
        })?;
        if lock.packages.len() < 2 {
            return Err(refuse(LOCK, "there is no package in it; `npm install` makes another".to_owned()));
        }
        Ok(Locked { manifest: self.manifest.clone(), lock })
    }

    /// Names what is asked for.
    pub(super) fn key(&self, format: u32) -> String {
        let text = serde_json::to_vec(&(&self.manifest, &self.lock)).unwrap_or_default();
        key(format, &text)
    }

    /// Writes the files that npm begins with.
    pub(super) fn write(&self, directory: &Path) -> Result<(), PackageError> {
        write(directory, MANIFEST, &self.manifest)?;
        match &self.lock {
            Some(lock) => write(directory, LOCK, lock),
            None => Ok(()),
        }
    }
}

/// A lock with nothing in it that wasn't looked at.
#[derive(Clone, Debug)]
pub(super) struct Locked {
    manifest: Manifest,
    lock: Lock,
}

impl Locked {
    pub(super) fn parse(text: &[u8]) -> Result<Self, PackageError> {
        let mut lock: Lock = serde_json::from_slice(text).map_err(|error| refuse(LOCK, error.to_string()))?;
        let manifest = lock.packages.remove("").map(Package::into_manifest).unwrap_or_default();
        manifest.check(MANIFEST)?;
        let lock = lock.checked(&manifest)?;
        Ok(Self { manifest, lock })
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(&self.lock).unwrap_or_default()
    }

    pub(super) fn key(&self, format: u32, production: bool) -> String {
        key(format + 1000 * u32::from(production), self.text().as_bytes())
    }

    pub(super) fn write(&self, directory: &Path) -> Result<(), PackageError> {
        write(directory, MANIFEST, &self.manifest)?;
        write(directory, LOCK, &self.lock)
    }

    /// The version of what is at a place.
    pub(super) fn version(&self, place: &str) -> Option<&str> {
        self.lock.packages.get(place)?.version.as_deref()
    }

    pub(super) fn places(&self) -> impl Iterator<Item = &str> {
        self.lock.packages.keys().map(String::as_str).filter(|place| !place.is_empty())
    }
}

impl Manifest {
    fn groups(&self) -> [&Ranges; 4] {
        [&self.dependencies, &self.dev_dependencies, &self.optional_dependencies, &self.peer_dependencies]
    }

    fn len(&self) -> usize {
        self.groups().iter().map(|group| group.len()).sum()
    }

    fn check(&self, place: &str) -> Result<(), PackageError> {
        check(self.groups(), place)
    }
}

fn check<'r>(groups: impl IntoIterator<Item = &'r Ranges>, place: &str) -> Result<(), PackageError> {
    for (name, range) in groups.into_iter().flatten() {
        if !names::is_name(name) {
            return Err(refuse(place, format!("{} is not the name of a package", shown(name))));
        }
        if !names::is_range(range) {
            return Err(refuse(
                place,
                format!(
                    "{name}: {} is not a version, a range or a tag of the registry, such as \"^1.2\"; addresses, \
                     repositories, files and links can't be installed",
                    shown(range)
                ),
            ));
        }
    }
    Ok(())
}

impl Lock {
    /// The same, if it is one for these dependencies that npm may be given.
    fn checked(mut self, manifest: &Manifest) -> Result<Self, PackageError> {
        if self.packages.len() > MOST_PACKAGES {
            return Err(refuse(LOCK, format!("it has more than {MOST_PACKAGES} packages")));
        }
        self.packages.remove("");
        for (place, package) in &mut self.packages {
            if package.link {
                return Err(refuse(
                    LOCK,
                    format!("{}: links and workspaces can't be installed", shown(place)),
                ));
            }
            if !names::is_place(place) {
                return Err(refuse(LOCK, format!("{} is not a place for a package", shown(place))));
            }
            package.check(place)?;
        }
        self.packages.insert(String::new(), Package::root(manifest.clone()));
        self.lockfile_version = 3;
        Ok(self)
    }
}

impl Package {
    fn root(manifest: Manifest) -> Self {
        Self {
            dependencies: manifest.dependencies,
            dev_dependencies: manifest.dev_dependencies,
            optional_dependencies: manifest.optional_dependencies,
            peer_dependencies: manifest.peer_dependencies,
            ..Self::default()
        }
    }

    fn into_manifest(self) -> Manifest {
        Manifest {
            dependencies: self.dependencies,
            dev_dependencies: self.dev_dependencies,
            optional_dependencies: self.optional_dependencies,
            peer_dependencies: self.peer_dependencies,
        }
    }

    fn check(&mut self, place: &str) -> Result<(), PackageError> {
        let wrong =
            |what: &str, text: &str| Err(refuse(LOCK, format!("{place}: {} is no {what}", shown(text))));
        match &self.version {
            Some(version) if !names::is_version(version) => return wrong("version of the registry", version),
            Some(_) => {}
            None => return Err(refuse(LOCK, format!("{place} has no version"))),
        }
        if let Some(name) = self.name.as_deref().filter(|name| !names::is_name(name)) {
            return wrong("name of a package", name);
        }
        if let Some(integrity) = self.integrity.as_deref().filter(|text| !names::is_integrity(text)) {
            return wrong("hash", integrity);
        }
        // What those who made the package needed is nobody's business here.
        self.dev_dependencies.clear();
        check(
            [&self.dependencies, &self.optional_dependencies, &self.peer_dependencies],
            &format!("{LOCK}: {place}"),
        )?;
        if let Some(odd) = self.peer_dependencies_meta.keys().find(|name| !names::is_name(name)) {
            return wrong("name of a package", odd);
        }
        let platform = |word: &String| {
            word.len() <= 50
                && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "!_-".contains(letter))
        };
        for words in [&mut self.os, &mut self.cpu, &mut self.libc] {
            words.0.retain(platform);
        }
        match &self.bin {
            Some(Programs::One(path)) if !names::is_inner(path) => wrong("path of a program", path),
            Some(Programs::Several(programs)) => {
                let odd =
                    programs.iter().find(|(name, path)| !names::is_name(name) || !names::is_inner(path));
                odd.map_or(Ok(()), |(name, _)| wrong("program", name))
            }
            _ => Ok(()),
        }
    }
}

fn write(directory: &Path, name: &str, contents: &impl Serialize) -> Result<(), PackageError> {
    let path = directory.join(name);
    let text = serde_json::to_vec(contents).map_err(std::io::Error::from);
    text.and_then(|text| fs::write(&path, text)).map_err(|error| PackageError::write(&path, error))
}

fn key(format: u32, text: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("{format} {} {}\n", std::env::consts::ARCH, std::env::consts::OS).as_bytes());
    hasher.update(text);
    hasher.finalize().to_hex()[..32].to_owned()
}

fn refuse(place: &str, reason: String) -> PackageError {
    PackageError::List { place: place.to_owned(), reason }
}

/// A text that is fit to be printed.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(100).collect();
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        NodeProject::parse(text.as_bytes()).expect_err(text).to_string()
    }

    #[test]
    fn only_dependencies_are_taken() {
        let project = NodeProject::parse(
            br#"{"name": "../x", "scripts": {"preinstall": "rm -rf /"}, "workspaces": ["../.."], "overrides": {"a": "git://x"},
                "dependencies": {"a": "^1", "@s/b": "npm:c@2"}, "devDependencies": null, "bin": "/etc/passwd"}"#,
        )
        .expect("a project");
        let directory = tempfile::tempdir().expect("a directory");
        project.write(directory.path()).expect("written");
        let written = fs::read_to_string(directory.path().join(MANIFEST)).expect("there");
        assert_eq!(written, r#"{"dependencies":{"@s/b":"npm:c@2","a":"^1"}}"#);
        assert!(!directory.path().join(LOCK).exists());
    }

    #[test]
    fn what_is_not_of_the_registry_is_refused() {
        for (name, range) in [
            ("a", "git+ssh://git@x/y.git"),
            ("a", "https://x/y.tgz"),
            ("a", "file:../../etc"),
            ("a", "user/repo"),
            ("a", "link:.."),
            ("a", "1\n2"),
            ("__proto__", "1"),
            ("../a", "1"),
            ("--prefix=/", "1"),
            ("a\nb", "1"),
        ] {
            for group in ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"] {
                let text = serde_json::json!({ group: { name: range } }).to_string();
                assert!(refused(&text).contains("is not"), "{text}");
            }
        }
        let many: BTreeMap<String, &str> =
            (0..=MOST_DEPENDENCIES).map(|number| (format!("a{number}"), "1")).collect();
        assert!(refused(&serde_json::json!({ "dependencies": many }).to_string()).contains("more than"));
        for text in ["", "[]", "{", "1", r#"{"dependencies": []}"#, r#"{"dependencies": {"a": {}}}"#] {
            refused(text);
        }
        refused(&format!("{{\"x\": {}", "[".repeat(1 << 20)));
        refused(&format!("{{\"lock\": {}", "{\"packages\":".repeat(1000)));
        refused(&" ".repeat(MOST_BYTES + 1));
    }

    #[test]
    fn locks_lead_nowhere() {
        let lock = |place: &str, package: serde_json::Value| {
            serde_json::json!({ "dependencies": {"a": "1"}, "lock": {"lockfileVersion": 3, "packages": {place: package}} })
                .to_string()
        };
        let good = lock(
            "node_modules/a",
            serde_json::json!({"version": "1.0.0", "resolved": "http://127.0.0.1/secret.tgz", "integrity": "sha512-aa",
                "bin": {"a": "cli.js"}, "license": {"type": "MIT"}, "engines": ["node"], "funding": {"url": "x"}}),
        );
        let project = NodeProject::parse(good.as_bytes()).expect("a lock").frozen(true);
        let text = project.locked().expect("locked").text();
        assert!(!text.contains("127.0.0.1") && text.contains(r#""bin":{"a":"cli.js"}"#), "{text}");
        for (place, package) in [
            ("../a", serde_json::json!({"version": "1.0.0"})),
            ("node_modules/../../a", serde_json::json!({"version": "1.0.0"})),
            ("/etc", serde_json::json!({"version": "1.0.0"})),
            ("packages/a", serde_json::json!({"version": "1.0.0"})),
            ("node_modules/a", serde_json::json!({"resolved": "..", "link": true})),
            ("node_modules/a", serde_json::json!({})),
            ("node_modules/a", serde_json::json!({"version": "file:.."})),
            ("node_modules/a", serde_json::json!({"version": "git+ssh://x"})),
            ("node_modules/a", serde_json::json!({"version": "1.0.0", "integrity": "x"})),
            ("node_modules/a", serde_json::json!({"version": "1.0.0", "name": "../x"})),
            ("node_modules/a", serde_json::json!({"version": "1.0.0", "bin": {"a": "../../../etc/passwd"}})),
            ("node_modules/a", serde_json::json!({"version": "1.0.0", "bin": {"../a": "x"}})),
            ("node_modules/a", serde_json::json!({"version": "1.0.0", "bin": "/etc/passwd"})),
            ("node_modules/a", serde_json::json!({"version": "1.0.0", "dependencies": {"b": "git://x"}})),
        ] {
            refused(&lock(place, package));
        }
        let without = NodeProject::parse(br#"{"dependencies": {"a": "1"}}"#).expect("a project").frozen(true);
        assert!(without.locked().expect_err("no lock").to_string().contains("npm install"));
    }
}
