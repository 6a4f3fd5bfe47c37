"""The file of a saved session: a header, the pickles, and large buffers on pages of their own.

The buffers are written from where they are, without a copy, and mapped privately when they are read: a session that
wakes pays for the pages it touches, may write to them, and never changes the file.
"""

import ctypes
import mmap
import os
import resource
import sys
import weakref
from contextlib import contextmanager
from hashlib import blake2b
from struct import Struct

from belljar_guest.private import OWN as __builtins__

SMALL = 64 << 10  # buffers below this stay in the pickle
_MAGIC, _VERSION = b"BELLJAR\0", 1
# magic, version, Python's version, length of the pickles, number of buffers, length of the file, checksum
_HEADER = Struct("<8sIIQQQ32s")
_ENTRY = Struct("<QQQ")  # place, length, whether it is read-only
_PAGE = max(4096, mmap.ALLOCATIONGRANULARITY)
_PYTHON = sys.version_info[0] << 8 | sys.version_info[1]
_AT_ONCE = 64 << 20  # bytes of one write: more than 2 GiB the system refuses
_KEEPS_NO_DESCRIPTOR = sys.version_info >= (3, 13)


@contextmanager
def files_of_any_size():
    """A workspace on disk has files of a bounded size; what the host asks for isn't one of them."""
    soft, hard = _getrlimit(resource.RLIMIT_FSIZE)
    _setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    try:
        yield
    finally:
        _setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Damaged(Exception):
    """The file isn't what `write` wrote."""


def write(descriptor, pickles, buffers):
    """`buffers` are PickleBuffers. Returns the length of the file."""
    views = [buffer.raw() for buffer in buffers]
    place = _HEADER.size + _ENTRY.size * len(views) + len(pickles)
    index = bytearray()
    places = []
    for view in views:
        place += -place % _PAGE
        places.append(place)
        index += _ENTRY.pack(place, view.nbytes, view.readonly)
        place += view.nbytes
    length = place + -place % _PAGE
    parts = [_HEADER.pack(_MAGIC, _VERSION, _PYTHON, len(pickles), len(views), length, bytes(32)), index, pickles]
    parts[0] = parts[0][:-32] + _checksum(parts[0][:-32], index, pickles)
    _truncate(descriptor, length)
    place = 0
    for part in parts:
        place = write_all(descriptor, memoryview(part), place)
    for place, view in zip(places, views):
        write_all(descriptor, view, place)
    return length


def read(descriptor):
    """(pickles, buffers), or Damaged."""
    size = os.fstat(descriptor).st_size
    header = _read_all(descriptor, _HEADER.size, 0)
    magic, version, python, pickled, count, length, checksum = _HEADER.unpack(header)
    if magic != _MAGIC or version != _VERSION:
        raise Damaged("the file holds no saved session, or one of another version")
    if python != _PYTHON:
        raise Damaged(f"the session was saved by Python {python >> 8}.{python & 255}")
    if length != size or _HEADER.size + _ENTRY.size * count + pickled > size:
        raise Damaged("the file is not as long as it says")
    index = _read_all(descriptor, _ENTRY.size * count, _HEADER.size)
    pickles = _read_all(descriptor, pickled, _HEADER.size + len(index))
    if _checksum(header[:-32], index, pickles) != checksum:
        raise Damaged("the checksum is wrong")
    buffers = []
    for place, number, readonly in _ENTRY.iter_unpack(index):
        if place % _PAGE or place + number > size or number == 0:
            raise Damaged("a buffer lies outside the file")
        view = _map(descriptor, place, number)
        buffers.append(view.toreadonly() if readonly else view)
    return pickles, buffers


def _checksum(*parts):
    digest = blake2b(digest_size=32)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _map(descriptor, place, length):
    """A private map, given back when nobody uses it. It keeps no descriptor, by which the file could be changed."""
    if _KEEPS_NO_DESCRIPTOR:
        return memoryview(mmap.mmap(descriptor, length, access=mmap.ACCESS_COPY, offset=place, trackfd=False))
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return memoryview(mmap.mmap(descriptor, length, access=mmap.ACCESS_COPY, offset=place))
    address = map_at(None, length, 0, descriptor, place)
    block = (ctypes.c_ubyte * length).from_address(address)
    weakref.finalize(block, _munmap, address, length).atexit = False
    # Of a block of ctypes itself a memoryview knows no plain bytes.
    return memoryview(numpy.frombuffer(block, numpy.uint8))


def map_at(address, length, flags, descriptor, place):
    """A private map of part of a file. Returns where it is."""
    address = _mmap(address, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | flags, descriptor, place)
    if address is None or address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return address


def write_all(descriptor, view, place):
    end = place + view.nbytes
    done = 0
    while place < end:
        number = os.pwrite(descriptor, view[done : done + _AT_ONCE], place)
        done += number
        place += number
    return place


def _read_all(descriptor, length, place):
    parts = []
    while length:
        part = os.pread(descriptor, min(length, _AT_ONCE), place)
        if not part:
            raise Damaged("the file ends too early")
        parts.append(part)
        place += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _truncate(descriptor, length):
    os.ftruncate(descriptor, 0)
    os.ftruncate(descriptor, length)


_libc = ctypes.CDLL(None, use_errno=True)
_mmap, _munmap = _libc.mmap, _libc.munmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_getrlimit, _setrlimit = resource.getrlimit, resource.setrlimit
