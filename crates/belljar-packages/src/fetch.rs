//! Gets a locked wheel from its address and unpacks it.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use belljar_runtime::host;

use crate::{
    archive,
    error::PackageError,
    file_name::WheelName,
    limits::Limits,
    lock::LockedPackage,
    scripts,
    target::{self, Fit, Target},
    tree::{Tree, walk},
    uv::{Uv, reason},
};

/// How often the size of what is being unpacked is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The platform whose wheels are taken if only their Python files count.
const FOREIGN: &str = "x86_64-manylinux_2_40";

/// What installers put beside the packages; left out unless there are modules in it.
pub(crate) const BESIDE: [&str; 4] = ["share", "etc", "include", "man"];

/// A wheel and its address.
pub(crate) struct Wheel<'l> {
    pub(crate) package: &'l LockedPackage,
    pub(crate) url: &'l str,
    pub(crate) file: &'l str,
    pub(crate) fit: Fit,
    pub(crate) target: &'l Target,
}

/// Fills `into` with the wheel's files. `scratch` is on the same file system.
pub(crate) fn fetch(
    wheel: &Wheel<'_>,
    uv: &Uv,
    into: &Path,
    scratch: &Path,
    limits: &Limits,
) -> Result<(), PackageError> {
    fs::create_dir_all(scratch).map_err(|error| PackageError::write(scratch, error))?;
    match wheel.fit {
        Fit::Wasi => with_pip(wheel, uv, into, scratch, limits),
        Fit::Pure | Fit::Foreign { .. } | Fit::Native(_) => with_uv(wheel, uv, into, scratch, limits),
    }
}

/// uv verifies the hash and unpacks.
fn with_uv(
    wheel: &Wheel<'_>,
    uv: &Uv,
    into: &Path,
    scratch: &Path,
    limits: &Limits,
) -> Result<(), PackageError> {
    let list = scratch.join("requirements.txt");
    let unpacked = scratch.join("unpacked");
    let line = format!("{} @ {} --hash=sha256:{}\n", wheel.package.name, wheel.url, wheel.package.sha256);
    fs::write(&list, line).map_err(|error| PackageError::write(&list, error))?;
    let (python, platform) = match (wheel.target, wheel.fit) {
        (Target::Native(platform), _) => (platform.version.clone(), platform.for_uv()),
        (Target::Wasm, Fit::Foreign { distance, minor }) if distance > 0 => {
            (format!("3.{minor}"), FOREIGN.to_owned())
        }
        (Target::Wasm, _) => (target::PYTHON.to_owned(), FOREIGN.to_owned()),
    };
    let mut command = uv.command(&["pip", "install", "--no-deps", "--require-hashes"]);
    command.arg("--cache-dir").arg(uv.memory_in(&scratch.join("memory")));
    command.args(["--python-version", &python, "--python-platform", &platform, "--target"]).arg(&unpacked);
    command.arg("-r").arg(&list).env("TMPDIR", scratch).current_dir(scratch);
    let mut watch = watch(wheel, scratch, limits);
    let finished = host::run_watched(&mut command, scratch, &mut |elapsed| {
        uv.check_time("fetching")?;
        watch(elapsed)
    })?;
    if !finished.status.success() {
        let doing = format!("fetching {}", wheel.package.release());
        return Err(failure(wheel, reason(&doing, wheel.target, &finished, scratch)));
    }
    adopt(Path::new(wheel.file), &unpacked, into, limits, wheel.target)
}

/// Stops whoever fills the disk.
fn watch(
    wheel: &Wheel<'_>,
    scratch: &Path,
    limits: &Limits,
) -> impl FnMut(Duration) -> Result<(), PackageError> {
    let (file, bytes, scratch) = (PathBuf::from(wheel.file), limits.bytes, scratch.to_owned());
    let mut looked = Instant::now();
    move |_| {
        if looked.elapsed() < LOOK {
            return Ok(());
        }
        looked = Instant::now();
        match size(&scratch) > bytes {
            true => Err(PackageError::refused(&file, format!("it is larger than {bytes} bytes"))),
            false => Ok(()),
        }
    }
}

/// uv knows no wheels for WASI.
fn with_pip(
    wheel: &Wheel<'_>,
    uv: &Uv,
    into: &Path,
    scratch: &Path,
    limits: &Limits,
) -> Result<(), PackageError> {
    let release = wheel.package.release();
    let failed = |reason: String| PackageError::Uv { doing: format!("fetching {release}"), reason };
    let name = WheelName::parse(wheel.file).ok_or_else(|| failed(format!("{} isn't a wheel", wheel.file)))?;
    let downloaded = scratch.join("downloaded");
    let mut command = uv.python.as_configured();
    command.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--no-cache-dir",
    ]);
    command.args(["--python-version", target::PYTHON, "--implementation", "cp"]);
    for (option, tags) in [("--abi", &name.abis), ("--platform", &name.platforms)] {
        command.args(tags.iter().flat_map(|tag| [option, tag]));
    }
    // Checked by pip too, before it looks inside.
    let address = wheel.url.split('#').next().unwrap_or_default();
    command.arg("--dest").arg(&downloaded).arg("--");
    command.arg(format!("{address}#sha256={}", wheel.package.sha256));
    command.env("TMPDIR", scratch).current_dir(scratch);
    command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("PIP_NO_INPUT", "1");
    let finished = host::run_watched(&mut command, scratch, &mut watch(wheel, scratch, limits))?;
    let came = fs::read_dir(&downloaded).into_iter().flatten().flatten().map(|found| found.path()).next();
    let Some(file) = came.filter(|_| finished.status.success()) else {
        return Err(failed(finished.last_lines()));
    };
    let found = archive::sha256(&file).map_err(|error| PackageError::write(&file, error))?;
    if found != wheel.package.sha256 {
        let expected = wheel.package.sha256.clone();
        return Err(PackageError::Hash { file: wheel.file.to_owned(), expected, found });
    }
    archive::unpack_wheel(&file, into, limits, wheel.target)
}

/// Moves the files that uv unpacked to their places, each looked at first.
fn adopt(
    origin: &Path,
    unpacked: &Path,
    into: &Path,
    limits: &Limits,
    target: &Target,
) -> Result<(), PackageError> {
    let files = walk(unpacked, limits, &|_| true)?;
    let is_beside = |top: &str| {
        (top == scripts::BIN && !target.is_native())
            || (BESIDE.contains(&top)
                && !files
                    .iter()
                    .any(|(name, _)| name.starts_with(&format!("{top}/")) && name.ends_with(".py")))
    };
    let mut tree = Tree::new(into, origin, *limits);
    for (name, file) in &files {
        let beside = name.split_once('/').is_some_and(|(top, _)| is_beside(top));
        if let Some(place) = archive::place(name, target).filter(|_| !beside) {
            let executable = target.is_native() && is_executable(file);
            tree.adopt(&place, file)?;
            if executable {
                tree.make_executable(&place)?;
            }
        }
    }
    Ok(())
}

pub(crate) fn is_executable(file: &Path) -> bool {
    fs::symlink_metadata(file).is_ok_and(|found| found.mode() & 0o111 != 0)
}

/// A wheel that isn't the locked one deserves words of its own.
fn failure(wheel: &Wheel<'_>, error: PackageError) -> PackageError {
    let PackageError::Uv { reason, .. } = &error else { return error };
    let computed = reason.split_once("Computed:").and_then(|(_, rest)| rest.split_once("sha256:"));
    let found = computed.map(|(_, rest)| rest.split_whitespace().next().unwrap_or_default().to_owned());
    match found {
        Some(found) => {
            PackageError::Hash { file: wheel.file.to_owned(), expected: wheel.package.sha256.clone(), found }
        }
        None => error,
    }
}

/// What is below a directory now. Files may come and go meanwhile, and those with several names count once.
pub(crate) fn size(directory: &Path) -> u64 {
    let mut seen = HashSet::new();
    let mut bytes = 0;
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for found in fs::read_dir(directory).into_iter().flatten().flatten() {
            match found.metadata() {
                Ok(metadata) if metadata.is_dir() => left.push(found.path()),
                Ok(metadata) if seen.insert(metadata.ino()) => bytes += metadata.len(),
                _ => {}
            }
        }
    }
    bytes
}
