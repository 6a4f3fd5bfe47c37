import ctypes, errno, os, signal, socket, struct, subprocess, sys, time

_libc = ctypes.CDLL(None, use_errno=True)


def syscall(number, *arguments):
    """0 or the number of the error."""
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    ctypes.set_errno(0)
    done = _libc.syscall(ctypes.c_long(number), *arguments)
    return ctypes.get_errno() if done == -1 else 0


def error_of(action, *arguments):
    """Why it is refused."""
    try:
        action(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]


def others():
    """All processes that can be seen but this one and init."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]


def in_child(action, *arguments):
    """The status of a child that does it."""
    pid = os.fork()
    if pid == 0:
        try:
            action(*arguments)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
