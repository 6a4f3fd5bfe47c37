//! Packages that a session asks for while it runs.
//!
//! A session has no network. Where its policy allows it, a program of its own (`pip`, `uv`) asks here, on a socket in
//! `/run/belljar`: one thread for each session listens, one request is answered at a time. What is asked for is settled
//! and unpacked by an [`Installer`] outside, which runs nothing of it; its files are then copied into the session's own
//! tree, so they count against its quota, and no session shares a file with another or with the cache.
//!
//! A conversation is lines of JSON, each at most 64 KiB:
//!
//! ```text
//! → {"requirements": ["six>=1"], "installed": {"six": "1.15.0"}, "upgrade": false, "venv": "/workspace/.venv", "site": "lib/python3.12/site-packages"}
//! ← {"say": "resolving"}                           as often as there is something to say
//! ← {"packages": [["six", "1.17.0"]]}              it is fetched
//! → {"copy": ["six"]}                              other versions are removed by now
//! ← {"done": 1}
//! ```
//!
//! For Node it is a `package.json`, with what is in the `package-lock.json` as its `lock`; the installer looks at both:
//!
//! ```text
//! → {"node": {"bytes": 38, "at": "/workspace", "frozen": false, "upgrade": false, "production": false}}
//! → {"dependencies": {"left-pad": "^1"}}           so many bytes
//! ← {"packages": [["node_modules/left-pad", "1.3.0"]], "lock": "{…}"}
//! → {"copy": ["node_modules/left-pad"]}
//! ← {"done": 1}
//! ```
//!
//! Whatever fails is `{"error": words}`, and the end. The guest is hostile: nothing it says is believed, and it is never
//! waited for longer than some seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::net::SendFlags;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::kernel::wait;
use crate::modules;
use crate::tree::Tree;

/// The longest line.
const MOST_REQUEST: usize = 64 << 10;
/// The longest `package.json` with its lock, and the longest list of places.
const MOST_PROJECT: usize = 4 << 20;
/// Of one request.
const MOST_REQUIREMENTS: usize = 100;
const MOST_INSTALLED: usize = 1000;
const LONGEST_REQUIREMENT: usize = 500;
/// Of one session, as long as it lives.
const MOST_REQUESTS: usize = 200;
/// Bytes that a session may have fetched, in quotas of its files.
const QUOTAS: u64 = 4;
/// How long a request may take to arrive.
const HEARING: Duration = Duration::from_secs(10);
/// How long the guest may take to make room for what comes.
const CLEARING: Duration = Duration::from_secs(60);
/// How long the guest may take to read.
const TELLING: Duration = Duration::from_secs(5);
/// How long a request waits for those of other sessions.
const TURN: Duration = Duration::from_secs(120);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4;
/// Installations at once, of all sessions of an engine.
const AT_ONCE: usize = 4;
/// Bytes of the host's disk that stay free.
const RESERVE: u64 = 512 << 20;
/// Characters of an error.
const LONGEST_ERROR: usize = 8000;

/// What a session wants to have. Requirements are of the index, as [`is_requirement`] has them.
#[derive(Clone, Debug)]
pub struct InstallRequest {
    /// In the form of PEP 508, without addresses.
    pub requirements: Vec<String>,
    /// What the session says to have: names and versions. It should stay as it is where that is possible.
    pub installed: Vec<(String, String)>,
    /// Whether newer versions are wanted.
    pub upgrade: bool,
    /// Bytes of all packages together.
    pub most_bytes: u64,
}

/// A package that was unpacked.
#[derive(Clone, Debug)]
pub struct InstalledPackage {
    /// Its normalised name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its files on the host, as they lie in site-packages; programs are in `bin`.
    pub directory: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
}

/// What a session wants to have for Node.
#[derive(Clone, Debug)]
pub struct ModulesRequest {
    /// A `package.json` in which `lock` is what the `package-lock.json` says. Nobody has looked at it.
    pub project: Vec<u8>,
    /// Whether only what the lock says is wanted.
    pub frozen: bool,
    /// Whether newer versions are wanted.
    pub upgrade: bool,
    /// Whether what only developers need is left out.
    pub production: bool,
    /// Bytes of all packages together.
    pub most_bytes: u64,
}

/// Packages for Node that were unpacked.
#[derive(Clone, Debug)]
pub struct InstalledModules {
    /// What has `node_modules` in it, on the host: regular files and directories.
    pub directory: PathBuf,
    /// Where each is below that, and its version.
    pub packages: Vec<(String, String)>,
    /// Links to programs, which don't lead out of `node_modules`.
    pub links: Vec<(String, String)>,
    /// The `package-lock.json`: nothing of the host may be in it.
    pub lock: String,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Why packages can't be had.
#[derive(Clone, Debug)]
pub struct InstallFailure {
    /// In words, which the session is told: nothing of the host may be in them.
    pub reason: String,
    /// Bytes that were fetched all the same.
    pub bytes: u64,
}

/// Gets packages, outside of all sessions. No code of a package may be run.
pub trait Installer: Send + Sync {
    /// The packages, with all that they depend on, unpacked. What is going on is told in words.
    fn install(
        &self,
        request: &InstallRequest,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<Vec<InstalledPackage>, InstallFailure>;

    /// Packages for Node, with all that they depend on, unpacked.
    fn install_modules(
        &self,
        request: &ModulesRequest,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<InstalledModules, InstallFailure> {
        let _ = (request, progress);
        Err(InstallFailure { reason: "nothing installs packages for Node here".to_owned(), bytes: 0 })
    }
}

/// What the sessions of an engine share.
pub(crate) struct Office {
    pub(crate) installer: OnceLock<Arc<dyn Installer>>,
    busy: AtomicUsize,
    /// Where what is fetched is kept.
    cache: PathBuf,
}

/// A place among those that install at once.
struct Turn<'o>(&'o Office);

impl Office {
    pub(crate) fn new(cache: PathBuf) -> Self {
        Self { installer: OnceLock::new(), busy: AtomicUsize::new(0), cache }
    }

    /// Whether so many bytes more leave something of the host's disk.
    fn has_room(&self, bytes: u64) -> bool {
        let figures = rustix::fs::statvfs(&self.cache);
        figures.is_ok_and(|figures| {
            figures.f_bavail.saturating_mul(figures.f_frsize)
                > bytes.saturating_mul(2).saturating_add(RESERVE)
        })
    }

    /// Waits for a place, but not without end, nor for a session that is over.
    fn turn(&self, stop: &OwnedFd) -> Option<Turn<'_>> {
        let until = Instant::now() + TURN;
        loop {
            let taken = self.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, |busy| {
                (busy < AT_ONCE).then_some(busy + 1)
            });
            if taken.is_ok() {
                return Some(Turn(self));
            }
            if Instant::now() >= until || is_ready(stop, Duration::from_millis(100)) {
                return None;
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The thread of a session. It ends when this is dropped, or after the request that it is at.
pub(crate) struct Installs {
    stop: Arc<OwnedFd>,
}

impl Installs {
    pub(crate) fn start(listener: OwnedFd, tree: Tree, office: Arc<Office>) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        rustix::net::listen(&listener, BACKLOG)?;
        let listener = UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        let counter = Counter { tree, office, stop: Arc::clone(&stop), requests: 0, fetched: 0 };
        thread::Builder::new().name("belljar-installs".to_owned()).spawn(move || counter.serve(&listener))?;
        Ok(Self { stop })
    }
}

impl Drop for Installs {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
    }
}

/// Where one session asks.
struct Counter {
    tree: Tree,
    office: Arc<Office>,
    stop: Arc<OwnedFd>,
    requests: usize,
    /// Bytes, so far.
    fetched: u64,
}

#[derive(Deserialize)]
struct Asked {
    requirements: Vec<String>,
    #[serde(default)]
    installed: BTreeMap<String, String>,
    #[serde(default)]
    upgrade: bool,
    venv: String,
    site: String,
}

/// How a conversation begins.
#[derive(Deserialize)]
struct Opening {
    #[serde(default)]
    node: Option<AskedModules>,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
struct AskedModules {
    bytes: usize,
    at: String,
    #[serde(default)]
    frozen: bool,
    #[serde(default)]
    upgrade: bool,
    #[serde(default)]
    production: bool,
}

#[derive(Deserialize)]
struct Copy {
    copy: BTreeSet<String>,
}

impl Counter {
    fn serve(mut self, listener: &UnixListener) {
        loop {
            let mut polled = [
                PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN),
            ];
            if wait(&mut polled, None).is_err() || !polled[1].revents().is_empty() {
                return;
            }
            match listener.accept() {
                Ok((stream, _)) => {
                    let Ok(mut line) = Line::new(stream, Arc::clone(&self.stop)) else { continue };
                    if let Err(words) = self.answer(&mut line) {
                        line.say(&json!({ "error": tidy(&words) }), TELLING);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Too many descriptors, for example: later there may be fewer.
                Err(_) if is_ready(&self.stop, Duration::from_secs(1)) => return,
                Err(_) => {}
            }
        }
    }

    fn answer(&mut self, line: &mut Line) -> Result<(), String> {
        let Opening { node, rest } = line.hear(HEARING, MOST_REQUEST)?;
        self.requests += 1;
        if self.requests > MOST_REQUESTS {
            return Err(format!("this session has asked {MOST_REQUESTS} times, and may not ask again"));
        }
        if let Some(asked) = node {
            return self.answer_modules(line, &asked);
        }
        let asked: Asked = serde_json::from_value(Value::Object(rest)).map_err(senseless)?;
        let request = self.check(&asked)?;
        let installer = self.office.installer.get().ok_or("nothing installs packages here")?;
        let turn =
            self.office.turn(&self.stop).ok_or("other sessions are installing packages; try again later")?;
        let sayer = line.sayer();
        let installed = installer.install(&request, &|words| sayer.progress(words));
        drop(turn);
        let packages = installed.map_err(|failure| {
            self.fetched = self.fetched.saturating_add(failure.bytes);
            failure.reason
        })?;
        self.fetched = packages.iter().fold(self.fetched, |sum, package| sum.saturating_add(package.bytes));
        let names: Vec<[&str; 2]> =
            packages.iter().map(|package| [package.name.as_str(), package.version.as_str()]).collect();
        if !line.say(&json!({ "packages": names }), TELLING) {
            return Ok(());
        }
        let Copy { copy } = line.hear(CLEARING, MOST_REQUEST)?;
        let wanted: Vec<&InstalledPackage> =
            packages.iter().filter(|package| copy.contains(&package.name)).collect();
        self.copy(&asked, &wanted)?;
        line.say(&json!({ "done": wanted.len() }), TELLING);
        Ok(())
    }

    fn answer_modules(&mut self, line: &mut Line, asked: &AskedModules) -> Result<(), String> {
        if asked.bytes > MOST_PROJECT {
            return Err(format!("package.json and its lock have more than {MOST_PROJECT} bytes together"));
        }
        if !is_inner(&asked.at.trim_start_matches('/')) {
            return Err("packages can be installed into the session's own files only".to_owned());
        }
        let project = line.hear_bytes(asked.bytes, HEARING)?;
        let request = ModulesRequest {
            project,
            frozen: asked.frozen,
            upgrade: asked.upgrade,
            production: asked.production,
            most_bytes: self.room()?,
        };
        let installer = self.office.installer.get().ok_or("nothing installs packages here")?;
        let turn =
            self.office.turn(&self.stop).ok_or("other sessions are installing packages; try again later")?;
        let sayer = line.sayer();
        let installed = installer.install_modules(&request, &|words| sayer.progress(words));
        drop(turn);
        let modules = installed.map_err(|failure| {
            self.fetched = self.fetched.saturating_add(failure.bytes);
            failure.reason
        })?;
        self.fetched = self.fetched.saturating_add(modules.bytes);
        if !line.say(&json!({ "packages": modules.packages, "lock": modules.lock }), TELLING) {
            return Ok(());
        }
        let Copy { copy } = line.hear(CLEARING, MOST_PROJECT)?;
        let done =
            modules::copy(&self.tree, &modules, &asked.at, &copy).map_err(|error| match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => self.no_room(),
                _ => format!("the packages can't be written into {}/node_modules: {error}", asked.at),
            })?;
        line.say(&json!({ "done": done }), TELLING);
        Ok(())
    }

    /// How many bytes may be fetched now.
    fn room(&self) -> Result<u64, String> {
        let left = self.tree.most_bytes().saturating_mul(QUOTAS).saturating_sub(self.fetched);
        if left == 0 {
            return Err("this session has had more packages fetched than it may".to_owned());
        }
        let most_bytes = left.min(self.tree.most_bytes());
        match self.office.has_room(most_bytes) {
            true => Ok(most_bytes),
            false => Err("the supervisor's disk is nearly full".to_owned()),
        }
    }

    fn no_room(&self) -> String {
        let most = self.tree.most_bytes();
        format!(
            "there is not enough room: the session's files may have {most} bytes together (--quota allows more)"
        )
    }

    fn check(&self, asked: &Asked) -> Result<InstallRequest, String> {
        if asked.requirements.len() > MOST_REQUIREMENTS || asked.installed.len() > MOST_INSTALLED {
            return Err(format!("more than {MOST_REQUIREMENTS} packages at once; ask for fewer"));
        }
        if asked.requirements.is_empty() {
            return Err("no package was named".to_owned());
        }
        if let Some(odd) = asked.requirements.iter().find(|text| !is_requirement(text)) {
            let odd: String = odd.chars().take(100).collect();
            return Err(format!(
                "{odd:?} is not a requirement for the package index, such as \"six>=1.15\"; files and addresses can't be installed"
            ));
        }
        let installed: Vec<(String, String)> = asked
            .installed
            .iter()
            .filter(|(name, version)| is_requirement(&format!("{name}=={version}")) && is_name(name))
            .map(|(name, version)| (name.clone(), version.clone()))
            .collect();
        if !is_inner(&asked.venv.trim_start_matches('/')) || !is_inner(&asked.site.as_str()) {
            return Err("packages can be installed into the session's own files only".to_owned());
        }
        Ok(InstallRequest {
            requirements: asked.requirements.clone(),
            installed,
            upgrade: asked.upgrade,
            most_bytes: self.room()?,
        })
    }

    fn copy(&self, asked: &Asked, packages: &[&InstalledPackage]) -> Result<(), String> {
        let site = format!("{}/{}", asked.venv, asked.site);
        let programs = format!("{}/bin", asked.venv);
        let directories: Vec<&std::path::Path> =
            packages.iter().map(|package| package.directory.as_path()).collect();
        self.tree.copy_packages(&directories, &site, &programs).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => self.no_room(),
            _ => format!("the packages can't be written into {}: {error}", asked.venv),
        })
    }
}

/// A requirement of the index and nothing else: no address, no path, no option, no file that a tool might take it for.
pub fn is_requirement(text: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || " ._-+*!<>=~,;()[]'\"".contains(letter);
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && !"._-".contains(letter));
    let name = &text[..end.unwrap_or(text.len())];
    let rest = text[name.len()..].trim_start();
    let goes_on = rest.is_empty() || rest.starts_with(['[', '(', '<', '>', '=', '!', '~', ';']);
    text.len() <= LONGEST_REQUIREMENT && text.chars().all(allowed) && is_name(name) && goes_on
}

fn is_name(name: &str) -> bool {
    const FILES: [&str; 11] = ["whl", "txt", "in", "toml", "zip", "tar", "gz", "tgz", "bz2", "xz", "zst"];
    let edge = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
    let plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    plain
        && edge(name.chars().next())
        && edge(name.chars().last())
        && !ending.is_some_and(|ending| FILES.contains(&ending.as_str()))
}

/// A path that goes down only.
fn is_inner(path: &&str) -> bool {
    let odd = |part: &str| {
        part.is_empty() || part == "." || part == ".." || part.len() > 200 || part.contains('\0')
    };
    path.len() <= 1000 && !path.split('/').any(odd)
}

/// Words that can be shown: no control characters, and not without end.
fn tidy(words: &str) -> String {
    let kept = words.chars().filter(|letter| *letter == '\n' || !letter.is_control());
    kept.take(LONGEST_ERROR).collect()
}

fn senseless(error: serde_json::Error) -> String {
    format!("the request makes no sense: {error}")
}

fn is_ready(descriptor: &OwnedFd, time: Duration) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)];
    wait(&mut polled, Some(time)).is_ok() && !polled[0].revents().is_empty()
}

/// One connection.
struct Line {
    stream: Arc<UnixStream>,
    stop: Arc<OwnedFd>,
    buffer: Vec<u8>,
}

/// Tells of progress, from whichever thread makes it.
struct Sayer {
    stream: Arc<UnixStream>,
}

impl Sayer {
    /// Nobody waits for a reader who doesn't read.
    fn progress(&self, words: &str) {
        let words: String = tidy(words).chars().take(200).collect();
        let line = format!("{}\n", json!({ "say": words }));
        let _ = rustix::net::send(&*self.stream, line.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

impl Line {
    fn new(stream: UnixStream, stop: Arc<OwnedFd>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream: Arc::new(stream), stop, buffer: Vec::new() })
    }

    fn sayer(&self) -> Sayer {
        Sayer { stream: Arc::clone(&self.stream) }
    }

    /// The next line, in this time and of this length at most.
    fn hear<T: for<'d> Deserialize<'d>>(&mut self, time: Duration, most: usize) -> Result<T, String> {
        let until = Instant::now() + time;
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=searched + end).collect();
                return serde_json::from_slice(&line).map_err(senseless);
            }
            searched = self.buffer.len();
            if searched >= most {
                return Err("the request is too long".to_owned());
            }
            self.read(until)?;
        }
    }

    /// So many bytes, in this time.
    fn hear_bytes(&mut self, length: usize, time: Duration) -> Result<Vec<u8>, String> {
        let until = Instant::now() + time;
        while self.buffer.len() < length {
            self.read(until)?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// Waits for more.
    fn read(&mut self, until: Instant) -> Result<(), String> {
        let mut piece = [0; 8 << 10];
        loop {
            match (&*self.stream).read(&mut piece) {
                Ok(0) => return Err("the request ends too early".to_owned()),
                Ok(length) => {
                    self.buffer.extend_from_slice(&piece[..length]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.to_string()),
            }
            self.poll(PollFlags::IN, until).ok_or("the request took too long")?;
        }
    }

    /// Says something, if the guest reads it in this time.
    fn say(&mut self, message: &Value, time: Duration) -> bool {
        let line = format!("{message}\n").into_bytes();
        let until = Instant::now() + time;
        let mut sent = 0;
        while sent < line.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&*self.stream, &line[sent..], flags) {
                Ok(length) => sent += length,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    if self.poll(PollFlags::OUT, until).is_none() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Waits; `None` when the time or the session is over.
    fn poll(&self, flags: PollFlags, until: Instant) -> Option<()> {
        let left = until.checked_duration_since(Instant::now())?;
        let mut polled = [
            PollFd::from_borrowed_fd(self.stream.as_fd(), flags),
            PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN),
        ];
        wait(&mut polled, Some(left)).ok()?;
        polled[1].revents().is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requirements_of_the_index() {
        for good in [
            "six",
            "six>=1.15",
            "requests[socks]",
            "zope.interface",
            "a-b_c==1.0+local",
            "x (>=1,<2)",
            "tzdata; sys_platform == 'linux'",
            "six~=1.0,!=1.1.*",
        ] {
            assert!(is_requirement(good), "{good}");
        }
        let long = "a".repeat(LONGEST_REQUIREMENT + 1);
        for bad in [
            "",
            " six",
            "-r x",
            "--index-url=x",
            "./six",
            "/etc/passwd",
            "../x",
            "six @ https://x/y.whl",
            "https://x/y.whl",
            "file:six",
            "six.whl",
            "x.tar.gz",
            "x.zip",
            "requirements.txt",
            "pyproject.toml",
            "six\n-r /etc/passwd",
            "six\\",
            "six ${HOME}",
            "six #x",
            "a/b",
            "~/x",
            "six;\0",
            "sïx",
            "six-",
            ".six",
            "git+x",
            &long,
            "six>=1 @ file",
        ] {
            assert!(!is_requirement(bad), "{bad:?}");
        }
    }

    #[test]
    fn paths_go_down() {
        for good in ["workspace/.venv", "lib/python3.11/site-packages"] {
            assert!(is_inner(&good), "{good}");
        }
        for bad in ["", "..", "a/../b", "a//b", "./a", "a/.", "a\0b"] {
            assert!(!is_inner(&bad), "{bad:?}");
        }
    }
}
