import sys

from fake_host import WAITING, SessionTest


def add(a, b=0):
    """Adds two numbers."""
    return a + b


add.schema = {
    "type": "object",
    "properties": {"b": {"type": "integer", "default": 0}, "a": {"type": "integer"}},
    "required": ["a"],
}


def fail(kind, message):
    raise {"key": KeyError, "value": ValueError, "odd": type("OddError", (Exception,), {}),
           "unicode": type("UnicodeDecodeError", (Exception,), {}), "exit": type("SystemExit", (Exception,), {})}[kind](message)


class Tools(SessionTest):
    def setUp(self):
        self.s = self.session({"add": add, "fail": fail, "echo": lambda x=None: x, "web-search": lambda q: [q]})
        self.s.run("import asyncio")

    def test_plain_call(self):
        self.assertEqual(self.s.text("tools.add(1, b=2)"), "3")
        self.assertEqual(self.s.text("tools.echo({'a': [1, 2.5, None, True, 'é']})"), "{'a': [1, 2.5, None, True, 'é']}")
        self.assertEqual(self.s.text("tools['web-search']('q'), tools.web_search('r')"), "(['q'], ['r'])")
        self.assertEqual(self.s.host.started, [])

    def test_import(self):
        self.assertEqual(self.s.text("from tools import add, ToolError\nadd(2)"), "2")
        self.assertEqual(self.s.text("import tools as t\nt.echo(1)"), "1")

    def test_await(self):
        self.assertEqual(self.s.text("await tools.add(1, 2)"), "3")
        self.assertEqual(self.s.text("async def f(): return await tools.add(1, 3)\nasyncio.run(f())"), "4")
        self.assertEqual(self.s.text("await asyncio.wait_for(tools.echo(5), 9)"), "5")

    def test_concurrent(self):
        self.assertEqual(self.s.text("await asyncio.gather(tools.add(1, 1), tools.echo('b'))"), "[2, 'b']")
        self.assertEqual(self.s.host.started, ["add", "echo"])
        self.assertEqual(self.s.host.waits, [(None, 2)])
        self.assertEqual(self.s.text("t = asyncio.create_task(tools.add(1, 1))\nawait t"), "2")
        if sys.version_info >= (3, 11):
            self.assertEqual(self.s.text("async with asyncio.TaskGroup() as g:\n    t = g.create_task(tools.add(2, 2))\nt.result()"), "4")

    def test_waiting_for_a_tool_returns_to_the_host(self):
        kind, payload = self.s.start("await tools.echo(1)")
        self.assertEqual((kind, payload), (WAITING, {"timeout": None}))
        kind, payload = self.s.resume([{"id": 99, "ok": 0}])
        self.assertEqual(kind, WAITING)
        self.assertEqual(self.s.resume([{"id": 1, "ok": "x"}])[1]["value"], {"text/plain": "'x'"})

    def test_sync_where_a_loop_runs(self):
        self.assertEqual(self.s.text("await asyncio.sleep(0)\ntools.add.sync(1, 2)"), "3")

    def test_errors(self):
        self.assertEqual(self.s.error("tools.fail('key', 'k')")["type"], "KeyError")
        error = self.s.error("await tools.fail('value', 'v')")
        self.assertEqual((error["type"], error["message"]), ("ValueError", "v"))
        self.assertEqual(error["frames"][-1]["source"], "await tools.fail('value', 'v')")
        error = self.s.error("tools.fail('odd', 'o')")
        self.assertEqual((error["type"], error["message"]), ("tools.ToolError", "OddError: o"))
        self.assertEqual(self.s.error("tools.fail('unicode', 'u')")["type"], "tools.ToolError")
        self.assertEqual(self.s.error("tools.fail('exit', 'e')")["type"], "tools.ToolError")
        self.assertEqual(self.s.text("try:\n    tools.fail('odd', 'o')\nexcept tools.ToolError as e:\n    t = e.type, e.tool\nt"),
                         "('OddError', 'fail')")

    def test_arguments_that_are_not_json(self):
        for code, part in {
            "tools.add(object())": "argument 1 of tools.add isn't JSON: an object of type object",
            "tools.add(1, b={1, 2})": "argument 'b' of tools.add isn't JSON: an object of type set",
            "tools.echo({'a': [1, b'x']})": "argument 1 of tools.echo, item ['a'], item [1] isn't JSON",
            "tools.echo({1: 2})": "keys must be strings",
            "tools.echo(float('nan'))": "nan has no JSON form",
            "a = []\na.append(a)\ntools.echo(a)": "contains itself",
            "await asyncio.sleep(0)\ntools.echo(tools.add(1))": "not awaited",
            "await tools.echo(x=object())": "argument 'x' of tools.echo",
        }.items():
            with self.subTest(code=code):
                error = self.s.error(code)
                self.assertEqual(error["type"], "TypeError")
                self.assertIn(part, error["message"])

    def test_unknown(self):
        error = self.s.error("tools.ad(1)")
        self.assertEqual(error["type"], "AttributeError")
        self.assertEqual(error["message"], "there is no tool 'ad'. Did you mean 'add'? Available: add, fail, echo, web-search")
        self.assertEqual(error["traceback"].count("Did you mean"), 1)
        self.assertIn("offers none", self.session().error("tools.x()")["message"])
        self.assertEqual(self.s.error("tools['zz']")["type"], "KeyError")

    def test_described(self):
        self.assertEqual(self.s.text("[n for n in dir(tools) if n[0] != '_']"), "['ToolError', 'add', 'echo', 'fail', 'web-search']")
        self.assertEqual(self.s.text("import inspect\nstr(inspect.signature(tools.add)), tools.add.__doc__"),
                         "('(a: int, b: int = 0)', 'Adds two numbers.')")
        self.assertEqual(self.s.text("tools"), "<tools: add, fail, echo, web-search>")
        self.assertEqual(self.s.text("tools.add"), "<tool add(a: int, b: int = 0)>")
        self.s.run("help(tools.add)")
        self.assertIn("Adds two numbers.", self.s.stdout)
        self.assertEqual(self.s.text("hasattr(tools, 'nope'), 'add' in tools, len(tools)"), "(False, True, 4)")

    def test_repr_says_to_await(self):
        self.assertIn("await tools.add(…)", self.s.text("await asyncio.sleep(0)\nc = tools.add(1)\nrepr(c)"))
        self.s.run("c.close()")
        self.s.run("await asyncio.sleep(0)\ntools.add(1)\nNone")
        self.assertIn("'tools.add' was never awaited", self.s.stderr)

    def test_cancelled_calls_answer_to_nobody(self):
        self.s.start("await tools.echo(1)")
        self.assertEqual(self.s.resume(interrupt=True)[1]["status"], "interrupted")
        self.assertEqual(self.s.text("await tools.echo(2)"), "2")
