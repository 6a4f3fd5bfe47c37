"""Values as MIME bundles, and the `display` that cells call."""

import sys
from binascii import b2a_base64

from . import wire
from .errors import message_of, name_of
from .private import OWN as __builtins__

DEFAULT_LIMIT = 1 << 20
_MAX_DEPTH = 90
_MAX_NOTES = 10

_METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
    ("application/pdf", "_repr_pdf_"),
)
_PLAIN = frozenset((int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, type, range))


def value_text(value, limit):
    """`repr`, cut to a size. Runs user code: call it guarded."""
    kind = type(value)
    try:
        if (kind is str or kind is bytes) and len(value) > limit:
            text, left = repr(value[:limit]), len(value) - limit
            return cut(text, limit) + f"\n… cut: {left} more of {len(value)} {'characters' if kind is str else 'bytes'}"
        text = exact(repr(value))
        if len(text) * 4 > limit:
            text = cut(text, limit)
        return text
    except Exception as error:
        return f"<{name_of(kind)} object whose repr raised {name_of(type(error))}: {message_of(error)[:500]}>"


def is_plain(value):
    """Whether text is all there is to show."""
    return type(value) in _PLAIN


def bundle(value, limit, include=None, exclude=None):
    """(data, metadata) of any object. Runs user code: call it guarded."""
    data, metadata = {}, {}
    kind = type(value)
    if kind not in _PLAIN:
        made = _call(value, kind, "_repr_mimebundle_", include=include, exclude=exclude)
        if made is not None:
            made, extra = _with_metadata(made)
            if isinstance(made, dict):
                data.update(made)
                if isinstance(extra, dict):
                    metadata.update(extra)
        for mime, method in _METHODS:
            if mime in data:
                continue
            made = _call(value, kind, method)
            if made is not None:
                data[mime], extra = _with_metadata(made)
                if isinstance(extra, dict) and extra:
                    metadata[mime] = extra
    if "text/plain" not in data:
        data["text/plain"] = value_text(value, limit)
    if include:
        data = {mime: item for mime, item in data.items() if mime in include or mime == "text/plain"}
    if exclude:
        data = {mime: item for mime, item in data.items() if mime not in exclude or mime == "text/plain"}
    return clean(data, limit), _clean_metadata(metadata)


def clean(data, limit):
    """A bundle that is certainly JSON and certainly of bounded size; says in `text/plain` what was left out."""
    kept, notes = {}, []
    text = data.get("text/plain")
    room = limit
    for mime, item in data.items():
        if mime == "text/plain" or type(mime) is not str:
            continue
        try:
            item = _content(mime, item)
            size = len(mime) + len(wire.encode(item))
        except Exception as error:
            notes.append(f"[{mime[:100]} left out: {message_of(error)[:200]}]")
            continue
        if size > room:
            notes.append(f"[{mime[:100]} left out: {size} bytes, {room} of {limit} were left]")
            continue
        room -= size
        kept[mime] = item
    text = cut(exact(text), max(room, 1000)) if isinstance(text, str) else ""
    return {"text/plain": "\n".join([text, *notes[:_MAX_NOTES]]) if notes else text, **kept}


def exact(text):
    """A plain str: a subclass could have methods of its own."""
    return text if type(text) is str else str.__str__(text)


def cut(text, limit):
    raw = text.encode("utf-8", "backslashreplace")
    if len(raw) <= limit:
        return text
    return raw[:limit].decode("utf-8", "ignore") + f"\n… cut: {len(raw) - limit} more of {len(raw)} bytes"


def make_display(kernel):
    """The builtin `display`."""

    def display(*objects, raw=False, include=None, exclude=None, metadata=None, **ignored):
        """Show objects in the cell's outcome: display(obj, …), or display({mime: data}, raw=True)."""
        sys_flush()
        for value in objects:
            if raw:
                if not isinstance(value, dict):
                    raise TypeError("display(…, raw=True) takes MIME bundles: dicts from MIME type to data")
                data, extra = clean(value, kernel.limit), {}
            else:
                data, extra = bundle(value, kernel.limit, include, exclude)
            if metadata:
                extra.update(_clean_metadata(metadata))
            kernel.host.display(data, extra)

    def sys_flush():
        # What was printed before must arrive before.
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None)):
            try:
                stream.flush()
            except Exception:
                pass  # closed, or no stream at all

    display.__module__ = "builtins"
    display.__qualname__ = "display"
    return display


def _call(value, kind, method, **arguments):
    # On the type, as Python does for special methods: a `__getattr__` that answers to everything isn't fooled.
    if getattr(kind, method, None) is None:
        return None
    try:
        return getattr(value, method)(**arguments)
    except NotImplementedError:
        return None
    except Exception as error:
        try:
            sys.stderr.write(f"{method} of {name_of(kind)} raised {name_of(type(error))}: {message_of(error)[:500]}\n")
        except Exception:
            pass
        return None


def _with_metadata(made):
    return made if type(made) is tuple and len(made) == 2 else (made, None)


def _content(mime, item):
    if isinstance(item, (bytes, bytearray, memoryview)):
        return b2a_base64(bytes(item), newline=False).decode("ascii")
    if isinstance(item, str) or mime == "application/json" or mime.endswith("+json"):
        if isinstance(item, str):
            return exact(item)
        if wire.too_deep(item, _MAX_DEPTH):
            raise ValueError("nested too deeply")
        return item
    raise TypeError(f"its data is {type(item).__name__}, not str or bytes")


def _clean_metadata(metadata):
    try:
        if not wire.too_deep(metadata, _MAX_DEPTH) and len(wire.encode(metadata)) <= 65536:
            return dict(metadata)
    except Exception:
        pass
    return {}
