"""One cell: compile it, run it, catch its last value."""

import __future__
import ast
from ast import Expr, Expression

from .private import OWN as __builtins__

_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_TREE = _FLAGS | ast.PyCF_ONLY_AST
_COROUTINE = 0x80
# `from __future__` in one cell holds for the next ones; nested_scopes shares its bit with something else.
_FUTURES = 0
for _name in __future__.all_feature_names:
    if _name != "nested_scopes":
        _FUTURES |= getattr(__future__, _name).compiler_flag


class Program:
    """The namespace that cells share, and what they leave for the next one."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.values = []  # filled by `sys.displayhook`; the last one is the cell's value
        self.futures = 0

    def execute(self, source, filename):
        """Runs a cell as far as it goes without awaiting. Returns None, or a coroutine that is the rest. User code."""
        flags = self.futures
        # One simple statement, the commonest of cells: 'single' hands the value of an expression to
        # `sys.displayhook` by itself, and no syntax tree has to become Python objects and back.
        # A colon could be a compound statement, whose inner expressions would count too.
        if ":" not in source and ";" not in source and source.find("\n", 0, -1) < 0 and "\r" not in source:
            try:
                code = compile(source, filename, "single", _FLAGS | flags, True)
            except SyntaxError:
                pass  # also for a lone comment; the general way decides
            else:
                if code.co_flags & _FUTURES:
                    self.futures |= code.co_flags & _FUTURES
                # `eval`, not `exec`, because it returns the coroutine of a cell that awaits.
                return eval(code, self.namespace)
        return self._execute_tree(source, filename)

    def _execute_tree(self, source, filename):
        if source.startswith("\ufeff"):
            source = source[1:]
        tree = compile(source, filename, "exec", _TREE | self.futures, True)
        body = tree.body
        last = body.pop() if body and type(body[-1]) is Expr else None
        first = None
        if body:
            first = compile(tree, filename, "exec", _FLAGS | self.futures, True)
            self.futures |= first.co_flags & _FUTURES
        if last is not None:
            last = compile(Expression(last.value), filename, "eval", _FLAGS | self.futures, True)
        del tree, body
        if (first is not None and first.co_flags & _COROUTINE) or (last is not None and last.co_flags & _COROUTINE):
            return self._await_parts(first, last)
        if first is not None:
            eval(first, self.namespace)
        if last is not None:
            self.values.append(eval(last, self.namespace))
        return None

    async def _await_parts(self, first, last):
        """A cell that awaits anywhere runs on the event loop as a whole."""
        if first is not None:
            rest = eval(first, self.namespace)
            if first.co_flags & _COROUTINE:
                await rest
        if last is not None:
            value = eval(last, self.namespace)
            self.values.append(await value if last.co_flags & _COROUTINE else value)


def clean_slate():
    """The namespace of a fresh `__main__`."""
    return {"__name__": "__main__", "__doc__": None, "__package__": None, "__loader__": None, "__spec__": None}


def exit_code(error):
    """(code, text for standard error) of a SystemExit, as Python ends a process. Runs user code."""
    code = error.code
    if code is None:
        return 0, None
    if isinstance(code, int):
        return int(code) & 0xFF, None
    return 1, f"{code}\n"
