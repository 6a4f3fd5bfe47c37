"""eryx: CPython 3.14 on wasmtime, in the host's process."""

from __future__ import annotations

from collections.abc import Callable

import eryx

FIRST_RESULT = "import eryx; print(eryx.Sandbox().execute('print(1)').stdout_text, end='')"
LACKS: dict[str, str] = {}
# A cell may make 1,000 calls at most.
TOOL_CALLS_PER_CELL = 200
TOOL_CELL = "for _ in range({count}): await ping(n=_)"
LOADS_INTO_USED_SESSIONS = True


def prepare(live: int = 2) -> None:
    """Nothing to start: the runtime is part of the extension module."""


def fresh() -> str:
    return eryx.Sandbox().execute("print(1)").stdout_text


def reused() -> Callable[[], str]:
    """One `Sandbox` for many executions: each has a new instance, made in the background after the last."""
    sandbox = eryx.Sandbox()
    return lambda: sandbox.execute("print(1)").stdout_text


def with_package(wheel: str, module: str) -> Callable[[str], str]:
    """A factory with the package in its snapshot: the only way to give a `Sandbox` one."""
    factory = eryx.SandboxFactory(packages=[wheel], imports=[module])
    return lambda code: factory.create_sandbox().execute(code).stdout_text


class Session:
    def __init__(self, tools: bool = False) -> None:
        ping = {"name": "ping", "fn": lambda n: n, "description": "Returns its argument"}
        self._session = eryx.Session(callbacks=[ping]) if tools else eryx.Session()

    def run(self, code: str) -> None:
        self._session.execute(code)

    def value(self, expression: str) -> object:
        return self._session.execute(f"result = {expression}").result

    def dump(self) -> bytes:
        return self._session.snapshot_state()

    def load(self, state: bytes) -> None:
        self._session.restore_state(state)

    def close(self) -> None:
        del self._session
