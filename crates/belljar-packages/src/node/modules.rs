//! What npm made of a lock, looked at and put into the cache.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use belljar_runtime::CacheError;
use serde::{Deserialize, Serialize};

use super::{names, project::Locked, too_large};
use crate::{error::PackageError, limits::Limits};

const FACTS: &str = "modules.json";
const FILES: &str = "node_modules";
/// Directories of links to programs.
const PROGRAMS: &str = ".bin";
/// What npm itself notes there.
const HIDDEN: &str = ".package-lock.json";

/// The modules of a project, in the cache.
#[derive(Clone, Debug)]
pub struct NodeModules {
    /// What has `node_modules` in it. There are regular files and directories only.
    pub directory: PathBuf,
    /// Where each package is below that, such as `node_modules/a/node_modules/b`, and its version.
    pub packages: Vec<(String, String)>,
    /// Links to programs: paths below the directory, and what they lead to. None leads out of `node_modules`.
    pub links: Vec<(String, String)>,
    /// The `package-lock.json`. It names no address.
    pub lock: String,
    /// The size of all files.
    pub bytes: u64,
    /// How many files and links there are.
    pub files: u64,
}

#[derive(Serialize, Deserialize)]
struct Facts {
    packages: Vec<(String, String)>,
    links: Vec<(String, String)>,
    lock: String,
    bytes: u64,
    files: u64,
}

/// Moves the modules that npm made in `scratch` into `entry`, if they are what they should be.
pub(super) fn take(
    scratch: &Path,
    entry: &Path,
    locked: &Locked,
    limits: &Limits,
) -> Result<(), PackageError> {
    let (from, to) = (scratch.join(FILES), entry.join(FILES));
    if !fs::symlink_metadata(&from).is_ok_and(|found| found.is_dir()) {
        // Everything may have been optional, and for other systems.
        fs::create_dir_all(&from).map_err(|error| PackageError::write(&from, error))?;
    }
    let mut look = Look { limits, bytes: 0, files: 0, links: Vec::new() };
    look.directory(&from, FILES, 0)?;
    fs::rename(&from, &to).map_err(|error| PackageError::write(&to, error))?;
    let present = |place: &&str| entry.join(place).is_dir();
    let packages = locked.places().filter(present);
    let packages = packages
        .map(|place| (place.to_owned(), locked.version(place).unwrap_or_default().to_owned()))
        .collect();
    let Look { bytes, files, mut links, .. } = look;
    links.sort();
    let facts = Facts { packages, links, lock: locked.text(), bytes, files };
    let path = entry.join(FACTS);
    let written = serde_json::to_vec(&facts).map_err(Into::into).and_then(|json| fs::write(&path, json));
    written.map_err(|error| PackageError::write(&path, error))
}

/// What is in an entry.
pub(super) fn open(entry: &Path) -> Result<NodeModules, PackageError> {
    let damaged = || CacheError::Damaged { entry: entry.to_owned(), what: FACTS.into() };
    let text = fs::read(entry.join(FACTS)).map_err(|_| damaged())?;
    let facts: Facts = serde_json::from_slice(&text).map_err(|_| damaged())?;
    let Facts { packages, links, lock, bytes, files } = facts;
    Ok(NodeModules { directory: entry.to_owned(), packages, links, lock, bytes, files })
}

/// Looks at every file.
struct Look<'l> {
    limits: &'l Limits,
    bytes: u64,
    files: u64,
    links: Vec<(String, String)>,
}

impl Look<'_> {
    fn directory(&mut self, directory: &Path, inside: &str, depth: usize) -> Result<(), PackageError> {
        let failed = |error: std::io::Error| PackageError::write(directory, error);
        if depth > self.limits.depth {
            return Err(odd(inside, "is nested too deeply"));
        }
        fs::set_permissions(directory, Permissions::from_mode(0o755)).map_err(failed)?;
        for found in fs::read_dir(directory).map_err(failed)? {
            let found = found.map_err(failed)?;
            let name =
                found.file_name().into_string().map_err(|_| odd(inside, "has a name that isn't UTF-8"))?;
            let path = format!("{inside}/{name}");
            if path.len() > 3000 || name.chars().any(char::is_control) {
                return Err(odd(inside, "has a name that is too long or can't be printed"));
            }
            self.files += 1;
            let metadata = found.metadata().map_err(failed)?;
            if metadata.is_dir() {
                self.directory(&found.path(), &path, depth + 1)?;
            } else if metadata.is_file() {
                self.bytes += metadata.len();
                let executable = metadata.permissions().mode() & 0o111 != 0;
                let mode = if executable { 0o755 } else { 0o644 };
                fs::set_permissions(found.path(), Permissions::from_mode(mode)).map_err(failed)?;
                if depth == 0 && name == HIDDEN {
                    // It is made anew by whoever needs it.
                    fs::remove_file(found.path()).map_err(failed)?;
                }
            } else if metadata.is_symlink() {
                self.link(&found.path(), path)?;
            } else {
                return Err(odd(&path, "is neither a file nor a directory"));
            }
            if self.files > self.limits.entries || self.bytes > self.limits.bytes {
                return Err(too_large(self.limits));
            }
        }
        if inside.rsplit('/').next() == Some(PROGRAMS) {
            // Unless a package has files of its own in one.
            drop(fs::remove_dir(directory));
        }
        Ok(())
    }

    /// Links are for programs, and kept as a list.
    fn link(&mut self, link: &Path, path: String) -> Result<(), PackageError> {
        let target = fs::read_link(link).map_err(|error| PackageError::write(link, error))?;
        let target = target.to_str().ok_or_else(|| odd(&path, "is a link that can't be printed"))?.to_owned();
        if !is_program_link(&path, &target) {
            return Err(odd(&path, "is a link that leads elsewhere"));
        }
        fs::remove_file(link).map_err(|error| PackageError::write(link, error))?;
        self.links.push((path, target));
        Ok(())
    }
}

/// Whether a path is one in a `.bin`, and leads to a file of a package beside that.
fn is_program_link(path: &str, target: &str) -> bool {
    let Some((directory, name)) = path.rsplit_once('/') else { return false };
    let beside = target.strip_prefix("../");
    directory.ends_with("node_modules/.bin")
        && !name.is_empty()
        && beside.is_some_and(|beside| names::is_inner(beside) && !beside.starts_with("./"))
}

fn odd(path: &str, reason: &str) -> PackageError {
    let path: String = path.chars().take(200).collect();
    PackageError::Npm { doing: "unpacking".to_owned(), reason: format!("{path:?} {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(make: impl FnOnce(&Path)) -> Result<Vec<(String, String)>, PackageError> {
        let directory = tempfile::tempdir().expect("a directory");
        let modules = directory.path().join("node_modules");
        fs::create_dir_all(modules.join("a")).expect("made");
        fs::create_dir_all(modules.join(".bin")).expect("made");
        make(&modules);
        let limits = Limits { entries: 20, bytes: 1000, file_bytes: 1000, depth: 4 };
        let mut look = Look { limits: &limits, bytes: 0, files: 0, links: Vec::new() };
        look.directory(&modules, FILES, 0)?;
        Ok(look.links)
    }

    #[test]
    fn programs_are_links_to_packages() {
        let links = looked(|modules| {
            std::os::unix::fs::symlink("../a/cli.js", modules.join(".bin/a")).expect("made");
        });
        assert_eq!(links.expect("good"), [("node_modules/.bin/a".to_owned(), "../a/cli.js".to_owned())]);
    }

    #[test]
    fn whatever_leads_elsewhere_is_refused() {
        for (path, target) in [
            (".bin/a", "/etc/passwd"),
            (".bin/a", "../../a"),
            (".bin/a", "../a/../../x"),
            (".bin/a", "a"),
            ("a/link", "../a/x"),
            ("a/link", "/etc"),
            ("link", "a"),
        ] {
            let made = looked(|modules| {
                std::os::unix::fs::symlink(target, modules.join(path)).expect("made");
            });
            assert!(made.expect_err(target).to_string().contains("leads elsewhere"));
        }
        let fifo = |modules: &Path| {
            let path = modules.join("a/pipe");
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o644.into(), 0)
                .expect("made");
        };
        assert!(looked(fifo).expect_err("a pipe").to_string().contains("neither a file"));
    }

    #[test]
    fn whatever_is_too_large_is_refused() {
        let many = |modules: &Path| {
            (0..30).for_each(|number| fs::write(modules.join(number.to_string()), "").expect("made"))
        };
        let large = |modules: &Path| fs::write(modules.join("a/x"), vec![0; 1001]).expect("made");
        let deep = |modules: &Path| fs::create_dir_all(modules.join("a/b/c/d/e")).expect("made");
        assert!(looked(many).is_err() && looked(large).is_err() && looked(deep).is_err());
    }
}
