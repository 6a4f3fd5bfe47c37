"""monty: an interpreter of its own for a subset of Python, in pooled worker processes."""

from __future__ import annotations

import atexit

from pydantic_monty import CollectString, Monty

FIRST_RESULT = """
from pydantic_monty import Monty
with Monty() as pool, pool.checkout() as session:
    session.feed_run('print(1)')
"""
LACKS = {"fresh_warmed": "`fresh` takes workers from a warm pool already", "package": "no packages"}
TOOL_CALLS_PER_CELL = 200
TOOL_CELL = "for i in range({count}): ping(i)"
LOADS_INTO_USED_SESSIONS = False

_pool: Monty | None = None


def prepare(live: int = 2) -> None:
    """Start the pool: as many workers at most as there will be live sessions."""
    global _pool
    _pool = Monty(max_processes=live)
    _pool.__enter__()
    atexit.register(_pool.__exit__, None, None, None)


def fresh() -> str:
    printed = CollectString()
    with _pool.checkout() as session:
        session.feed_run("print(1)", print_callback=printed)
    return printed.output


class Session:
    def __init__(self, tools: bool = False) -> None:
        self._tools = {"ping": lambda n: n} if tools else None
        # By default a session may call the host 1,000 times.
        self._session = _pool.checkout(limits={"max_suspensions": 10**9} if tools else None)
        self._session.__enter__()

    def run(self, code: str) -> None:
        self._session.feed_run(code, external_lookup=self._tools)

    def value(self, expression: str) -> object:
        return self._session.feed_run(expression)

    def dump(self) -> bytes:
        return self._session.dump()

    def load(self, state: bytes) -> None:
        self._session.load_session(state)

    def close(self) -> None:
        self._session.__exit__(None, None, None)
