"""Arguments of the programs."""

import re

from . import Failure

_INDEX = "packages come from the index that the supervisor uses; another one can't be chosen here"
_PLAIN = "only one project is known here"
_WHEELS = "only wheels of the index can be installed here"
_REFUSED = {
    "-t": "packages go into the virtual environment and nowhere else", "--target": "packages go into the virtual environment and nowhere else",
    "--prefix": "packages go into the virtual environment and nowhere else", "--root": "packages go into the virtual environment and nowhere else",
    "--no-binary": _WHEELS, "--no-build-isolation": _WHEELS,
    "-i": _INDEX, "--index-url": _INDEX, "--extra-index-url": _INDEX, "--find-links": _INDEX, "-f": _INDEX, "--no-index": _INDEX,
    "--default-index": _INDEX, "--index": _INDEX, "--index-strategy": _INDEX,
    "-c": "constraints can't be used here: name the versions", "--constraint": "constraints can't be used here: name the versions",
    "--constraints": "constraints can't be used here: name the versions",
    "--no-deps": "packages are installed with what they depend on", "--pre": "only releases are installed; name a version to have another",
    "--package": _PLAIN, "--all-packages": _PLAIN,
    "--require-hashes": "hashes can't be checked here", "--dry-run": "it can't be tried without doing it",
}
_IGNORED = {
    "--disable-pip-version-check", "--no-input", "--no-cache-dir", "--no-cache", "-n", "--user", "--system", "--break-system-packages",
    "--prefer-binary", "--no-color", "--no-warn-script-location", "--no-progress", "--no-compile", "--compile-bytecode",
    "--no-python-version-warning", "-v", "-vv", "-vvv", "--verbose", "--require-virtualenv", "--isolated", "--no-config", "--native-tls",
    "--frozen", "--locked", "--seed", "--inexact", "--exact", "--no-default-groups", "--clear", "--allow-existing",
    "--force-reinstall", "--reinstall", "--ignore-installed", "-I", "--eager", "--bare", "--no-readme", "--no-workspace", "--app", "--lib",
    "--no-package", "--strict", "--all", "-l", "--local", "--no-pin-python", "--managed-python", "--no-managed-python", "--active",
}
_WITH_VALUE = {
    "--progress-bar", "--timeout", "--retries", "--trusted-host", "--upgrade-strategy", "--only-binary", "--python", "-p", "--color",
    "--root-user-action", "--link-mode", "--cache-dir", "--log", "--exists-action", "--python-version", "--prompt", "--python-platform",
    "--exclude-newer", "--resolution", "--python-preference", "--directory", "--project", "--cert", "--proxy", "--name", "--description",
    "--vcs", "--build-backend",
}


class Options:
    def __init__(self):
        self.words = []
        self.lists = []
        self.projects = []
        self.extras, self.groups, self.optional = [], [], None
        self.all_extras = self.all_groups = self.dev = False
        self.no_dev = False
        self.values = {}
        self.upgrade = self.quiet = self.yes = self.help = False
        self.format = "columns"


def parse(arguments, extra=()):
    """Everything that pip and uv are commonly given; `extra` are options with a value that the caller knows."""
    options = Options()
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            options.words += rest
            break
        if not argument.startswith("-") or argument == "-":
            options.words.append(argument)
            continue
        option, equals, value = argument.partition("=")
        if re.match(r"-r.", argument) and not argument.startswith("--"):
            option, equals, value = "-r", "=", argument[2:]

        def value_of():
            if equals:
                return value
            if not rest:
                raise Failure(f"{option} needs a value", 2)
            return rest.pop(0)

        if option in ("-r", "--requirement", "--requirements"):
            options.lists.append(value_of())
        elif option in ("-e", "--editable"):
            options.projects.append(value_of())
        elif option == "--extra":
            options.extras.append(value_of())
        elif option in ("--group", "--only-group"):
            options.groups.append(value_of())
        elif option == "--optional":
            options.optional = value_of()
        elif option == "--all-extras":
            options.all_extras = True
        elif option == "--all-groups":
            options.all_groups = True
        elif option == "--dev":
            options.dev = True
        elif option in ("--no-dev", "--no-default-groups"):
            options.no_dev = True
        elif option in ("-U", "--upgrade"):
            options.upgrade = True
        elif option in ("-P", "--upgrade-package"):
            options.words.append(value_of())
            options.upgrade = True
        elif option in ("-q", "-qq", "-qqq", "--quiet"):
            options.quiet = True
        elif option in ("-y", "--yes"):
            options.yes = True
        elif option in ("-h", "--help"):
            options.help = True
        elif option == "--format":
            options.format = value_of()
        elif option in extra:
            options.values[option] = value_of()
        elif option in _REFUSED:
            raise Failure(f"{option}: {_REFUSED[option]}", 2)
        elif option in _IGNORED:
            pass
        elif option in _WITH_VALUE:
            options.values[option] = value_of()
        else:
            raise Failure(f"no such option here: {option}", 2)
    return options
