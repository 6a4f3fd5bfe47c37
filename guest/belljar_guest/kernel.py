"""The dispatch of frames. Nothing escapes from `handle`, and every reply is a frame."""

import builtins
import gc
import os
import random
import sys
from importlib.util import decode_source
from math import inf
from types import ModuleType

from . import cell, display, errors, figures, imports, interrupt, loop, prompts, sources, wire
from .host import Host
from .interrupt import drive, guarded
from .kept import Kept
from .private import OWN as __builtins__
from .streams import Streams
from .tools import Tools

_RESERVE = 256 << 10  # bytes let go while an error is described after a MemoryError
_LOWEST_RECURSION_LIMIT = 400
_SCALARS = frozenset((bool, int, float, complex, str, bytes))
_FAILED = (
    wire.DONE + b'{"status":"error","value":null,"exception":{"type":"RuntimeError","message":"the cell ended, '
    b'but its outcome could not be described","traceback":"RuntimeError: the cell ended, but its outcome could '
    b'not be described","frames":[]},"exit_code":null}'
)


class Kernel:
    def __init__(self, exchange, streams=None):
        self.host = Host(exchange)
        self.limit = display.DEFAULT_LIMIT
        self.streams = streams or Streams()
        self.tools = Tools(self.host)
        self.kept = Kept(self.host)
        self.main = ModuleType("__main__")
        self.namespace = vars(self.main)
        self.program = cell.Program(self.namespace)
        self._execute = self.program.execute
        self._values = self.program.values
        self._displayhook = self._values.append
        self._modules = sys.modules
        self._kept_modules = {}
        self._recursion_limit = sys.getrecursionlimit()
        self._reserve = bytearray(_RESERVE)
        self._policy = None
        self._loop = None
        self._task = None  # the cell that waits
        self._stop = None  # why the waiting cell was cancelled
        self._abandoned = []  # cells that won't end; freeing them would run their code, perhaps for ever
        self._after_cell = figures.show_open  # user code
        self.reset()

    def install(self):
        """Takes possession of the interpreter: `__main__`, builtins, streams, signal, event loops."""
        self._modules["__main__"] = self.main
        builtins.display = display.make_display(self)
        builtins.tools = self.tools
        prompts.install()
        imports.install(self.tools)
        figures.install()
        sources.install()
        self._policy = loop.install(self.host)
        self.streams.install()
        interrupt.arm()
        self.note_modules()

    def note_modules(self):
        """What is imported by now is put back when a cell empties `sys.modules`."""
        self._kept_modules = dict(self._modules)

    def reset(self):
        """An empty namespace, as before the first cell."""
        self._values.clear()
        self.program.futures = 0
        self._abandon()
        self.namespace.clear()
        self.namespace.update(cell.clean_slate())
        builtins.__dict__.pop("_", None)
        sources.forget_all()

    def handle(self, frame):
        try:
            kind = frame[0]
            if kind == wire.RUN:
                return self._run(frame)
            if kind == wire.RESUME:
                return self._resume(wire.decode(frame[1:]))
            if kind == wire.BOOT:
                return self._boot(wire.decode(frame[1:]))
            return self._failure(ValueError(f"the kernel knows no frame of kind {kind}"))
        except BaseException as error:
            try:
                if _monitoring is not None:
                    # A callback of `sys.monitoring` may be what failed, and would fail the next call too.
                    for identifier in range(6):
                        if _get_tool(identifier) is not None:
                            _set_events(identifier, 0)
                return self._failure(error)
            except BaseException:
                return _FAILED

    # BOOT

    def _boot(self, spec):
        interrupt.arm()
        environment = spec.get("env")
        if environment:
            os.environ.update(environment)
            path = environment.get("PYTHONPATH")
            if path:
                at = sys.path.index("") + 1 if "" in sys.path else 0
                sys.path[at:at] = [entry for entry in path.split(":") if entry and entry not in sys.path]
        if spec.get("inject_setup") is False and imports.PACKAGES in sys.path:
            sys.path.remove(imports.PACKAGES)
        workspace = spec.get("cwd")
        if workspace and workspace != os.getcwd():  # a guest that starts from an image is there already
            os.chdir(workspace)
            os.environ["HOME"] = os.environ["PWD"] = workspace
        sys.argv[:] = spec.get("argv") or [""]
        seed = spec.get("seed")
        if seed:  # else all sessions would share the image's state; one that only slept goes on as it was
            random.seed(int(seed, 16))
            _seed_numpy(seed)
        self.tools._describe(self.kept.take(spec.get("tools") or ()))
        self.limit = spec.get("max_value_bytes") or display.DEFAULT_LIMIT
        return wire.READY

    # RUN

    def _run(self, frame):
        number, length = wire.RUN_HEADER.unpack_from(frame)
        start = 7 + length
        filename = str(frame[7:start], "utf-8", "replace") if length else f"<cell {number}>"
        self._prepare()
        if length and filename[0] != "<":
            self.namespace["__file__"] = filename
        try:
            try:
                source = str(frame[start:], "utf-8")
            except UnicodeDecodeError:
                # Text is UTF-8 whatever it says of itself; the bytes of a file may name another encoding.
                if b"coding" not in frame[start : start + 400]:
                    raise
                source = decode_source(frame[start:])
            sources.remember(filename, source)
            try:
                coroutine = guarded(self._execute, source, filename)
            finally:
                # Here, in a frame older than the tracing: the next call would be traced already.
                if _gettrace() is not None:
                    _settrace(None)
                if _getprofile() is not None:
                    _setprofile(None)
            if coroutine is not None:
                return self._begin(coroutine)
        except BaseException as error:
            return self._fail(_as_syntax_error(error, filename))
        return self._succeed()

    def _prepare(self):
        """Mends what earlier cells may have broken; cheap when nothing is."""
        interrupt.arm()
        if self._task is not None:
            self._abandon()
        self._values.clear()
        sys.displayhook = self._displayhook
        if self._modules.get("__main__") is not self.main or sys.modules is not self._modules:
            self._mend_modules()
        namespace = self.namespace
        namespace["__builtins__"] = builtins
        if "__name__" not in namespace:
            for name, value in cell.clean_slate().items():
                namespace.setdefault(name, value)
        if self.streams.user_replaced():
            self._settle_streams()

    def _mend_modules(self):
        sys.modules = self._modules
        for name, module in self._kept_modules.items():
            self._modules.setdefault(name, module)
        self._modules["__main__"] = self.main

    # Await

    def _begin(self, coroutine):
        """Puts a cell that awaits on the event loop."""
        self._loop = self._policy.kernel_loop()
        self._stop = None
        self._task = self._loop.create_task(coroutine)
        return self._advance()

    def _resume(self, message):
        interrupt.arm()
        if self._task is None:
            return self._failure(RuntimeError("no cell is waiting"))
        self.host.deliver(message.get("results") or ())
        if message.get("interrupt"):
            return self._interrupt_waiting(KeyboardInterrupt())
        return self._advance()

    def _interrupt_waiting(self, reason):
        """Cancels the waiting cell. It may clean up, even with `await`, but only once."""
        if self._stop is not None:
            self._abandon()
            return self._fail(reason)
        self._stop = reason
        self._task.cancel()
        return self._advance()

    def _advance(self):
        """Turns the loop until the cell is done, or has to wait for the host."""
        task = self._task
        self._loop.enter()
        try:
            timeout = drive(self._loop, task)
            reason = None
        except BaseException as error:
            reason = error
        finally:
            if _gettrace() is not None:
                _settrace(None)
            if _getprofile() is not None:
                _setprofile(None)
            self._loop.leave()
        if task.done():
            return self._conclude(task)
        if reason is not None:
            try:
                return self._interrupt_waiting(reason)
            finally:
                del reason  # it refers to this frame
        self.streams.flush()
        return wire.WAITING + wire.encode({"timeout": None if timeout == inf else timeout})

    def _conclude(self, task):
        self._task, reason, self._stop = None, self._stop, None
        try:
            task.result()
        except BaseException as error:
            if reason is None:
                return self._fail(error)
            if not errors.has_user_frames(reason):
                reason = reason.with_traceback(error.__traceback__)  # where it waited
            return self._fail(reason)
        if reason is not None:
            return self._fail(reason)
        return self._succeed()

    def _abandon(self):
        task, stop, self._task, self._stop = self._task, self._stop, None, None
        if task is None:
            return
        self._abandoned.append(task)
        if stop is None:
            try:
                task.cancel()
            except Exception:
                pass  # its loop is closed

    # Outcomes

    def _succeed(self):
        values = self._values
        if _PYPLOT in self._modules:
            try:
                guarded(self._after_cell)
            except BaseException as error:
                values.clear()
                return self._fail(error)
        if not values or values[-1] is None:
            values.clear()
            self._settle()
            return wire.DONE_OK
        value = values[-1]
        values.clear()
        # Only what is harmless to free: else the next cell would pay for what this one left, or die of it.
        builtins._ = value if type(value) in _SCALARS else None
        try:
            if display.is_plain(value):
                text = guarded(display.value_text, value, self.limit)
                reply = wire.DONE_TEXT[0] + wire.encode_text(text) + wire.DONE_TEXT[1]
            else:
                data, _ = guarded(display.bundle, value, self.limit)
                reply = _done("ok", value=data)
        except BaseException as error:
            return self._fail(error)
        self._settle()
        return reply

    def _fail(self, error):
        """The outcome of a cell that ended in an exception, whatever it is."""
        kind = type(error)  # not `isinstance`, which asks the object for its `__class__`
        if issubclass(kind, MemoryError):
            self._reserve = None
            self._values.clear()
        self._calm()
        try:
            self._mend_builtins()
            if issubclass(kind, SystemExit):
                return self._exited(error)
            status = "interrupted" if issubclass(kind, KeyboardInterrupt) else "error"
            try:
                described = guarded(errors.describe, error)
            except BaseException:
                described = errors.plain(error)
            return _done(status, exception=described)
        except BaseException:
            return _FAILED
        finally:
            if self._reserve is None:
                error.__traceback__ = None  # frees the frames of the cell, and what they hold
                self._restore_reserve()
            del error
            self._settle()

    def _exited(self, error):
        try:
            code, text = guarded(cell.exit_code, error)
            if text:
                guarded(sys.stderr.write, text)
        except BaseException:
            code = 1
        return _done("exited", exit_code=code)

    def _failure(self, error):
        """The last net: something went wrong in the kernel itself."""
        try:
            self._calm()
            interrupt.arm()
            self._settle()
            return _done("error", exception=errors.plain(error, message=errors.message_of(error)))
        except BaseException:
            return _FAILED

    def _settle(self):
        """After a cell: its tracing off, its output out."""
        self._calm()
        if self.streams.user_replaced():
            self._settle_streams()
        self.streams.flush()

    def _settle_streams(self):
        try:
            guarded(self.streams.settle)
        except BaseException:
            pass

    def _mend_builtins(self):
        """Puts back what a cell deleted; what it replaced stays replaced."""
        for name, value in __builtins__.items():
            if name not in _BUILTINS:
                _BUILTINS[name] = value

    def _calm(self):
        """Takes back what would make the kernel's own code fail."""
        if _gettrace() is not None:
            _settrace(None)
        if _getprofile() is not None:
            _setprofile(None)
        if _getrecursionlimit() < _LOWEST_RECURSION_LIMIT:
            _setrecursionlimit(self._recursion_limit)

    def _restore_reserve(self):
        try:
            gc.collect()
            self._reserve = bytearray(_RESERVE)
        except BaseException:
            pass


def _done(status, value=None, exception=None, exit_code=None):
    return wire.DONE + wire.encode(
        {"status": status, "value": value, "exception": exception, "exit_code": exit_code}
    )


def _seed_numpy(seed):
    numpy = sys.modules.get("numpy.random")
    if numpy is None:
        return
    try:
        numpy.seed([int(seed[place : place + 8], 16) for place in range(0, len(seed), 8)])
    except Exception:
        pass  # a cell broke it


def _as_syntax_error(error, filename):
    """Bytes that aren't UTF-8 are a syntax error, as in a file."""
    if type(error) is UnicodeDecodeError and error.__traceback__.tb_next is None:
        return SyntaxError(f"(unicode error) {error}", (filename, 1, 0, None))
    return error


_BUILTINS = vars(builtins)
_PYPLOT = "matplotlib.pyplot"
_monitoring = getattr(sys, "monitoring", None)  # since 3.12
if _monitoring is not None:
    _get_tool, _set_events = _monitoring.get_tool, _monitoring.set_events
_gettrace, _settrace = sys.gettrace, sys.settrace
_getprofile, _setprofile = sys.getprofile, sys.setprofile
_getrecursionlimit, _setrecursionlimit = sys.getrecursionlimit, sys.setrecursionlimit
