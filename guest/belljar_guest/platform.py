"""What WASI lacks, said clearly; and defaults that fit the sandbox. Does nothing on other platforms."""

import errno
import multiprocessing.context
import multiprocessing.process
import os
import socket
import subprocess
import sys
import tempfile
import threading
import zoneinfo

from . import wire
from .private import OWN as __builtins__

_NO_THREADS = (
    "threads don't exist in this sandbox; use asyncio (asyncio.to_thread runs the function at once)"
)
_NO_PROCESSES = "processes don't exist in this sandbox; do it in Python, or call a tool"
_NO_NETWORK = "this sandbox has no network; call a tool"


def install(exchange):
    if sys.platform != "wasi":
        return
    _exit(exchange)
    tempfile.tempdir = "/tmp"
    zoneinfo.reset_tzpath(to=["/usr/share/zoneinfo"])
    for name in ("getuid", "geteuid", "getgid", "getegid"):
        setattr(os, name, lambda: 1000)
    _threads()
    _processes()
    _network()


def _exit(exchange):
    """WASI's own way out knows only success and failure."""

    def leave(status):
        exchange(wire.EXIT + wire.EXIT_STATUS.pack(int(status) & 0xFF))

    leave.__name__ = leave.__qualname__ = "_exit"
    leave.__module__ = "os"
    os._exit = leave


def _threads():
    def start(self):
        raise RuntimeError(_NO_THREADS)

    threading.Thread.start = start


def _processes():
    def refuse(*args, **kwargs):
        raise OSError(errno.ENOTSUP, _NO_PROCESSES)

    subprocess.Popen.__init__ = refuse
    os.system = refuse
    os.popen = refuse
    multiprocessing.process.BaseProcess.start = refuse
    for name in ("Pool", "Manager", "Queue", "SimpleQueue", "JoinableQueue"):
        setattr(multiprocessing.context.BaseContext, name, refuse)
        setattr(multiprocessing, name, refuse)


def _network():
    """The errors stay what they are (a host may allow sockets), and say what to do."""

    def explained(function):
        def call(*args, **kwargs):
            try:
                return function(*args, **kwargs)
            except OSError as error:
                raise _explain(error) from None

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        return call

    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        if hasattr(socket, name):
            setattr(socket, name, explained(getattr(socket, name)))
    for name in ("__init__", "connect", "bind"):
        if hasattr(socket.socket, name):
            setattr(socket.socket, name, _method(explained(getattr(socket.socket, name))))


def _method(function):
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    method.__name__, method.__doc__ = function.__name__, function.__doc__
    return method


def _explain(error):
    if isinstance(error, TimeoutError) or _NO_NETWORK in str(error):
        return error
    return type(error)(error.errno, f"{error.strerror or error}: {_NO_NETWORK}")
