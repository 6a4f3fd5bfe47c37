"""A Jupyter kernel and its client, told by standard input what to do. Runs in the environment that `native_peers` makes.

A line of JSON in, a line of JSON out: `{"do": "start", "code": …}` starts a kernel and runs its first cell,
`{"do": "cells", "code": …, "count": …, "rest": …}` runs cells in one that lives on.
"""

from __future__ import annotations

import json
import sys
import time
from subprocess import DEVNULL

from jupyter_client.manager import KernelManager

PATIENCE_SECONDS = 120


class Kernel:
    def __init__(self) -> None:
        self.manager = KernelManager()
        self.manager.start_kernel(stdout=DEVNULL, stderr=DEVNULL)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE_SECONDS)

    def run(self, code: str) -> None:
        """Until the result is there, and the reply. Nobody waits for the kernel to be idle."""
        sent = self.client.execute(code)
        text = None
        while text is None:
            message = self.client.get_iopub_msg(timeout=PATIENCE_SECONDS)
            if message["parent_header"].get("msg_id") != sent:
                continue
            if message["msg_type"] == "error":
                raise RuntimeError("\n".join(message["content"]["traceback"]))
            if message["msg_type"] == "execute_result":
                text = message["content"]["data"]["text/plain"]
            elif message["msg_type"] == "stream":
                text = message["content"]["text"]
        while self.client.get_shell_msg(timeout=PATIENCE_SECONDS)["parent_header"].get("msg_id") != sent:
            pass

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def start(code: str) -> dict:
    began = time.perf_counter()
    kernel = Kernel()
    ready = time.perf_counter()
    kernel.run(code)
    done = time.perf_counter()
    kernel.close()
    return {"ready_ms": (ready - began) * 1e3, "first_ms": (done - began) * 1e3}


def cells(kernel: Kernel, code: str, count: int, rest: float) -> dict:
    taken = []
    for _ in range(count):
        if rest:
            time.sleep(rest)
        began = time.perf_counter()
        kernel.run(code)
        taken.append((time.perf_counter() - began) * 1e6)
    return {"us": taken}


def main() -> None:
    kernel = None
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "start":
            answer = start(order["code"])
        else:
            kernel = kernel or Kernel()
            answer = cells(kernel, order["code"], order["count"], order["rest"])
        print(json.dumps(answer), flush=True)
    if kernel is not None:
        kernel.close()


main()
