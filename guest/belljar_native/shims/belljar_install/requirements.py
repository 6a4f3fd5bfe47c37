"""Requirements as PEP 508 has them, as far as they must be understood here: the supervisor reads them in earnest."""

import os
import re

from . import Failure

_PARTS = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(\[[^\]]*\])?\s*([^;]*)(;.*)?$", re.DOTALL)
_CLAUSE = re.compile(r"\s*(===|==|>=|<=|!=|~=|>|<)\s*([^\s]+)\s*$")
_PLAIN = re.compile(r"\d+(\.\d+)*$")
_FILES = (".whl", ".tar.gz", ".tgz", ".zip", ".tar.bz2")
_DEEPEST = 10


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement):
    match = _PARTS.match(requirement)
    return normalised(match[1]) if match else None


def without_own(wanted, say):
    """pip and uv are the session's own, and can't be replaced."""
    rest = []
    for requirement in wanted:
        if name_of(requirement) in ("pip", "uv"):
            say(f"Requirement already satisfied: {requirement} (the session's own)")
        else:
            rest.append(requirement)
    return rest


def is_project(word):
    """Whether it is a directory, perhaps with extras: `.` or `./thing[fast]`."""
    path = word.partition("[")[0]
    return (path == "." or "/" in path) and "://" not in word and os.path.isdir(path)


def of_project(word):
    """What the project in a directory depends on."""
    from . import project

    path, _, extras = word.partition("[")
    if not os.path.isfile(os.path.join(path, "pyproject.toml")):
        raise Failure(f"{path}: there is no pyproject.toml in it; a setup.py is not run here")
    found = project.Project.read(os.path.join(path, "pyproject.toml"))
    wanted = list(found.dependencies)
    for extra in filter(None, map(str.strip, extras.rstrip("]").split(","))):
        wanted += found.of_extra(extra)
    return wanted


def check(requirement):
    """Refuses what isn't of the index, before anybody is asked."""
    text = requirement.strip()
    if "://" in text or " @ " in text or text.startswith(("git+", "hg+", "svn+", "bzr+")):
        raise Failure(f"{text}: only packages of the configured index can be installed here, not addresses")
    if text.startswith((".", "/", "~")) or text.lower().endswith(_FILES) or ("/" in text and ";" not in text):
        raise Failure(f"{text}: only packages of the configured index can be installed here, not files or directories")
    if _PARTS.match(text) is None:
        raise Failure(f"{text!r} is not a requirement, such as 'six>=1.15'")
    return text


def is_satisfied(requirement, installed):
    """Whether that is certain. `installed` maps normalised names to versions."""
    match = _PARTS.match(requirement)
    if match is None or match[2] or match[4]:
        return False
    version = installed.get(normalised(match[1]))
    if version is None:
        return False
    clauses = match[3].strip().removeprefix("(").removesuffix(")")
    return all(_holds(clause, version) for clause in clauses.split(",") if clause.strip())


def _holds(clause, version):
    match = _CLAUSE.match(clause)
    if match is None:
        return False
    operator, wanted = match[1], match[2]
    if operator in ("==", "===") and wanted == version:
        return True
    if operator in ("==", "!=") and wanted.endswith(".*"):
        wanted, prefix = wanted[:-2], True
    else:
        prefix = False
    if not _PLAIN.match(wanted) or not _PLAIN.match(version):
        return False
    wanted, found = _numbers(wanted), _numbers(version)
    if operator == "~=":
        return len(wanted) > 1 and _pad(found, wanted) >= _pad(wanted, found) and found[: len(wanted) - 1] == wanted[:-1]
    if prefix:
        return (_pad(found, wanted)[: len(wanted)] == wanted) == (operator == "==")
    found, wanted = _pad(found, wanted), _pad(wanted, found)
    return {
        "==": found == wanted, "!=": found != wanted, ">=": found >= wanted, "<=": found <= wanted,
        ">": found > wanted, "<": found < wanted,
    }.get(operator, False)


def _numbers(version):
    return [int(number) for number in version.split(".")]


def _pad(numbers, other):
    return numbers + [0] * (len(other) - len(numbers))


def read_list(path, notes, depth=0):
    """The requirements of a `requirements.txt`. What can't be heeded is refused, or noted if it does no harm."""
    if depth > _DEEPEST:
        raise Failure(f"{path}: lists that include each other")
    if os.path.basename(path) == "pyproject.toml":
        from . import project

        return project.Project.read(path).dependencies
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"Could not open requirements file: {error}") from None
    found = []
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = re.sub(r"(^|\s)#.*$", "", line).strip()
        if not line:
            continue
        option, _, rest = line.partition(" ")
        if option.startswith("-"):
            option, _, value = option.partition("=")
            value = value or rest.strip()
            if option.startswith("-r") and option not in ("-r", "--requirement") and not option.startswith("--"):
                option, value = "-r", option[2:]
            if option in ("-e", "--editable"):
                notes.append(f"{path}: {value} itself is not installed: building it is not done here")
                found += of_project(os.path.join(os.path.dirname(path), value) if value != "." else os.path.dirname(path) or ".")
            elif option in ("-r", "--requirement"):
                found += read_list(os.path.join(os.path.dirname(path), value), notes, depth + 1)
            elif option in ("-i", "--index-url", "--extra-index-url", "--find-links", "-f", "--trusted-host", "--no-index"):
                notes.append(f"{path}: {option} is left out: packages come from the index that the supervisor uses")
            elif option in ("--prefer-binary", "--only-binary", "--no-binary", "--pre"):
                notes.append(f"{path}: {option} is left out: only wheels are installed")
            else:
                raise Failure(f"{path}: {option} can't be used here")
            continue
        if " --hash" in line or " --" in line:
            raise Failure(f"{path}: hashes and options of single packages can't be checked here: {line.split()[0]}")
        found.append(line)
    return found
