"""`pip`, and what `uv pip` has in common with it."""

import json
import os
import sys

from . import Failure, distributions, environment, requirements, supervisor
from .options import parse
from .project import Project

_HELP = """\
Usage: pip <command> [options]

In this session packages are fetched by the supervisor, from the index that it uses, into the virtual environment.

  install      REQUIREMENT... [-r FILE] [-U] [-q]
  uninstall    NAME... [-r FILE]
  list         [--format columns|freeze|json]
  freeze
  show         NAME...
  check\
"""


def main(arguments):
    return guarded("ERROR: ", lambda: _run(arguments))


def guarded(prefix, body):
    """The exit code, with failures said in words."""
    try:
        return body() or 0
    except Failure as failure:
        print(prefix + str(failure.args[0]), file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        print(f"{prefix}Operation cancelled by user", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1


def _run(arguments):
    while arguments and arguments[0] in ("-q", "--quiet", "-v", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "--isolated"):
        arguments = arguments[1:] + arguments[:1]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_HELP)
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"pip (belljar) from {environment.directory()} (python {environment.VERSION})")
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        raise Failure(f'unknown command "{command}": this session has {", ".join(COMMANDS)}', 2)
    return COMMANDS[command](rest)


def wanted(options):
    """What is asked for, and what is to be said about it."""
    notes = []
    found = []
    for word in options.words:
        if requirements.is_project(word):
            options.projects.append(word)
        else:
            found.append(word)
    for path in options.lists:
        found += requirements.read_list(path, notes)
        if os.path.basename(path) == "pyproject.toml":
            found += extras_of(Project.read(path), options)
    for word in options.projects:
        found += requirements.of_project(word)
    return [requirements.check(requirement) for requirement in found], notes


def extras_of(project, options):
    """What is asked for beyond a project's own dependencies."""
    found = []
    for name in project.names("project.optional-dependencies") if options.all_extras else options.extras:
        found += project.of_extra(name)
    for name in project.names("dependency-groups") if options.all_groups else options.groups:
        found += project.of_group(name)
    return found


def refuse_projects(options):
    """Said after their dependencies are installed."""
    if options.projects:
        names = ", ".join(word.partition("[")[0] for word in options.projects)
        raise Failure(
            f"{names}: its dependencies are installed, but the project itself is not: building it is not done here. "
            "Run it from its directory, or add that to PYTHONPATH"
        )


def install(arguments):
    options = parse(arguments)
    if options.help:
        print(_HELP)
        return 0
    found, notes = wanted(options)
    say = _silent if options.quiet else print
    for note in notes:
        print(f"WARNING: {note}", file=sys.stderr)
    if not found:
        refuse_projects(options)
        if options.lists:
            return 0
        raise Failure('You must give at least one requirement to install (see "pip help install")')
    found = requirements.without_own(found, say)
    installed = distributions.all()
    versions = {key: distribution.version for key, distribution in installed.items()}
    missing = []
    for requirement in found:
        if not options.upgrade and requirements.is_satisfied(requirement, versions):
            distribution = installed[requirements.name_of(requirement)]
            where = environment.shown(distribution.site)
            say(f"Requirement already satisfied: {requirement} in {where} ({distribution.version})")
        else:
            say(f"Collecting {requirement}")
            missing.append(requirement)
    if not missing:
        refuse_projects(options)
        return 0
    new, old = supervisor.install(missing, options.upgrade, _silent)
    for name, version in old:
        say(f"  Uninstalling {name}-{version}:\n    Successfully uninstalled {name}-{version}")
    if new:
        say("Successfully installed " + " ".join(f"{name}-{version}" for name, version in sorted(new)))
    else:
        say("Requirement already satisfied: " + ", ".join(missing))
    refuse_projects(options)
    return 0


def remove(names, say):
    """Removes what is installed; says what isn't. Returns the removed ones."""
    own, everything = distributions.own(), distributions.all()
    removed = []
    for name in names:
        key = requirements.name_of(name)
        if key in own:
            own[key].remove()
            removed.append(own.pop(key))
        elif key in everything:
            raise Failure(f"Cannot uninstall {name}: the session was made with it ({everything[key].site})")
        else:
            say(f"WARNING: Skipping {name} as it is not installed.")
    return removed


def uninstall(arguments):
    options = parse(arguments)
    names, _ = wanted(options)
    if not names:
        raise Failure('You must give at least one requirement to uninstall (see "pip help uninstall")')
    for distribution in remove(names, lambda text: print(text, file=sys.stderr)):
        if not options.quiet:
            print(f"Found existing installation: {distribution.name} {distribution.version}")
            print(f"Uninstalling {distribution.name}-{distribution.version}:")
            print(f"  Successfully uninstalled {distribution.name}-{distribution.version}")


def list_all(arguments):
    options = parse(arguments)
    found = distributions.all().values()
    if options.format == "json":
        print(json.dumps([{"name": one.name, "version": one.version} for one in found]))
    elif options.format == "freeze":
        freeze(())
    elif options.format != "columns":
        raise Failure(f"--format: no such format: {options.format}", 2)
    elif found:
        rows = [("Package", "Version"), *((one.name, one.version) for one in found)]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        rows.insert(1, tuple("-" * width for width in widths))
        for name, version in rows:
            print(f"{name:{widths[0]}} {version}".rstrip())


def freeze(arguments):
    parse(arguments)
    for one in distributions.all().values():
        print(f"{one.name}=={one.version}")


def show(arguments):
    options = parse(arguments)
    if not options.words:
        raise Failure("Please provide a package name or names.")
    found = distributions.all()
    code, first = 1, True
    for name in options.words:
        one = found.get(requirements.normalised(name))
        if one is None:
            print(f"WARNING: Package(s) not found: {name}", file=sys.stderr)
            continue
        if not first:
            print("---")
        code, first = 0, False
        metadata = one.metadata
        users = [other.name for other in found.values() if one.key in map(requirements.normalised, other.requires())]
        for label, value in (
            ("Name", one.name), ("Version", one.version), ("Summary", metadata.get("Summary", "")),
            ("Home-page", metadata.get("Home-page", "")), ("Author", metadata.get("Author", "")),
            ("License", metadata.get("License-Expression") or (metadata.get("License") or "").split("\n")[0]),
            ("Location", one.site), ("Requires", ", ".join(one.requires())), ("Required-by", ", ".join(users)),
        ):
            print(f"{label}: {value}".rstrip())
    return code


def check(arguments):
    parse(arguments)
    found = distributions.all()
    broken = False
    for one in found.values():
        for line in one.metadata.get_all("Requires-Dist") or ():
            if ";" not in line and requirements.name_of(line) not in found:
                print(f"{one.name} {one.version} requires {requirements.name_of(line)}, which is not installed.")
                broken = True
    if not broken:
        print("No broken requirements found.")
    return int(broken)


def _silent(text):
    pass


COMMANDS = {"install": install, "uninstall": uninstall, "list": list_all, "freeze": freeze, "show": show, "check": check}
