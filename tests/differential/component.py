"""Runs programs on the interpreter as componentize-py made it, before Belljar flattened it.

    component.py compile COMPONENT CODE
    component.py run CODE STDLIB ZONEINFO < programs.json > results.json

A program is a list of cells. Each program runs in an instance of its own, with wasmtime's WASI on a directory of the
host. What comes out is what the kernel said, with nothing of Belljar's engine in between.

Needs the package `wasmtime` (`install.py` has its version) and nothing else.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import wasmtime
from wasmtime import component

BOOT, RUN, RESUME = 1, 2, 3
READY, DONE, WAITING = 16, 17, 18
DISPLAY, CALL, START, WAIT = 32, 33, 34, 35

# As in a Belljar session with the default policy and the tools of `flattened.rs`.
WORKSPACE = "/workspace"
MEMORY = 256 << 20
MAX_VALUE_BYTES = 1 << 20
TOOLS = ["echo", "fail"]

# As in Belljar's engine: room for the deepest recursion that the interpreter allows itself.
WASM_STACK = 64 << 20
HOST_STACK = 8 << 20


def compile_component(binary: str, code: str) -> None:
    engine = wasmtime.Engine(configuration())
    Path(code).write_bytes(component.Component.from_file(engine, binary).serialize())


def run_programs(code: str, stdlib: str, zoneinfo: str) -> None:
    engine = wasmtime.Engine(configuration())
    compiled = component.Component.deserialize_file(engine, code)
    results = []
    for cells in json.load(sys.stdin):
        with tempfile.TemporaryDirectory(prefix="belljar-differential-") as root:
            guest = Guest(engine, compiled, Path(root), stdlib, zoneinfo)
            results.append([guest.run(number, source) for number, source in enumerate(cells, 1)])
            guest.store.close()
    json.dump(results, sys.stdout)


def configuration() -> wasmtime.Config:
    config = wasmtime.Config()
    # The library must know of the stack first, and the package has no property for it.
    set_stack = wasmtime._ffi.dll.wasmtime_config_async_stack_size_set
    set_stack.argtypes, set_stack.restype = [ctypes.c_void_p, ctypes.c_uint64], None
    set_stack(config.ptr(), WASM_STACK + HOST_STACK)
    config.max_wasm_stack = WASM_STACK
    return config


class Guest:
    """One instance, booted."""

    def __init__(self, engine, compiled, root: Path, stdlib: str, zoneinfo: str):
        # Mount points are there to be listed, as in Belljar's tree.
        for directory in ["workspace", "tmp", "data", "python", "usr/share/zoneinfo"]:
            (root / directory).mkdir(parents=True)
        self.displays, self.results = [], []
        self.stdout, self.stderr = bytearray(), bytearray()
        wasi = wasmtime.WasiConfig()
        wasi.preopen_dir(str(root), "/")
        wasi.preopen_dir(stdlib, "/python", False)
        wasi.preopen_dir(zoneinfo, "/usr/share/zoneinfo", False)
        wasi.stdout_custom = self.stdout.extend
        wasi.stderr_custom = self.stderr.extend
        self.store = wasmtime.Store(engine)
        self.store.set_limits(memory_size=MEMORY)
        self.store.set_wasi(wasi)
        linker = component.Linker(engine)
        linker.add_wasip2()
        with linker.root() as imports:
            imports.add_func("exchange", lambda _store, frame: self.exchange(frame))
        instance = linker.instantiate(self.store, compiled)
        self.function = instance.get_func(self.store, "handle")
        boot = {
            "cwd": WORKSPACE,
            "env": {},
            "argv": ["-c"],
            "seed": "00" * 16,
            "tools": [{"name": name, "description": "", "parameters": {}} for name in TOOLS],
            "max_value_bytes": MAX_VALUE_BYTES,
        }
        kind, payload = self.handle(bytes([BOOT]) + json.dumps(boot).encode())
        if kind != READY:
            raise RuntimeError(f"the kernel did not boot: {payload!r}")

    def run(self, number: int, source: str) -> dict:
        self.displays.clear()
        self.stdout.clear()
        self.stderr.clear()
        kind, payload = self.handle(struct.pack("<BIH", RUN, number, 0) + source.encode())
        while kind == WAITING:
            timeout = json.loads(payload)["timeout"]
            kind, payload = self.handle(bytes([RESUME]) + self.wait(timeout))
        if kind != DONE:
            raise RuntimeError(f"the kernel answered with a frame of kind {kind}")
        return {
            **json.loads(payload),
            "stdout": self.stdout.decode("utf-8", "replace"),
            "stderr": self.stderr.decode("utf-8", "replace"),
            "displays": list(self.displays),
        }

    def handle(self, frame: bytes) -> tuple[int, bytes]:
        reply = self.function(self.store, frame)
        self.function.post_return(self.store)
        return reply[0], reply[1:]

    def exchange(self, frame: bytes) -> bytes:
        kind, message = frame[0], json.loads(frame[1:])
        if kind == DISPLAY:
            self.displays.append(message["data"])
        elif kind == CALL:
            return json.dumps(call(message)).encode()
        elif kind == START:
            self.results.append({"id": message["id"], **call(message)})
        elif kind == WAIT:
            return self.wait(message["timeout"])
        else:
            raise RuntimeError(f"the kernel sent a frame of kind {kind}")
        return b""

    def wait(self, timeout: float | None) -> bytes:
        if not self.results and timeout is not None:
            time.sleep(timeout)
        answer = json.dumps({"results": self.results, "interrupt": False}).encode()
        self.results.clear()
        return answer


def call(message: dict) -> dict:
    """The tools that the programs may call."""
    arguments = message["arguments"]
    if message["name"] == "echo":
        return {"ok": arguments}
    return {"error": {"type": "ValueError", "message": "as told"}}


def main(command: str, *arguments: str) -> None:
    """Exits without Python's clean-up, which wasmtime's own threads don't survive."""
    status = 1
    try:
        {"compile": compile_component, "run": run_programs}[command](*arguments)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    threading.stack_size(WASM_STACK + HOST_STACK)
    thread = threading.Thread(target=main, args=sys.argv[1:])
    thread.start()
    thread.join()
