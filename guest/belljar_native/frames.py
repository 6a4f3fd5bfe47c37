"""`load("name")` and `save(frame, "name")`: tables that outlive the session's variables, as Parquet files in `data/`."""

import builtins
import os

from belljar_guest.private import OWN as __builtins__

workspace = None  # where the session began; `data` is below it
_SUFFIX = ".parquet"


def load(name):
    """The DataFrame that was saved under this name: data/NAME.parquet of the workspace."""
    path = _path(name)
    import pandas

    try:
        return pandas.read_parquet(path)
    except FileNotFoundError:
        there = _names()
        known = f"There are: {', '.join(there)}" if there else "Nothing is saved yet; save(frame, 'name') does that"
        raise FileNotFoundError(f"there is no table {_shown(name)!r} in {os.path.dirname(path)}. {known}") from None


def save(frame, name):
    """Writes a DataFrame as data/NAME.parquet of the workspace, whole or not at all. Returns the path."""
    path = _path(name)
    import pandas

    if isinstance(frame, pandas.Series):
        frame = frame.to_frame("0" if frame.name is None else None)
    if not isinstance(frame, pandas.DataFrame):
        raise TypeError(f"save(frame, name) takes a pandas DataFrame or Series, not {type(frame).__name__}")
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    made = os.path.join(directory, f".{os.path.basename(path)}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        frame.to_parquet(made)
        with open(made, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(made, path)
    except BaseException:
        try:
            os.unlink(made)
        except OSError:
            pass
        raise
    return os.path.relpath(path, workspace or os.getcwd())


def install():
    for function in (load, save):
        function.__module__ = "builtins"
        setattr(builtins, function.__name__, function)


def _path(name):
    if not isinstance(name, str):
        raise TypeError(f"the name of a table is a str, not {type(name).__name__}")
    bare = name[: -len(_SUFFIX)] if name.endswith(_SUFFIX) else name
    if not bare or bare in (".", "..") or any(character in bare for character in "/\\\0") or bare.startswith("."):
        raise ValueError(f"{_shown(name)!r} is no name of a table: it needs letters, no '/', and no '.' in front")
    if len(bare.encode("utf-8", "replace")) > 200:
        raise ValueError(f"the name of a table has at most 200 bytes: {_shown(name)!r}")
    return os.path.join(workspace or os.getcwd(), "data", bare + _SUFFIX)


def _names():
    try:
        found = os.listdir(os.path.join(workspace or os.getcwd(), "data"))
    except OSError:
        return []
    return sorted(name[: -len(_SUFFIX)] for name in found if name.endswith(_SUFFIX) and name[0] != ".")[:50]


def _shown(name):
    return name if len(name) <= 100 else name[:100] + "…"
