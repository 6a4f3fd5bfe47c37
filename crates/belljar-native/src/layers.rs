//! What stands between sessions and the host on this machine.

use std::fs;
use std::io;
use std::path::Path;

use belljar_engine::Layer;

use crate::NativeError;
use crate::cgroup;

/// Every layer, and why some are missing. Starts nothing but a process that ends at once.
pub fn layers() -> Vec<Layer> {
    let mut layers = Vec::new();
    let namespaces = user_namespaces();
    let mut add = |name: &str, stops: &str, missing: Option<(String, String)>| {
        let (missing, hint) = missing.unzip();
        layers.push(Layer { name: name.to_owned(), stops: stops.to_owned(), missing, hint });
    };
    add(
        "namespaces",
        "seeing the host's files, processes, network, users, names and semaphores",
        namespaces.err(),
    );
    add("seccomp", "system calls that aren't on a list", seccomp());
    add("landlock", "writing anywhere but where it is meant to, whatever is mounted", landlock());
    for (name, stops, controller) in [
        (
            "cgroup-memory",
            "using more memory than allowed, all processes together",
            cgroup::Controller::Memory,
        ),
        ("cgroup-processes", "having more processes than allowed", cgroup::Controller::Processes),
        ("cgroup-cpu", "keeping more processors busy than allowed", cgroup::Controller::Processor),
    ] {
        let missing = cgroup::find(controller).err().map(|reason| {
            let hint = "run as root, or in a delegated cgroup: systemd-run --user --scope -p Delegate=yes; without it each process has limits of its own (rlimits)";
            (reason, hint.to_owned())
        });
        add(name, stops, missing);
    }
    layers
}

/// Whether user namespaces can be made, or why not and what to do.
fn user_namespaces() -> Result<(), (String, String)> {
    // In a child, since it can't be undone.
    // SAFETY: the child makes two system calls and ends.
    let status = unsafe {
        let pid = libc::fork();
        match pid {
            0 => {
                let done = libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS);
                libc::_exit(if done == 0 { 0 } else { *libc::__errno_location() });
            }
            -1 => return Err((io::Error::last_os_error().to_string(), String::new())),
            pid => {
                let mut status = 0;
                libc::waitpid(pid, &raw mut status, 0);
                libc::WEXITSTATUS(status)
            }
        }
    };
    match status {
        0 => match fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") {
            // There they can be made, but have no rights.
            Ok(text) if text.trim() == "1" && !is_root() => Err(why(libc::EACCES)),
            _ => Ok(()),
        },
        errno => Err(why(errno)),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Why user namespaces are refused, and how to allow them.
fn why(errno: i32) -> (String, String) {
    let number = |path: &str| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<i64>().ok());
    if number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1) && !is_root() {
        return (
            "AppArmor forbids user namespaces to ordinary users (as Ubuntu does since 24.04)".to_owned(),
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile that has `userns,` for this program; `--engine wasm` needs none of it".to_owned(),
        );
    }
    if number("/proc/sys/user/max_user_namespaces") == Some(0) {
        return (
            "user namespaces are turned off: user.max_user_namespaces is 0".to_owned(),
            "sudo sysctl user.max_user_namespaces=10000; `--engine wasm` needs none of it".to_owned(),
        );
    }
    if number("/proc/sys/kernel/unprivileged_userns_clone") == Some(0) && !is_root() {
        return (
            "user namespaces are turned off for ordinary users: kernel.unprivileged_userns_clone is 0"
                .to_owned(),
            "sudo sysctl kernel.unprivileged_userns_clone=1; `--engine wasm` needs none of it".to_owned(),
        );
    }
    let container = Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists();
    let reason = match container {
        true => "this container forbids user namespaces".to_owned(),
        false => format!("user namespaces cannot be made: {}", io::Error::from_raw_os_error(errno)),
    };
    let hint = match container {
        true => {
            "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined, or use `--engine wasm`"
        }
        false => "use `--engine wasm`, which needs nothing of the kernel",
    };
    (reason, hint.to_owned())
}

fn seccomp() -> Option<(String, String)> {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    (!actions.contains("errno")).then(|| {
        ("the kernel has no seccomp filters".to_owned(), "use a kernel with CONFIG_SECCOMP_FILTER".to_owned())
    })
}

fn landlock() -> Option<(String, String)> {
    const VERSION: u32 = 1;
    // SAFETY: with this flag it takes no structure.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, VERSION) };
    (version < 1).then(|| {
        let hint = "use a kernel since 5.13 with `landlock` in its list of security modules (lsm=)";
        ("the kernel has no Landlock".to_owned(), hint.to_owned())
    })
}

/// What a failure of the jail's set-up means.
pub(crate) fn explain(reason: &str, errno: i32) -> NativeError {
    let about_users = reason.contains("user namespace") || reason.contains("_map");
    if about_users && [libc::EPERM, libc::ENOSPC, libc::EACCES, libc::EINVAL].contains(&errno) {
        let (reason, hint) = why(errno);
        return NativeError::Refused { reason, hint };
    }
    if reason.contains("processes") && errno == libc::EPERM {
        return NativeError::Refused {
            reason:
                "a new /proc cannot be mounted: parts of the present one are masked, as in most containers"
                    .to_owned(),
            hint: "start the container with --security-opt systempaths=unconfined, or use `--engine wasm`"
                .to_owned(),
        };
    }
    if [libc::EPERM, libc::EACCES].contains(&errno) && user_namespaces().is_err() {
        let (reason, hint) = why(errno);
        return NativeError::Refused { reason, hint };
    }
    NativeError::Io(format!("the jail cannot be built: {reason}"))
}
