"""No sandbox: CPython itself, in this process. The baseline."""

from __future__ import annotations

LACKS: dict[str, str] = {}


def prepare(live: int = 2) -> None:
    """Nothing to start."""


class Session:
    def __init__(self) -> None:
        self._names: dict[str, object] = {}

    def run(self, code: str) -> None:
        exec(code, self._names)

    def value(self, expression: str) -> object:
        return eval(expression, self._names)

    def close(self) -> None:
        self._names.clear()
