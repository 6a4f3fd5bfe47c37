//! What a Python says of itself, and whether it can be used.

use std::{fs::File, path::PathBuf};

use serde::Deserialize;

use super::{HostPython, OLDEST};
use crate::target::Platform;

const MACHINES: [&str; 2] = ["x86_64", "aarch64"];

#[derive(Deserialize)]
pub(super) struct Answer {
    implementation: String,
    major: u32,
    minor: u32,
    version: String,
    prefix: PathBuf,
    /// The best first.
    executables: Vec<PathBuf>,
    /// The library that has the interpreter, if the program hasn't.
    shared: PathBuf,
    soabi: String,
    free_threaded: bool,
    library: String,
    platform: String,
    machine: String,
    wide: bool,
    tag: String,
    magic: String,
}

impl Answer {
    /// The Python, or why it isn't used.
    pub(super) fn python(self) -> Result<HostPython, String> {
        if self.implementation != "cpython" {
            return Err(format!("it is {}, and packages are built for CPython", self.implementation));
        }
        if (self.major, self.minor) < (3, OLDEST) {
            return Err(format!("it is Python {}, and 3.{OLDEST} or newer is needed", self.version));
        }
        if self.major != 3 {
            return Err(format!("it is Python {}, which isn't known yet", self.version));
        }
        if self.free_threaded {
            return Err("it is free-threaded, and forking it isn't safe".into());
        }
        if self.platform != "linux" || !self.wide || !MACHINES.contains(&self.machine.as_str()) {
            let Self { platform, machine, .. } = self;
            return Err(format!("it runs on {platform} ({machine}), not on x86_64 or aarch64 Linux"));
        }
        let Some(glibc) = glibc(&self.library) else {
            return Err("it wasn't built with glibc, so no manylinux wheel can be loaded".into());
        };
        let below = |path: &PathBuf| path.strip_prefix(&self.prefix).ok().map(PathBuf::from);
        let Some(executable) = self.executables.iter().find_map(below) else {
            return Err(format!("its program isn't below its prefix, {}", self.prefix.display()));
        };
        let mut hasher = blake3::Hasher::new();
        for text in [&self.version, &self.soabi, &self.magic] {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        let program = self.prefix.join(&executable);
        for file in [&program, &self.shared].into_iter().filter(|file| file.is_file()) {
            let hashed = File::open(file).and_then(|file| {
                let mut contents = blake3::Hasher::new();
                contents.update_reader(file)?;
                Ok(contents.finalize())
            });
            let hash = hashed.map_err(|error| format!("{}: {error}", file.display()))?;
            hasher.update(hash.as_bytes());
        }
        let Self { minor, version, machine, .. } = self;
        Ok(HostPython {
            prefix: self.prefix,
            executable,
            platform: Platform { minor, version, machine, glibc },
            soabi: self.soabi,
            id: hasher.finalize().to_hex()[..32].to_owned(),
            tag: self.tag,
            magic: self.magic,
        })
    }
}

/// Of `glibc 2.36`.
fn glibc(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.strip_prefix("glibc ")?.split_once('.')?;
    let minor = minor.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        Answer {
            implementation: "cpython".into(),
            major: 3,
            minor: 12,
            version: "3.12.1".into(),
            prefix: "/nowhere".into(),
            executables: vec!["/elsewhere/python3".into(), "/nowhere/bin/python3.12".into()],
            shared: PathBuf::new(),
            soabi: "cpython-312-x86_64-linux-gnu".into(),
            free_threaded: false,
            library: "glibc 2.36".into(),
            platform: "linux".into(),
            machine: "x86_64".into(),
            wide: true,
            tag: "cpython-312".into(),
            magic: "cb0d0d0a".into(),
        }
    }

    #[test]
    fn one_that_can_be_used() {
        let python = answer().python().expect("used");
        assert_eq!((python.platform.minor, python.platform.glibc), (12, (2, 36)));
        assert_eq!(python.executable, PathBuf::from("bin/python3.12"));
        let other = Answer { soabi: "other".into(), ..answer() }.python().expect("used");
        assert_ne!(python.id, other.id);
    }

    #[test]
    fn those_that_cannot() {
        for (answer, word) in [
            (Answer { implementation: "pypy".into(), ..answer() }, "pypy"),
            (Answer { minor: 9, version: "3.9.18".into(), ..answer() }, "3.9.18"),
            (Answer { major: 2, minor: 7, version: "2.7.18".into(), ..answer() }, "2.7.18"),
            (Answer { free_threaded: true, ..answer() }, "free-threaded"),
            (Answer { library: String::new(), ..answer() }, "glibc"),
            (Answer { machine: "i686".into(), ..answer() }, "i686"),
            (Answer { executables: vec!["/elsewhere/python3".into()], ..answer() }, "prefix"),
        ] {
            let reason = answer.python().expect_err(word);
            assert!(reason.contains(word), "{reason}");
        }
    }
}
