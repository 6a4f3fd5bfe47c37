"""The process that has imported everything, and does nothing but fork.

A fork shares all of it, so a session has pandas without importing it. What holds for the zygote therefore holds for
every session: it keeps no secrets, runs no cell, starts no threads (a forked child wouldn't have them), and leaves its
kernel as a session finds it: installed, rehearsed, its namespace as the environment's setup made it.
"""

import builtins
import gc
import io
import json
import os
import signal
import socket
import sys
import tempfile
import threading
from _sitebuiltins import _Helper
from array import array
from importlib import import_module
from importlib.util import find_spec
from struct import pack

from belljar_guest import Kernel, errors, imports, interrupt, preload, warm
from belljar_guest import wire as frames_of_all
from belljar_guest.private import OWN as __builtins__
from belljar_guest.streams import Streams

from . import frames, kernel as native, lockdown, state, streams, wire
from .channel import Channel

GUEST = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONTROL = 3
_MAX_REQUEST, _MAX_DESCRIPTORS = 1 << 16, 16
_ENVIRONMENT = {
    # One thread each: a library that starts more, here, would leave its children waiting for them.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_MAX_THREADS": "1",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/.matplotlib",
}
_NO_HOST = b'{"error":{"type":"RuntimeError","message":"there are no tools in setup: no session has begun"}}'


def main(argument):
    control = socket.socket(fileno=CONTROL)
    control.set_inheritable(False)
    try:
        zygote = Zygote(control, json.loads(argument))
        ready = {"ready": True, "failed": zygote.failed, "threads": threads()}
    except BaseException as error:
        text = error.args[0] if type(error) is SetupFailed else f"{type(error).__name__}: {error}"
        _say(control, {"error": text[:30000]})
        os._exit(1)
    _say(control, ready)
    zygote.serve()
    os._exit(0)


class SetupFailed(Exception):
    pass


class Zygote:
    def __init__(self, control, spec):
        self.control = control
        self.failed = {}
        self._forking = False
        os.environ.update(_ENVIRONMENT)
        sys.argv[:] = [""]
        sys.orig_argv[:] = sys.orig_argv[:1]
        self.lockdown = lockdown.Lockdown(_read(spec.get("seccomp")))
        self._set_path(spec.get("packages"))
        self.channel = Channel()
        self.kernel = Kernel(_no_host, Streams(streams.opener(self.channel)))
        _hide_own_frames()
        preload.preload()
        builtins.help = _Helper()
        _fork_by_default()
        self._install_kernel()
        for name in spec.get("preload") or ():
            try:
                import_module(name)
            except BaseException as error:
                self.failed[name] = f"{type(error).__name__}: {error}"[:1000]
        state.note_cloudpickle()
        _rehearse_packages(self.kernel)
        if find_spec("pandas") is not None:
            frames.install()
        self._run_setup(spec.get("setup"))
        self._own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        os.register_at_fork(after_in_child=self.channel.after_fork)
        self.kernel.host.exchange = self.channel.exchange
        self.kernel.note_modules()
        self._settle()

    def _set_path(self, packages):
        """The packages first, as in the wasm engine; no directories of the interpreter's own, nor their `.pth` files."""
        sys.dont_write_bytecode = True
        standard = [
            entry for entry in sys.path
            if entry and entry != GUEST and "site-packages" not in entry and "dist-packages" not in entry
            and os.path.abspath(entry) != os.path.join(GUEST, "belljar_native")
        ]
        sys.path[:] = [*standard, GUEST]
        if packages:
            imports.PACKAGES = packages
            sys.path.insert(0, packages)

    def _install_kernel(self):
        """Standard streams look at their descriptor when they are made: it has to be a pipe, as in a session."""
        saved = [(number, os.dup(number)) for number in (1, 2)]
        reading, writing = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            for number, _ in saved:
                os.dup2(writing, number)
            self.kernel.install()
            for number, _ in saved:
                os.dup2(nothing, number)
            warm.warm(self.kernel)
        finally:
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)
            for number in (reading, writing, nothing):
                os.close(number)
        self._nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)

    def _run_setup(self, code):
        if not code:
            return
        name = b"<setup>"
        reply = self.kernel.handle(b"\x02" + pack("<IH", 0, len(name)) + name + code.encode("utf-8", "surrogatepass"))
        if reply[0] != frames_of_all.DONE[0]:
            raise SetupFailed("setup must not await: no session has begun")
        outcome = frames_of_all.decode(reply[1:])
        if outcome["status"] != "ok":
            exception = outcome["exception"] or {"traceback": f"setup called exit({outcome['exit_code']})"}
            raise SetupFailed(exception["traceback"])
        vars(builtins).pop("_", None)

    def _settle(self):
        """What a child would otherwise have to do, or would inherit wrongly."""
        self.kernel.streams.flush()
        signal.signal(signal.SIGCHLD, self._reap)
        tempfile._name_sequence = None
        sys.path_importer_cache.clear()
        packages = [imports.PACKAGES] if imports.PACKAGES in sys.path else []
        rest = [entry for entry in sys.path if entry not in (*packages, "", GUEST)]
        sys.path[:] = [*packages, "", *rest, GUEST]
        gc.collect()
        gc.freeze()
        gc.disable()

    def serve(self):
        """Until the host closes the socket."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(
                    self.control, _MAX_REQUEST, _MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
                )
            except OSError:
                return
            if not data and not descriptors:
                return
            pidfd = None
            try:
                answer, pidfd = self._answer(data, descriptors)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"[:1000]}
            for number in descriptors:
                os.close(number)
            try:
                _say(self.control, answer, pidfd)
            except OSError:
                return
            finally:
                if pidfd is not None:
                    os.close(pidfd)

    def _answer(self, data, descriptors):
        steps = json.loads(data)["steps"]
        if len(descriptors) < 3:
            raise ValueError(f"a kernel needs a socket, standard output and error: {len(descriptors)} descriptors came")
        joins = bool(steps) and steps[0][0] == "setns" and steps[0][2] == lockdown.CLONE_NEWPID
        if joins:
            self.lockdown.enter_for_children(descriptors[steps[0][1]])
            del steps[0]
        self._forking = True  # a child that dies at once stays until there is a descriptor of it
        try:
            try:
                pid = os.fork()
                if pid == 0:
                    self._become_kernel(steps, descriptors)
            finally:
                if joins:
                    self.lockdown.enter_for_children(self._own_namespace)
            return {"pid": pid}, os.pidfd_open(pid)
        finally:
            self._forking = False
            self._reap()

    def _reap(self, *signal):
        """Not SIG_IGN: the number of a child that is gone might be another's already."""
        try:
            while not self._forking and os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    def _become_kernel(self, steps, descriptors):
        """The child. It never returns."""
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.dup2(self._nothing, 0)
            os.dup2(descriptors[1], 1)
            os.dup2(descriptors[2], 2)
            os.dup2(descriptors[0], CONTROL, inheritable=False)
            self.control.detach()
            channel = self.channel
            channel.attach(CONTROL)
            try:
                self.lockdown.run(steps, descriptors)
            except lockdown.Refused as refused:
                step, number, message = refused.args
                channel.send(wire.REFUSED + frames_of_all.encode({"step": step, "errno": number, "message": message}))
                os._exit(1)
            self.lockdown.close_from(CONTROL + 1)
            _reseed()
            gc.enable()
            native.announce_exit(channel)
            channel.send(frames_of_all.READY)
            native.serve(channel, self.kernel)
        finally:
            os._exit(1)


def threads():
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def _say(control, message, descriptor=None):
    data = [json.dumps(message).encode()]
    if descriptor is None:
        control.sendmsg(data)
    else:
        control.sendmsg(data, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [descriptor]))])


def _read(path):
    if not path:
        return b""
    with open(path, "rb") as file:
        return file.read()


def _no_host(frame):
    return _NO_HOST if frame[:1] == frames_of_all.CALL else b""


def _reseed():
    """`random` does so by itself in a forked child."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def _hide_own_frames():
    """The native kernel's code is no more the user's than the shared kernel's."""
    directory = os.path.dirname(os.path.abspath(__file__))
    errors.HIDDEN += (directory + "/",)
    interrupt.treat_as_machinery(directory)


def _fork_by_default():
    """Workers find the functions of cells only if they are forks; Python 3.14 would start them from nothing."""
    try:
        from multiprocessing import context

        context._default_context._default_context = context._concrete_contexts["fork"]
    except (ImportError, AttributeError, KeyError):
        pass


def _rehearse_packages(kernel=None):
    """Loads what packages load at first use. Nothing parallel: OpenMP doesn't work in a child of a process that used it."""
    for name, rehearse in (("pandas", _rehearse_pandas), ("matplotlib.pyplot", _rehearse_pyplot)):
        if name in sys.modules:
            try:
                rehearse(kernel, sys.modules[name])
            except Exception:
                pass  # what doesn't work here may work there, or fails there with words


def _rehearse_pandas(kernel, pandas):
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, None], "c": ["x", "y", "x"]})
    frame["d"] = pandas.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01"])
    for made in (frame, frame.describe(), frame.groupby("c").sum(numeric_only=True), frame.merge(frame, on="c")):
        repr(made)
        made._repr_html_()
    frame.sort_values("a").loc[frame["a"] > 1, ["a", "b"]].mean()
    frame.pivot_table(index="c", values="a", aggfunc="mean")
    pandas.read_csv(io.StringIO(frame.to_csv(index=False))).info(buf=io.StringIO())
    if kernel is not None:  # not in a session that is kept ready
        state.rehearse(kernel, {"frame": frame, "large": pandas.DataFrame({"a": range(10_000), "b": 0.5})})


def _rehearse_pyplot(kernel, pyplot):
    figure, axes = pyplot.subplots()
    axes.plot([1, 2, 3], label="a")
    axes.set_title("a")
    axes.legend()
    figure.savefig(io.BytesIO(), format="png")
    pyplot.close("all")
