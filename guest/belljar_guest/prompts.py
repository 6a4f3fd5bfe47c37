"""What needs a person at a keyboard: there is none, and these say so. Also `exit`, which there is."""

import builtins
import getpass
import sys
from io import TextIOBase

from .private import OWN as __builtins__

_NO_KEYBOARD = (
    "there is no keyboard in the sandbox, so {} can't ask. "
    "Put the answer into a variable, pass it in a file or an environment variable, or call a tool."
)


_NO_INPUT = (
    "there is no standard input in the sandbox. Put the data into a variable or a file of the session, "
    "mount a directory, or call a tool."
)


def input(prompt="", /):
    """There is no keyboard in the sandbox: raises EOFError."""
    raise EOFError(_NO_KEYBOARD.format("input()"))


def ask_password(prompt="Password: ", stream=None, **options):
    """There is no keyboard in the sandbox: raises EOFError."""
    raise EOFError(_NO_KEYBOARD.format("getpass()"))


def breakpointhook(*args, **kwargs):
    raise RuntimeError(
        "breakpoint() needs a person at a terminal; there is none in the sandbox. "
        "Print what you want to see, or raise an exception: its traceback shows your lines."
    )


class NoInput(TextIOBase):
    """Standard input. An empty one would let a program that reads it go on with nothing."""

    encoding = "utf-8"
    errors = "strict"
    name = "<stdin>"
    mode = "r"

    def readable(self):
        return True

    def fileno(self):
        return 0

    def read(self, size=-1, /):
        raise EOFError(_NO_INPUT)

    def readline(self, size=-1, /):
        raise EOFError(_NO_INPUT)

    @property
    def buffer(self):
        raise EOFError(_NO_INPUT)


class Quitter:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"Use {self.name}() to end the cell; the session stays."

    def __call__(self, code=None):
        raise SystemExit(code)


def install():
    input.__module__ = "builtins"
    ask_password.__name__ = ask_password.__qualname__ = "getpass"
    builtins.input = input
    builtins.exit = Quitter("exit")
    builtins.quit = Quitter("quit")
    getpass.getpass = ask_password
    sys.breakpointhook = breakpointhook
    sys.stdin = sys.__stdin__ = NoInput()
