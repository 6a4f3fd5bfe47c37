"""`uv`, as far as it makes sense in a session."""

import os
import shutil
import sys

from . import Failure, distributions, environment, pip, requirements, supervisor
from .options import parse
from .project import DEPENDENCIES, Project, extra, group

_HELP = """\
Usage: uv <command> [options]

In this session packages are fetched by the supervisor, from the index that it uses, into the virtual environment.

  pip install|uninstall|list|freeze|show|check
  venv [PATH]          make a virtual environment
  init [PATH]          make a pyproject.toml and a virtual environment
  add REQUIREMENT...   add to its dependencies (--dev, --group, --optional), and install
  remove NAME...       the reverse
  sync                 install what a pyproject.toml depends on (--extra, --group)
  run COMMAND...       run something in the virtual environment\
"""


def main(arguments):
    return pip.guarded("error: ", lambda: _run(arguments))


def _run(arguments):
    while arguments and arguments[0] in ("-q", "--quiet", "--no-progress", "--no-cache", "-n", "-v", "--verbose", "--native-tls", "--no-config"):
        arguments = arguments[1:] + (arguments[:1] if arguments[0] in ("-q", "--quiet") and arguments[1:2] != ["run"] else [])
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_HELP)
        return 0
    if arguments[0] in ("-V", "--version", "version"):
        print("uv (belljar)")
        return 0
    command, *rest = arguments
    if command == "pip":
        if not rest or rest[0] not in _PIP:
            raise Failure(f"unknown subcommand `uv pip {' '.join(rest[:1])}`: this session has {', '.join(_PIP)}", 2)
        return _PIP[rest[0]](rest[1:])
    if command not in _COMMANDS:
        raise Failure(f"unknown subcommand `uv {command}`: this session has pip, {', '.join(_COMMANDS)}", 2)
    return _COMMANDS[command](rest)


def _say(text):
    print(text, file=sys.stderr)


def _count(packages):
    return "1 package" if len(packages) == 1 else f"{len(packages)} packages"


def _install(wanted, upgrade, quiet):
    """Installs what is missing, and says it as uv does."""
    say = (lambda text: None) if quiet else _say
    wanted = requirements.without_own(wanted, say)
    versions = {key: found.version for key, found in distributions.all().items()}
    missing = [one for one in wanted if upgrade or not requirements.is_satisfied(one, versions)]
    if not missing:
        say(f"Audited {_count(wanted)}")
        return
    new, old = supervisor.install(missing, upgrade, lambda text: None)
    if not new:
        say(f"Audited {_count(wanted)}")
        return
    if old:
        say(f"Uninstalled {_count(old)}")
    say(f"Installed {_count(new)}")
    changes = [(name, 0, f" - {name}=={version}") for name, version in old]
    changes += [(name, 1, f" + {name}=={version}") for name, version in new]
    for _, _, line in sorted(changes):
        say(line)


def _pip_install(arguments):
    options = parse(arguments)
    if options.help:
        print(_HELP)
        return
    wanted, notes = pip.wanted(options)
    for note in notes:
        _say(f"warning: {note}")
    if not wanted and not options.lists and not options.projects:
        raise Failure("the following required arguments were not provided: <PACKAGE|--requirements <REQUIREMENTS>>", 2)
    if wanted:
        _install(wanted, options.upgrade, options.quiet)
    pip.refuse_projects(options)


def _pip_uninstall(arguments):
    options = parse(arguments)
    names, _ = pip.wanted(options)
    if not names:
        raise Failure("the following required arguments were not provided: <PACKAGE>", 2)
    removed = pip.remove(names, lambda text: _say("warning: " + text.removeprefix("WARNING: ")))
    if not options.quiet:
        _say(f"Uninstalled {_count(removed)}" if removed else "No packages to uninstall")
        for one in removed:
            _say(f" - {one.key}=={one.version}")


def _venv(arguments):
    options = parse(arguments)
    path = os.path.abspath(options.words[0] if options.words else ".venv")
    asked = _asked_python(options)
    if asked is not None:
        raise Failure(f"No interpreter found for Python {asked}: this session has {environment.VERSION}", 2)
    environment.make(path)
    if not options.quiet:
        shown = environment.shown(path)
        _say(f"Using CPython {sys.version.split()[0]}\nCreating virtual environment at: {shown}")
        _say(f"Activate with: source {os.path.join(shown, 'bin', 'activate')}")


def _asked_python(options):
    """The version that is asked for, if it is another than there is."""
    asked = options.values.get("--python") or options.values.get("-p")
    if not asked or asked.startswith("/"):
        return None
    version = asked.lower().removeprefix("cpython").removeprefix("python").lstrip("@=-")
    numbers = version.lstrip("<>=~^").split(".")
    return None if not version or version[0] in "<>~^" or ".".join(numbers[:2]) in ("3", environment.VERSION) else asked


def _init(arguments):
    options = parse(arguments)
    directory = os.path.abspath(options.words[0] if options.words else ".")
    path = os.path.join(directory, "pyproject.toml")
    asked = _asked_python(options)
    if asked is not None:
        _say(f"warning: this session has Python {environment.VERSION}, which is used in place of {asked}")
    own = os.path.join(directory, ".venv")
    missing = not environment.exists(own)
    if os.path.lexists(path):
        shown = environment.shown(directory)
        if not missing:
            raise Failure(f"Project is already initialized in `{shown}` (`pyproject.toml` file exists)", 2)
        environment.make(own)
        _say(f"Project is already initialized in `{shown}` (`pyproject.toml` file exists)\nCreating virtual environment at: {environment.shown(own)}")
        return
    os.makedirs(directory, exist_ok=True)
    name = options.values.get("--name") or os.path.basename(directory)
    Project.new(path, name, environment.VERSION).write()
    if not options.quiet:
        _say(f"Initialized project `{requirements.normalised(name)}`")
    if missing:
        environment.make(own)
        if not options.quiet:
            _say(f"Creating virtual environment at: {environment.shown(own)}")


def _place(options):
    """Where dependencies are added or removed."""
    if options.optional:
        return extra(options.optional)
    if options.dev:
        return group("dev")
    return group(options.groups[0]) if options.groups else DEPENDENCIES


def _add(arguments):
    options = parse(arguments)
    wanted, notes = pip.wanted(options)
    for note in notes:
        _say(f"warning: {note}")
    if not wanted:
        raise Failure("the following required arguments were not provided: <PACKAGES|--requirements <REQUIREMENTS>>", 2)
    if options.projects:
        raise Failure("only packages of the configured index can be added here, not projects", 2)
    project = Project.read()
    _install(wanted, options.upgrade, options.quiet)
    found = distributions.all()
    for requirement in wanted:
        one = found.get(requirements.name_of(requirement))
        if one is not None and requirements.normalised(requirement) == one.key:
            requirement = f"{requirement}>={one.version}"
        project.add(requirement, _place(options))
    project.write()


def _remove(arguments):
    options = parse(arguments)
    project = Project.read()
    for name in options.words:
        project.remove(name, _place(options))
    project.write()
    removed = pip.remove(options.words, lambda text: None)
    if removed and not options.quiet:
        _say(f"Uninstalled {_count(removed)}")
        for one in removed:
            _say(f" - {one.key}=={one.version}")


def _wanted_by(project, options):
    """What a project needs: its dependencies, those for its developers, and what is asked for besides."""
    wanted = list(project.dependencies)
    if not options.no_dev and "dev" in project.names("dependency-groups") and "dev" not in options.groups:
        wanted += project.of_group("dev")
    wanted += pip.extras_of(project, options)
    return [requirements.check(one) for one in dict.fromkeys(wanted)]


def _sync(arguments):
    options = parse(arguments)
    project = Project.read()
    if os.path.exists("uv.lock") and not options.quiet:
        _say("warning: uv.lock is not read here: what pyproject.toml says is installed")
    environment.ensure()
    wanted = _wanted_by(project, options)
    if wanted:
        _install(wanted, options.upgrade, options.quiet)
    elif not options.quiet:
        _say("Audited 0 packages")


def _run_command(arguments):
    while arguments and arguments[0].startswith("-"):
        option = arguments[0]
        if option in ("--with", "-w") or option.startswith("--with="):
            value = option.partition("=")[2] or (arguments.pop(1) if len(arguments) > 1 else "")
            _install([requirements.check(one) for one in value.split(",") if one], False, True)
        elif option in ("-m", "--module"):
            arguments = ["python3", "-m", *arguments[1:]]
            break
        elif option in ("--python", "-p"):
            del arguments[1:2]
        elif option not in ("-q", "--quiet", "--no-sync", "--no-project", "--frozen", "--locked", "--isolated", "--active", "--"):
            raise Failure(f"no such option here: {option}", 2)
        arguments = arguments[1:]
        if option == "--":
            break
    if not arguments:
        raise Failure("Provide a command or script to invoke with `uv run <command>` or `uv run <script>.py`", 2)
    if os.path.exists("pyproject.toml"):
        wanted = _wanted_by(Project.read(), parse([]))
        versions = {key: found.version for key, found in distributions.all().items()}
        if any(not requirements.is_satisfied(one, versions) for one in wanted):
            _install(wanted, False, False)
    if arguments[0].endswith(".py"):
        arguments = ["python3", *arguments]
    program = shutil.which(arguments[0])
    if program is None:
        raise Failure(f"Failed to spawn: `{arguments[0]}`: No such file or directory", 2)
    sys.stdout.flush()
    os.execv(program, arguments)


_PIP = {
    "install": _pip_install, "uninstall": _pip_uninstall, "list": pip.list_all, "freeze": pip.freeze, "show": pip.show,
    "check": pip.check,
}
_COMMANDS = {"venv": _venv, "init": _init, "add": _add, "remove": _remove, "sync": _sync, "run": _run_command}
