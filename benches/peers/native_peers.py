"""What the native engine is compared with: bubblewrap and Jupyter. `peers.py native` makes them where they are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from environments import InstallError, ensure, run, say

HERE = Path(__file__).resolve().parent
# ipykernel and jupyter_client with all that they need, and the pandas of Belljar's environment `science`.
JUPYTER = [
    "asttokens==3.0.2",
    "comm==0.2.3",
    "debugpy==1.8.22",
    "executing==2.3.0",
    "ipykernel==7.4.0",
    "ipython==9.18.1",
    "ipython_pygments_lexers==1.1.1",
    "jedi==0.20.1",
    "jupyter_client==8.10.0",
    "jupyter_core==5.9.1",
    "matplotlib-inline==0.2.2",
    "nest-asyncio2==1.7.4",
    "numpy==2.4.6",
    "packaging==26.3",
    "pandas==3.1.1",
    "parso==0.8.7",
    "pexpect==4.9.0",
    "platformdirs==4.14.5",
    "prompt_toolkit==3.0.53",
    "psutil==7.2.2",
    "ptyprocess==0.7.0",
    "pure_eval==0.2.4",
    "Pygments==2.21.0",
    "python-dateutil==4.0.0",
    "pyzmq==27.3.0",
    "stack-data==0.6.3",
    "tornado==6.6.1",
    "traitlets==5.16.1",
    "typing_extensions==4.16.0",
    "tzdata==2026.6",
    "wcwidth==0.9.4",
]


def places(cache: Path, tools: Path) -> dict:
    """Where each of them is, or why it isn't: `{"bwrap": {"path": …}, "jupyter": {"error": …}}`."""
    found = {}
    for name, find in (("bwrap", bwrap), ("jupyter", lambda: jupyter(cache, tools))):
        try:
            found[name] = find()
        except InstallError as error:
            say(f"{name}: {error}")
            found[name] = {"error": str(error)}
    return found


def bwrap() -> dict:
    path = shutil.which("bwrap") or _install_bwrap()
    # A kernel may have it and yet refuse it what it needs.
    run([path, "--unshare-all", "--ro-bind", "/", "/", "true"], "bwrap --unshare-all")
    version = run([path, "--version"], "bwrap --version").strip()
    return {"path": path, "version": version}


def _install_bwrap() -> str:
    by_hand = "install the package `bubblewrap` (Debian: `apt-get install bubblewrap`)"
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise InstallError(f"bwrap isn't on PATH; {by_hand}")
    say("bwrap isn't on PATH: installing Debian's package bubblewrap with apt-get, once")
    quiet = {"env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, "capture_output": True, "text": True}
    done = subprocess.run([apt, "install", "-y", "--no-install-recommends", "bubblewrap"], **quiet)
    if done.returncode != 0 and subprocess.run([apt, "update"], **quiet).returncode == 0:
        done = subprocess.run([apt, "install", "-y", "--no-install-recommends", "bubblewrap"], **quiet)
    path = shutil.which("bwrap")
    if path is None:
        raise InstallError(f"apt-get could not install it; {by_hand}:\n{done.stderr.strip()[-500:]}")
    return path


def jupyter(cache: Path, tools: Path) -> dict:
    """An environment on the Python that runs this script."""
    host = sys._base_executable
    directory = cache / "jupyter"
    identity = {"pins": JUPYTER, "python": host, "version": sys.version}
    if ensure(directory, identity, lambda made: _make_jupyter(made, host, tools)):
        say("jupyter: installed")
    version = next(pin for pin in JUPYTER if pin.startswith("ipykernel"))
    worker = str(HERE / "jupyter_worker.py")
    return {"python": str(directory / "bin" / "python"), "worker": worker, "version": version}


def _make_jupyter(directory: Path, host: str, tools: Path) -> None:
    say(f"jupyter: installing {len(JUPYTER)} packages")
    run([host, "-m", "venv", "--without-pip", directory], f"{host} -m venv")
    python = directory / "bin" / "python"
    pip = [tools / "bin" / "python", "-m", "pip", "--python", python]
    run([*pip, "install", "-q", "--no-deps", "--only-binary=:all:", *JUPYTER], "installing jupyter")
    run([python, "-c", "import ipykernel, jupyter_client, pandas"], "importing jupyter")
