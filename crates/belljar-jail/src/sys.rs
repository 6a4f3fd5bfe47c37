//! System calls that the standard library doesn't have, each checked.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::{fs, mem, ptr};

/// What failed, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) what: String,
    pub(crate) error: io::Error,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Says what was being done.
pub(crate) trait During<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure { what: what(), error })
    }
}

impl Failure {
    pub(crate) fn errno(&self) -> i32 {
        self.error.raw_os_error().unwrap_or_default()
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.what, self.error)
    }
}

pub(crate) fn checked(value: impl Into<i64>) -> io::Result<i64> {
    match value.into() {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

pub(crate) fn c_string(text: impl AsRef<[u8]>) -> io::Result<CString> {
    CString::new(text.as_ref()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn c_path(path: &Path) -> io::Result<CString> {
    c_string(path.as_os_str().as_encoded_bytes())
}

/// `fork` with new namespaces; 0 in the child. The process must have one thread.
pub(crate) fn clone(namespaces: i32) -> io::Result<i32> {
    let flags = (namespaces | libc::SIGCHLD) as libc::c_ulong;
    // SAFETY: without a stack it is `fork`, and this program has one thread.
    checked(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) }).map(|pid| pid as i32)
}

pub(crate) fn unshare(namespaces: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::unshare(namespaces) }).map(drop)
}

pub(crate) fn mount(
    source: &Path,
    target: &Path,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    data: Option<&str>,
) -> io::Result<()> {
    let (source, target) = (c_path(source)?, c_path(target)?);
    let data = data.map(c_string).transpose()?;
    // SAFETY: the strings live until it returns.
    let done = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.map_or(ptr::null(), CStr::as_ptr),
            flags,
            data.as_ref().map_or(ptr::null(), |data| data.as_ptr()).cast(),
        )
    };
    checked(done).map(drop)
}

/// Changes the attributes of a mount and of all below it.
pub(crate) fn set_attributes(
    mount: Option<BorrowedFd<'_>>,
    path: &Path,
    set: u64,
    users: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let attributes = Attributes {
        set,
        clear: 0,
        propagation: 0,
        user_namespace: users.map_or(0, |users| users.as_raw_fd() as u64),
    };
    let directory = mount.map_or(libc::AT_FDCWD, |mount| mount.as_raw_fd());
    let empty = if mount.is_some() { libc::AT_EMPTY_PATH } else { 0 };
    let path = c_path(path)?;
    // SAFETY: the structure is the kernel's first version of it, and lives.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory,
            path.as_ptr(),
            libc::AT_RECURSIVE | empty,
            &raw const attributes,
            mem::size_of::<Attributes>(),
        )
    };
    checked(done).map(drop)
}

/// Attributes of mounts.
pub(crate) const READ_ONLY: u64 = 1;
pub(crate) const NO_SETUID: u64 = 2;
pub(crate) const NO_DEVICES: u64 = 4;
pub(crate) const ID_MAPPED: u64 = 0x0010_0000;

/// A clone of what is mounted at a path, that nobody sees.
pub(crate) fn open_tree(path: &Path, recursive: bool) -> io::Result<OwnedFd> {
    const CLONE: u32 = 1;
    let flags = CLONE | libc::O_CLOEXEC as u32 | if recursive { libc::AT_RECURSIVE as u32 } else { 0 };
    let path = c_path(path)?;
    // SAFETY: the path lives; the descriptor is new.
    unsafe {
        let opened = checked(libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags))?;
        Ok(OwnedFd::from_raw_fd(opened as i32))
    }
}

/// A clone of the mount that a directory is in, from there on, that nobody sees.
pub(crate) fn clone_directory(directory: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const CLONE: u32 = 1;
    let flags = CLONE | libc::O_CLOEXEC as u32 | libc::AT_EMPTY_PATH as u32 | libc::AT_RECURSIVE as u32;
    // SAFETY: the path lives; the descriptor is new.
    unsafe {
        let opened = checked(libc::syscall(libc::SYS_open_tree, directory.as_raw_fd(), c"".as_ptr(), flags))?;
        Ok(OwnedFd::from_raw_fd(opened as i32))
    }
}

/// Attaches a mount that nobody sees yet.
pub(crate) fn attach(mount: BorrowedFd<'_>, target: &Path) -> io::Result<()> {
    move_mount(mount, libc::AT_FDCWD, &c_path(target)?, 0)
}

/// The same, on a directory that is open.
pub(crate) fn attach_at(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    const EMPTY_TARGET: u32 = 0x40;
    move_mount(mount, target.as_raw_fd(), c"", EMPTY_TARGET)
}

fn move_mount(mount: BorrowedFd<'_>, directory: i32, target: &CStr, flags: u32) -> io::Result<()> {
    const EMPTY_SOURCE: u32 = 4;
    // SAFETY: the paths live.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            directory,
            target.as_ptr(),
            EMPTY_SOURCE | flags,
        )
    };
    checked(done).map(drop)
}

/// What has a name in a directory.
pub(crate) enum Found {
    Nothing,
    Directory,
    File,
    Other,
}

/// Looks what has a name in a directory. Links aren't followed.
pub(crate) fn look(parent: BorrowedFd<'_>, name: &str) -> io::Result<Found> {
    let name = c_string(name)?;
    // SAFETY: all zeros is a value of it; the name and the structure live.
    let (done, stat) = unsafe {
        let mut stat: libc::stat = mem::zeroed();
        let done = libc::fstatat(parent.as_raw_fd(), name.as_ptr(), &raw mut stat, libc::AT_SYMLINK_NOFOLLOW);
        (done, stat)
    };
    match checked(done) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
        Err(error) => Err(error),
        Ok(_) => Ok(match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => Found::Directory,
            libc::S_IFREG => Found::File,
            _ => Found::Other,
        }),
    }
}

/// A directory of ours, to look below it.
pub(crate) fn open_base(path: &Path) -> io::Result<OwnedFd> {
    open_at(libc::AT_FDCWD, &c_path(path)?, 0)
}

/// A directory in a directory. A link isn't followed.
pub(crate) fn open_directory(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    open_at(parent.as_raw_fd(), &c_string(name)?, libc::O_NOFOLLOW)
}

fn open_at(parent: i32, name: &CStr, flags: i32) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the name lives; the descriptor is new.
    unsafe {
        let opened = checked(libc::openat(parent, name.as_ptr(), flags))?;
        Ok(OwnedFd::from_raw_fd(opened as i32))
    }
}

pub(crate) fn make_directory(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: the name lives.
    checked(unsafe { libc::mkdirat(parent.as_raw_fd(), name.as_ptr(), 0o755) }).map(drop)
}

pub(crate) fn unlink(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: the name lives.
    checked(unsafe { libc::unlinkat(parent.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

/// Gives something another name in the same directory, if that is free.
pub(crate) fn rename_beside(parent: BorrowedFd<'_>, name: &str, other: &str) -> io::Result<()> {
    let (name, other) = (c_string(name)?, c_string(other)?);
    let parent = parent.as_raw_fd();
    // SAFETY: the names live.
    let done = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            parent,
            name.as_ptr(),
            parent,
            other.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    checked(done).map(drop)
}

/// Makes the working directory the root, and forgets the old one.
pub(crate) fn pivot_here() -> io::Result<()> {
    // SAFETY: the paths live.
    unsafe {
        checked(libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()))?;
        checked(libc::umount2(c".".as_ptr(), libc::MNT_DETACH))?;
    }
    std::env::set_current_dir("/")
}

pub(crate) fn forget(target: &Path) -> io::Result<()> {
    let target = c_path(target)?;
    // SAFETY: the path lives.
    checked(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }).map(drop)
}

pub(crate) fn become_user(id: u32) -> io::Result<()> {
    // SAFETY: no pointers.
    unsafe {
        checked(libc::setresgid(id, id, id))?;
        checked(libc::setresuid(id, id, id))?;
    }
    Ok(())
}

pub(crate) fn prctl(option: i32, value: libc::c_ulong) -> io::Result<i64> {
    // SAFETY: the options used here take numbers.
    checked(unsafe { libc::prctl(option, value, 0, 0, 0) })
}

/// Gives up all capabilities, also those that programs could bring.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    const LAST: libc::c_ulong = 63;
    for capability in 0..=LAST {
        // Beyond the last that the kernel knows it refuses.
        if prctl(libc::PR_CAPBSET_DROP, capability).is_err() {
            break;
        }
    }
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    let header = [0x2008_0522_u32, 0];
    let nothing = [0_u32; 6];
    // SAFETY: the third version has a header of two words and data of six.
    checked(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), nothing.as_ptr()) }).map(drop)
}

pub(crate) fn limit(which: u32, most: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the structure lives.
    checked(unsafe { libc::setrlimit(which as _, &raw const limit) }).map(drop)
}

/// As many descriptors as may be: sessions can make the kernel count theirs as ours.
pub(crate) fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Adds a filter of system calls: instructions of eight bytes.
pub(crate) fn filter(program: &[u8]) -> io::Result<()> {
    #[repr(C)]
    struct Program {
        length: u16,
        instructions: *const u8,
    }
    const SET_FILTER: libc::c_ulong = 1;
    // Aligned as the kernel likes it.
    let words: Vec<u64> = program
        .chunks_exact(8)
        .map(|chunk| u64::from_ne_bytes(chunk.try_into().unwrap_or_default()))
        .collect();
    let length = u16::try_from(words.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = Program { length, instructions: words.as_ptr().cast() };
    // SAFETY: the program and its instructions live.
    checked(unsafe { libc::syscall(libc::SYS_seccomp, SET_FILTER, 0, &raw const program) }).map(drop)
}

pub(crate) fn landlock(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) }).map(drop)
}

pub(crate) fn set_host_name(name: &str) -> io::Result<()> {
    // SAFETY: the name lives and its length is given.
    checked(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }).map(drop)
}

pub(crate) fn loopback() -> io::Result<()> {
    // SAFETY: the request names `lo` and lives; the descriptor is new.
    unsafe {
        let socket = checked(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let socket = OwnedFd::from_raw_fd(socket as i32);
        let mut request: libc::ifreq = mem::zeroed();
        request.ifr_name[0] = b'l' as _;
        request.ifr_name[1] = b'o' as _;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        checked(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request)).map(drop)
    }
}

pub(crate) fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor is new.
    unsafe {
        let opened = checked(libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
        Ok(OwnedFd::from_raw_fd(opened as i32))
    }
}

/// Waits for a child: its number and how it ended, or `None` if none has ended yet.
pub(crate) fn wait(pid: i32, block: bool) -> io::Result<Option<(i32, i32)>> {
    let mut status = 0;
    loop {
        // SAFETY: the status lives.
        match checked(unsafe { libc::waitpid(pid, &raw mut status, if block { 0 } else { libc::WNOHANG }) }) {
            Ok(0) => return Ok(None),
            Ok(pid) => return Ok(Some((pid as i32, exit_code(status)))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn exit_code(status: i32) -> i32 {
    match libc::WIFSIGNALED(status) {
        true => 128 + libc::WTERMSIG(status),
        false => libc::WEXITSTATUS(status),
    }
}

pub(crate) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Closes all descriptors from this one on.
pub(crate) fn close_from(first: i32) {
    // SAFETY: whoever calls it has no use for them any more.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
}

/// Puts these descriptors at 0, 1, 2, … and closes all others. They live on over `exec`.
pub(crate) fn arrange(descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let count = descriptors.len() as i32;
    // First out of the way of each other.
    let mut copies = Vec::new();
    for descriptor in descriptors {
        // SAFETY: no pointers.
        copies.push(checked(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD, count + 64) })?);
    }
    for (place, copy) in copies.iter().enumerate() {
        // SAFETY: the copy is open; what was at the place isn't used any more.
        checked(unsafe { libc::dup2(*copy as i32, place as i32) })?;
    }
    close_from(count);
    Ok(())
}

/// A descriptor that is readable when a child has ended.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set lives; the descriptor is new.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        checked(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()))?;
        let opened = checked(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(OwnedFd::from_raw_fd(opened as i32))
    }
}

/// Every signal as it is by default, and none blocked.
pub(crate) fn reset_signals() {
    // SAFETY: the set lives; no handler is set.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut());
    }
}

/// Waits until one of these can be read, or has ended.
pub(crate) fn poll(descriptors: &[BorrowedFd<'_>]) -> io::Result<Vec<bool>> {
    let mut entries: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|descriptor| libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    loop {
        // SAFETY: the entries live.
        match checked(unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as _, -1) }) {
            Ok(_) => return Ok(entries.iter().map(|entry| entry.revents != 0).collect()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Replaces this process.
pub(crate) fn exec(argv: &[String], env: &[String]) -> io::Result<()> {
    let argv: Vec<CString> = argv.iter().map(c_string).collect::<io::Result<_>>()?;
    let env: Vec<CString> = env.iter().map(c_string).collect::<io::Result<_>>()?;
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let Some(program) = argv.first() else { return Err(io::Error::from_raw_os_error(libc::EINVAL)) };
    // SAFETY: the strings and the lists live, and the lists end with null.
    unsafe { libc::execve(program.as_ptr(), pointers(&argv).as_ptr(), pointers(&env).as_ptr()) };
    Err(io::Error::last_os_error())
}

pub(crate) fn new_session() {
    // SAFETY: no pointers. It fails only if this process leads a group already.
    unsafe { libc::setsid() };
}

/// Waits without end.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: nothing is left to clean up; destructors of a forked process aren't to run.
    unsafe { libc::_exit(code) }
}

/// A descriptor that this process was started with.
pub(crate) fn inherited(descriptor: i32) -> OwnedFd {
    // SAFETY: whoever starts this program hands it over, and it is taken once.
    unsafe {
        libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        OwnedFd::from_raw_fd(descriptor)
    }
}

pub(crate) fn is_directory(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_dir())
}
