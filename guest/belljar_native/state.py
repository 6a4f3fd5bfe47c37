"""SAVE and LOAD: a session's variables in a file, and back.

One pickler writes all variables, one after the other, so what they share they share afterwards. Functions of cells are
written without the globals they use: those are the namespace, which is there when they come back. What can't be saved
(generators, sockets, locks …), or what was saved but doesn't come back, is named with the reason and left out.

A view of an array is saved as an array of its own, as pickles always do.
"""

import builtins
import gc
import io
import os
import pickle
import pickletools
import random
import sys
from functools import lru_cache
from itertools import islice
from types import FunctionType, ModuleType

from belljar_guest import cell, sources
from belljar_guest.errors import message_of, name_of
from belljar_guest.private import OWN as __builtins__
from belljar_guest.tools import Tool

from . import store

try:
    import cloudpickle as _cloudpickle
except ImportError:
    _cloudpickle = None

_SKIPPED = frozenset((*cell.clean_slate(), "__builtins__", "__warningregistry__"))
_DEEPEST = 3000  # calls, whatever limit a cell set: below it lies a crash
_TOO_DEEP = "nested too deeply"
_MAX_LOST, _MAX_REASON = 1000, 300
_MAX_ROUNDS = 5
_FAILURES = (Exception, SystemExit, GeneratorExit)


class _Session:
    """What BOOT found: a session's own is what differs."""

    environment = None
    path = ()


class _Live:
    """What loaded objects find in place of the kernel's own: see `_owned`."""

    objects = ()


def note_boot(spec):
    if _Session.environment is None:
        _Session.environment = dict(os.environ)
        _Session.path = tuple(sys.path)
    else:
        _Session.environment.update(spec.get("env") or {})


def note_cloudpickle():
    """In the zygote, when the packages' directory is on the path."""
    global _cloudpickle, _Pickler
    try:
        import cloudpickle as _cloudpickle
    except Exception:
        _cloudpickle = None
    _Pickler = _make_pickler()


def rehearse(kernel, variables):
    """In the zygote: what saving and loading needs is in memory afterwards."""
    pickles, buffers, bad = _pickle(kernel, variables, {})
    if not bad:
        _load_all(pickles, [buffer.raw() for buffer in buffers], _owned(kernel), lambda meta: None)
        kernel.namespace.pop("__builtins__", None)


# SAVE


def save(channel, kernel, payload, descriptors):
    """The reply. Meant for a shadow: what it loads to see whether it can be loaded stays in memory."""
    if not descriptors:
        return {"error": "no file came with the frame"}
    with _calm(), store.files_of_any_size():
        return _save(kernel, descriptors[0])


def _save(kernel, descriptor):
    variables = {name: value for name, value in kernel.namespace.items() if type(name) is str and name not in _SKIPPED}
    lost = {}
    rounds = 0
    while True:
        pickles, buffers, bad = _pickle(kernel, variables, lost)
        if bad:
            _lose(variables, lost, bad)
            _lose(variables, lost, _try_each(kernel, variables))
            continue
        if rounds:  # something didn't come back: look again before all is written again
            bad = _verify(kernel, (pickles, [buffer.raw() for buffer in buffers]), rounds)
        if not bad:
            written = store.write(descriptor, pickles, buffers)
            del pickles, buffers
            bad = _verify(kernel, store.read(descriptor), rounds)
            if not bad:
                return {"bytes": written, "lost": _described(lost, kernel.namespace)}
        _lose(variables, lost, bad)
        rounds += 1


def _lose(variables, lost, bad):
    lost.update(bad)
    for name in bad:
        variables.pop(name, None)


def _pickle(kernel, variables, lost):
    """(pickles, buffers, None), or (None, None, {name: reason}) of the first variable that fails."""
    file = io.BytesIO()
    pickler, buffers = _pickler(kernel, file)
    pickler.dump(_meta(kernel, variables, lost))
    for name, value in variables.items():
        try:
            pickler.dump(value)
        except _FAILURES as error:
            return None, None, {name: _reason(error)}
    return file.getbuffer(), buffers, None


def _try_each(kernel, variables):
    """The reasons of all that fail by themselves."""
    bad = {}
    for name, value in variables.items():
        try:
            _pickler(kernel, _Nowhere())[0].dump(value)
        except _FAILURES as error:
            bad[name] = _reason(error)
    return bad


def _pickler(kernel, file):
    """A pickler that knows the kernel's own objects by their place, and its list of large buffers."""
    buffers = []

    def keep(buffer):
        if buffer.raw().nbytes < store.SMALL:
            return True  # in the pickle
        buffers.append(buffer)
        return False

    pickler = _Pickler(file, protocol=5, buffer_callback=keep)
    pickler.prepare(kernel)
    return pickler, buffers


def _owned(kernel):
    return (
        kernel.namespace, kernel.main, kernel.tools, getattr(builtins, "display", None), kernel.streams.out, kernel.streams.err,
        kernel.kept.artifacts, kernel.kept.datasets,
    )


class _Marker:
    """Comes back as one of the kernel's own objects."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return _live, (self.place,)


def _live(place):
    return _Live.objects[place]


def _tool(item):
    return Tool(_Live.objects[2]._host, item)


def _cached(function, parameters):
    """What it remembered is forgotten."""
    return lru_cache(**parameters)(function)


class _Reductions:
    """What both picklers have in common."""

    def prepare(self, kernel):
        """Puts the kernel's objects into the memo in the place of markers: no object is asked whether it is one."""
        self.namespace = kernel.namespace
        owned = _owned(kernel)
        markers = [_Marker(place) for place in range(len(owned))]
        self.dump(markers)
        memo = self.memo.copy()
        for marker, item in zip(markers, owned):
            index = memo.pop(id(marker))[0]
            memo[id(item)] = (index, item)
        self.memo = memo
        self.markers = markers  # their addresses must not be used again

    def reducer_override(self, item):
        kind = type(item)
        if kind is Tool:
            return _tool, ({"name": item.__name__, "description": item.__doc__, "parameters": item._parameters},)
        if kind is _CACHED and getattr(item, "__module__", None) == "__main__":
            return _cached, (item.__wrapped__, item.cache_parameters())
        if kind is io.TextIOWrapper:
            raise pickle.PicklingError("an open file")
        return super().reducer_override(item)


def _make_pickler():
    if _cloudpickle is None:
        return _PlainPickler

    class Pickler(_Reductions, _cloudpickle.Pickler):
        def prepare(self, kernel):
            super().prepare(kernel)
            self.globals_ref[id(kernel.namespace)] = kernel.namespace

        def _dynamic_function_reduce(self, function):
            reduced = super()._dynamic_function_reduce(function)
            if function.__globals__ is self.namespace:
                reduced[2][1]["__globals__"] = {}
            return reduced

    return Pickler


class _ByName(pickle.Pickler):
    def reducer_override(self, item):
        if isinstance(item, (FunctionType, type)) and getattr(item, "__module__", None) == "__main__":
            raise pickle.PicklingError("a function or class of a cell, and the package cloudpickle isn't there")
        if isinstance(item, ModuleType):
            return _import, (item.__name__,)
        return NotImplemented


class _PlainPickler(_Reductions, _ByName):
    pass


def _import(name):
    __import__(name)
    return sys.modules[name]


class _Nowhere:
    def write(self, data):
        return len(data)


def _meta(kernel, variables, lost):
    environment, path = _Session.environment or {}, _Session.path
    numpy = sys.modules.get("numpy.random")
    return {
        "names": list(variables),
        "lost": list(lost),
        "cwd": _cwd(),
        "environment": {name: value for name, value in os.environ.items() if environment.get(name) != value},
        "unset": [name for name in environment if name not in os.environ],
        "path": [(place, entry) for place, entry in enumerate(sys.path) if entry not in path and type(entry) is str],
        "random": random.getstate(),
        "numpy": None if numpy is None else _numpy_state(numpy),
        "futures": kernel.program.futures,
        "sources": dict(sources._sources),
        "last": [builtins._] if "_" in vars(builtins) else [],
    }


def _cwd():
    try:
        return os.getcwd()
    except OSError:
        return None


def _numpy_state(numpy):
    try:
        kind, keys, *rest = numpy.get_state()
        return (kind, keys.tolist(), *rest)
    except Exception:
        return None


def _verify(kernel, stored, rounds):
    """{name: reason} of what doesn't come back. What fails only because of what it shares has another chance."""
    main, modules = ModuleType("__main__"), sys.modules
    stand_in = [main.__dict__, main, *_owned(kernel)[2:]]
    modules["__main__"] = main
    _forget_classes()
    try:
        _, values, bad, dependent = _load_all(*stored, stand_in, lambda meta: None)
        del values
    finally:
        modules["__main__"] = kernel.main
    if rounds < _MAX_ROUNDS:
        return {name: reason for name, reason in bad.items() if name not in dependent}
    return bad


def _forget_classes():
    """Else cloudpickle would find the classes instead of making them."""
    try:
        _cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.clear()
    except AttributeError:
        pass


# LOAD


def load(channel, kernel, payload, descriptors):
    if not descriptors:
        return {"error": "no file came with the frame"}
    with _calm():
        try:
            meta, values, bad, _ = _load_all(*store.read(descriptors[0]), _owned(kernel), _restore_surroundings)
        except store.Damaged as error:
            return {"error": str(error)}
        _adopt(kernel, meta, values)
        return {"lost": _described(bad, {})}


def _load_all(pickles, buffers, live, prepare):
    """(meta, {name: value}, {name: reason}, names whose reason is another's).

    `prepare` is called with the meta before the first variable is made.
    """
    _Live.objects = live
    file = io.BytesIO(pickles)
    unpickler = pickle.Unpickler(file, buffers=iter(buffers))
    try:
        unpickler.load()  # the markers
        meta = unpickler.load()
    except _FAILURES as error:
        raise store.Damaged(f"it can't be read: {_reason(error)}") from None
    prepare(meta)
    values = {}
    for name in meta["names"]:
        try:
            values[name] = unpickler.load()
        except _FAILURES:
            del unpickler, values
            return (meta, *_load_what_comes(pickles, buffers, meta))
    return meta, values, {}, ()


def _load_what_comes(pickles, buffers, meta):
    """Slowly, and past what fails: ({name: value}, {name: reason}, names whose reason is another's)."""
    file = io.BytesIO(pickles)
    unpickler = _Careful(file, buffers=())
    unpickler.load()
    unpickler.load()
    values, bad, dependent, used, known = {}, {}, set(), 0, len(unpickler.memo)
    for name in meta["names"]:
        start = file.tell()
        memoized, taken = _count(file)
        end = file.tell()
        file.seek(start)
        unpickler._buffers = islice(buffers, used, None)
        known += memoized
        try:
            values[name] = unpickler.load()
        except _FAILURES as error:
            bad[name] = _reason(error)
            if type(error) is _Shares:
                dependent.add(name)
            for place in range(known - memoized, known):
                unpickler.memo[place] = _Missing(name)  # also what may be half made
        file.seek(end)
        used += taken
    return values, bad, dependent


def _count(file):
    """How many objects the next pickle remembers, and how many buffers it takes."""
    memoized = taken = 0
    for code, _, _ in pickletools.genops(file):
        memoized += code.name == "MEMOIZE"
        taken += code.name == "NEXT_BUFFER"
    return memoized, taken


class _Shares(pickle.UnpicklingError):
    pass


class _Missing:
    def __init__(self, name):
        self.name = name


class _Memo(dict):
    def __getitem__(self, place):
        item = dict.__getitem__(self, place)
        if type(item) is _Missing:
            raise _Shares(f"it shares something with {item.name!r}, which is lost")
        return item


class _Careful(pickle._Unpickler):
    def load(self):
        memo = self.memo
        if type(memo) is not _Memo:
            self.memo = _Memo(memo)
        return super().load()


def _restore_surroundings(meta):
    """What imports may depend on."""
    if meta["cwd"]:
        try:
            os.chdir(meta["cwd"])
        except OSError:
            pass  # it was in a place that doesn't last
    os.environ.update(meta["environment"])
    for name in meta["unset"]:
        os.environ.pop(name, None)
    for place, entry in meta["path"]:
        if entry not in sys.path:
            sys.path.insert(place, entry)


def _adopt(kernel, meta, values):
    namespace = kernel.namespace
    kept = _SKIPPED.union(meta["lost"])  # what setup makes of a variable that was lost is better than nothing
    for name in list(namespace):
        if name not in kept:
            del namespace[name]
    namespace.update(values)
    namespace["__builtins__"] = builtins
    random.setstate(meta["random"])
    numpy = sys.modules.get("numpy.random")
    if numpy is not None and meta["numpy"] is not None:
        try:
            numpy.set_state(meta["numpy"])
        except Exception:
            pass
    kernel.program.futures = meta["futures"]
    for filename, source in meta["sources"].items():
        sources.remember(filename, source)
    for value in meta["last"]:
        builtins._ = value


# Both


class _calm:
    """No collections, which would look at everything that is being made; no recursion that a cell allowed itself."""

    def __enter__(self):
        self.collects, self.limit = gc.isenabled(), sys.getrecursionlimit()
        gc.disable()
        if self.limit > _DEEPEST:
            sys.setrecursionlimit(_DEEPEST)

    def __exit__(self, *error):
        sys.setrecursionlimit(self.limit)
        if self.collects:
            gc.enable()


def _described(reasons, namespace):
    lost = []
    for name, reason in list(reasons.items())[:_MAX_LOST]:
        kind = name_of(type(namespace[name])) if name in namespace else ""
        lost.append({"name": name[:200], "type": kind, "reason": reason})
    return lost


def _reason(error):
    text = message_of(error) or type(error).__name__
    if isinstance(error, RecursionError) or "excessively deep recursion" in text:
        return _TOO_DEEP
    return text[:_MAX_REASON]


_CACHED = type(lru_cache(_reason))
_Pickler = _make_pickler()
