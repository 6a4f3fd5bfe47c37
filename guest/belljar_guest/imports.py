"""Imports that the path doesn't answer: `import tools`, native modules of the environment's packages, and clear words for
modules the engine can't have."""

import _imp
import sys
from importlib import _bootstrap
from importlib.machinery import ExtensionFileLoader, ModuleSpec

from .private import OWN as __builtins__

PACKAGES = "/data/site-packages"  # where the environment's packages are
_ALIASES = (PACKAGES + "/", "/app/site-packages/")
_LINKED = "/1/"  # how the native modules are called that were linked into the interpreter
_NO_NETWORK = "this sandbox has no network; reach it through a tool"
_NO_C = "this sandbox can't load C libraries"
_NO_TERMINAL = "there is no terminal in the sandbox"
_NO_CODEC = "the wasm engine lacks this compression; zlib, gzip and zipfile (deflate) work"
REASONS = {
    "_ssl": _NO_NETWORK,
    "ssl": _NO_NETWORK,
    "_ctypes": _NO_C,
    "_bz2": _NO_CODEC,
    "_lzma": _NO_CODEC,
    "_zstd": _NO_CODEC,
    "_curses": _NO_TERMINAL,
    "curses": _NO_TERMINAL,
    "readline": _NO_TERMINAL,
    "termios": _NO_TERMINAL,
    "_tkinter": "there is no screen in the sandbox; make an image and display() it",
    "_multiprocessing": "this sandbox has no processes; use asyncio",
    "_posixsubprocess": "this sandbox has no processes",
}


class LastFinder:
    """Asked after all others, so a `tools.py` of the user's own wins."""

    def __init__(self, tools, reasons):
        self._tools = tools
        self._reasons = reasons

    def find_spec(self, name, path=None, target=None):
        if name == "tools":
            return ModuleSpec("tools", self)
        reason = self._reasons.get(name)
        if reason is not None:
            raise ModuleNotFoundError(f"No module named {name!r}: {reason}", name=name)
        return None

    def create_module(self, spec):
        return self._tools

    def exec_module(self, module):
        pass

    def invalidate_caches(self):
        pass


def create_linked(loader, spec):
    """A native module is in the interpreter already, under the name that it was linked by."""
    linked = spec
    for alias in _ALIASES:
        if spec.origin.startswith(alias):
            linked = ModuleSpec(spec.name, loader, origin=_LINKED + spec.origin[len(alias) :])
    try:
        module = _bootstrap._call_with_frames_removed(_imp.create_dynamic, linked)
    except ImportError as error:
        if str(error) != "library not found":
            raise
        reason = f"{spec.origin} is not among the native modules that this environment was made with"
        raise ImportError(reason, name=spec.name, path=spec.origin) from None
    if getattr(module, "__file__", None) is not None:  # modules of the old kind know only the other name
        module.__file__ = spec.origin
    return module


def install(tools):
    if sys.platform == "wasi":
        ExtensionFileLoader.create_module = create_linked
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "LastFinder"]
    sys.meta_path.append(LastFinder(tools, REASONS if sys.platform == "wasi" else {}))
