//! The interpreter that has imported everything, and forks sessions.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use belljar_jail::wire;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::jail::{Jail, pair};
use crate::{NativeEnvironment, NativeError, plan, sys};

/// How long importing everything may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a fork may take.
const FORKING: Duration = Duration::from_secs(30);

pub(crate) struct Zygote {
    socket: Mutex<OwnedFd>,
    process: OwnedFd,
    /// Bytes of writable memory that every child starts with.
    pub(crate) inherited: u64,
    /// Modules that couldn't be imported, and why.
    pub(crate) failed: Vec<String>,
}

#[derive(Deserialize)]
struct Ready {
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    failed: std::collections::BTreeMap<String, String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Forked {
    error: Option<String>,
}

impl Zygote {
    pub(crate) fn start(jail: &Jail, environment: &NativeEnvironment) -> Result<Self, NativeError> {
        let fail = |error: io::Error| NativeError::Zygote(error.to_string());
        let (socket, theirs) = pair().map_err(fail)?;
        let (errors, their_errors) = io::pipe().map_err(fail)?;
        let nothing = std::fs::File::open("/dev/null").map_err(fail)?;
        let argument = json!({
            "preload": environment.preload,
            "setup": environment.setup,
            "packages": environment.packages.is_some().then_some(plan::PACKAGES),
            "seccomp": format!("{}/seccomp.bpf", plan::GUEST),
        });
        let argv = vec![
            plan::interpreter(environment),
            "-I".to_owned(),
            "-S".to_owned(),
            "-B".to_owned(),
            format!("{}/belljar_native/__main__.py", plan::GUEST),
            argument.to_string(),
        ];
        let descriptors = [nothing.as_fd(), their_errors.as_fd(), their_errors.as_fd(), theirs.as_fd()];
        let process = jail.program(argv, surroundings(environment), &descriptors).map_err(fail)?;
        drop((theirs, their_errors));
        rustix::net::sockopt::set_socket_timeout(
            &socket,
            rustix::net::sockopt::Timeout::Recv,
            Some(PATIENCE),
        )
        .map_err(|error| fail(error.into()))?;
        let heard = wire::receive::<Ready>(&socket);
        let ready = match heard {
            Ok(Some((Ready { error: None, ready: true, failed, .. }, _))) => failed,
            Ok(Some((Ready { error, .. }, _))) => return Err(NativeError::Zygote(error.unwrap_or_default())),
            Ok(None) => return Err(NativeError::Zygote(last_words(errors))),
            Err(error) => return Err(fail(error)),
        };
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(FORKING))
            .map_err(|error| fail(error.into()))?;
        let inherited = sys::host_pid(process.as_fd()).map_or(0, writable_memory);
        let failed = ready.into_iter().map(|(module, message)| format!("{module}: {message}")).collect();
        Ok(Self { socket: socket.into(), process, inherited, failed })
    }

    /// Forks a kernel. The descriptors are its socket, its standard streams, its init and the Landlock ruleset.
    pub(crate) fn fork(&self, steps: &[Value], descriptors: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(&*socket, &json!({ "steps": steps }), descriptors)?;
        let (reply, mut gifts) = wire::receive::<Forked>(&*socket)?.ok_or_else(|| {
            io::Error::new(io::ErrorKind::BrokenPipe, "the preloaded interpreter has ended")
        })?;
        match (reply.error, gifts.pop()) {
            (None, Some(process)) => Ok(process),
            (Some(error), _) => Err(io::Error::other(error)),
            (None, None) => Err(io::Error::other("the preloaded interpreter said what makes no sense")),
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        !sys::has_ended(self.process.as_fd())
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        let _ = sys::signal(self.process.as_fd(), libc::SIGKILL);
    }
}

/// The interpreter's whole environment: nothing of the host's.
fn surroundings(environment: &NativeEnvironment) -> Vec<String> {
    let mut all = vec![
        "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
        "HOME=/workspace".to_owned(),
        "LANG=C.UTF-8".to_owned(),
        "PYTHONDONTWRITEBYTECODE=1".to_owned(),
    ];
    if !environment.prefix.starts_with("/usr") {
        all.push("LD_LIBRARY_PATH=/opt/python/lib".to_owned());
    }
    all
}

/// What it said before it ended.
fn last_words(errors: io::PipeReader) -> String {
    use std::io::Read;
    let mut text = Vec::new();
    let _ = errors.take(16 << 10).read_to_end(&mut text);
    match String::from_utf8_lossy(&text).trim() {
        "" => "it ended without a word".to_owned(),
        words => words.to_owned(),
    }
}

/// Bytes that count against `RLIMIT_DATA`.
fn writable_memory(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or_default() << 10
}
