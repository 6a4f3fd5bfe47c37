"""What is installed: the `.dist-info` directories, as PEP 376 and 627 have them."""

import csv
import email
import os
import re

from . import environment
from .requirements import normalised

_SCRIPT = re.compile(r"^\s*([\w.-]+)\s*=\s*[\w.]+\s*:")


class Distribution:
    def __init__(self, site, directory):
        self.site = site
        self.directory = directory
        self.info = os.path.join(site, directory)
        stem = directory.removesuffix(".dist-info")
        self.name, _, self.version = stem.rpartition("-")
        self._metadata = None
        metadata = self.metadata
        self.name = metadata.get("Name") or self.name
        self.version = metadata.get("Version") or self.version
        self.key = normalised(self.name)

    @property
    def metadata(self):
        if self._metadata is None:
            self._metadata = email.message_from_string(self._read("METADATA"))
        return self._metadata

    def _read(self, name):
        try:
            with open(os.path.join(self.info, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def requires(self):
        found = []
        for line in self.metadata.get_all("Requires-Dist") or ():
            if "extra ==" not in line and "extra==" not in line:
                match = re.match(r"[A-Za-z0-9._-]+", line.strip())
                if match:
                    found.append(match[0])
        return found

    def files(self):
        """Paths below the site; programs are in the environment's `bin`."""
        bin = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(self.site))), "bin")
        found = set()
        for row in csv.reader(self._read("RECORD").splitlines()):
            if not row or not row[0]:
                continue
            path = row[0]
            parts = path.split("/")
            if "bin" in parts[:-1] and (parts[0] == "bin" or parts[0] == ".."):
                found.add(os.path.join(bin, parts[-1]))
            elif not os.path.isabs(path) and ".." not in parts:
                found.add(os.path.join(self.site, path))
        inside = False
        for line in self._read("entry_points.txt").splitlines():
            if line.strip().startswith("["):
                inside = line.strip() in ("[console_scripts]", "[gui_scripts]")
            elif inside and (match := _SCRIPT.match(line)):
                found.add(os.path.join(bin, match[1]))
        return found

    def remove(self):
        directories = set()
        for path in self.files():
            directory, name = os.path.split(path)
            directories.add(directory)
            if name.endswith(".py"):
                cache = os.path.join(directory, "__pycache__")
                stem = name[:-2]
                for compiled in _list(cache):
                    if compiled.startswith(stem) and compiled.endswith(".pyc"):
                        _unlink(os.path.join(cache, compiled))
                directories.add(cache)
            _unlink(path)
        for name in _list(self.info):
            _unlink(os.path.join(self.info, name))
        directories.add(self.info)
        for directory in sorted(directories, key=len, reverse=True):
            while directory.startswith(self.site + "/"):
                try:
                    os.rmdir(directory)
                except OSError:
                    break  # something else is in it
                directory = os.path.dirname(directory)


def _list(directory):
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _unlink(path):
    try:
        os.unlink(path)
    except OSError:
        pass  # gone already, or a directory


def of(site):
    """By normalised name."""
    found = {}
    for directory in sorted(_list(site)):
        if directory.endswith(".dist-info"):
            distribution = Distribution(site, directory)
            found.setdefault(distribution.key, distribution)
    return found


def own():
    return of(environment.site())


def all():
    """With those that the session was made with."""
    found = own()
    for site in environment.others():
        for key, distribution in of(site).items():
            found.setdefault(key, distribution)
    return dict(sorted(found.items()))
