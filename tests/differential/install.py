"""Puts the package `wasmtime` into a directory, checked by its hash: install.py DIRECTORY

Nothing is installed into the Python that runs this. Where it has no pip, the wheel is fetched without.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VERSION = "50.0.1"
WHEELS = {
    "wasmtime-50.0.1-py3-none-manylinux1_x86_64.whl": "cc14c3a17654e0394e0225b11813532ef0cd7bd1e222a0c5494cdedaabeddac4",
    "wasmtime-50.0.1-py3-none-manylinux2014_aarch64.whl": "675484e525c028dc02762b777f1db4477ea70caa3fec6775426daff4d64edfb1",
    "wasmtime-50.0.1-py3-none-macosx_10_13_x86_64.whl": "13fe813b922712a9e10fe0f48b2c56da06432eea4b24269bb7cd3a6b2720560b",
    "wasmtime-50.0.1-py3-none-macosx_11_0_arm64.whl": "ff4fc58ed3cbdb919d056accd4d280be13962a542754aaefd8a9b4654efa9bd9",
}
FETCH = Path(__file__).parents[2] / "crates/belljar-runtime/src/make/fetch.py"


def main(directory: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        fetch(scratch)
        for wheel in Path(scratch).glob("*.whl"):
            found = hashlib.sha256(wheel.read_bytes()).hexdigest()
            if found != WHEELS.get(wheel.name):
                sys.exit(f"{wheel.name} has SHA-256 {found}, which isn't pinned in {__file__}")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(directory)
            return
    sys.exit(f"nothing was fetched for wasmtime {VERSION}")


def fetch(directory: str) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", directory]
    pip = [sys.executable, "-m", "pip", "download", *options, f"wasmtime=={VERSION}"]
    finished = subprocess.run(pip, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "PIP_NO_INPUT": "1"})
    if finished.returncode and "No module named pip" in finished.stderr:
        plain = [sys.executable, str(FETCH), directory, "wasmtime", *WHEELS]
        finished = subprocess.run(plain, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if finished.returncode:
        hint = "look at the network, or set PIP_INDEX_URL to an index that you can reach"
        sys.exit(f"wasmtime {VERSION} could not be fetched ({hint}):\n{finished.stderr}")


main(*sys.argv[1:])
