"""Standard output and error: line by line, never failing on a character, alive whatever a cell did to them."""

import io
import sys

from . import wire
from .private import OWN as __builtins__


def open_descriptor(descriptor):
    """A stream on the engine's own descriptor, as in the wasm engine."""
    return open(
        descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", newline="\n", closefd=False
    )


class FrameWriter(io.RawIOBase):
    """Sends what is written as STREAM frames, for engines without descriptors of their own."""

    def __init__(self, exchange, descriptor):
        self._exchange = exchange
        self._prefix = wire.STREAM + bytes((descriptor,))

    def writable(self):
        return True

    def write(self, data):
        data = bytes(data)
        self._exchange(self._prefix + data)
        return len(data)


def open_frames(exchange):
    """Like `open_descriptor`, over STREAM frames."""

    def open_stream(descriptor):
        raw = io.BufferedWriter(FrameWriter(exchange, descriptor))
        return io.TextIOWrapper(raw, "utf-8", "backslashreplace", newline="\n", line_buffering=True)

    return open_stream


class Streams:
    def __init__(self, open_stream=open_descriptor):
        self._open = open_stream
        self.out = self.err = None

    def install(self):
        self.out = sys.stdout = sys.__stdout__ = self._open(1)
        self.err = sys.stderr = sys.__stderr__ = self._open(2)

    def user_replaced(self):
        """Whether a cell put something else in their place."""
        try:
            return sys.stdout is not self.out or sys.stderr is not self.err
        except AttributeError:
            return True

    def flush(self):
        try:
            self.out.flush()
            self.err.flush()
        except BaseException:
            self._mend()

    def settle(self):
        """User code: flushes what a cell put in our place; what is closed or no stream gives way to ours."""
        for name, own in (("stdout", self.out), ("stderr", self.err)):
            stream = getattr(sys, name, None)
            if stream is own:
                continue
            try:
                usable = not stream.closed if hasattr(stream, "closed") else hasattr(stream, "write")
                if usable and hasattr(stream, "flush"):
                    stream.flush()
            except BaseException:
                usable = False
            if not usable:
                setattr(sys, name, own)

    def _mend(self):
        for name, descriptor in (("out", 1), ("err", 2)):
            old = getattr(self, name)
            try:
                old.flush()
                continue
            except (ValueError, AttributeError):  # closed or detached
                new = self._open(descriptor)
            except BaseException:  # the host refuses the bytes
                continue
            setattr(self, name, new)
            for public in ("std" + name, f"__std{name}__"):
                if getattr(sys, public, None) is old:
                    setattr(sys, public, new)
