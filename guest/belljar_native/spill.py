"""SPILL: the memory of large arrays goes into a file, and comes back page by page when it is touched.

The file is mapped privately over the very addresses where an array's data was. So there are no proxies and nobody has to
know: the object is the same one, what is read comes from the file, what is written stays in memory. Only memory that
numpy owns, only whole pages of it, and only while no other thread could write to it meanwhile.
"""

import ctypes
import mmap
import os
import sys

from belljar_guest import wire
from belljar_guest.private import OWN as __builtins__

from . import shadow, store

_LARGE = 64 << 10  # parts of a frame smaller than this stay
_FRAME_BYTES, _ARRAY_BYTES = 64 << 20, 16 << 20
_MAP_FIXED = 0x10
_PAGE = mmap.PAGESIZE


def spill(channel, kernel, payload, descriptors):
    if not descriptors:
        return {"error": "no file came with the frame"}
    if sys.modules.get("numpy") is None:
        return {"bytes": 0, "names": []}
    why = shadow.threads_in_words()
    if why:
        return {"error": why}
    spec = wire.decode(payload) if payload else {}
    found = _Finder(spec.get("frame_bytes") or _FRAME_BYTES, spec.get("array_bytes") or _ARRAY_BYTES)
    for name, value in list(kernel.namespace.items()):
        if type(name) is str and not name.startswith("__"):
            found.look(name, value)
    with store.files_of_any_size():
        return _spill(found.owners, descriptors[0])


def _spill(owners, descriptor):
    anonymous = _anonymous()
    total, names = 0, []
    place = os.fstat(descriptor).st_size
    place += -place % _PAGE
    for address, length, name in owners:
        start = address + -address % _PAGE
        length = (address + length - start) // _PAGE * _PAGE
        if length <= 0 or not any(low <= start and start + length <= high for low, high in anonymous):
            continue
        try:
            _move(start, length, descriptor, place)
        except OSError as error:
            if not total:
                return {"error": f"{error.strerror or error}"}
            break
        place += length
        total += length
        if name not in names:
            names.append(name)
    return {"bytes": total, "names": names[:1000]}


def _move(start, length, descriptor, place):
    os.ftruncate(descriptor, place + length)
    store.write_all(descriptor, memoryview((ctypes.c_char * length).from_address(start)).cast("B"), place)
    store.map_at(start, length, _MAP_FIXED, descriptor, place)


class _Finder:
    """Collects (address, length, name) of the memory that large variables own."""

    def __init__(self, frame_bytes, array_bytes):
        self.frame_bytes, self.array_bytes = frame_bytes, array_bytes
        self.owners = []
        self._seen = set()
        self._array = sys.modules["numpy"].ndarray
        pandas = sys.modules.get("pandas")
        self._tables = (pandas.DataFrame, pandas.Series) if pandas is not None else ()

    def look(self, name, value):
        kind = type(value)
        if kind is dict:
            value = list(value.values())
        elif kind is not list and kind is not tuple:
            self._take(name, value)
            return
        for item in value:
            self._take(name, item)

    def _take(self, name, value):
        kind = type(value)
        if issubclass(kind, self._array):
            if value.nbytes >= self.array_bytes:
                self._add(name, value, self.array_bytes)
        elif self._tables and issubclass(kind, self._tables):
            parts = [part for array in value._mgr.arrays for part in self._parts(array)]
            if sum(part.nbytes for part in parts) >= self.frame_bytes:
                for part in parts:
                    self._add(name, part, _LARGE)

    def _parts(self, array):
        """The arrays of numpy that a column is made of."""
        if isinstance(array, self._array):
            return [array]
        parts = [getattr(array, attribute, None) for attribute in ("_ndarray", "_data", "_mask")]
        return [part for part in parts if isinstance(part, self._array)]

    def _add(self, name, array, least):
        while isinstance(array.base, self._array):
            array = array.base
        if not array.flags.owndata or array.nbytes < least:
            return  # what a buffer of somebody else's lies in isn't ours
        address = array.__array_interface__["data"][0]
        if address not in self._seen:
            self._seen.add(address)
            self.owners.append((address, array.nbytes, name))


def _anonymous():
    """The ranges of memory that belong to no file: [(start, end)], neighbours joined."""
    ranges = []
    with open("/proc/self/maps", "rb") as file:
        for line in file:
            fields = line.split(None, 5)
            name = fields[5].strip() if len(fields) > 5 else b""
            if fields[1] != b"rw-p" or fields[4] != b"0" or (name and name != b"[heap]" and not name.startswith(b"[anon")):
                continue
            start, end = (int(part, 16) for part in fields[0].split(b"-"))
            if ranges and ranges[-1][1] == start:
                start = ranges.pop()[0]
            ranges.append((start, end))
    return ranges
