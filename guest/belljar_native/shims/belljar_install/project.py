"""The `[project]` of a `pyproject.toml`, as far as dependencies go. The text is edited, so the rest stays as it is."""

import os
import re

from . import Failure
from .requirements import name_of

_TABLE = re.compile(r"^[ \t]*\[[ \t]*project[ \t]*\][ \t]*(#.*)?$", re.MULTILINE)
_NEXT = re.compile(r"^[ \t]*\[", re.MULTILINE)
_LIST = re.compile(r"^[ \t]*dependencies[ \t]*=[ \t]*\[", re.MULTILINE)
_NEW = """\
[project]
name = "{name}"
version = "0.1.0"
requires-python = ">={version}"
dependencies = []
"""


class Project:
    def __init__(self, path, text):
        self.path = path
        self.text = text
        self._place, self.dependencies = self._find()

    @classmethod
    def read(cls, path="pyproject.toml"):
        try:
            with open(path, encoding="utf-8") as file:
                return cls(path, file.read())
        except (OSError, UnicodeDecodeError):
            raise Failure(f"No `{os.path.basename(path)}` found in current directory; `uv init` makes one", 2) from None

    @classmethod
    def new(cls, path, name, version):
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "project"
        return cls(path, _NEW.format(name=name.lower(), version=version))

    def _find(self):
        """Where the list is in the text (without its brackets), and what is in it."""
        table = _TABLE.search(self.text)
        if table is None:
            return None, []
        following = _NEXT.search(self.text, table.end())
        found = _LIST.search(self.text, table.end(), following.start() if following else len(self.text))
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

    def change(self, dependencies):
        lines = "".join("    " + _quoted(dependency) + ",\n" for dependency in dependencies)
        inside = "\n" + lines if lines else ""
        if self._place is None:
            self.text = self.text.rstrip("\n") + f"\n\n[project]\ndependencies = [{inside}]\n"
        elif isinstance(self._place, int):
            self.text = self.text[: self._place] + f"\ndependencies = [{inside}]" + self.text[self._place :]
        else:
            start, end = self._place
            self.text = self.text[:start] + inside + self.text[end:]
        self._place, self.dependencies = self._find()

    def add(self, requirement):
        name = name_of(requirement)
        kept = [dependency for dependency in self.dependencies if name_of(dependency) != name]
        self.change(sorted([*kept, requirement], key=str.lower))

    def remove(self, name):
        kept = [dependency for dependency in self.dependencies if name_of(dependency) != name_of(name)]
        if len(kept) == len(self.dependencies):
            raise Failure(f"The dependency `{name}` could not be found in `project.dependencies`", 2)
        self.change(kept)

    def write(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(self.text)


def _quoted(text):
    return "'" + text + "'" if '"' in text else '"' + text + '"'
