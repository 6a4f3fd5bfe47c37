"""Asks the supervisor for packages."""

import json
import os
import socket

from . import Failure, distributions, environment

SOCKET = "/run/belljar/install"
NOT_ALLOWED = "this session may not install packages: allow it with --allow-install (Policy.install)"
_GONE = "the supervisor has ended the conversation"


def install(requirements, upgrade, say):
    """Installs into the virtual environment. Returns what is new and what was replaced, as (name, version)."""
    installed = distributions.all() if os.path.exists(SOCKET) else {}
    return _connected(lambda stream: _converse(stream, requirements, upgrade, installed, say))


def modules(project, at, prepare, frozen=False, upgrade=False, production=False):
    """Installs packages for Node below a directory. `prepare` gets places and versions, makes room, and returns the places
    that are wanted. Returns the lock."""

    def converse(stream):
        _tell(stream, {"node": {
            "bytes": len(project), "at": at, "frozen": frozen, "upgrade": upgrade, "production": production,
        }})
        stream.write(project)
        stream.flush()
        message = _hear_message(stream, "packages", lambda text: None)
        wanted = prepare([tuple(package) for package in message["packages"]])
        # Also if nothing is wanted: links to programs are made anew.
        _tell(stream, {"copy": wanted})
        _hear(stream, "done", lambda text: None)
        return message["lock"]

    return _connected(converse)


def _connected(converse):
    if not os.path.exists(SOCKET):
        raise Failure(NOT_ALLOWED)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(SOCKET)
            with connection.makefile("rwb") as stream:
                try:
                    return converse(stream)
                except BrokenPipeError:
                    # It was refused before it was said; why is there to be read.
                    return _hear(stream, "done", lambda text: None)
        except FileNotFoundError:
            raise Failure(NOT_ALLOWED) from None
        except OSError as error:
            raise Failure(f"the supervisor can't be reached: {error}") from None


def _converse(stream, requirements, upgrade, installed, say):
    where = environment.ensure()
    _tell(stream, {
        "requirements": requirements,
        "installed": {key: found.version for key, found in installed.items()},
        "upgrade": upgrade,
        "venv": where,
        "site": environment.SITE,
    })
    packages = _hear(stream, "packages", say)
    own = distributions.own()
    new, old = [], []
    for name, version in packages:
        found = installed.get(name)
        if found is not None and found.version == version:
            continue
        new.append((name, version))
        if name in own:
            old.append((name, own[name].version))
    if new:
        for name, _ in old:
            own[name].remove()
        _tell(stream, {"copy": [name for name, _ in new]})
        _hear(stream, "done", say)
    return new, old


def _tell(stream, message):
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()


def _hear(stream, wanted, say):
    return _hear_message(stream, wanted, say)[wanted]


def _hear_message(stream, wanted, say):
    while line := stream.readline():
        message = json.loads(line)
        if "error" in message:
            raise Failure(message["error"])
        if "say" in message:
            say(message["say"])
        if wanted in message:
            return message
    raise Failure(_GONE)
