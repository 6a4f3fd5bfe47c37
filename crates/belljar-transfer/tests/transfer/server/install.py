"""Puts an S3 service and what it needs into a directory, checked by their hashes: install.py DIRECTORY

Nothing is installed into the Python that runs this.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIST = Path(__file__).with_name("requirements.txt")


def main(directory: str) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    pip = [sys.executable, "-m", "pip", "install", *options, "--target", directory, "--requirement", str(LIST)]
    environment = {**os.environ, "PIP_NO_INPUT": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    finished = subprocess.run(pip, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    if finished.returncode:
        hint = "it needs pip; look at the network, or set PIP_INDEX_URL to an index that you can reach"
        sys.exit(f"the S3 service for tests could not be fetched ({hint}):\n{finished.stderr}")


main(*sys.argv[1:])
