//! The program that asks the package index.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
    time::{Duration, Instant},
};

use belljar_runtime::{
    Cache, CacheError, Progress,
    host::{self, Finished, Pin, Python},
};

use pep508_rs::{Requirement, VerbatimUrl};

pub(crate) use self::reason::reason;
use crate::{error::PackageError, fetch::size, target::Target};

mod reason;

/// The first that writes `pylock.toml`.
const OLDEST: (u32, u32) = (0, 7);

/// Each stands for all that are newer, too.
const OLDER: [&str; 4] = ["3.8", "3.10", "3.12", "3.13"];

/// How often the size of its memory is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Where its program is kept in the cache.
const KIND: &str = "tool";

const PIN: Pin = Pin {
    project: "uv",
    version: "0.13.7",
    wheels: &[
        (
            "uv-0.13.7-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
            "2c9bdc4a872b60a93c5f26c0791089ea11585a4f9d3b3c017d78eb8487505e25",
        ),
        (
            "uv-0.13.7-py3-none-musllinux_1_1_x86_64.whl",
            "8b8ac028ae4ebb2a3f9d04907c61794f2cf8d7a7002bfbb4019a3dee28351fb2",
        ),
        (
            "uv-0.13.7-py3-none-manylinux_2_28_aarch64.whl",
            "08f16fd463926786b702b497473511deae4b3e17a2fa6d22180950d6059a120d",
        ),
        (
            "uv-0.13.7-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl",
            "a90f5d95716ab83091f0f73a8e7ec64e557abf2a28537fcd719b2ac88e6f725a",
        ),
        (
            "uv-0.13.7-py3-none-macosx_11_0_arm64.whl",
            "f91a229093163eefca89ea1b220a221d64c3beade05d03519a6584d1797a5a5f",
        ),
        (
            "uv-0.13.7-py3-none-macosx_10_12_x86_64.whl",
            "fd04bf01ba5f2829f4f94ca8f0c24a743f21e73d75045613ed6fc2fd66fc7bda",
        ),
    ],
};

/// A uv that works, and the Python that it wants to see.
#[derive(Clone, Debug)]
pub(crate) struct Uv {
    program: PathBuf,
    pub(crate) python: Python,
    /// The file that `python` is in the end.
    interpreter: PathBuf,
    offline: bool,
    /// What it remembers of the index.
    memory: PathBuf,
    until: Option<Instant>,
}

/// Where to look for one.
pub(crate) struct Search<'r> {
    pub(crate) cache: &'r Cache,
    pub(crate) named: Option<&'r Path>,
    pub(crate) python: Option<&'r Path>,
    pub(crate) directories: &'r [PathBuf],
    pub(crate) offline: bool,
    pub(crate) until: Option<Instant>,
}

/// What is to be resolved.
pub(crate) struct Question<'r> {
    pub(crate) list: &'r Path,
    pub(crate) constraints: &'r Path,
    /// Where the answer goes.
    pub(crate) output: &'r Path,
    pub(crate) target: &'r Target,
}

impl Uv {
    /// The one that is named, or one that is installed, or else the pinned one.
    pub(crate) fn find(
        search: &Search<'_>,
        scratch: &Path,
        progress: &dyn Progress,
    ) -> Result<Self, PackageError> {
        let python = Python::find(search.python, search.directories, scratch, progress)?;
        let interpreter = interpreter(&python, scratch, progress);
        let with = |program| Self {
            program,
            python: python.clone(),
            interpreter: interpreter.clone(),
            offline: search.offline,
            memory: search.cache.root().join("uv"),
            until: search.until,
        };
        if let Some(named) = search.named {
            return match version(named, scratch, progress) {
                Some(version) if version >= OLDEST => Ok(with(named.to_owned())),
                found => {
                    Err(PackageError::Uv { doing: format!("{}", named.display()), reason: too_old(found) })
                }
            };
        }
        let installed =
            search.directories.iter().map(|directory| directory.join("uv")).filter(|path| path.is_file());
        for program in installed {
            match version(&program, scratch, progress) {
                Some(version) if version >= OLDEST => return Ok(with(program)),
                found => tracing::debug!(uv = %program.display(), reason = too_old(found), "passed over"),
            }
        }
        pinned(search, &python, scratch, progress).map(with)
    }

    /// Its command, with what all uses of it have in common. Its user's settings and credentials count.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).args(["--only-binary", ":all:", "--no-python-downloads", "--no-progress"]);
        command.args(["--color", "never"]).arg("--python").arg(&self.interpreter);
        if self.offline {
            command.arg("--offline");
        }
        // Packages may name variables in their addresses, which uv then sends: it sees only those that it needs.
        command.env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_uvs)));
        command
    }

    /// A memory for one use, which may be thrown away with all that is fetched. What it knows of the Python comes
    /// along: finding that out takes as long as fetching a small package.
    pub(crate) fn memory_in(&self, directory: &Path) -> PathBuf {
        for found in fs::read_dir(&self.memory).into_iter().flatten().flatten() {
            let name = found.file_name();
            if name.to_string_lossy().starts_with("interpreter-") {
                // Without it uv is only slower.
                drop(copy(&found.path(), &directory.join(name)));
            }
        }
        directory.to_owned()
    }

    /// Resolves what is on a list: for the guest as for all platforms, else for the one that counts.
    pub(crate) fn compile(
        &self,
        question: &Question<'_>,
        scratch: &Path,
        most: u64,
        progress: &dyn Progress,
    ) -> Result<(), PackageError> {
        let Question { list, constraints, output, target } = question;
        let mut command = self.command(&["pip", "compile", "--no-header", "--format", "pylock.toml"]);
        match target {
            Target::Wasm => command.args(["--universal", "--python-version", &target.python()]),
            Target::Native(platform) => {
                command.args(["--python-version", &platform.version, "--python-platform", &platform.for_uv()])
            }
        };
        command.arg("--cache-dir").arg(&self.memory);
        command.arg("-o").arg(output).arg("--constraints").arg(constraints).arg(list).current_dir(scratch);
        let finished = self.run_bounded(&mut command, scratch, progress, most)?;
        match finished.status.success() {
            true => Ok(()),
            false => {
                let error = reason("resolving", target, &finished, scratch);
                Err(self.explained(error, target, scratch, progress))
            }
        }
    }

    /// To learn what a wheel depends on uv may fetch and unpack it, whatever its size: its memory may grow by so many
    /// bytes, and is thrown away if it does.
    fn run_bounded(
        &self,
        command: &mut Command,
        scratch: &Path,
        progress: &dyn Progress,
        most: u64,
    ) -> Result<host::Finished, PackageError> {
        let before = size(&self.memory);
        let mut looked = Instant::now();
        let watched = host::run_watched(command, scratch, &mut |elapsed| {
            progress.advance((elapsed.as_secs_f32() / 2.0).min(0.99));
            if looked.elapsed() < LOOK {
                return Ok(());
            }
            looked = Instant::now();
            self.check_time("resolving")?;
            match size(&self.memory).saturating_sub(before) > most {
                true => Err(PackageError::refused(scratch, format!("a package is larger than {most} bytes"))),
                false => Ok(()),
            }
        });
        if let Err(PackageError::Refused { .. }) = &watched {
            drop(fs::remove_dir_all(&self.memory));
        }
        watched
    }

    /// Whether there is time left.
    pub(crate) fn check_time(&self, doing: &str) -> Result<(), PackageError> {
        match self.until.is_some_and(|until| Instant::now() >= until) {
            true => Err(PackageError::Uv { doing: doing.to_owned(), reason: "it takes too long".to_owned() }),
            false => Ok(()),
        }
    }

    /// uv says the same of packages without wheels and of those whose wheels are for other versions of Python, if
    /// there is source too. Which it is, it tells when it is asked for those.
    fn explained(
        &self,
        error: PackageError,
        target: &Target,
        scratch: &Path,
        progress: &dyn Progress,
    ) -> PackageError {
        let PackageError::OnlySource { package, reason } = error else { return error };
        match self.has_older_wheels(&package, scratch, progress) {
            true => PackageError::OtherPython { package, python: target.python(), reason },
            false => PackageError::OnlySource { package, reason },
        }
    }

    fn has_older_wheels(&self, package: &str, scratch: &Path, progress: &dyn Progress) -> bool {
        let list = scratch.join("older.in");
        let is_requirement = Requirement::<VerbatimUrl>::from_str(package).is_ok();
        if !is_requirement || fs::write(&list, package).is_err() {
            return false;
        }
        OLDER.iter().any(|python| {
            let mut command = self.command(&["pip", "compile", "--universal", "--no-deps", "--quiet"]);
            command.args(["--python-version", python, "--cache-dir"]).arg(&self.memory);
            command.arg(&list).current_dir(scratch);
            let asked = host::run(&mut command, scratch, progress, Duration::from_secs(1));
            asked.is_ok_and(|finished| finished.status.success())
        })
    }
}

/// What uv needs to know of its surroundings: where things are, and its settings, but for those that would add to
/// what is asked for, have packages built, or change what is written.
fn is_uvs(name: &str) -> bool {
    const REFUSED: [&str; 12] = [
        "UV_OUTPUT_FILE",
        "UV_CONSTRAINT",
        "UV_BUILD_CONSTRAINT",
        "UV_OVERRIDE",
        "UV_EXCLUDE",
        "UV_PYTHON",
        "UV_TARGET",
        "UV_NO_BINARY",
        "UV_NO_BINARY_PACKAGE",
        "UV_ONLY_BINARY",
        "UV_WORKING_DIR",
        "UV_PROJECT",
    ];
    const NEEDED: [&str; 14] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LC_ALL",
        "TMPDIR",
        "NETRC",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "SSL_CLIENT_CERT",
        "ALL_PROXY",
        "DBUS_SESSION_BUS_ADDRESS",
        "SYSTEMROOT",
    ];
    let proxy = name.to_ascii_lowercase().ends_with("_proxy");
    let own = name.starts_with("UV_") && !REFUSED.contains(&name);
    own || proxy || name.starts_with("XDG_") || NEEDED.contains(&name)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for found in fs::read_dir(from)? {
        let found = found?;
        let to = to.join(found.file_name());
        match found.file_type()?.is_dir() {
            true => copy(&found.path(), &to)?,
            false => fs::copy(found.path(), &to).map(drop)?,
        }
    }
    Ok(())
}

fn pinned(
    search: &Search<'_>,
    python: &Python,
    scratch: &Path,
    progress: &dyn Progress,
) -> Result<PathBuf, PackageError> {
    let key = format!("{}-{}", PIN.project, PIN.version);
    if let Some(entry) = search.cache.find(KIND, &key) {
        return Ok(entry.join("uv"));
    }
    let wheel = match host::find_wheel(search.cache, &PIN)? {
        Some(wheel) => wheel,
        None if search.offline => return Err(PackageError::Offline { what: format!("uv {}", PIN.version) }),
        None => {
            let expected = Duration::from_secs(4);
            progress.begin(&format!("fetching uv {}", PIN.version), expected);
            let wheel = host::fetch_wheel(search.cache, &PIN, python, scratch, progress, expected)?;
            progress.end();
            wheel
        }
    };
    let entry = search.cache.make(KIND, &key, progress, |directory| -> Result<(), PackageError> {
        let unpacked = directory.join("scratch");
        host::unzip(&wheel, &unpacked)?;
        let program = directory.join("uv");
        let failed = |error| CacheError::io(&program, error);
        fs::rename(unpacked.join(format!("{key}.data/scripts/uv")), &program).map_err(failed)?;
        fs::set_permissions(&program, Permissions::from_mode(0o755)).map_err(failed)?;
        Ok(fs::remove_dir_all(&unpacked).map_err(failed)?)
    })?;
    Ok(entry.join("uv"))
}

/// The Python behind a shim. uv asks a shim again each time, which takes as long as fetching a small package.
fn interpreter(python: &Python, scratch: &Path, progress: &dyn Progress) -> PathBuf {
    let mut command = python.as_configured();
    command.args(["-I", "-S", "-c", "import sys; print(sys.executable)"]);
    let asked = host::run(&mut command, scratch, progress, Duration::from_secs(1));
    let told = asked.ok().map(|finished| PathBuf::from(finished.stdout.trim()));
    told.filter(|path| path.is_file()).unwrap_or_else(|| python.executable().to_owned())
}

/// `None` if it doesn't run, or is another program.
fn version(program: &Path, scratch: &Path, progress: &dyn Progress) -> Option<(u32, u32)> {
    let mut command = Command::new(program);
    command.arg("--version");
    let Finished { stdout, .. } = host::run(&mut command, scratch, progress, Duration::from_secs(1)).ok()?;
    let mut numbers = stdout.strip_prefix("uv ")?.split(['.', ' ', '\n']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn too_old(version: Option<(u32, u32)>) -> String {
    match version {
        Some((major, minor)) => {
            format!("it is uv {major}.{minor}, and {}.{} or newer is needed", OLDEST.0, OLDEST.1)
        }
        None => "it isn't a uv that runs".to_owned(),
    }
}
