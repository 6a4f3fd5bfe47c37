"""The kernel's socket: messages with a length, some with descriptors.

Half a message would be the end of the session, so no signal handler of the user's runs while one is under way: signals
are blocked, and come afterwards. A signal that another thread received is handled in the main thread all the same;
`interrupt` spares `exchange`, which delivers the interrupt when it has its answer.

Threads of the user's may call `exchange` while a cell runs. Between cells the main thread has the lock, because the
next message is a frame for it and not an answer for them.
"""

import _signal
import os
from _thread import allocate_lock, get_ident
from array import array
from socket import AF_UNIX, MSG_CMSG_CLOEXEC, MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, CMSG_SPACE
from socket import socket as Socket

from belljar_guest import interrupt
from belljar_guest.private import OWN as __builtins__

from .wire import LENGTH

_MAX_DESCRIPTORS = 2
_ROOM = CMSG_SPACE(_MAX_DESCRIPTORS * array("i").itemsize)
_SMALL = 1 << 16
# Those that a program handles to interrupt itself; not those that report a crash.
_SIGNALS = frozenset(
    (_signal.SIGINT, _signal.SIGALRM, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGUSR1, _signal.SIGUSR2,
     _signal.SIGCHLD, _signal.SIGVTALRM, _signal.SIGPROF, _signal.SIGQUIT, _signal.SIGIO, _signal.SIGWINCH)
)
_NOT_HERE = (
    "this is a process that a cell forked: only the session's own process can display and call tools; "
    "return the result to it"
)


class Channel:
    def __init__(self):
        self._socket = None
        self.lock = allocate_lock()
        self._main = get_ident()
        self._forks_itself = False

    def attach(self, descriptor):
        self._socket = Socket(AF_UNIX, SOCK_STREAM, 0, descriptor)

    def replace(self, descriptor):
        """Another socket in the place of this one, under its number."""
        number = self._socket.detach()
        os.dup2(descriptor, number, inheritable=False)
        os.close(descriptor)
        self.attach(number)

    def attached(self):
        return self._socket is not None

    def abandoned(self):
        return self._socket is None

    def fork(self):
        """A fork whose child is a kernel too; it has to `attach` another socket."""
        self._forks_itself = True
        try:
            return _fork()
        finally:
            self._forks_itself = False

    def after_fork(self):
        """In every forked child: the socket is the parent's."""
        self._main = get_ident()
        if not self._forks_itself and self._socket is not None:
            self._socket.close()
            self._socket = None
            self.lock = allocate_lock()

    def has_message(self):
        """Whether the host has said something already."""
        try:
            return bool(self._socket.recv(1, MSG_DONTWAIT | MSG_PEEK))
        except OSError:
            return False

    def receive(self):
        """The next message and its descriptors, or None when the host is gone."""
        connection = self._socket
        start, ancillary, _, _ = connection.recvmsg(4, _ROOM, MSG_CMSG_CLOEXEC)
        descriptors = array("i")
        for level, kind, data in ancillary:
            if level == SOL_SOCKET and kind == SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        if len(start) < 4:
            start = self._rest(start, 4)
            if start is None:
                return None
        frame = self._rest(b"", LENGTH.unpack(start)[0])
        return None if frame is None else (frame, descriptors.tolist())

    def _rest(self, data, length):
        receive = self._socket.recv
        if not data:
            data = receive(length, MSG_WAITALL) if length else b""
            if len(data) == length:
                return data
        parts, missing = [data], length - len(data)
        while data and missing:
            data = receive(missing, MSG_WAITALL)
            parts.append(data)
            missing -= len(data)
        return None if missing else b"".join(parts)

    def send(self, frame):
        length = LENGTH.pack(len(frame))
        if len(frame) < _SMALL:
            self._socket.sendall(length + frame)
        else:
            self._socket.sendall(length)
            self._socket.sendall(frame)

    def exchange(self, frame):
        """Says something to the host, and returns its answer."""
        if self._socket is None:
            raise RuntimeError(_NOT_HERE)
        before = _mask(_signal.SIG_BLOCK, _SIGNALS)
        try:
            with self.lock:
                self.send(frame)
                message = self.receive()
        finally:
            _mask(_signal.SIG_SETMASK, before)
        if message is None:
            _leave(0)
        if get_ident() == self._main:
            interrupt.redeliver()
        return message[0]


def block_signals():
    try:
        _mask(_signal.SIG_BLOCK, _SIGNALS)
    except BaseException:
        pass  # a handler of the user's, for a signal that came before


def allow_signals():
    try:
        _mask(_signal.SIG_UNBLOCK, _SIGNALS)
    except BaseException:
        pass


interrupt.spare(Channel.exchange)
_fork, _leave = os.fork, os._exit
_mask = _signal.pthread_sigmask
