"""The loop of a native kernel: a frame comes, an answer goes."""

import os
import sys

from belljar_guest import wire as frames_of_all
from belljar_guest.interrupt import arm, guarded
from belljar_guest.private import OWN as __builtins__

from . import frames, shadow, spill, state, surroundings, wire
from .channel import allow_signals, block_signals


def serve(channel, kernel):
    """Until the host closes the socket; then the process is over."""
    block_signals()
    channel.lock.acquire()
    while True:
        try:
            message = channel.receive()
        except OSError:
            message = None
        except BaseException:
            continue  # a handler of the user's, for a signal that another thread received
        if message is None:
            _leave(0)
        frame, descriptors = message
        message = None
        shadow.wake()
        channel.lock.release()
        allow_signals()
        reply = _answer(channel, kernel, frame, descriptors)
        block_signals()
        if channel.abandoned():
            _end_of_fork(reply)
        channel.lock.acquire()
        for descriptor in descriptors:
            _close(descriptor)
        if reply is not None:
            try:
                channel.send(reply)
            except OSError:
                _leave(1)
            if reply[:1] == wire.FORKED:
                _touch_pages(channel, kernel)
        frame = reply = None


def _touch_pages(channel, kernel):
    """A fork shares its pages: those that every cell writes to are copied now, while nobody waits."""
    if not channel.has_message():
        channel.lock.release()
        try:
            kernel.handle(_EMPTY_CELL)
        finally:
            channel.lock.acquire()


def announce_exit(channel):
    """`os._exit` tells the host with which status; nobody else can, since the process is no child of the host's."""

    def leave(status):
        status = int(status)
        if not channel.abandoned():
            try:
                channel.send(frames_of_all.EXIT + frames_of_all.EXIT_STATUS.pack(status & 0xFF))
            except BaseException:
                pass
        _leave(status)

    leave.__name__ = leave.__qualname__ = "_exit"
    leave.__module__ = "os"
    os._exit = leave


def _answer(channel, kernel, frame, descriptors):
    own = _OWN.get(frame[0]) if frame else None
    if own is None:
        reply = kernel.handle(frame)
        if frame[:1] == _BOOT and reply == frames_of_all.READY:
            _note_boot(frames_of_all.decode(frame[1:]))
        return reply
    kind, answer = own
    try:
        arm()
        try:
            payload = guarded(answer, channel, kernel, frame[1:], descriptors)
        except MemoryError:
            payload = {"error": "there is not enough memory"}
        except BaseException as error:
            payload = {"error": f"{type(error).__name__}: {error}"[:1000]}
        return None if payload is None else kind + frames_of_all.encode(payload)
    except BaseException:
        return kind + b'{"error":"the kernel could not do it"}'


def _note_boot(spec):
    if frames.workspace is None:
        frames.workspace = os.getcwd()
        surroundings.install(spec)
    state.note_boot(spec)


def _end_of_fork(reply):
    """A process that a cell forked has come to the end of the cell: it ends as a program would."""
    code = 1
    try:
        outcome = frames_of_all.decode(reply[1:])
        if outcome["exception"]:
            sys.stderr.write(outcome["exception"]["traceback"] + "\n")
            sys.stderr.flush()
        code = {"ok": 0, "exited": outcome["exit_code"]}.get(outcome["status"], 1)
    finally:
        _leave(code)


def _close(descriptor):
    try:
        os.close(descriptor)
    except OSError:
        pass  # given on, and closed there


_BOOT = bytes((frames_of_all.BOOT,))
_OWN = {
    wire.SHADOW: (wire.FORKED, shadow.shadow),
    wire.SAVE: (wire.SAVED, state.save),
    wire.LOAD: (wire.LOADED, state.load),
    wire.SPILL: (wire.SPILLED, spill.spill),
}
_EMPTY_CELL = bytes((frames_of_all.RUN,)) + b"\0\0\0\0\0\0" + b"pass"
_leave = os._exit
