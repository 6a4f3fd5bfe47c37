//! The one loop that carries out plans.

use std::cell::OnceCell;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use belljar_jail::Step;

use crate::inside;
use crate::sys::{self, During, Failure, Result};

/// What steps refer to.
#[derive(Default)]
pub(crate) struct Context {
    /// Mounts that came along.
    pub(crate) mounts: Vec<OwnedFd>,
    /// The Landlock ruleset.
    pub(crate) ruleset: Option<OwnedFd>,
    /// The compiled system call filters.
    pub(crate) filters: Vec<Vec<u8>>,
    /// What was listened on.
    pub(crate) listener: OnceCell<OwnedFd>,
}

const SAFE: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV;

pub(crate) fn carry_out(steps: &[Step], context: &Context) -> Result<()> {
    steps.iter().try_for_each(|step| one(step, context).during(|| describe(step)))
}

fn one(step: &Step, context: &Context) -> io::Result<()> {
    match step {
        Step::Private => {
            sys::mount(Path::new(""), Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE, None)
        }
        Step::Directory(path) => directory(Path::new(path)),
        Step::File { path, contents } => file(Path::new(path), contents),
        Step::Link { path, target } => match symlink(target, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        },
        Step::Show { source, target } => show(source, Path::new(target)),
        Step::ShowIfPresent { source, target } => match source.exists() {
            true => show(source, Path::new(target)),
            false => Ok(()),
        },
        Step::Device(target) => device(Path::new(target)),
        Step::Memory { target, bytes, files, execute } => {
            let options = format!("size={bytes},nr_inodes={files},mode=755");
            let flags = if *execute { SAFE } else { SAFE | libc::MS_NOEXEC };
            let target = Path::new(target);
            directory(target)?;
            sys::mount(Path::new("memory"), target, Some(c"tmpfs"), flags, Some(&options))
        }
        Step::Again { source, target } => again(Path::new(source), Path::new(target)),
        Step::Attach { descriptor, target, make } => {
            let mount = context.mounts.get(*descriptor).ok_or(io::ErrorKind::NotFound)?;
            if *make {
                directory(Path::new(target))?;
            }
            sys::attach(mount.as_fd(), Path::new(target))
        }
        Step::Make { base, path } => inside::make(Path::new(base), path),
        Step::Hold { base, path } => inside::hold(Path::new(base), path),
        Step::AttachInside { descriptor, base, path, make } => {
            let mount = context.mounts.get(*descriptor).ok_or(io::ErrorKind::NotFound)?;
            inside::attach(mount.as_fd(), Path::new(base), path, *make)
        }
        Step::Listen(path) => {
            let listener = OwnedFd::from(UnixListener::bind(path)?);
            context.listener.set(listener).map_err(|_| io::ErrorKind::AlreadyExists.into())
        }
        Step::Forget(target) => sys::forget(Path::new(target)),
        Step::Processes(root) => {
            let target = Path::new(root).join("proc");
            sys::mount(Path::new("proc"), &target, Some(c"proc"), SAFE | libc::MS_NOEXEC, None)
        }
        Step::Root(root) => {
            std::env::set_current_dir(root)?;
            sys::pivot_here()
        }
        Step::Seal(target) => {
            let flags = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY | SAFE;
            sys::mount(Path::new(""), Path::new(target), None, flags, None)
        }
        Step::Host(name) => sys::set_host_name(name),
        Step::Loopback => sys::loopback(),
        Step::User(id) => user(*id),
        Step::NoUserNamespaces => {
            // Those that matter most; the others are refused by the list of system calls too.
            for name in ["net", "mnt", "pid", "ipc", "uts", "cgroup", "time"] {
                let _ = fs::write(format!("/proc/sys/user/max_{name}_namespaces"), "0");
            }
            fs::write("/proc/sys/user/max_user_namespaces", "0")
        }
        Step::Enter(path) => std::env::set_current_dir(path),
        Step::Limit { which, most } => sys::limit(*which, *most),
        Step::DropCapabilities => sys::drop_capabilities(),
        Step::NoNewPrivileges => sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).map(drop),
        Step::Hide => sys::prctl(libc::PR_SET_DUMPABLE, 0).map(drop),
        Step::Landlock => match &context.ruleset {
            Some(ruleset) => sys::landlock(ruleset.as_fd()),
            None => Ok(()),
        },
        Step::Seccomp => context.filters.iter().try_for_each(|program| sys::filter(program)),
    }
}

fn describe(step: &Step) -> String {
    match step {
        Step::Show { source, .. } | Step::ShowIfPresent { source, .. } => {
            format!("showing {}", source.display())
        }
        step => serde_json::to_string(step).unwrap_or_default(),
    }
}

fn directory(path: &Path) -> io::Result<()> {
    if sys::is_directory(path) {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}

fn parents(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), directory)
}

fn file(path: &Path, contents: &str) -> io::Result<()> {
    parents(path)?;
    OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?.write_all(contents.as_bytes())
}

/// Something to mount on: a directory for a directory, else a file.
fn mount_point(source: &Path, target: &Path) -> io::Result<()> {
    if fs::metadata(source)?.is_dir() {
        return directory(target);
    }
    parents(target)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o644).open(target) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn show(source: &Path, target: &Path) -> io::Result<()> {
    mount_point(source, target)?;
    sys::mount(source, target, None, libc::MS_BIND | libc::MS_REC, None)?;
    sys::set_attributes(None, target, sys::READ_ONLY | sys::NO_SETUID | sys::NO_DEVICES, None)
}

fn again(source: &Path, target: &Path) -> io::Result<()> {
    mount_point(source, target)?;
    sys::mount(source, target, None, libc::MS_BIND | libc::MS_REC, None)
}

fn device(target: &Path) -> io::Result<()> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let source = Path::new("/dev").join(name);
    mount_point(&source, target)?;
    sys::mount(&source, target, None, libc::MS_BIND, None)
}

/// A user namespace of its own, in which this process is `id`.
fn user(id: u32) -> io::Result<()> {
    // Its own files in `/proc` are its own again.
    sys::prctl(libc::PR_SET_DUMPABLE, 1)?;
    sys::unshare(libc::CLONE_NEWUSER)?;
    sys::prctl(libc::PR_SET_DUMPABLE, 1)?;
    fs::write("/proc/self/setgroups", "deny")?;
    // It was 0 in the namespace above.
    fs::write("/proc/self/uid_map", format!("{id} 0 1"))?;
    fs::write("/proc/self/gid_map", format!("{id} 0 1"))?;
    sys::become_user(id)
}

/// Reads filters: a count, then for each the number of its instructions, and these.
pub(crate) fn read_filters(path: &str) -> Result<Vec<Vec<u8>>> {
    let bytes = fs::read(path).during(|| format!("reading {path}"))?;
    parse_filters(&bytes).ok_or_else(|| Failure {
        what: format!("reading {path}"),
        error: io::Error::from(io::ErrorKind::InvalidData),
    })
}

fn parse_filters(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (count, mut rest) = bytes.split_first_chunk::<4>()?;
    let mut filters = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (first, after) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*first) as usize * 8;
        let program = after.get(..length)?;
        filters.push(program.to_vec());
        rest = &after[length..];
    }
    Some(filters)
}
