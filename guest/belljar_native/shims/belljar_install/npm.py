"""`npm` and `npx`. What needs the registry is asked of the supervisor; the rest is done by the machine's own npm."""

import glob
import hashlib
import json
import os
import re
import shutil
import sys
import time

from . import Failure, supervisor
from .node_project import GROUPS, NodeProject
from .pip import guarded

_INSTALL = ("install", "i", "in", "ins", "inst", "insta", "instal", "isnt", "isnta", "isntal", "isntall", "add")
_CLEAN = ("ci", "clean-install", "ic", "install-clean", "isntall-clean")
_REMOVE = ("uninstall", "un", "unlink", "remove", "rm", "r")
_UPDATE = ("update", "up", "upgrade", "udpate")
_ABSENT = (
    "view", "info", "show", "v", "search", "audit", "outdated", "publish", "ping", "login", "adduser", "logout", "whoami", "star",
    "access", "deprecate", "dist-tag", "owner", "profile", "team", "token", "unpublish", "fund", "install-test", "it", "cit", "link", "ln",
)
_SPEC = re.compile(r"(?P<alias>(@[\w.~-]+/)?[\w.~-]+@npm:)?(?P<name>(@[A-Za-z0-9][\w.~-]*/)?[A-Za-z0-9][\w.~-]*)(@(?P<range>[^/:]*))?")
_VERSION = re.compile(r"[v=\s]*\d+\.\d+\.\d+([-+][\w.+-]*)?")
_FLAGS = {
    "--ignore-scripts", "--no-audit", "--no-fund", "-s", "--silent", "-q", "--quiet", "--prefer-offline", "--prefer-online", "--no-progress",
    "--verbose", "-d", "-dd", "-ddd", "-y", "--yes", "--no-optional", "--package-lock", "--audit", "--fund", "--foreground-scripts",
    "-f", "--force", "--no-update-notifier", "--save", "-S", "--color", "--no-color", "--strict-peer-deps", "--no-shrinkwrap",
}
_WITH_VALUE = {"--loglevel", "--registry", "--cache", "--include", "--progress", "--fetch-retries", "--fetch-timeout", "--save-prefix"}
_NOT_HERE = {
    "-g": "packages are installed into the project and nowhere else", "--global": "packages are installed into the project and nowhere else",
    "--legacy-peer-deps": "peer dependencies count here; name versions that go together",
    "-w": "workspaces are not known here", "--workspace": "workspaces are not known here", "--workspaces": "workspaces are not known here",
    "--dry-run": "it can't be tried without doing it", "-B": "bundles are not known here", "--save-bundle": "bundles are not known here",
    "--package-lock-only": "packages are installed with their lock",
}
_HELP = """\
Usage: npm <command>

In this session packages are fetched by the supervisor, from the registry that it uses, into the project's node_modules.
Their scripts are not run.

  install [NAME[@RANGE]...] [-D|-O] [-E] [--no-save] [--omit=dev]
  ci [--omit=dev]
  uninstall NAME...
  update [NAME...]
  exec, npx COMMAND...

Everything else is done by the machine's own npm, if it has one.\
"""


def main(arguments):
    return guarded("npm error ", lambda: _run(list(arguments)))


def npx(arguments):
    return guarded("npm error ", lambda: _exec(list(arguments)))


def _run(arguments):
    words = [argument for argument in arguments if not argument.startswith("-")]
    command = words[0] if words else None
    if command is None and ("-h" in arguments or "--help" in arguments or not arguments):
        print(_HELP)
        return 0
    if command is None or command in ("help", "version") or "--offline" in arguments:
        return _machine(arguments)
    rest = list(arguments)
    rest.remove(command)
    if command in _INSTALL:
        return _install(_Options(rest))
    if command in _CLEAN:
        return _clean(_Options(rest))
    if command in _REMOVE:
        return _remove(_Options(rest))
    if command in _UPDATE:
        return _update(_Options(rest))
    if command in ("exec", "x"):
        return _exec(rest)
    if command in ("init", "create", "innit") and words[1:]:
        scope, slash, name = words[1].rpartition("/")
        rest[rest.index(words[1])] = f"{scope}{slash}create-{name}" if name else words[1]
        return _exec(rest)
    if command in _ABSENT:
        raise Failure(f"{command} needs the network, which sessions don't have; {', '.join(('install', 'ci', 'uninstall', 'update', 'exec'))} are done by the supervisor")
    return _machine(arguments)


class _Options:
    def __init__(self, arguments):
        self.words, self.directory, self.group = [], None, None
        self.exact = self.quiet = False
        self.save = True
        self.production = os.environ.get("NODE_ENV") == "production"
        rest = list(arguments)
        while rest:
            argument = rest.pop(0)
            if argument == "--":
                self.words += rest
                break
            if not argument.startswith("-"):
                self.words.append(argument)
                continue
            option, equals, value = argument.partition("=")

            def value_of():
                if equals:
                    return value
                if not rest:
                    raise Failure(f"{option} needs a value")
                return rest.pop(0)

            if option in ("-D", "--save-dev"):
                self.group = "devDependencies"
            elif option in ("-O", "--save-optional"):
                self.group = "optionalDependencies"
            elif option == "--save-peer":
                self.group = "peerDependencies"
            elif option in ("-P", "--save-prod"):
                self.group = "dependencies"
            elif option in ("-E", "--save-exact"):
                self.exact = True
            elif option == "--no-save":
                self.save = False
            elif option in ("--prefix", "-C"):
                self.directory = value_of()
            elif option == "--omit":
                self.production |= value_of() == "dev"
            elif option == "--only":
                self.production |= value_of().startswith("prod")
            elif option == "--production":
                self.production = value != "false"
            elif option == "--include":
                self.production &= value_of() != "dev"
            elif option in _NOT_HERE:
                raise Failure(f"{option}: {_NOT_HERE[option]}")
            elif option in _WITH_VALUE:
                value_of()
            elif option in _FLAGS or (equals and f"--no-{option[2:]}" in _FLAGS):
                self.quiet |= option in ("-s", "--silent", "-q", "--quiet")
            else:
                raise Failure(f"no such option here: {option}")

    def say(self, text):
        if not self.quiet:
            print(text)


def _parse(word):
    """Name, what is asked for, and the name that is meant."""
    match = _SPEC.fullmatch(word)
    if match is None or word.endswith((".tgz", ".tar.gz", ".tar")):
        raise Failure(
            f"{word}: only packages of the registry can be installed here, such as left-pad@^1; not addresses, repositories, files or links"
        )
    range_ = (match["range"] or "").strip()
    if match["alias"]:
        return match["alias"][: -len("@npm:")], f"npm:{match['name']}@{range_ or '*'}", match["name"]
    return match["name"], range_, match["name"]


def _install(options):
    project = NodeProject.find(options.directory)
    asked = [_parse(word) for word in options.words]
    with project.held():
        project = NodeProject(project.directory)
        if not asked and project.is_empty():
            options.say("\nup to date: package.json has no dependencies" if project.exists else "\nup to date: there is no package.json")
            return 0
        for name, range_, _ in asked:
            known = next((group for group in GROUPS if name in project.group(group)), "dependencies")
            if not range_ and name in project.group(known) and name in _locked(project):
                range_ = project.group(known)[name]
            project.add(options.group or known, name, range_ or "latest")
        lock = _apply(project, options)
        for name, range_, _ in asked:
            group = next(group for group in GROUPS if name in project.group(group))
            version = lock.get(f"node_modules/{name}", {}).get("version")
            project.add(group, name, _saved(range_ or project.group(group)[name], version, options.exact))
        if options.save:
            if asked:
                project.write()
            project.write_lock(_text(lock))
    return 0


def _locked(project):
    packages = (project.lock() or {}).get("packages", {})
    return {place.removeprefix("node_modules/") for place in packages}


def _saved(range_, version, exact):
    """What is written for what was asked: tags and versions become ranges, ranges stay."""
    if version is None:
        return range_
    if range_.startswith("npm:"):
        name, _, inner = range_[4:].rpartition("@")
        return f"npm:{name}@{_saved(inner, version, exact)}"
    if exact:
        return version
    is_range = re.fullmatch(r"[\s\d.^~<>=|*xX+\w-]*", range_) and re.match(r"[\^~<>=*xX\d]", range_) and not _VERSION.fullmatch(range_)
    return range_ if is_range and range_ not in ("*", "x", "X") else f"^{version}"


def _clean(options):
    project = NodeProject.find(options.directory)
    if options.words:
        raise Failure("ci takes no packages: it installs what package-lock.json says")
    with project.held():
        project = NodeProject(project.directory)
        if project.is_empty():
            options.say("\nup to date: package.json has no dependencies")
            return 0
        shutil.rmtree(os.path.join(project.directory, "node_modules"), ignore_errors=True)
        _apply(project, options, frozen=True)
    return 0


def _remove(options):
    project = NodeProject.find(options.directory)
    if not options.words:
        raise Failure("Must provide a package name to remove")
    with project.held():
        project = NodeProject(project.directory)
        found = [project.remove(name) for name in options.words]
        if not any(found):
            options.say("\nup to date")
            return 0
        if project.is_empty():
            removed = project.installed()
            shutil.rmtree(os.path.join(project.directory, "node_modules"), ignore_errors=True)
            project.forget_lock()
            options.say(f"\nremoved {_count(len(removed))}")
        else:
            lock = _apply(project, options)
            if options.save:
                project.write_lock(_text(lock))
        if options.save:
            project.write()
    return 0


def _update(options):
    project = NodeProject.find(options.directory)
    with project.held():
        project = NodeProject(project.directory)
        if project.is_empty():
            options.say("\nup to date")
            return 0
        for name in options.words:
            if not any(name in project.group(group) for group in GROUPS):
                raise Failure(f"{name} is not a dependency of this project")
        lock = _apply(project, options, upgrade=True)
        project.write_lock(_text(lock))
    return 0


def _apply(project, options, frozen=False, upgrade=False):
    """Has node_modules be what package.json asks for. Returns the packages of the lock."""
    began = time.monotonic()
    for field in ("workspaces", "overrides"):
        if project.manifest.get(field):
            print(f"npm warn package.json: {field} are not known here, and left out", file=sys.stderr)
    counts = {}

    def prepare(packages):
        have, want = project.installed(), dict(packages)
        gone = {place for place, version in have.items() if want.get(place) != version}
        # What is in something that goes, goes with it.
        gone |= {place for place in have if any(place.startswith(other + "/") for other in gone)}
        missing = [place for place in want if place not in have or place in gone]
        project.clear(sorted(gone))
        counts["changed"] = sum(place in gone for place in missing)
        counts["added"] = len(missing) - counts["changed"]
        counts["removed"] = len(gone) - counts["changed"]
        return missing

    text = supervisor.modules(
        project.request(with_lock=not upgrade), project.directory, prepare, frozen=frozen, upgrade=upgrade, production=options.production
    )
    packages = json.loads(text)["packages"]
    scripted = sorted(place.rpartition("node_modules/")[2] for place, one in packages.items() if one.get("hasInstallScript"))
    if scripted and counts["added"] + counts["changed"]:
        print(f"npm warn scripts of packages are not run: {', '.join(scripted[:10])}; `npm rebuild` runs them, in this session", file=sys.stderr)
    parts = [f"{done} {_count(counts[done])}" for done in ("added", "removed", "changed") if counts[done]]
    options.say(f"\n{', and '.join(parts) or 'up to date'} in {_time(time.monotonic() - began)}")
    return packages


def _text(packages):
    return json.dumps({"packages": packages})


def _count(number):
    return "1 package" if number == 1 else f"{number} packages"


def _time(seconds):
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.0f}s"


def _exec(arguments):
    """Runs a program of a package: one that is installed, or else one that is fetched for it."""
    packages, shell = [], None
    while arguments and arguments[0].startswith("-"):
        option = arguments.pop(0)
        name, equals, value = option.partition("=")
        if option == "--":
            break
        if name in ("-p", "--package"):
            packages.append(value if equals else arguments.pop(0) if arguments else "")
        elif name in ("-c", "--call"):
            shell = value if equals else arguments.pop(0) if arguments else ""
        elif name in ("-h", "--help"):
            print("Usage: npx [-p PACKAGE]... COMMAND [ARGUMENT]...")
            return 0
        elif name in ("-v", "--version"):
            return _machine(["--version"])
        elif name not in ("-y", "--yes", "-q", "--quiet", "--no-install", "--no", "--ignore-existing", "--prefer-offline"):
            raise Failure(f"no such option here: {name}")
    if not arguments and shell is None:
        raise Failure("npx needs a command")
    if arguments[:1] == ["--"]:
        del arguments[0]
    word = arguments[0] if arguments else None
    path = _programs(os.getcwd())
    if word is not None and not packages:
        program = shutil.which(word, path=os.pathsep.join(path)) if "/" not in word else None
        if program is None:
            name, range_, _ = _parse(word)
            own = os.path.join(NodeProject.find().directory, "node_modules", name)
            packages = [word]
            word = _program(own) if os.path.isdir(own) and not range_ else None
            if word is not None:
                packages = []
    if packages:
        directory = _fetched(packages)
        path.insert(0, os.path.join(directory, "node_modules", ".bin"))
        if word is None or shutil.which(word, path=path[0]) is None:
            name, _, _ = _parse(packages[0])
            word = _program(os.path.join(directory, "node_modules", name)) or name.rpartition("/")[2]
    os.environ["PATH"] = os.pathsep.join([*path, os.environ.get("PATH", "")])
    if shell is not None:
        arguments = ["/bin/sh", "-c", shell]
        word = "/bin/sh"
    program = word if "/" in word else shutil.which(word)
    if program is None:
        raise Failure(f"could not determine executable to run: {word}")
    sys.stdout.flush()
    os.execv(program, [program, *arguments[1:]])


def _programs(directory):
    found = []
    while True:
        if os.path.isdir(os.path.join(directory, "node_modules", ".bin")):
            found.append(os.path.join(directory, "node_modules", ".bin"))
        above = os.path.dirname(directory)
        if above == directory:
            return found
        directory = above


def _program(package):
    """The program that a package is run by."""
    manifest = NodeProject(package).manifest
    programs = manifest.get("bin")
    short = str(manifest.get("name", "")).rpartition("/")[2]
    if isinstance(programs, dict) and programs:
        return short if short in programs else next(iter(programs))
    return short if programs else None


def _fetched(words):
    """A project beside the session's own, with these packages."""
    name = hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
    directory = os.path.join(os.environ.get("TMPDIR") or "/tmp", ".npx", name)
    os.makedirs(directory, exist_ok=True)
    project = NodeProject(directory)
    options = _Options(["--silent"])
    with project.held():
        project = NodeProject(directory)
        for name, range_, _ in map(_parse, words):
            project.add("dependencies", name, range_ or "latest")
        if not os.path.isdir(os.path.join(directory, "node_modules")):
            _apply(project, options)
    return directory


def _machine(arguments):
    """The machine's own npm, which has no network here."""
    for program in ("/usr/local/bin/npm", "/usr/bin/npm", *sorted(glob.glob("/opt/node/*/bin/npm"))):
        if os.access(program, os.X_OK):
            break
    else:
        raise Failure("this machine has no npm of its own; install, ci, uninstall, update and npx are there without it", 127)
    for name, value in (("cache", "/tmp/.npm"), ("update_notifier", "false"), ("audit", "false"), ("fund", "false"), ("logs_max", "0"), ("offline", "true")):
        os.environ.setdefault(f"npm_config_{name}", value)
    sys.stdout.flush()
    os.execv(program, [program, *arguments])
