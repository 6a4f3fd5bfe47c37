"""What is left of modules that need C code which isn't there, so that packages which merely import them work.

Of `ctypes`: its types, with their sizes and values. Packages import it to learn how wide a `long` is, or to define what
they would only use elsewhere. Whatever would reach memory or a library raises. Of `bz2`: its names; using them raises.
"""

import struct
import sys
from types import ModuleType

from .private import OWN as __builtins__

_NO_C = "this sandbox can't load C libraries"
_NO_CODEC = "the wasm engine lacks this compression; zlib, gzip and zipfile (deflate) work"
_CODES = {
    "c_bool": "?",
    "c_byte": "b",
    "c_ubyte": "B",
    "c_short": "h",
    "c_ushort": "H",
    "c_int": "i",
    "c_uint": "I",
    "c_long": "l",
    "c_ulong": "L",
    "c_longlong": "q",
    "c_ulonglong": "Q",
    "c_float": "f",
    "c_double": "d",
    "c_longdouble": "d",
    "c_void_p": "P",
    "c_char_p": "P",
    "c_wchar_p": "P",
    "c_wchar": "i",
    "c_char": "c",
    "py_object": "P",
}
_SAME = {
    "c_int8": "c_byte",
    "c_uint8": "c_ubyte",
    "c_int16": "c_short",
    "c_uint16": "c_ushort",
    "c_int32": "c_int",
    "c_uint32": "c_uint",
    "c_int64": "c_longlong",
    "c_uint64": "c_ulonglong",
    "c_size_t": "c_uint",
    "c_ssize_t": "c_int",
    "c_time_t": "c_longlong",
}


class _Type(type):
    def __mul__(cls, length):
        return type(cls)(f"{cls.__name__}_Array_{length}", (Array,), {"_type_": cls, "_length_": length})


class _Data(metaclass=_Type):
    def __init__(self, *arguments, **fields):
        raise OSError(_NO_C)


class _SimpleCData(_Data):
    _type_ = "i"

    def __init__(self, value=0):
        self.value = value

    def __setattr__(self, name, value):
        if name == "value" and self._type_ in "bBhHiIlLqQ":
            bits = 8 * struct.calcsize(self._type_)
            value &= (1 << bits) - 1
            if self._type_.islower() and value >> (bits - 1):
                value -= 1 << bits
        object.__setattr__(self, name, value)

    def __repr__(self):
        return f"{type(self).__name__}({self.value!r})"


class Structure(_Data):
    pass


class Union(_Data):
    pass


class Array(_Data):
    pass


class _Pointer(_Data):
    pass


class CDLL:
    def __init__(self, name=None, *arguments, **options):
        raise OSError(f"{name}: {_NO_C}")


class ArgumentError(Exception):
    pass


def POINTER(kind):
    return _Type(f"LP_{getattr(kind, '__name__', kind)}", (_Pointer,), {"_type_": kind})


def CFUNCTYPE(result, *arguments, **options):
    return _Type("CFunctionType", (_Data,), {"_restype_": result, "_argtypes_": arguments})


def sizeof(item):
    kind = item if isinstance(item, type) else type(item)
    if issubclass(kind, Array):
        return sizeof(kind._type_) * kind._length_
    if issubclass(kind, (_Pointer, _SimpleCData)):
        return struct.calcsize("P" if issubclass(kind, _Pointer) else kind._type_)
    raise TypeError("this type has no size")


def _refuse(*arguments, **options):
    raise OSError(_NO_C)


class _Codec:
    """Raises late, as for data that isn't of its kind: `tarfile` tries one codec after the other."""

    eof, needs_input, unused_data = False, True, b""

    def __init__(self, level=9):
        pass

    def compress(self, data):
        raise OSError(_NO_CODEC)

    flush = decompress = lambda self, *arguments, **options: self.compress(b"")


def install():
    """Puts the modules where the standard library's own can't work."""
    codec = sys.modules["_bz2"] = ModuleType("_bz2")
    codec.BZ2Compressor = codec.BZ2Decompressor = _Codec
    module = ModuleType("ctypes", __doc__)
    for name, code in _CODES.items():
        kind = _Type(name, (_SimpleCData,), {"_type_": code, "__module__": "ctypes"})
        setattr(module, name, kind)
    for name, same in _SAME.items():
        setattr(module, name, getattr(module, same))
    for item in (Structure, Union, Array, _Pointer, _SimpleCData, CDLL, ArgumentError, POINTER, CFUNCTYPE, sizeof):
        setattr(module, item.__name__, item)
    module.PyDLL, module.PYFUNCTYPE, module.alignment = CDLL, CFUNCTYPE, sizeof
    module.BigEndianStructure = module.LittleEndianStructure = Structure
    for name in "addressof byref cast create_string_buffer create_unicode_buffer memmove memset pointer string_at".split():
        setattr(module, name, _refuse)
    sys.modules["ctypes"] = module
