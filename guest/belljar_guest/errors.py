"""Exceptions as the user should see them: their own lines, with source, of bounded size."""

import os
import sys
from traceback import StackSummary, TracebackException
from types import TracebackType

from .private import OWN as __builtins__

MAX_MESSAGE = 16 << 10
MAX_TRACEBACK = 64 << 10
_HEAD, _TAIL = 20, 40  # calls shown of a deep stack
_MAX_CHAIN = 50  # exceptions shown of a long chain or a large group
_MAX_NAME = 500

HIDDEN = ["<frozen ", os.path.dirname(os.path.dirname(__file__)) + "/belljar_guest", os.path.dirname(os.__file__) + "/"]
if sys.platform == "wasi":
    HIDDEN += ["/python/", "/0/", "/1/", "/world/", "/bundled/", "/data/site-packages/"]
HIDDEN = tuple(HIDDEN)
_PACKAGES = ("/site-packages/", "/dist-packages/")


def describe(error):
    """`{type, message, traceback, frames}`. Runs user code (`__str__`): call it guarded."""
    name, message = name_of(type(error)), message_of(error)
    try:
        entries, left_out = _user_entries(error.__traceback__)
        summary = TracebackException(
            type(error), error, _chain(entries), limit=-_HEAD - _TAIL, lookup_lines=False, compact=True
        )
        _keep_user_frames(summary, set())
        if summary.stack:
            summary.stack.left_out = left_out
        text = "".join(summary.format())
        frames = [_frame(frame) for frame in summary.stack or ()]
        if not frames and isinstance(error, SyntaxError) and error.filename is not None:
            frames.append(_syntax_frame(error))
    except Exception:  # a broken exception, or a monkeypatched `traceback`
        return plain(error, name, message)
    return {"type": name, "message": message, "traceback": cut_middle(text.rstrip("\n"), MAX_TRACEBACK), "frames": frames}


def plain(error, name=None, message=None):
    """The same from almost nothing: no source, no user code."""
    name = name or name_of(type(error))
    message = message or ""
    try:
        entries = _user_entries(error.__traceback__)[0]
    except Exception:
        entries = []
    frames = []
    for entry in entries:
        code = entry.tb_frame.f_code
        file, function = code.co_filename[:_MAX_NAME], code.co_name[:_MAX_NAME]
        frames.append({"file": file, "line": entry.tb_lineno or 0, "function": function, "source": ""})
    lines = [f'  File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}\n' for frame in frames]
    if lines:
        lines.insert(0, "Traceback (most recent call last):\n")
    text = "".join(lines) + (f"{name}: {message}" if message else name)
    return {"type": name, "message": message, "traceback": cut_middle(text, MAX_TRACEBACK), "frames": frames}


def name_of(kind):
    try:
        module, name = _module_of(kind), _qualname_of(kind)
        if type(module) is not str or module in ("builtins", "__main__"):
            return name[:_MAX_NAME]
        return f"{module}.{name}"[:_MAX_NAME]
    except Exception:
        return "Exception"


# Not through attributes, which a metaclass may have made properties: no user code runs here.
_module_of = type.__dict__["__module__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__


def has_user_frames(error):
    return bool(_user_entries(error.__traceback__)[0])


def message_of(error):
    """Runs user code."""
    try:
        return cut_middle(str(error), MAX_MESSAGE)
    except Exception:
        return "<exception str() failed>"


def cut_middle(text, limit):
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters cut …\n{text[-half:]}"


class UserStack(StackSummary):
    """A stack that says how many calls are left out of its middle."""

    left_out = 0

    def format(self, **options):
        if not self.left_out:
            return StackSummary.format(self, **options)
        head, tail = StackSummary.from_list(self[:_HEAD]), StackSummary.from_list(self[_HEAD:])
        return [*head.format(**options), f"  … {self.left_out} calls left out …\n", *tail.format(**options)]


def _user_entries(entry):
    """The traceback's entries in user code, (both ends, how many are left out between them)."""
    entries, shown = [], {}
    while entry is not None:
        filename = entry.tb_frame.f_code.co_filename
        if filename not in shown:
            shown[filename] = _is_user(filename)
        if shown[filename]:
            entries.append(entry)
        entry = entry.tb_next
    left_out = len(entries) - _HEAD - _TAIL
    if left_out > 0:
        del entries[_HEAD:-_TAIL]
    return entries, max(left_out, 0)


def _chain(entries):
    """A traceback of these entries alone."""
    following = None
    for entry in reversed(entries):
        following = TracebackType(following, entry.tb_frame, entry.tb_lasti, entry.tb_lineno or 1)
    return following


def _keep_user_frames(summary, seen):
    if summary is None or id(summary) in seen:
        return
    seen.add(id(summary))
    summary.stack = UserStack(frame for frame in summary.stack or () if _is_user(frame.filename)) or None
    if len(seen) > _MAX_CHAIN:
        summary.__cause__ = summary.__context__ = None
        return
    _keep_user_frames(summary.__cause__, seen)
    context = summary.__context__
    if context is not None and context.stack and not any(_is_user(frame.filename) for frame in context.stack):
        summary.__context__ = None  # a library's inner affair
    else:
        _keep_user_frames(context, seen)
    for member in getattr(summary, "exceptions", None) or ():
        _keep_user_frames(member, seen)


def _is_user(filename):
    return not filename.startswith(HIDDEN) and not any(part in filename for part in _PACKAGES)


def _frame(frame):
    return {
        "file": frame.filename[:_MAX_NAME],
        "line": frame.lineno or 0,
        "function": frame.name[:_MAX_NAME],
        "source": cut_middle(frame.line or "", 1000),
    }


def _syntax_frame(error):
    return {
        "file": str(error.filename)[:_MAX_NAME],
        "line": error.lineno if isinstance(error.lineno, int) else 0,
        "function": "<module>",
        "source": cut_middle(error.text.strip(), 1000) if isinstance(error.text, str) else "",
    }
