"""`artifacts`, `datasets` and `load`: what is kept beyond a session, and what it is given.

The host answers for both by tools of reserved names, which a session has or hasn't. What they lead to is a directory
that can only be read, so nothing is copied.
"""

import builtins
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from .private import OWN as __builtins__
from .tools import call

ARTIFACTS, DATASETS = "__artifacts__", "__datasets__"
_READING = frozenset(("r", "rt", "tr", "rb", "br"))
_WITHOUT = "datasets.path(id) works without"
_READERS = {
    ".parquet": ("read_parquet", {}),
    ".pq": ("read_parquet", {}),
    ".csv": ("read_csv", {}),
    ".tsv": ("read_csv", {"sep": "\t"}),
    ".json": ("read_json", {}),
    ".jsonl": ("read_json", {"lines": True}),
    ".ndjson": ("read_json", {"lines": True}),
    ".feather": ("read_feather", {}),
    ".arrow": ("read_feather", {}),
    ".xlsx": ("read_excel", {}),
    ".xls": ("read_excel", {}),
}
_COMPRESSED = frozenset((".gz", ".bz2", ".xz", ".zst", ".zip"))  # pandas reads them as they are
_FORMATS = "parquet, csv, tsv, json, jsonl, feather and xlsx"


class _Kept:
    _tool = ""
    _names = ()

    def __init__(self, host):
        self._host = host

    def __dir__(self):
        return list(self._names)

    def __repr__(self):
        return f"<{self.__module__}: {', '.join(f'{name}()' for name in self._names)}>"


class Artifacts(_Kept):
    """What cells left under artifacts/, by id: of this session, and of others as far as it may see them.

    They can be read and not changed. To keep something new, write a file below artifacts/.
    """

    _tool = ARTIFACTS
    _names = ("info", "list", "open", "path", "read")

    def list(self):
        """The artifacts that this session may see: a dict each, with `id`, `name`, `size`, `mime`, `sha256`."""
        return call(self._host, ARTIFACTS, "artifacts", "list")

    def info(self, id):
        """What is known of an artifact: its name, size, mime and sha256."""
        return call(self._host, ARTIFACTS, "artifacts", "info", _identifier(id, "an artifact"))

    def path(self, id):
        """Where the artifact's file is. It can be read, not changed."""
        return _path(call(self._host, ARTIFACTS, "artifacts", "path", _identifier(id, "an artifact")))

    def open(self, id, mode="rb", encoding=None):
        """Opens an artifact to read it: bytes, or text with mode "r", as UTF-8 unless another encoding is named."""
        if mode not in _READING:
            raise ValueError(
                f"mode {mode!r:.100} isn't one of 'rb', 'r' and 'rt': artifacts can be read, not changed. "
                "To keep something new, write a file below artifacts/."
            )
        if "b" in mode:
            if encoding is not None:
                raise ValueError("bytes have no encoding; open text with mode 'r'")
            return open(self.path(id), "rb")
        return open(self.path(id), "r", encoding=encoding or "utf-8")

    def read(self, id):
        """The artifact's bytes."""
        with self.open(id) as file:
            return file.read()


class Datasets(_Kept):
    """The inputs that this session was given, by id. They can be read and not changed.

    `datasets.load(id)`, or just `load(id)`, makes a pandas DataFrame of one.
    """

    _tool = DATASETS
    _names = ("list", "load", "path")

    def list(self):
        """The datasets: a dict each, with `id`, `version`, `size`, `sha256`, `staged` and `path` (None until staged)."""
        return call(self._host, DATASETS, "datasets", "list")

    def path(self, id, version=None):
        """Where the dataset's file is; the host brings it there first if need be."""
        arguments = [_identifier(id, "a dataset")]
        if version is not None:
            arguments.append(version)
        return _path(call(self._host, DATASETS, "datasets", "path", *arguments))

    def load(self, id, *, version=None, **options):
        """The dataset as a pandas DataFrame, read by what its file's name ends in; options are those of pandas."""
        try:
            import pandas
        except ImportError as error:
            if getattr(error, "name", None) not in (None, "pandas"):
                raise
            raise ImportError(f"load() needs pandas; {_WITHOUT}", name="pandas") from None
        path = self.path(id, version)
        reader, usual = _reader(path)
        try:
            return getattr(pandas, reader)(str(path), **{**usual, **options})
        except ImportError as error:
            lacks = str(error).partition("\n")[0].rstrip(" .")
            raise ImportError(f"pandas.{reader}() lacks a package for {path.name!r}: {lacks}; {_WITHOUT}") from error


Artifacts.__module__ = "artifacts"
Datasets.__module__ = "datasets"


class Kept:
    """The kernel's hold on both: whether a session has them is said at boot."""

    def __init__(self, host):
        self.artifacts = Artifacts(host)
        self.datasets = Datasets(host)
        self.load = self.datasets.load
        self._finder = KeptFinder()

    def take(self, descriptions):
        """Takes the reserved tools out of the host's list, and offers what is there. Returns the others."""
        reserved, others = set(), []
        for item in descriptions:
            if item["name"] in (ARTIFACTS, DATASETS):
                reserved.add(item["name"])
            else:
                others.append(item)
        try:
            self._offer(ARTIFACTS in reserved, "artifacts", (("artifacts", self.artifacts),))
            self._offer(DATASETS in reserved, "datasets", (("datasets", self.datasets), ("load", self.load)))
            self._find()
        except Exception:
            pass  # cells of a session that wakes made something strange of its builtins
        return others

    def _offer(self, offered, module, names):
        if offered:
            self._finder.modules[module] = names[0][1]
            for name, value in names:
                # A session that wakes may have something of its own there.
                _BUILTINS.setdefault(name, value)
            return
        if self._finder.modules.pop(module, None) is None:
            return
        for name, value in names:
            if _BUILTINS.get(name) is value:
                del _BUILTINS[name]
        if _MODULES.get(module) is names[0][1]:
            del _MODULES[module]

    def _find(self):
        finders, finder = sys.meta_path, self._finder
        if type(finders) is not list:
            return
        is_there = any(other is finder for other in finders)
        if finder.modules and not is_there:
            at = next((place for place, other in enumerate(finders) if other is PathFinder), len(finders))
            finders.insert(at, finder)
        elif is_there and not finder.modules:
            finders[:] = [other for other in finders if other is not finder]


class KeptFinder:
    """Answers `import artifacts` and `import datasets`, unless there is a module of that name: a file or a package, and
    not just a directory, as the one that artifacts are written to."""

    def __init__(self):
        self.modules = {}

    def find_spec(self, name, path=None, target=None):
        if name not in self.modules:
            return None
        found = PathFinder.find_spec(name, path, target)
        return ModuleSpec(name, self) if found is None or found.loader is None else None

    def create_module(self, spec):
        return self.modules[spec.name]

    def exec_module(self, module):
        pass

    def invalidate_caches(self):
        pass


def _identifier(value, what):
    """An id, also as part of what `list()` and `info()` tell."""
    if isinstance(value, dict):
        value = value.get("id")
    if not isinstance(value, str):
        raise TypeError(f"the id of {what} is a string, and not an object of type {type(value).__name__}")
    return value


def _path(answer):
    return Path(answer["path"])


def _reader(path):
    """The name of pandas' function for a file, and its options."""
    endings = [ending.lower() for ending in path.suffixes]
    if len(endings) > 1 and endings[-1] in _COMPRESSED:
        endings.pop()
    if endings and endings[-1] in _READERS:
        return _READERS[endings[-1]]
    raise ValueError(f"load() reads {_FORMATS}, and can't tell what {path.name!r} is; datasets.path(id) leads to the file")


_BUILTINS, _MODULES = vars(builtins), sys.modules
