"""`tools`: functions of the host that cells call by name."""

from asyncio import get_running_loop
from asyncio.events import _get_running_loop
from collections.abc import Coroutine
from difflib import get_close_matches
from inspect import Parameter, Signature

from .private import OWN as __builtins__

_LEAVES = frozenset((str, bool, type(None)))
_MAX_DEPTH = 100


class ToolError(Exception):
    """A tool failed with an error that isn't one of Python's own; `.type` is its name at the host."""

    def __init__(self, message="", type="ToolError", tool=None):
        super().__init__(message)
        self.type = type
        self.tool = tool


ToolError.__module__ = "tools"


class Tools:
    """The host's tools. `dir(tools)` lists them, `help(tools.name)` explains one.

    In plain code `tools.name(…)` returns the result. Where an event loop runs (after a top-level `await`, in
    `async def`) it returns something to await; `tools.name.sync(…)` returns the result even there.
    """

    ToolError = ToolError

    def __init__(self, host):
        self.__dict__["_host"] = host
        self.__dict__["_described"] = {}

    def _describe(self, descriptions):
        """Takes the host's list, at boot."""
        own = self.__dict__
        for name in own["_described"]:
            own.pop(name, None)
        own["_described"] = {item["name"]: item for item in descriptions}

    def __getattr__(self, name):
        described = self.__dict__["_described"]
        item = described.get(name)
        if item is None:
            for other in described:
                if other.replace("-", "_").replace(".", "_").replace("/", "_") == name:
                    item = described[other]
                    break
            else:
                raise AttributeError(_unknown(name, described), name=name, obj=_Nothing())
        tool = Tool(self._host, item)
        self.__dict__[item["name"]] = tool
        return tool

    def __getitem__(self, name):
        """For names that aren't identifiers: tools["web-search"]."""
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __contains__(self, name):
        return name in self._described

    def __iter__(self):
        return iter(list(self._described))

    def __len__(self):
        return len(self._described)

    def __dir__(self):
        return sorted([*self._described, "ToolError"])

    def __repr__(self):
        return f"<tools: {', '.join(self._described) or 'none'}>"


class _Nothing:
    """Keeps Python from adding a guess of its own to ours."""

    def __dir__(self):
        return []


class Tool:
    def __init__(self, host, item):
        self._host = host
        self._parameters = item.get("parameters") or {}
        self.__name__ = self.__qualname__ = item["name"]
        self.__module__ = "tools"
        self.__doc__ = item.get("description") or None

    def __call__(self, *args, **kwargs):
        if _get_running_loop() is None:
            return self.sync(*args, **kwargs)
        return ToolCall(self, _arguments(self.__name__, args, kwargs))

    def sync(self, *args, **kwargs):
        """Calls the tool and blocks until it answers, even where an event loop runs."""
        name = self.__name__
        return _result(name, self._host.call(name, _arguments(name, args, kwargs)))

    async def _call(self, arguments):
        future = get_running_loop().create_future()
        self._host.start(self.__name__, arguments, future)
        return _result(self.__name__, await future)

    @property
    def __signature__(self):
        return _signature(self._parameters)

    @property
    def __text_signature__(self):
        return str(self.__signature__)

    def __repr__(self):
        return f"<tool {self.__name__}{self.__signature__}>"


class ToolCall(Coroutine):
    """A tool call that starts when it is awaited, gathered, or made a task."""

    def __init__(self, tool, arguments):
        self._tool = tool
        self._coroutine = tool._call(arguments)
        self.__name__ = self.__qualname__ = f"tools.{tool.__name__}"
        self._coroutine.__name__ = self._coroutine.__qualname__ = self.__name__

    def __await__(self):
        return self._coroutine.__await__()

    def send(self, value):
        return self._coroutine.send(value)

    def throw(self, *error):
        return self._coroutine.throw(*error)

    def close(self):
        return self._coroutine.close()

    @property
    def cr_frame(self):
        return self._coroutine.cr_frame

    @property
    def cr_running(self):
        return self._coroutine.cr_running

    @property
    def cr_code(self):
        return self._coroutine.cr_code

    @property
    def cr_await(self):
        return self._coroutine.cr_await

    def __repr__(self):
        name = self._tool.__name__
        return f"<call of tool {name}: no result yet; write `await tools.{name}(…)`, or tools.{name}.sync(…)>"


def call(host, tool, name, *args):
    """Calls a tool and blocks until it answers; where it fails, it is called `name`."""
    return _result(name, host.call(tool, _arguments(name, args, {})))


def _arguments(tool, args, kwargs):
    """Makes sure that the arguments are JSON, and says which isn't."""
    for index, value in enumerate(args):
        if type(value) not in _LEAVES:
            _check(value, f"argument {index + 1} of tools.{tool}", 0)
    for name, value in kwargs.items():
        if type(value) not in _LEAVES:
            _check(value, f"argument {name!r} of tools.{tool}", 0)
    return {"args": args, "kwargs": kwargs}


def _check(value, where, depth):
    if depth > _MAX_DEPTH:
        raise TypeError(f"{where} isn't JSON: it is nested too deeply, or contains itself")
    if isinstance(value, float):
        if value - value != 0:
            raise TypeError(f"{where} isn't JSON: {value!r} has no JSON form")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            if type(item) not in _LEAVES:
                _check(item, f"{where}, item [{index}]", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where} isn't JSON: the key {key!r:.100} is {_kind(key)}, and keys must be strings")
            if type(item) not in _LEAVES:
                _check(item, f"{where}, item [{key!r:.100}]", depth + 1)
    elif isinstance(value, Coroutine):
        raise TypeError(f"{where} isn't JSON: it is a coroutine that was not awaited")
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise TypeError(f"{where} isn't JSON for every reader: an integer of more than 64 bits; pass it as a string")
    elif not isinstance(value, (str, type(None))):
        raise TypeError(f"{where} isn't JSON: {_kind(value)}")


def _kind(value):
    return f"an object of type {type(value).__name__}"


def _result(tool, answer):
    error = answer.get("error")
    if error is None:
        return answer.get("ok")
    raise _exception(tool, error)


def _exception(tool, error):
    name, message = str(error.get("type") or "ToolError"), str(error.get("message") or "")
    kind = __builtins__.get(name)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except Exception:
            pass  # those that take more than a message
    return ToolError(message if name == "ToolError" else f"{name}: {message}", name, tool)


def _unknown(name, described):
    if not described:
        return f"there is no tool {name!r}: the host offers none to this session"
    close = get_close_matches(name, described, 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    names = list(described)
    listed = ", ".join(names[:50]) + (", …" if len(names) > 50 else "")
    return f"there is no tool {name!r}.{hint} Available: {listed}"


_ANNOTATIONS = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict, "null": None,
}


def _signature(schema):
    """The Python signature of a JSON schema; `(*args, **kwargs)` where it doesn't say."""
    try:
        properties = schema["properties"]
        required = schema.get("required") or ()
        parameters = []
        for name, item in sorted(properties.items(), key=lambda pair: pair[0] not in required):
            default = Parameter.empty if name in required else item.get("default")
            kind = item.get("type")
            annotation = _ANNOTATIONS.get(kind, Parameter.empty) if isinstance(kind, str) else Parameter.empty
            parameters.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation))
        return Signature(parameters)
    except Exception:
        return Signature([Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD)])
