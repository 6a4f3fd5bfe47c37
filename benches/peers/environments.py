"""The cache directory: one lock, and directories that are either whole or gone."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

STAMP = "installed.json"


class InstallError(Exception):
    """Something could not be installed; the message says what to do about it."""


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "belljar" / "peers"


def say(message: str) -> None:
    """Progress goes to stderr: stdout carries the result only."""
    print(message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(cache: Path) -> Iterator[None]:
    """Hold the cache for this process; a second one waits."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / ".lock", "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that uses {cache}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def is_whole(directory: Path, identity: dict) -> bool:
    """Whether `directory` was finished, from these very inputs."""
    try:
        return json.loads((directory / STAMP).read_text()) == identity
    except (OSError, ValueError):
        return False


def ensure(directory: Path, identity: dict, make: Callable[[Path], None]) -> bool:
    """Make `directory` unless it is whole. Returns whether it had to be made.

    It is made in place, because environments contain their own absolute path; the stamp is written last, and whatever
    lacks it is removed: after an error here, after a kill at the next call.
    """
    if is_whole(directory, identity):
        return False
    shutil.rmtree(directory, ignore_errors=True)
    try:
        directory.mkdir(parents=True)
        make(directory)
        stamp = directory / (STAMP + ".part")
        stamp.write_text(json.dumps(identity, indent=2) + "\n")
        stamp.rename(directory / STAMP)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return True


def run(argv: list[str | Path], what: str) -> str:
    """Run a command quietly; on failure its output is the message."""
    done = subprocess.run(
        [str(part) for part in argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=clean_environment(),
    )
    if done.returncode != 0:
        raise InstallError(f"{what} failed (status {done.returncode}):\n{done.stdout.strip()}")
    return done.stdout


def clean_environment() -> dict[str, str]:
    """Our environment without what bends a Python: PYTHONPATH, PYTHONDONTWRITEBYTECODE, VIRTUAL_ENV, …"""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON") and name != "VIRTUAL_ENV"
    }
