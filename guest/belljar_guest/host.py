"""The guest's side of `exchange`: what it may tell and ask the host."""

from . import wire
from .private import OWN as __builtins__


class Host:
    def __init__(self, exchange):
        self.exchange = exchange
        self.futures = {}  # started tool calls by id
        self._last_id = 0

    def display(self, data, metadata):
        self.exchange(wire.DISPLAY + wire.encode({"data": data, "metadata": metadata}))

    def call(self, name, arguments):
        """Calls a tool and waits for its answer: `{ok}` or `{error}`."""
        return wire.decode(self.exchange(wire.CALL + wire.encode({"name": name, "arguments": arguments})))

    def start(self, name, arguments, future):
        """Starts a tool call; its answer becomes the future's result."""
        self._last_id += 1
        identifier = self._last_id
        payload = wire.encode({"id": identifier, "name": name, "arguments": arguments})
        self.futures[identifier] = future
        try:
            self.exchange(wire.START + payload)
        except BaseException:
            self.futures.pop(identifier, None)
            raise

    def wait(self, timeout):
        """Blocks until a started call ends or the time is over."""
        answer = wire.decode(self.exchange(wire.WAIT + wire.encode({"timeout": timeout})))
        self.deliver(answer.get("results") or ())

    def expects_results(self):
        """Whether a started call that somebody still awaits is under way."""
        return any(not future.done() for future in self.futures.values())

    def deliver(self, results):
        for result in results:
            future = self.futures.pop(result.get("id"), None)
            if future is None or future.done() or future.get_loop().is_closed():
                continue
            future.set_result(result)
