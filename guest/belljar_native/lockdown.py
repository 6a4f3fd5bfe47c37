"""The way into the jail: one step after the other, through system calls that were looked up before the fork.

The host says which steps, and in which order; see `PROTOCOL.md`. The first that fails is the last: a kernel that isn't
locked down must not run a cell.
"""

import ctypes
import errno
import os
import platform
import resource
import struct

from belljar_guest.private import OWN as __builtins__

CLONE_NEWPID = 0x20000000
_NUMBERS = {
    "x86_64": {"prctl": 157, "capset": 126, "setgroups": 116, "prlimit64": 302, "setns": 308, "seccomp": 317},
    "aarch64": {"prctl": 167, "capset": 91, "setgroups": 159, "prlimit64": 261, "setns": 268, "seccomp": 277},
}
_LANDLOCK_RESTRICT_SELF, _CLOSE_RANGE = 446, 436
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 4, 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_SET_MODE_FILTER = 1
_CAPABILITY_VERSION_3 = 0x20080522
_ALL = 0xFFFFFFFFFFFFFFFF
_LIMITS = {
    name[len("RLIMIT_") :].lower(): value for name, value in vars(resource).items() if name.startswith("RLIMIT_")
}


class Refused(Exception):
    """A step failed: (step, errno, message)."""


class Lockdown:
    """`programs` is the file of seccomp filters, read before any fork."""

    def __init__(self, programs=b""):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._syscall = self._libc.syscall
        self._syscall.restype = ctypes.c_long
        self._syscall.argtypes = [ctypes.c_long] * 6
        try:
            self._numbers = _NUMBERS[platform.machine()]
        except KeyError:
            raise OSError(errno.ENOSYS, f"no system calls are known for {platform.machine()}") from None
        self._filters = [_Filter(instructions) for instructions in parse_programs(programs)]
        self._capabilities = _last_capability()
        self._header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
        self._nothing = ctypes.create_string_buffer(24)
        self._limit = ctypes.create_string_buffer(16)
        self._steps = {
            "setns": self._setns,
            "setresgid": self._setresgid,
            "setresuid": self._setresuid,
            "setsid": self._setsid,
            "rlimit": self._rlimit,
            "drop_bounding": self._drop_bounding,
            "drop_capabilities": self._drop_capabilities,
            "no_new_privs": self._no_new_privs,
            "landlock": self._landlock,
            "dumpable": self._dumpable,
            "oom_score": self._oom_score,
            "seccomp": self._seccomp,
        }

    def run(self, steps, descriptors):
        """All of them, or Refused."""
        for step in steps:
            try:
                name = step[0]
                action = self._steps.get(name)
                if action is None:
                    raise OSError(errno.EINVAL, "the kernel doesn't know this step")
                action(descriptors, *step[1:])
            except OSError as error:
                raise Refused(str(step[0])[:100], error.errno or 0, error.strerror or str(error)) from None
            except Exception as error:
                raise Refused(str(step)[:100], errno.EINVAL, f"{type(error).__name__}: {error}") from None

    def enter_for_children(self, descriptor):
        """Where later children of this process are born."""
        self._call("setns", descriptor, CLONE_NEWPID)

    def close_from(self, first):
        """Closes every descriptor from this one on."""
        if self._syscall(_CLOSE_RANGE, first, 0xFFFFFFFF, 0, 0, 0) != 0:
            os.closerange(first, 65536)

    def _call(self, name, *arguments):
        if self._syscall(self._numbers[name], *arguments, *_ZEROS[len(arguments)]) < 0:
            raise _last_error()

    def _setns(self, descriptors, place, flags):
        self._call("setns", descriptors[place], flags)

    def _setresgid(self, descriptors, number):
        try:
            self._call("setgroups", 0, 0)
        except PermissionError:
            pass  # a user namespace may forbid it, and has no groups then
        os.setresgid(number, number, number)

    def _setresuid(self, descriptors, number):
        os.setresuid(number, number, number)

    def _setsid(self, descriptors):
        os.setsid()

    def _rlimit(self, descriptors, which, soft, hard):
        which = _LIMITS[which.lower().removeprefix("rlimit_")] if isinstance(which, str) else which
        soft, hard = (_ALL if value is None else value & _ALL for value in (soft, hard))
        struct.pack_into("=QQ", self._limit, 0, soft, hard)
        self._call("prlimit64", 0, which, ctypes.addressof(self._limit), 0)

    def _drop_bounding(self, descriptors):
        for capability in range(self._capabilities + 1):
            self._call("prctl", _PR_CAPBSET_DROP, capability)

    def _drop_capabilities(self, descriptors):
        self._call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
        self._call("capset", ctypes.addressof(self._header), ctypes.addressof(self._nothing))

    def _no_new_privs(self, descriptors):
        self._call("prctl", _PR_SET_NO_NEW_PRIVS, 1)

    def _landlock(self, descriptors, place):
        if self._syscall(_LANDLOCK_RESTRICT_SELF, descriptors[place], 0, 0, 0, 0) < 0:
            raise _last_error()

    def _dumpable(self, descriptors, value):
        self._call("prctl", _PR_SET_DUMPABLE, value)

    def _oom_score(self, descriptors, score):
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, b"%d" % score)
        finally:
            os.close(file)

    def _seccomp(self, descriptors):
        if not self._filters:
            raise OSError(errno.ENOENT, "the zygote was given no seccomp filters")
        for item in self._filters:
            self._call("seccomp", _SECCOMP_SET_MODE_FILTER, 0, item.address)


class _Filter:
    """One `sock_fprog`, kept alive with what it points to."""

    def __init__(self, instructions):
        self._instructions = ctypes.create_string_buffer(instructions, len(instructions))
        pointer = ctypes.addressof(self._instructions)
        self._program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions) // 8, pointer))
        self.address = ctypes.addressof(self._program)


def parse_programs(data):
    """u32 count; for each: u32 number of instructions, then 8 bytes each."""
    if not data:
        return []
    (count,), place, programs = struct.unpack_from("<I", data), 4, []
    for _ in range(count):
        (length,) = struct.unpack_from("<I", data, place)
        start, place = place + 4, place + 4 + 8 * length
        if not 0 < length <= 4096 or place > len(data):
            raise ValueError("the seccomp filters are damaged")
        programs.append(data[start:place])
    if place != len(data) or not programs:
        raise ValueError("the seccomp filters are damaged")
    return programs


def _last_capability():
    try:
        with open("/proc/sys/kernel/cap_last_cap") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 40


def _last_error():
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


_ZEROS = [(0,) * (5 - used) for used in range(6)]
