"""Cells that ruin what they can reach. Each in a process of its own, because it does get ruined."""

import sys
import unittest

from fake_host import in_child

RUINS = {
    "names": "print = len = repr = compile = exec = 1\nValueError = None",
    "builtins": "import builtins\nbuiltins.len = builtins.isinstance = builtins.str = None",
    "builtins emptied": "import builtins\nbuiltins.__dict__.clear()",
    "__builtins__ deleted": "del __builtins__",
    "__builtins__ replaced": "__builtins__ = None",
    "globals emptied": "globals().clear()",
    "modules emptied": "import sys\nsys.modules.clear()",
    "modules replaced": "import sys\nsys.modules = {}",
    "main deleted": "import sys\ndel sys.modules['__main__']",
    "json": "import json, json.encoder, json.decoder\njson.dumps = json.loads = json.encoder.JSONEncoder = None\n"
            "json.encoder.c_make_encoder = json.decoder.JSONDecoder = None",
    "traceback": "import traceback\nfor n in list(vars(traceback)):\n    if not n.startswith('__'): setattr(traceback, n, None)",
    "linecache": "import linecache\nlinecache.cache = linecache.getlines = linecache.updatecache = None",
    "recursion limit": "import sys\nsys.setrecursionlimit(30)",
    "gc": "import gc\ngc.disable()\ngc.set_threshold(1)\ngc.callbacks.append(lambda *a: 1/0)",
    "trace": "import sys\ndef t(*a): raise ValueError('traced')\nsys.settrace(t)",
    "trace that stays": "import sys\ndef t(*a): return t\nsys.settrace(t)\nsys.setprofile(t)",
    "profile": "import sys\ndef t(*a): raise ValueError('profiled')\nsys.setprofile(t)",
    "streams": "import sys\nsys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None",
    "hooks": "import sys\nsys.displayhook = sys.excepthook = sys.unraisablehook = None",
    "tools and display": "tools = display = None\nimport builtins\ndel builtins.tools, builtins.display",
    "asyncio": "import asyncio\nasyncio.set_event_loop(None)\nasyncio.get_event_loop().close()",
    "path": "import sys\nsys.path.clear()\nsys.meta_path.clear()\nsys.path_hooks.clear()",
    "warnings": "import warnings\nwarnings.simplefilter('error')\nwarnings.warn = warnings.showwarning = None",
    "atexit": "import atexit\natexit.register(lambda: 1/0)",
    "os": "import os\nos.chdir('/')\nos.environ.clear()\nos.getcwd = os.stat = os.path.join = None",
    "random": "import random\nrandom.seed = None",
    "signal": "import signal\nsignal.signal(signal.SIGINT, lambda *a: None)\nsignal.signal = None",
    "codecs": "import codecs\ncodecs.register_error('belljar_escape', lambda e: 1/0)\ncodecs.register_error('backslashreplace', lambda e: 1/0)",
    "kernel frames": "import sys\nf = sys._getframe()\nwhile f:\n    for k, v in list(f.f_locals.items()): v = None\n    f = f.f_back",
    "import system": "import builtins\ndef no(*a, **k): raise ImportError('no')\nbuiltins.__import__ = no",
    "class of dict": "class D(dict):\n    def __getitem__(self, k): raise SystemExit\n__annotations__ = D()",
    "del": "class X:\n    def __del__(self): raise KeyboardInterrupt\nx = X()\ndel x",
}
if sys.version_info >= (3, 12):
    RUINS["monitoring"] = (
        "import sys\nm = sys.monitoring\nm.use_tool_id(3, 'x')\ndef t(*a): raise ValueError('monitored')\n"
        "m.register_callback(3, m.events.PY_START, t)\nm.set_events(3, m.events.PY_START)"
    )

AFTER = ("1/0", "class A:\n    def __repr__(self): return 'a'\nA()", "'\\udc80'", "kept", "20 + 22", "1/0")


class Hostile(unittest.TestCase):
    def test_the_kernel_survives(self):
        for name, ruin in RUINS.items():
            with self.subTest(name):
                outcomes = in_child(["kept = 5", ruin, *AFTER])
                *_, kept, value, failed = outcomes
                if name != "globals emptied":
                    self.assertEqual(kept["value"], {"text/plain": "5"})
                self.assertEqual((value["status"], value["value"]), ("ok", {"text/plain": "42"}))
                self.assertEqual(failed["exception"]["type"], "ZeroDivisionError")
