"""A `pyproject.toml`, as far as dependencies go. The text is edited, so the rest stays as it is."""

import os
import re
import stat

from . import Failure
from .requirements import name_of, normalised

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    tomllib = None

_MOST_BYTES = 1 << 20
_NEXT = re.compile(r"^[ \t]*\[", re.MULTILINE)
_NEW = """\
[project]
name = "{name}"
version = "0.1.0"
requires-python = ">={version}"
dependencies = []
"""
DEPENDENCIES = ("project", "dependencies")


def extra(name):
    """Where the dependencies of an extra are."""
    return "project.optional-dependencies", name


def group(name):
    """Where the dependencies of a group are (PEP 735)."""
    return "dependency-groups", name


class Project:
    def __init__(self, path, text):
        self.path = path
        self.text = text
        self._tables = self._parse()

    @classmethod
    def read(cls, path="pyproject.toml"):
        name = os.path.basename(path)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            raise Failure(f"No `{name}` found in current directory; `uv init` makes one", 2) from None
        except OSError as error:
            raise Failure(f"{path} can't be read: {error}", 2) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Failure(f"{path} is not a regular file", 2)
        with open(descriptor, "rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise Failure(f"{path} has more than {_MOST_BYTES} bytes", 2)
        try:
            return cls(path, text.decode())
        except UnicodeDecodeError as error:
            raise Failure(f"{path} is not UTF-8: {error}", 2) from None

    @classmethod
    def new(cls, path, name, version):
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "project"
        return cls(path, _NEW.format(name=name.lower(), version=version))

    def _parse(self):
        if tomllib is None:
            return None
        try:
            return tomllib.loads(self.text)
        except (ValueError, RecursionError) as error:
            raise Failure(f"{self.path} is not TOML: {str(error)[:200]}", 2) from None

    @property
    def dependencies(self):
        return self.listed(DEPENDENCIES)

    def listed(self, place):
        """The requirements at a place."""
        table, key = place
        if self._tables is None:
            return self._find(place)[1]
        found = self._tables
        for part in (*table.split("."), key):
            found = found.get(part, {}) if isinstance(found, dict) else {}
        if found == {}:
            return []
        if not isinstance(found, list) or not all(isinstance(one, (str, dict)) for one in found):
            raise Failure(f"{self.path}: {table}.{key} is not a list of requirements", 2)
        return [one for one in found if isinstance(one, str)]

    def names(self, table):
        """The extras, or the groups."""
        found = self._tables or {}
        for part in table.split("."):
            found = found.get(part, {}) if isinstance(found, dict) else {}
        return list(found) if isinstance(found, dict) else []

    def of_extra(self, name):
        known = {normalised(one): one for one in self.names(extra("")[0])}
        if normalised(name) not in known:
            raise Failure(f"Extra `{name}` is not defined in the project's `optional-dependencies` table", 2)
        return self.listed(extra(known[normalised(name)]))

    def of_group(self, name, inside=()):
        """With those that it includes."""
        known = {normalised(one): one for one in self.names(group("")[0])}
        if normalised(name) not in known or name in inside:
            raise Failure(f"Group `{name}` is not defined in the project's `dependency-groups` table, or includes itself", 2)
        found = list(self.listed(group(known[normalised(name)])))
        for one in self._tables["dependency-groups"][known[normalised(name)]]:
            if isinstance(one, dict) and isinstance(one.get("include-group"), str):
                found += self.of_group(one["include-group"], (*inside, name))
        return found

    def _find(self, place):
        """Where the list is in the text (without its brackets), and what is in it."""
        name, key = place
        dotted = r"[ \t]*\.[ \t]*".join(map(re.escape, name.split(".")))
        table = re.compile(rf"^[ \t]*\[[ \t]*{dotted}[ \t]*\][ \t]*(#.*)?$", re.MULTILINE).search(self.text)
        if table is None:
            return None, []
        following = _NEXT.search(self.text, table.end())
        # A list may have brackets at the beginning of a line, too; but not before its key.
        entry = re.compile(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=[ \t]*\[", re.MULTILINE)
        found = entry.search(self.text, table.end(), following.start() if following else len(self.text))
        if found is None:
            return table.end(), []
        strings, position = [], found.end()
        while position < len(self.text):
            letter = self.text[position]
            if letter == "]":
                return (found.end(), position), strings
            if letter == "#":
                end = self.text.find("\n", position)
                position = len(self.text) if end < 0 else end
                continue
            if letter in "\"'":
                end = position + 1
                while end < len(self.text) and self.text[end] != letter:
                    end += 2 if letter == '"' and self.text[end] == "\\" else 1
                strings.append(self.text[position + 1 : end].replace('\\"', '"'))
                position = end
            position += 1
        raise Failure(f"{self.path}: the list of dependencies has no end")

    def change(self, dependencies, place=DEPENDENCIES):
        name, key = place
        lines = "".join("    " + _quoted(dependency) + ",\n" for dependency in dependencies)
        inside = "\n" + lines if lines else ""
        where, _ = self._find(place)
        if where is None:
            self.text = self.text.rstrip("\n") + f"\n\n[{name}]\n{key} = [{inside}]\n"
        elif isinstance(where, int):
            self.text = self.text[:where] + f"\n{key} = [{inside}]" + self.text[where:]
        else:
            start, end = where
            self.text = self.text[:start] + inside + self.text[end:]
        self._tables = self._parse()

    def add(self, requirement, place=DEPENDENCIES):
        name = name_of(requirement)
        kept = [dependency for dependency in self.listed(place) if name_of(dependency) != name]
        self.change(sorted([*kept, requirement], key=str.lower), place)

    def remove(self, name, place=DEPENDENCIES):
        kept = [dependency for dependency in self.listed(place) if name_of(dependency) != name_of(name)]
        if len(kept) == len(self.listed(place)):
            raise Failure(f"The dependency `{name}` could not be found in `{'.'.join(place)}`", 2)
        self.change(kept, place)

    def write(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(self.text)


def _quoted(text):
    return "'" + text + "'" if '"' in text else '"' + text + '"'
