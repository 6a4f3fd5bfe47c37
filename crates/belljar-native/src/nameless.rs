//! Files on disk that have no name any more, and that a session holds open all the same: no directory shows them, but
//! they take up room.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use belljar_engine::{GuestSpec, Storage};

/// Descriptors and mappings that are looked at; a session can't have many more.
const MOST: usize = 100_000;

/// The processes of a session, and the file system of its workspace.
#[derive(Debug)]
pub(crate) struct Nameless {
    /// Names the session's processes.
    namespace: PathBuf,
    device: u64,
}

impl Nameless {
    /// None if the workspace isn't on disk.
    pub(crate) fn of(spec: &GuestSpec, init: Option<i32>) -> Option<Self> {
        let Storage::Disk(directory) = &spec.storage else { return None };
        let namespace = fs::read_link(format!("/proc/{}/ns/pid", init?)).ok()?;
        Some(Self { namespace, device: fs::metadata(directory).ok()?.dev() })
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let mut files = BTreeMap::new();
        let mut left = MOST;
        for found in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let process = found.path();
            let is_process = found.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
            if is_process && fs::read_link(process.join("ns/pid")).is_ok_and(|name| name == self.namespace) {
                self.look(&process, &mut files, &mut left);
            }
        }
        files.values().sum()
    }

    fn look(&self, process: &Path, files: &mut BTreeMap<u64, u64>, left: &mut usize) {
        for descriptor in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return;
            }
            // Of the file itself, whatever it is called.
            let Ok(file) = fs::metadata(descriptor.path()) else { continue };
            if file.is_file() && file.nlink() == 0 && file.dev() == self.device {
                files.insert(file.ino(), file.blocks().saturating_mul(512));
            }
        }
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        for line in maps.lines().filter(|line| line.ends_with(" (deleted)")).take(*left) {
            if let Some((inode, bytes)) = self.mapped(line) {
                let known = files.entry(inode).or_default();
                *known = (*known).max(bytes);
            }
        }
    }

    /// A mapping of a file in the workspace: which, and how many bytes.
    fn mapped(&self, line: &str) -> Option<(u64, u64)> {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let device = words.nth(2)?;
        let inode = words.next()?.parse().ok()?;
        let (major, minor) = device.split_once(':')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let device = rustix::fs::makedev(number(major)? as u32, number(minor)? as u32);
        (device == self.device).then_some((inode, number(end)?.saturating_sub(number(start)?)))
    }
}
