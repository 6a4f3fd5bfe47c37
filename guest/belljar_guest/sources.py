"""The source of recent cells, for tracebacks and `inspect.getsource`. `linecache` gets it only when asked."""

import linecache

from .private import OWN as __builtins__

_KEPT_CELLS = 200
_LARGE = 1 << 18  # of cells larger than this only the newest is kept

_sources = {}
_large = []
_read_file = linecache.updatecache


def remember(filename, source):
    if filename in _sources:
        linecache.cache.pop(filename, None)
        del _sources[filename]
    _sources[filename] = source
    if len(_sources) > _KEPT_CELLS:
        _forget(next(iter(_sources)))
    if len(source) > _LARGE:
        for name in _large:
            if name != filename:
                _forget(name)
        _large[:] = (filename,)


def forget_all():
    for filename in list(_sources):
        _forget(filename)
    _large.clear()


def install():
    linecache.updatecache = _updatecache


def _forget(filename):
    _sources.pop(filename, None)
    linecache.cache.pop(filename, None)


def _updatecache(filename, module_globals=None):
    """`linecache` calls this for a file it doesn't know."""
    source = _sources.get(filename)
    if source is None:
        return _read_file(filename, module_globals)
    lines = [line + "\n" for line in source.splitlines()]
    linecache.cache[filename] = (len(source), None, lines, filename)
    return lines
