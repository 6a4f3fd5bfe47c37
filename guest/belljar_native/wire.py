"""The kinds of frames that only the native engine knows."""

from struct import Struct

SHADOW, SAVE, LOAD, SPILL = 4, 5, 6, 7
FORKED, SAVED, LOADED, SPILLED, REFUSED = b"\x13", b"\x14", b"\x15", b"\x16", b"\x17"
LENGTH = Struct("<I")
