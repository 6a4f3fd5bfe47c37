"""Frames: their kinds, and JSON through the C coder, which user code can't monkeypatch."""

import codecs
from json.decoder import JSONDecoder
from json.encoder import c_make_encoder, encode_basestring
from json.scanner import c_make_scanner
from struct import Struct

from .private import OWN as __builtins__

BOOT, RUN, RESUME = 1, 2, 3
READY, DONE, WAITING = b"\x10", b"\x11", b"\x12"
DISPLAY, CALL, START, WAIT, STREAM, EXIT = b"\x20", b"\x21", b"\x22", b"\x23", b"\x24", b"\x25"

RUN_HEADER = Struct("<xIH")
EXIT_STATUS = Struct("<i")
DONE_OK = DONE + b'{"status":"ok","value":null,"exception":null,"exit_code":null}'
DONE_TEXT = (
    DONE + b'{"status":"ok","value":{"text/plain":',
    b'},"exception":null,"exit_code":null}',
)

_scan = c_make_scanner(JSONDecoder())


def encode(value):
    """JSON as bytes; raises TypeError or ValueError for what JSON can't say."""
    # The dict marks containers being encoded. A new one each time: a failure leaves marks in it.
    encoder = c_make_encoder({}, _refuse, encode_basestring, None, ":", ",", False, False, False)
    return _utf8("".join(encoder(value, 0)))


def encode_text(text):
    return _utf8(encode_basestring(text))


def decode(payload):
    return _scan(str(payload, "utf-8").strip(), 0)[0]


def too_deep(value, levels):
    """Whether containers are nested deeper than a host will read."""
    items = [value]
    while items and levels >= 0:
        inner = []
        for item in items:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, (list, tuple)):
                inner.extend(item)
        items = [item for item in inner if isinstance(item, (dict, list, tuple))]
        levels -= 1
    return bool(items)


def _utf8(text):
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "belljar_escape")


def _escape_surrogates(error):
    """Lone surrogates aren't UTF-8: the host gets a visible `\\udc80` instead."""
    bad = error.object[error.start : error.end]
    return "".join("\\\\u%04x" % ord(character) for character in bad), error.end


def _refuse(value):
    raise TypeError(f"{type(value).__name__} isn't JSON")


codecs.register_error("belljar_escape", _escape_surrogates)
