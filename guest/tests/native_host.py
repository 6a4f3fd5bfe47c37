"""A host in plain Python for the native engine: starts a zygote, asks it for kernels, talks to them over sockets."""

import json
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

GUEST = pathlib.Path(__file__).resolve().parent.parent
if str(GUEST) not in sys.path:
    sys.path.insert(0, str(GUEST))
READY, DONE, WAITING, FORKED, SAVED, LOADED, SPILLED, REFUSED = 16, 17, 18, 19, 20, 21, 22, 23
TIMEOUT = 30


class Zygote:
    """`with Zygote(preload=[…]) as zygote: kernel = zygote.fork()`."""

    def __init__(self, python=sys.executable, **spec):
        self.control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(TIMEOUT * 4)
        argument = json.dumps({"preload": [], "setup": "", "packages": None, "seccomp": None, **spec})
        program = str(GUEST / "belljar_native" / "__main__.py")
        self.process = subprocess.Popen(
            [python, "-I", "-S", "-B", program, argument],
            preexec_fn=lambda: os.dup2(other.fileno(), 3), pass_fds=[3], env={"PATH": "/usr/bin:/bin"}, cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        other.close()
        self.first = self.answer()[0]
        self.kernels = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        for kernel in self.kernels:
            kernel.close()
        self.control.close()
        self.process.wait(TIMEOUT)
        self.output = self.process.stdout.read(), self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()

    def answer(self):
        data, descriptors, _, _ = socket.recv_fds(self.control, 1 << 16, 4)
        return json.loads(data or b'{"gone": true}'), descriptors

    def ask(self, message, descriptors=()):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        socket.send_fds(self.control, [data], list(descriptors))
        return self.answer()

    def fork(self, steps=(), boot=True, tools=None, extra=(), **spec):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        out_reading, out = os.pipe()
        err_reading, err = os.pipe()
        answer, descriptors = self.ask({"steps": list(steps)}, [theirs.fileno(), out, err, *extra])
        theirs.close()
        os.close(out)
        os.close(err)
        kernel = NativeKernel(ours, {1: out_reading, 2: err_reading}, answer, descriptors, tools or {})
        self.kernels.append(kernel)
        if boot:
            assert kernel.receive() == (READY, b"")
            assert kernel.boot(**spec) == READY
        return kernel


class NativeKernel:
    def __init__(self, connection, pipes, answer, descriptors, tools=None):
        self.connection, self.pipes, self.tools = connection, pipes, tools or {}
        connection.settimeout(TIMEOUT)
        self.pid = answer.get("pid")
        self.pidfd = descriptors[0] if descriptors else None
        self.displays, self.results, self.number = [], [], 0
        self.on_call = None

    def close(self):
        self.connection.close()
        for descriptor in (*self.pipes.values(), self.pidfd):
            if descriptor is not None:
                os.close(descriptor)
        self.pipes, self.pidfd = {}, None

    def interrupt(self, signum=signal.SIGINT):
        signal.pidfd_send_signal(self.pidfd, signum)

    def dead(self, timeout=TIMEOUT):
        return bool(select.select([self.pidfd], [], [], timeout)[0])

    def send(self, frame, descriptors=()):
        data = struct.pack("<I", len(frame)) + frame
        if descriptors:
            sent = socket.send_fds(self.connection, [data], list(descriptors))
            data = data[sent:]
        self.connection.sendall(data)

    def receive(self):
        length = self._exactly(4)
        if length is None:
            return None
        frame = self._exactly(struct.unpack("<I", length)[0])
        return frame[0], frame[1:]

    def _exactly(self, length):
        data = bytearray()
        while len(data) < length:
            part = self.connection.recv(length - len(data))
            if not part:
                return None
            data += part
        return bytes(data)

    def talk(self, frame, descriptors=()):
        """One frame, and the answers to what the kernel asks until it replies."""
        self.send(frame, descriptors)
        return self.listen()

    def listen(self):
        while True:
            message = self.receive()
            if message is None or message[0] < 32:
                return message
            self.connection.sendall((lambda data: struct.pack("<I", len(data)) + data)(self._exchange(*message)))

    def _exchange(self, kind, payload):
        if kind == 36:  # the host would read what is in the pipes now
            return b""
        payload = json.loads(payload)
        if kind == 32:
            self.displays.append(payload)
        elif kind == 33:
            return json.dumps(self._call(payload)).encode()
        elif kind == 34:
            self.results.append({"id": payload["id"], **self._call(payload)})
        elif kind == 35:
            results, self.results = self.results, []
            return json.dumps({"results": results, "interrupt": False}).encode()
        return b""

    def _call(self, payload):
        if self.on_call:
            self.on_call(payload)
        arguments = payload["arguments"]
        try:
            return {"ok": self.tools[payload["name"]](*arguments["args"], **arguments["kwargs"])}
        except Exception as error:
            return {"error": {"type": type(error).__name__, "message": str(error)}}

    def boot(self, **spec):
        tools = [{"name": name, "description": "", "parameters": {}} for name in self.tools]
        return self.talk(b"\x01" + json.dumps({"tools": tools, **spec}).encode())[0]

    def ask(self, kind, payload=None, descriptors=()):
        """SHADOW, SAVE, LOAD, SPILL."""
        kind, reply = self.talk(bytes((kind,)) + (json.dumps(payload).encode() if payload is not None else b""), descriptors)
        return json.loads(reply)

    def shadow(self):
        """(the answer, a kernel)"""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        answer = self.ask(4, None, [theirs.fileno()])
        theirs.close()
        return answer, NativeKernel(ours, {}, answer, (), self.tools)

    def begin(self, code):
        self.number += 1
        code = code.encode() if isinstance(code, str) else code
        self.send(b"\x02" + struct.pack("<IH", self.number, 0) + code)

    def run(self, code):
        self.begin(code)
        return self.end()

    def end(self):
        message = self.listen()
        while message is not None and message[0] == WAITING:
            results, self.results = self.results, []
            message = self.talk(b"\x03" + json.dumps({"results": results}).encode())
        assert message is not None, "the kernel is gone"
        return json.loads(message[1])

    def text(self, code):
        outcome = self.run(code)
        assert outcome["status"] == "ok", outcome
        return outcome["value"] and outcome["value"]["text/plain"]

    def error(self, code):
        outcome = self.run(code)
        assert outcome["status"] == "error", outcome
        return outcome["exception"]

    def output(self, stream=1):
        """What is in the pipe now."""
        data = b""
        while select.select([self.pipes[stream]], [], [], 0.05)[0]:
            part = os.read(self.pipes[stream], 1 << 16)
            if not part:
                break
            data += part
        return data.decode()


class NativeTest(unittest.TestCase):
    """One zygote for all tests of a class."""

    spec = {}

    @classmethod
    def setUpClass(cls):
        cls.zygote = Zygote(**cls.spec)
        cls.addClassCleanup(cls.zygote.close)
        assert cls.zygote.first.get("ready"), cls.zygote.first

    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(lambda: __import__("shutil").rmtree(self.directory))
        self.k = self.zygote.fork(cwd=self.directory, seed="01" * 16)

    def file(self):
        file = tempfile.TemporaryFile()
        self.addCleanup(file.close)
        return file
