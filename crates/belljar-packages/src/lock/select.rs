//! Chooses what the guest gets of a package.

use std::path::{Path, PathBuf};

use super::{
    LockedPackage, Source, known_as,
    read::{Artifact, Entry},
    release,
};
use crate::{
    error::PackageError,
    file_name::{self, WheelName},
    limits::Limits,
    local, native,
    target::{self, Fit, Target},
};

pub(super) fn select(entry: &Entry, base: &Path, target: &Target) -> Result<LockedPackage, PackageError> {
    let name = known_as(&entry.name)?;
    let version = entry.version.clone().unwrap_or_else(|| "0".into());
    if version.len() > 100 || version.contains(|character: char| !character.is_ascii_graphic()) {
        return Err(PackageError::Lock { reason: format!("{name}: its version isn't one") });
    }
    let refuse = |form| PackageError::Form { package: release(&name, &version), form };
    let package = |(source, sha256, without_native)| LockedPackage {
        name: name.clone(),
        version: version.clone(),
        without_native,
        source,
        sha256,
    };
    if let Some(ours) = entry.ours() {
        let sha256 = digest(Some(&ours.sha256), &name)?;
        let place = entry.archive.as_ref().and_then(|archive| archive.path.as_deref());
        let place = place.or(entry.directory.as_ref().map(|directory| directory.path.as_str()));
        let source = match (ours.kind.as_str(), place, &ours.path) {
            ("archive", Some(place), _) => Source::Archive(base.join(place)),
            ("directory", Some(place), _) => Source::Directory(base.join(place)),
            ("site-packages", Some(place), _) => Source::SitePackages(base.join(place)),
            ("extension", _, Some(path)) if target.is_native() => {
                return Err(PackageError::WasmOnly { what: path.escape_debug().to_string() });
            }
            ("extension", _, Some(path)) => Source::Extension(extension_path(path)?),
            _ => {
                return Err(PackageError::Lock {
                    reason: format!("{name}: an unknown kind, `{}`", ours.kind),
                });
            }
        };
        return Ok(package((source, sha256, false)));
    }
    if !entry.wheels.is_empty() {
        return best(&entry.wheels, &name, &version, base, target).map(package);
    }
    match (&entry.archive, &entry.directory) {
        (Some(archive), _) if archive.file().and_then(WheelName::parse).is_some() => {
            best(std::slice::from_ref(archive), &name, &version, base, target).map(package)
        }
        (Some(_), _) => Err(refuse("as an archive that would have to be built")),
        (None, Some(directory)) => {
            // Nothing was promised of its contents: they count as they are now.
            let path = base.join(&directory.path);
            let sha256 = local::directory(&path, &Limits::default(), target)?.sha256()?;
            Ok(package((Source::Directory(path), sha256, false)))
        }
        _ if entry.vcs.is_some() => Err(refuse("as a repository that would have to be built")),
        _ if entry.sdist.is_some() => Err(refuse("as source only, which would have to be built")),
        _ => Err(refuse("without any file")),
    }
}

/// The wheel that fits best. One that lies here wins over one that must be fetched.
fn best(
    wheels: &[Artifact],
    name: &str,
    version: &str,
    base: &Path,
    target: &Target,
) -> Result<(Source, String, bool), PackageError> {
    let named = wheels.iter().filter_map(|wheel| Some((wheel, WheelName::parse(wheel.file()?)?)));
    let fitting =
        named.filter_map(|(wheel, parts)| Some((target.fit(&parts)?, local_file(wheel, base), wheel)));
    let chosen = fitting.min_by_key(|(fit, file, _)| (*fit, file.is_none()));
    let foreign = |(fit, ..): &(Fit, _, _)| matches!(fit, Fit::Foreign { .. });
    let Some((fit, file, wheel)) =
        chosen.filter(|chosen| !foreign(chosen) || target::native_is_optional(name))
    else {
        return Err(unfit(wheels, release(name, version), target));
    };
    let without_native = matches!(fit, Fit::Foreign { .. });
    let sha256 = digest(wheel.hashes.get("sha256").map(String::as_str), name)?;
    let source = match (file, &wheel.url) {
        (Some(file), _) => Source::Wheel(file),
        (None, Some(url)) => {
            // The address becomes a line of a requirements file, or an argument.
            if !target::is_address(url) {
                return Err(PackageError::Lock {
                    reason: format!("{name}: `{}` is no address", url.escape_debug()),
                });
            }
            Source::Fetched { url: url.clone(), file: wheel.file().unwrap_or_default().to_owned(), fit }
        }
        (None, None) => return Err(PackageError::Lock { reason: format!("{name}: a wheel has no place") }),
    };
    Ok((source, sha256, without_native))
}

/// The wheel's file on this machine, if that is where it is.
fn local_file(wheel: &Artifact, base: &Path) -> Option<PathBuf> {
    if let Some(path) = &wheel.path {
        return Some(base.join(path));
    }
    wheel.url.as_deref()?.strip_prefix("file://").map(|path| PathBuf::from(file_name::percent_decoded(path)))
}

/// Why none of the wheels fits.
fn unfit(wheels: &[Artifact], package: String, target: &Target) -> PackageError {
    let names: Vec<WheelName> = wheels.iter().filter_map(|wheel| WheelName::parse(wheel.file()?)).collect();
    if !names.is_empty() && !names.iter().any(|wheel| target.is_python_of(wheel)) {
        return PackageError::OtherPython { package, python: target.python(), reason: String::new() };
    }
    let platforms = names.iter().flat_map(|wheel| &wheel.platforms);
    let kinds = |shown: fn(&str) -> &str| {
        let mut kinds: Vec<&str> = platforms.map(|platform| shown(platform)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        format!("its wheels are for {}", kinds.join(", "))
    };
    match target {
        Target::Wasm => PackageError::Native { package, what: kinds(family) },
        Target::Native(platform) => PackageError::NoWheel {
            package,
            python: platform.python(),
            library: format!("glibc {}.{}", platform.glibc.0, platform.glibc.1),
            machine: platform.machine.clone(),
            // Which C library they need is what matters.
            what: kinds(|platform| platform),
        },
    }
}

/// A platform without its version and processor.
fn family(platform: &str) -> &str {
    let name = platform.split('_').next().unwrap_or(platform);
    match name {
        "win" | "win32" => "windows",
        // `manylinux2014`
        name => name.trim_end_matches(|character: char| character.is_ascii_digit()),
    }
}

fn digest(sha256: Option<&str>, name: &str) -> Result<String, PackageError> {
    let hexadecimal = |text: &&str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match sha256.filter(hexadecimal) {
        Some(sha256) => Ok(sha256.to_ascii_lowercase()),
        None => Err(PackageError::Lock { reason: format!("{name} has no SHA-256") }),
    }
}

fn extension_path(path: &str) -> Result<String, PackageError> {
    let harmless = file_name::inside(path, Limits::default().depth).is_ok();
    match harmless && native::kind(path, b"\0asm") == Some(native::Native::Extension) {
        true => Ok(path.to_owned()),
        false => Err(PackageError::Lock { reason: format!("`{}` can't name a module", path.escape_debug()) }),
    }
}
