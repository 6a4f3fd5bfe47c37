"""Finds a CPython ≥ 3.12 for the peers (`pyeryx` needs it): the newest of those on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MINIMUM = (3, 12)
NEWEST = (3, 14)
PROBE = (
    "import sys, sysconfig, venv; "
    "ok = sys.implementation.name == 'cpython' and not sysconfig.get_config_var('Py_GIL_DISABLED'); "
    "print(*sys.version_info[:2], sys._base_executable) if ok else sys.exit(1)"
)


def find() -> Path | None:
    """The first of: this Python, `python3.14` … `python3.12` on PATH, uv's, pyenv's; each is tried by running it."""
    for candidate in _candidates():
        if found := probe(candidate):
            return found
    return None


def probe(candidate: str | Path) -> Path | None:
    """The real interpreter behind `candidate`, if it runs and its version fits (a pyenv shim may do neither)."""
    try:
        done = subprocess.run([str(candidate), "-I", "-c", PROBE], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.fullmatch(r"(\d+) (\d+) (.+)\n", done.stdout) if done.returncode == 0 else None
    if match is None or not MINIMUM <= (int(match[1]), int(match[2])) <= NEWEST:
        return None
    return Path(match[3])


def _candidates() -> Iterator[str | Path]:
    yield sys.executable
    versions = [f"3.{minor}" for minor in range(NEWEST[1], MINIMUM[1] - 1, -1)]
    for version in versions:
        if path := shutil.which(f"python{version}"):
            yield path
    if uv := shutil.which("uv"):
        for version in versions:
            done = subprocess.run(
                [uv, "python", "find", "--no-python-downloads", version], capture_output=True, text=True
            )
            if done.returncode == 0:
                yield done.stdout.strip()
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in versions:
        yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python3"), reverse=True)
