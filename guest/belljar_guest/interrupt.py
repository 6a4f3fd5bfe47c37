"""SIGINT: the host's soft interrupt, which can come between any two bytecodes.

KeyboardInterrupt is raised only while user code is on the stack, that is, above one of two guards: `guarded`
runs a function as user code, `drive` turns the event loop. Both are called inside a `try` of the kernel, so the
exception has nowhere else to go. Otherwise the interrupt is remembered until the next guard, and forgotten at
the next frame.

Two places above a guard are spared too. One is an event loop between two callbacks, where an exception would lose one
of them: there the interrupt waits for the loop's next look at its selector. The other is a function that asked to be
(`spare`), because half of what it does would be worse than nothing: it calls `redeliver` when it is done.
"""

import _signal
import asyncio
import os
from asyncio import BaseEventLoop
from sys import _getframe

from .private import OWN as __builtins__

_SIGINT = 2
_MACHINERY = (os.path.dirname(asyncio.__file__) + "/", os.path.dirname(__file__) + "/")


class _State:
    __slots__ = ("pending", "spared")


_state = _State()
_state.pending = False
_state.spared = None


def guarded(function, *args):
    if _state.pending:
        _state.pending = False
        raise KeyboardInterrupt
    return function(*args)


def drive(loop, main):
    """Turns the loop until the main task is done (None) or there is nothing to do but wait (seconds, or inf)."""
    selector = loop.selector
    while not main.done():
        loop.turn()
        if selector.idle is not None:
            return selector.idle
    return None


def check():
    """Raises an interrupt that was remembered."""
    if _state.pending:
        _state.pending = False
        raise KeyboardInterrupt


def spare(function):
    _state.spared = function.__code__


def redeliver():
    """What came while the calling function was spared is raised now, if it is to be raised where that was called."""
    if _state.pending:
        _state.pending = False
        _handler(_SIGINT, _getframe(2))


def treat_as_machinery(directory):
    """Code below this directory is the kernel's own, and no callback of the user's."""
    global _MACHINERY
    _MACHINERY += (directory + "/",)


def arm():
    """Forgets old interrupts and takes the signal back if a cell took it. Called at every frame."""
    _state.pending = False
    if _getsignal(_SIGINT) is not _handler:
        _take_signal(_SIGINT, _handler)


def _handler(signum, frame):
    in_callback = False
    while frame is not None:
        code = frame.f_code
        if code is _GUARDED:
            raise KeyboardInterrupt
        if code is _state.spared:
            break
        if code is _DRIVE or code is _RUN_ONCE:
            if in_callback:
                raise KeyboardInterrupt
            break
        if not in_callback and not code.co_filename.startswith(_MACHINERY):
            in_callback = True
        frame = frame.f_back
    _state.pending = True


_getsignal = _signal.getsignal
_take_signal = _signal.signal
_GUARDED = guarded.__code__
_DRIVE = drive.__code__
_RUN_ONCE = BaseEventLoop._run_once.__code__
