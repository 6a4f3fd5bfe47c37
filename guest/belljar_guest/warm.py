"""Runs one cell of each kind while the runtime is made, so that a session's first cell finds all of it in memory."""

import gc
import sys
import tempfile
from struct import pack

from .private import OWN as __builtins__

_CELLS = (
    "x = 1",
    "x += 1",
    "x",
    "print(1+1)",
    "print(f'{x:>5} {x!r} {1.5:.2f}')",
    "import sys\nprint('to stderr', file=sys.stderr)",
    "import json, re, datetime, collections, math\njson.loads(json.dumps({'a': [1, 2.5, None, 'é']}))",
    "re.sub(r'(\\w+)', r'<\\1>', 'a b')",
    "datetime.datetime.now().isoformat()",
    "def f(n):\n    return 1 if n < 2 else n * f(n - 1)\n[f(i) for i in range(5)]",
    "class A:\n    def __init__(self): self.a = 1\n    def _repr_html_(self): return '<b>a</b>'\nA()",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 0\nP(3)",
    "display(A())",
    "display({'text/html': '<b>'}, raw=True)",
    "def g():\n    return {}['missing']\ng()",
    "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('second') from e",
    "undefined_name",
    "x = (1 +",
    "sys.exit(2)",
    "raise KeyboardInterrupt",
    "input('name? ')",
    "with open('/nowhere/at/all') as file:\n    pass",
    "import asyncio\nawait asyncio.sleep(0)",
    "await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2))",
    "async def h():\n    await asyncio.sleep(0)\n    return 3\nasyncio.run(h())",
    "tools.warm(1, a='b')",
    "await tools.warm(1)",
    "await asyncio.gather(tools.warm(1), tools.warm(2))",
    "tools.worm()",
    "artifacts.list()",
    "datasets.list()",
    "artifacts.open('warm')",
    "sorted({'b': 1, 'a': 2}.items(), key=lambda pair: pair[1])",
    "import csv, io\nlist(csv.reader(io.StringIO('a,b\\n1,2')))",
    "import random, statistics\nstatistics.mean([1, 2, 3])",
)


class Rehearsal:
    """Answers like a host, so that the rehearsed cells meet no real one."""

    def __init__(self):
        self.started = []

    def __call__(self, frame):
        kind = frame[0]
        if kind == 33:
            return b'{"ok":1}'
        if kind == 34:
            self.started.append(len(self.started) + 1)
        if kind == 35:
            return b'{"results":[],"interrupt":false}'
        return b""

    def resume(self):
        results = ",".join('{"id":%d,"ok":1}' % identifier for identifier in self.started)
        return b'\x03{"results":[%s],"interrupt":false}' % results.encode()


def warm(kernel):
    """Rehearses, then leaves no trace of it."""
    exchange, kernel.host.exchange = kernel.host.exchange, Rehearsal()
    rehearsal = kernel.host.exchange
    path = list(sys.path)
    kernel.handle(
        b'\x01{"env":{},"argv":[""],"seed":"00ff","tools":[{"name":"warm","description":"","parameters":{}},'
        b'{"name":"__artifacts__"},{"name":"__datasets__"}]}'
    )
    for _ in range(2):
        for number, source in enumerate(_CELLS):
            reply = kernel.handle(b"\x02" + pack("<IH", number, 0) + source.encode())
            while reply[0] == 18:
                reply = kernel.handle(rehearsal.resume())
    kernel.handle(b'\x01{"tools":[]}')
    kernel.reset()
    kernel.host.exchange = exchange
    kernel.host.futures.clear()
    kernel.host._last_id = 0
    sys.path[:] = path
    sys.modules.pop("tools", None)
    tempfile._name_sequence = None
    sys.path_importer_cache.clear()
    gc.collect()
    gc.freeze()
