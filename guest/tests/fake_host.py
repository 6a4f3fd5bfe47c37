"""A host in plain Python: answers the kernel's frames, records what it is told."""

import builtins
import io
import json
import os
import pathlib
import signal
import struct
import sys
import time
import unittest

GUEST = str(pathlib.Path(__file__).resolve().parent.parent)
if GUEST not in sys.path:
    sys.path.insert(0, GUEST)

from belljar_guest import Kernel  # noqa: E402
from belljar_guest.streams import Streams  # noqa: E402

DONE, WAITING, READY = 17, 18, 16


def run_frame(code, number=1, filename=""):
    if isinstance(code, str):
        code = code.encode("utf-8", "surrogatepass")
    name = filename.encode()
    return b"\x02" + struct.pack("<IH", number, len(name)) + name + code


class FakeHost:
    """`tools` maps names to functions; `displays` and `started` record."""

    def __init__(self, tools=None):
        self.tools = tools or {}
        self.displays, self.started, self.waits = [], [], []
        self.results = []
        self.before_wait = None

    def exchange(self, frame):
        kind, payload = frame[0], json.loads(frame[1:])
        if kind == 32:
            self.displays.append(payload)
        elif kind == 33:
            return json.dumps(self.call(payload)).encode()
        elif kind == 34:
            self.started.append(payload["name"])
            self.results.append({"id": payload["id"], **self.call(payload)})
        elif kind == 35:
            return json.dumps({"results": self.wait(payload["timeout"]), "interrupt": False}).encode()
        return b""

    def call(self, payload):
        arguments = payload["arguments"]
        try:
            return {"ok": self.tools[payload["name"]](*arguments["args"], **arguments["kwargs"])}
        except Exception as error:
            return {"error": {"type": type(error).__name__, "message": str(error.args[0] if error.args else "")}}

    def wait(self, timeout):
        self.waits.append((timeout, len(self.results)))
        if self.before_wait:
            self.before_wait()
        if not self.results:
            assert timeout is not None, "the guest waits for nothing"
            time.sleep(timeout)
        results, self.results = self.results, []
        return results


class MemoryStream(io.TextIOWrapper):
    def __init__(self, sink):
        super().__init__(io.BufferedWriter(sink), "utf-8", "backslashreplace", newline="\n", line_buffering=True)


class Sink(io.RawIOBase):
    def __init__(self, data):
        self.data = data

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data)
        return len(data)


class Session:
    def __init__(self, tools=None, boot=True, **spec):
        self.host = FakeHost(tools)
        self.written = {1: bytearray(), 2: bytearray()}
        self.kernel = Kernel(
            self.host.exchange, Streams(lambda descriptor: MemoryStream(Sink(self.written[descriptor])))
        )
        self._saved = {name: getattr(sys, name) for name in ("stdout", "stderr", "__stdout__", "__stderr__", "argv")}
        self._main = sys.modules["__main__"]
        self._signal = signal.getsignal(signal.SIGINT)
        self._input = builtins.input
        sys.argv = list(sys.argv)
        self.kernel.install()
        self.number = 0
        if boot:
            tools = [{"name": name, "description": function.__doc__, "parameters": getattr(function, "schema", {})}
                     for name, function in self.host.tools.items()]
            assert self.handle(b"\x01" + json.dumps({"tools": tools, **spec}).encode())[0] == READY

    def close(self):
        for name, value in self._saved.items():
            setattr(sys, name, value)
        loop = self.kernel._policy._kernel_loop
        if loop is not None:
            loop.close()
        sys.modules["__main__"] = self._main
        sys.modules.pop("tools", None)
        self.kernel.kept.take(())
        builtins.input = self._input
        signal.signal(signal.SIGINT, self._signal)

    def handle(self, frame):
        reply = self.kernel.handle(frame)
        assert type(reply) is bytes and reply[0] in (READY, DONE, WAITING), reply
        return reply

    def start(self, code, filename=""):
        """One RUN: the reply as (kind, payload)."""
        self.number += 1
        return self._parse(self.handle(run_frame(code, self.number, filename)))

    def resume(self, results=(), interrupt=False):
        return self._parse(self.handle(b"\x03" + json.dumps({"results": list(results), "interrupt": interrupt}).encode()))

    def run(self, code, filename=""):
        """A whole cell, with the host's waiting."""
        kind, payload = self.start(code, filename)
        while kind == WAITING:
            kind, payload = self.resume(self.host.wait(payload["timeout"]))
        return payload

    def text(self, code):
        outcome = self.run(code)
        assert outcome["status"] == "ok", outcome
        return outcome["value"] and outcome["value"]["text/plain"]

    def error(self, code):
        outcome = self.run(code)
        assert outcome["status"] == "error", outcome
        return outcome["exception"]

    @property
    def stdout(self):
        return self.written[1].decode()

    @property
    def stderr(self):
        return self.written[2].decode()

    @staticmethod
    def _parse(reply):
        return reply[0], json.loads(reply[1:])


class SessionTest(unittest.TestCase):
    def session(self, tools=None, **spec):
        session = Session(tools, **spec)
        self.addCleanup(session.close)
        return session

    def setUp(self):
        self.s = self.session()


def in_child(codes, timeout=20):
    """Runs cells in a fork of this process, because they may ruin the interpreter. Returns their outcomes."""
    frames = [run_frame(code, number) for number, code in enumerate(codes, 1)]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        write, leave, alarm = os.write, os._exit, signal.alarm
        try:
            alarm(timeout)
            handle = Session().kernel.handle
            for frame in frames:
                write(writing, handle(frame) + b"\n")
        except BaseException as error:
            write(writing, b"escaped: " + repr(error).encode())
        leave(0)
    os.close(writing)
    with open(reading, "rb") as file:
        replies = file.read().splitlines()
    os.waitpid(child, 0)
    assert len(replies) == len(codes), replies
    return [json.loads(reply[1:]) for reply in replies]
