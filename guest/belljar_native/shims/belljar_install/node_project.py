"""A directory with a `package.json`, its lock and its `node_modules`."""

import fcntl
import json
import os
import re
import shutil
import stat

from . import Failure

GROUPS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
_MOST_BYTES = 4 << 20
_NAME = re.compile(r"(@[A-Za-z0-9][\w.~-]*/)?[A-Za-z0-9][\w.~-]*")
_KEPT = (
    "name", "version", "integrity", "license", "dependencies", "optionalDependencies", "peerDependencies", "peerDependenciesMeta",
    "bin", "os", "cpu", "libc", "dev", "optional", "devOptional", "peer", "inBundle", "hasInstallScript", "link",
)
_ROOT = ("name", "version", "license", *GROUPS, "bin", "engines")


class NodeProject:
    def __init__(self, directory):
        self.directory = directory
        self.path = os.path.join(directory, "package.json")
        self.lock_path = os.path.join(directory, "package-lock.json")
        self.manifest, self._indent = _read(self.path)
        self.exists = self.manifest is not None
        self.manifest = self.manifest or {}
        for group in GROUPS:
            if not isinstance(self.manifest.get(group) or {}, dict):
                raise Failure(f"package.json: {group} is not an object")

    @classmethod
    def find(cls, directory=None):
        """The one that the working directory is in, as npm looks for it."""
        start = os.path.realpath(directory or os.getcwd())
        here = start
        while directory is None:
            if os.path.lexists(os.path.join(here, "package.json")) or os.path.isdir(os.path.join(here, "node_modules")):
                return cls(here)
            above = os.path.dirname(here)
            if above == here:
                break
            here = above
        return cls(start)

    def group(self, name):
        return self.manifest.get(name) or {}

    def is_empty(self):
        return not any(self.group(group) for group in GROUPS)

    def held(self):
        """Held while it is changed, so that two who install don't get in each other's way."""
        return _Held(self.directory)

    def lock(self):
        """What the lock says, as far as anybody needs it."""
        found, _ = _read(self.lock_path)
        packages = (found or {}).get("packages")
        if not isinstance(packages, dict):
            return None
        kept = {}
        for place, package in packages.items():
            if place and isinstance(package, dict):
                kept[place] = {key: package[key] for key in _KEPT if key in package}
        return {"packages": kept} if kept else None

    def request(self, with_lock=True):
        asked = {group: self.group(group) for group in GROUPS if self.group(group)}
        lock = self.lock() if with_lock else None
        if lock:
            asked["lock"] = lock
        return json.dumps(asked).encode()

    def add(self, group, name, range_):
        for other in GROUPS[:3]:
            if name in self.group(other):
                del self.manifest[other][name]
                if not self.manifest[other]:
                    del self.manifest[other]
        self.manifest[group] = dict(sorted({**self.group(group), name: range_}.items()))

    def remove(self, name):
        """Whether it was there."""
        found = False
        for group in GROUPS:
            if name in self.group(group):
                found = True
                del self.manifest[group][name]
                if not self.manifest[group]:
                    del self.manifest[group]
        return found

    def write(self):
        _write(self.path, self.manifest, self._indent)

    def write_lock(self, text):
        found = json.loads(text)
        root = {key: self.manifest[key] for key in _ROOT if self.manifest.get(key)}
        packages = {"": root, **{place: package for place, package in found["packages"].items() if place}}
        lock = {"name": self.manifest.get("name") or os.path.basename(self.directory) or "project"}
        if self.manifest.get("version"):
            lock["version"] = self.manifest["version"]
        _write(self.lock_path, {**lock, "lockfileVersion": 3, "requires": True, "packages": packages}, 2)

    def forget_lock(self):
        _unlink(self.lock_path)

    def installed(self):
        """Versions by place, such as `node_modules/a/node_modules/b`."""
        found = {}
        waiting = ["node_modules"]
        while waiting:
            inside = waiting.pop()
            for name in _list(os.path.join(self.directory, inside)):
                if name.startswith("@"):
                    names = [f"{name}/{part}" for part in _list(os.path.join(self.directory, inside, name))]
                else:
                    names = [name]
                for package in names:
                    place = f"{inside}/{package}"
                    if not _NAME.fullmatch(package):
                        continue
                    found[place] = _version(os.path.join(self.directory, place))
                    waiting.append(f"{place}/node_modules")
        return found

    def clear(self, places):
        """Removes packages, and all links to programs: they are made anew."""
        shutil.rmtree(os.path.join(self.directory, "node_modules", ".bin"), ignore_errors=True)
        for place in places:
            path = os.path.join(self.directory, place)
            if os.path.islink(path) or not os.path.isdir(path):
                _unlink(path)
            else:
                shutil.rmtree(path, ignore_errors=True)
            scope = os.path.dirname(path)
            if os.path.basename(scope).startswith("@"):
                try:
                    os.rmdir(scope)
                except OSError:
                    pass  # others are in it


class _Held:
    def __init__(self, directory):
        self._directory = directory

    def __enter__(self):
        try:
            self._descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise Failure(f"{self._directory} can't be used: {error}") from None

    def __exit__(self, *_):
        os.close(self._descriptor)


def _read(path):
    """The object in a file, and how it is indented; nothing if it isn't there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None, 2
    except OSError as error:
        raise Failure(f"{path} can't be read: {error}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Failure(f"{path} is not a regular file")
    with open(descriptor, "rb") as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise Failure(f"{path} has more than {_MOST_BYTES} bytes")
    try:
        text = text.decode("utf-8-sig")
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path} is not JSON: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise Failure(f"{path} is not a JSON object")
    indent = re.match(r"\{\r?\n([ \t]+)", text)
    return found, (indent[1] if "\t" in indent[1] else len(indent[1])) if indent else 2


def _write(path, contents, indent):
    beside = f"{path}.{os.getpid()}"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(json.dumps(contents, indent=indent, ensure_ascii=False) + "\n")
        os.replace(beside, path)
    except (OSError, ValueError) as error:
        _unlink(beside)
        raise Failure(f"{path} can't be written: {error}") from None


def _version(directory):
    try:
        return (_read(os.path.join(directory, "package.json"))[0] or {}).get("version")
    except Failure:
        return None


def _list(directory):
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _unlink(path):
    try:
        os.unlink(path)
    except OSError:
        pass  # gone already
