"""The virtual environment: where it is, and how it is made."""

import os
import shlex
import sys
import venv

VERSION = "%d.%d" % sys.version_info[:2]
SITE = f"lib/python{VERSION}/site-packages"


def directory():
    home = os.environ.get("HOME") or os.getcwd()
    return os.path.abspath(os.environ.get("VIRTUAL_ENV") or os.path.join(home, ".venv"))


def site(environment=None):
    return os.path.join(environment or directory(), SITE)


def others():
    """Directories with packages that aren't the virtual environment's own: they are seen, and can't be changed."""
    own = (site(), os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = []
    for entry in os.environ.get("PYTHONPATH", "").split(":"):
        if entry and os.path.abspath(entry) not in own and entry not in found and os.path.isdir(entry):
            found.append(entry)
    return found


def exists(environment):
    return os.path.exists(os.path.join(environment, "bin", "python3")) and os.path.isdir(site(environment))


def make(environment):
    """With the interpreter's own module; its pip is the one that is here already."""
    venv.EnvBuilder(symlinks=True, with_pip=False, clear=False).create(environment)
    add_pip(environment)


def add_pip(environment):
    """For those who call it by its path."""
    for name in ("pip", "pip3"):
        path = os.path.join(environment, "bin", name)
        if not os.path.lexists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nVIRTUAL_ENV={shlex.quote(environment)} exec /belljar/bin/{name} "$@"\n')
            os.chmod(path, 0o755)


def ensure():
    environment = directory()
    if not exists(environment):
        make(environment)
    return environment


def shown(path):
    """As it is called from here."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
