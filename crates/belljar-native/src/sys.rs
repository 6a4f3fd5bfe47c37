//! The few system calls that have no safe wrapper elsewhere.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Gives a program these descriptors, at consecutive places from `first` on, and no others but its standard streams.
pub(crate) fn inherit(command: &mut Command, descriptors: &[BorrowedFd<'_>], first: i32) {
    let raw: Vec<i32> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let arrange = move || {
        let beyond = first + raw.len() as i32;
        // SAFETY: after `fork` only system calls are made; all numbers are descriptors of this process.
        unsafe {
            let mut copies = [0; 8];
            for (copy, descriptor) in copies.iter_mut().zip(&raw) {
                *copy = libc::fcntl(*descriptor, libc::F_DUPFD, beyond + 64);
                if *copy < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            for (place, copy) in (first..).zip(copies.iter().take(raw.len())) {
                if libc::dup2(*copy, place) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            // The standard library tells of a failed `exec` through a descriptor of its own, which closes by itself.
            libc::syscall(libc::SYS_close_range, beyond, u32::MAX, 4 /* CLOSE_RANGE_CLOEXEC */);
        }
        Ok(())
    };
    // SAFETY: the closure makes only system calls.
    unsafe { command.pre_exec(arrange) };
}

/// Processor time of another process, all its threads together.
pub(crate) fn processor_time(pid: i32) -> Option<std::time::Duration> {
    // As `clock_getcpuclockid` makes it, which asks the kernel whether the process exists.
    let clock = (!pid << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (done == 0).then(|| std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Whose rights on files are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// Runs with another user's rights on files, for this thread.
pub(crate) fn as_owner<T>(owner: Option<Owner>, body: impl FnOnce() -> T) -> T {
    let Some(owner) = owner else { return body() };
    // SAFETY: no pointers; it concerns this thread only.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, owner.group);
        libc::syscall(libc::SYS_setfsuid, owner.user);
    }
    let done = body();
    // SAFETY: as above.
    unsafe {
        libc::syscall(libc::SYS_setfsuid, 0);
        libc::syscall(libc::SYS_setfsgid, 0);
    }
    done
}

/// Whether a process has ended, or the other end of a socket is closed.
pub(crate) fn has_ended(descriptor: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    !polled[0].revents().is_empty()
}

/// Sends a signal to a process by its descriptor.
pub(crate) fn signal(process: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: no information goes along.
    let done = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The number of a process on the host, by its descriptor.
pub(crate) fn host_pid(process: BorrowedFd<'_>) -> Option<i32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd())).ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok().filter(|pid| *pid > 0)
}

/// The number of a process in its own namespace.
pub(crate) fn inner_pid(host: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{host}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok().filter(|pid| *pid > 1)
}

/// Clock ticks since the machine started, as `/proc` counts them.
pub(crate) fn ticks() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    time.tv_sec as u64 * 100 + time.tv_nsec as u64 / 10_000_000
}
