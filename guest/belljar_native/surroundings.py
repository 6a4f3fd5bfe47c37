"""What a kernel shares with the commands beside it: variables, and packages that are installed while the session runs."""

import os
import sys
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)

from belljar_guest.private import OWN as __builtins__

_LOADERS = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)


def install(spec):
    """At the first BOOT. What the policy says of a variable counts."""
    said = spec.get("env") or {}
    for name, value in (spec.get("surroundings") or {}).items():
        if name not in said:
            os.environ[name] = value
    workspace = spec.get("cwd")
    if workspace:
        site = f"{workspace}/.venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
        sys.path.insert(0, site)
        # It isn't there yet. Python would remember that, but this looks again at each import.
        sys.path_importer_cache[site] = FileFinder(site, *_LOADERS)
