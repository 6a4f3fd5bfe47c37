"""Shadows: forks of a session that sleep, each a kernel of its own, until the host wants to go back to one of them.

A fork has only the thread that forked. So there is none while other threads run, save those of Arrow, which knows how to
go on without them. `os.fork` it is, and not `clone` with CLONE_PARENT, which would leave no child behind but skips the
handlers by which C libraries (OpenBLAS, Arrow, malloc) stay usable; nor a double fork, which copies the page tables
twice. The price: shadows are children of the session, whose ends are noticed at the next shadow.
"""

import os
import random
import sys
import threading
import warnings
from stat import S_ISREG

from belljar_guest.private import OWN as __builtins__

_shadows = []
_positions = {}  # where this shadow's open files were when it fell asleep
_WITH_OWN_THREADS = ("pyarrow",)


def shadow(channel, kernel, payload, descriptors):
    """The reply of the parent; in the child, the empty reply."""
    _reap()
    why = threads_in_words()
    if why:
        return {"refused": why}
    if not descriptors:
        return {"refused": "no socket came with the frame"}
    kernel.streams.flush()
    state = _getstate()
    # Before: the parent goes on at once, and what it reads and writes moves the child's files too.
    _note_positions()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads, which we know of
            pid = channel.fork()
    except OSError as error:
        _positions.clear()
        return {"refused": f"fork failed: {error.strerror}"}
    if pid:
        _positions.clear()
        _shadows.append(pid)
        return {"pid": pid}
    _shadows.clear()
    _setstate(state)  # `random` seeds itself anew in every child
    try:
        os.setsid()
    except OSError:
        pass  # it leads a session already
    channel.replace(descriptors.pop(0))
    return None


def wake():
    """Called at each frame: the first one finds open files where they were, though the parent went on reading them."""
    if not _positions:
        return
    for descriptor, (inode, position) in _positions.items():
        try:
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) == inode:
                os.lseek(descriptor, position, os.SEEK_SET)
        except OSError:
            pass
    _positions.clear()


def _note_positions():
    _positions.clear()
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return
    for name in names:
        descriptor = int(name)
        try:
            found = os.fstat(descriptor)
            if S_ISREG(found.st_mode):
                _positions[descriptor] = (found.st_dev, found.st_ino), os.lseek(descriptor, 0, os.SEEK_CUR)
        except OSError:
            pass  # the directory itself, closed by now


def threads_in_words():
    """Why this process can't be forked, or None."""
    others = len(sys._current_frames()) - 1
    if others > 0:
        names = [thread.name for thread in _enumerate() if thread is not _main_thread()][:5]
        return f"{_count(others, 'Python thread')} running ({', '.join(names) or 'nameless'})"
    native = _native_threads() - 1
    if native > 0 and not any(name in sys.modules for name in _WITH_OWN_THREADS):
        return f"{_count(native, 'thread')} of a C library running"
    return None


def _count(number, what):
    return f"{number} other {what}{' is' if number == 1 else 's are'}"


def _native_threads():
    try:
        return os.stat("/proc/self/task").st_nlink - 2
    except OSError:
        return 1


def _reap():
    for pid in list(_shadows):
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                continue
        except OSError:
            pass  # the user's code waited for all children
        _shadows.remove(pid)


_getstate, _setstate = random.getstate, random.setstate
_enumerate, _main_thread = threading.enumerate, threading.main_thread
