use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use belljar_packages::{Lock, NoBytecode, PackageError, Resolver, Site, Spec};
use belljar_runtime::{Cache, Quiet};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::{ZipWriter, write::SimpleFileOptions};

/// A cache, a place for files, and a resolver without the network.
pub(crate) struct Fixture {
    pub(crate) directory: TempDir,
    pub(crate) cache: Cache,
    pub(crate) resolver: Resolver,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Cache::open(directory.path().join("cache"));
        let resolver = Resolver::new(cache.clone()).offline(true);
        Self { directory, cache, resolver }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file, and the directories above.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(&path, content).expect("written");
        path
    }

    /// A good wheel with these files.
    pub(crate) fn wheel(&self, name: &str, version: &str, files: &[(&str, &[u8])]) -> PathBuf {
        self.wheel_requiring(name, version, &[], files)
    }

    pub(crate) fn wheel_requiring(
        &self,
        name: &str,
        version: &str,
        requires: &[&str],
        files: &[(&str, &[u8])],
    ) -> PathBuf {
        let path = self.path(&format!("wheels/{name}-{version}-py3-none-any.whl"));
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        let requires: String = requires.iter().map(|line| format!("Requires-Dist: {line}\n")).collect();
        let information = format!("{name}-{version}.dist-info");
        let mut zip = ZipWriter::new(File::create(&path).expect("created"));
        let mut add = |file: &str, content: &[u8]| {
            zip.start_file(file, SimpleFileOptions::default()).expect("started");
            zip.write_all(content).expect("written");
        };
        for (file, content) in files {
            add(file, content);
        }
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}");
        add(&format!("{information}/METADATA"), metadata.as_bytes());
        let tags = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
        add(&format!("{information}/WHEEL"), tags);
        let record: String = files.iter().map(|(file, _)| format!("{file},,\n")).collect();
        let record =
            format!("{record}{information}/METADATA,,\n{information}/WHEEL,,\n{information}/RECORD,,\n");
        add(&format!("{information}/RECORD"), record.as_bytes());
        zip.finish().expect("finished");
        path
    }

    /// A wheel that says of itself that it has another name.
    pub(crate) fn wheel_called(&self, file: &str, name: &str, files: &[(&str, &[u8])]) -> PathBuf {
        let path = self.path(&format!("wheels/{file}"));
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        let mut zip = ZipWriter::new(File::create(&path).expect("created"));
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\n");
        for (file, content) in files.iter().chain(&[("mine-1.dist-info/METADATA", metadata.as_bytes())]) {
            zip.start_file(*file, SimpleFileOptions::default()).expect("started");
            zip.write_all(content).expect("written");
        }
        zip.finish().expect("finished");
        path
    }

    /// Installs local wheels as a lock names them.
    pub(crate) fn install(&self, wheels: &[&Path]) -> Result<Site, PackageError> {
        self.resolver.install(&lock(wheels), &NoBytecode, &Quiet)
    }

    /// Locks and installs.
    pub(crate) fn site(&self, specs: &[Spec]) -> Result<Site, PackageError> {
        let lock = self.resolver.lock(specs, &Quiet)?;
        self.resolver.install(&lock, &NoBytecode, &Quiet)
    }

    /// A resolver whose index is the directory `wheels`.
    pub(crate) fn with_local_index(mut self) -> Self {
        let wheels = self.path("wheels");
        fs::create_dir_all(&wheels).expect("made");
        let script = format!(
            "#!/bin/sh\nexport UV_FIND_LINKS='{}'\n[ \"$1\" = pip ] && set -- \"$@\" --no-index\nexec '{}' \"$@\"\n",
            wheels.display(),
            uv().display()
        );
        let program = self.write("uv", script);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        self.resolver = Resolver::new(self.cache.clone()).search(path()).uv(Some(program));
        self
    }
}

/// A lock of local wheels.
pub(crate) fn lock(wheels: &[&Path]) -> Lock {
    let mut text = String::from("lock-version = \"1.0\"\ncreated-by = \"test\"\n");
    for wheel in wheels {
        let file = wheel.file_name().expect("a name").to_str().expect("UTF-8");
        let mut parts = file.split('-');
        let (name, version) = (parts.next().expect("a name"), parts.next().expect("a version"));
        let sha256 = sha256(&fs::read(wheel).expect("read"));
        text += &format!("[[packages]]\nname = \"{name}\"\nversion = \"{version}\"\n");
        text +=
            &format!("archive = {{ path = '{}', hashes = {{ sha256 = '{sha256}' }} }}\n", wheel.display());
    }
    Lock::parse(&text).expect("a lock")
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

pub(crate) fn path() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

/// A uv that works; the pinned one is fetched once for all tests.
pub(crate) fn uv() -> &'static Path {
    static UV: LazyLock<PathBuf> = LazyLock::new(|| {
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("uv-of-packages");
        let resolver = Resolver::new(Cache::open(&shared))
            .search(path().into_iter().filter(|at| !at.join("uv").exists()));
        resolver.lock(&[Spec::Requirement("tabulate".into())], &Quiet).expect("locked with the pinned uv");
        shared.join("tool/uv-0.13.7/uv")
    });
    &UV
}
