"""The event loop: asyncio without sockets, pipes or threads. Its only events are timers and tool results.

A cell with top-level `await` is driven by the kernel (`interrupt.drive`): when nothing is ready, `handle`
returns to the host and goes on at RESUME. `asyncio.run` in a plain cell blocks in the host instead (WAIT).
"""

import asyncio
import sys
import warnings
from asyncio import base_events, events
from math import inf
from threading import get_ident

from .errors import describe
from .interrupt import check as check_interrupt
from .private import OWN as __builtins__

DEADLOCK = (
    "deadlock: every task waits for something that nothing can bring about any more "
    "(no timer runs and no tool call is under way)"
)


class HostSelector:
    """Stands where asyncio expects a selector: instead of file descriptors it watches the host."""

    def __init__(self, host):
        self.host = host
        self.suspending = False  # True: note the waiting time instead of blocking
        self.idle = None

    def select(self, timeout):
        check_interrupt()
        if timeout is not None and timeout <= 0:
            return ()
        if timeout is None and not self.host.expects_results():
            raise RuntimeError(DEADLOCK)
        if self.suspending:
            self.idle = inf if timeout is None else timeout
        else:
            self.host.wait(timeout)
        return ()

    def close(self):
        pass


class KernelLoop(base_events.BaseEventLoop):
    def __init__(self, host):
        super().__init__()
        self.selector = self._selector = HostSelector(host)

    def enter(self):
        """Makes this the running loop, as `run_forever` does, but across calls of `handle`."""
        self._thread_id = get_ident()
        self._hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)
        events._set_running_loop(self)
        self.selector.suspending = True

    def leave(self):
        self.selector.suspending = False
        events._set_running_loop(None)
        sys.set_asyncgen_hooks(*self._hooks)
        self._thread_id = None

    def turn(self):
        self.selector.idle = None
        self._stopping = False
        self._run_once()

    def run_in_executor(self, executor, function, *args):
        """There are no threads: the function runs at once, here."""
        future = self.create_future()
        try:
            future.set_result(function(*args))
        except StopIteration as error:
            future.set_exception(RuntimeError(f"StopIteration in an executor: {error}"))
        except Exception as error:
            future.set_exception(error)
        return future

    def add_signal_handler(self, *args):
        raise NotImplementedError("there are no signals in the sandbox")

    def remove_signal_handler(self, *args):
        return False

    def default_exception_handler(self, context):
        """What nobody caught goes to standard error, with the user's lines only."""
        error = context.get("exception")
        if isinstance(error, KeyboardInterrupt):
            return
        lines = [context.get("message") or "Unhandled exception in event loop"]
        lines += [f"{name}: {value!r}" for name, value in context.items() if name not in ("message", "exception")]
        if error is not None:
            lines.append(describe(error)["traceback"])
        sys.stderr.write("\n".join(lines) + "\n")

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        pass


_Policy = getattr(events, "_BaseDefaultEventLoopPolicy", None) or events.BaseDefaultEventLoopPolicy


class KernelPolicy(_Policy):
    """New loops are kernel loops, and `asyncio.get_event_loop()` in a plain cell finds one."""

    def __init__(self, host):
        super().__init__()
        self._loop_factory = lambda: KernelLoop(host)
        self._kernel_loop = None

    def kernel_loop(self):
        """The loop of top-level `await`, where tasks live on from cell to cell."""
        if self._kernel_loop is None or self._kernel_loop.is_closed():
            self._kernel_loop = self.new_event_loop()
        return self._kernel_loop

    def get_event_loop(self):
        loop = self._local._loop
        if loop is None or loop.is_closed():
            loop = self.kernel_loop()
            self.set_event_loop(loop)
        return loop


def install(host):
    """Makes every event loop of the interpreter a kernel loop; returns the policy."""
    policy = KernelPolicy(host)
    set_policy = getattr(events, "_set_event_loop_policy", None)  # 3.14 deprecates the public one
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (set_policy or asyncio.set_event_loop_policy)(policy)

    class SelectorEventLoop(KernelLoop):
        def __init__(self, selector=None):
            super().__init__(host)

    for name in ("SelectorEventLoop", "EventLoop"):
        if hasattr(asyncio, name):
            setattr(asyncio, name, SelectorEventLoop)
    return policy
